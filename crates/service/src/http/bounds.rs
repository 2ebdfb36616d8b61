//! How much of a request is taken: bounds on its headers, and on a body that no route asked for.

use api::error::ErrorCode;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};

const BODY_BYTES: usize = 64 * 1024;
const HEADER_COUNT: usize = 64;
const HEADER_BYTES: usize = 16 * 1024;

/// Whether the headers are within our bounds, which lie below the parser's own.
pub(super) fn headers_fit(headers: &HeaderMap) -> bool {
    // A line's colon, space and end count too.
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    headers.len() <= HEADER_COUNT && bytes <= HEADER_BYTES
}

/// Reads a body and drops it, up to a bound.
pub(super) async fn drain<B>(body: B) -> Result<(), ErrorCode>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(());
    }
    if body.size_hint().lower() > BODY_BYTES as u64 {
        return Err(ErrorCode::BodyTooLarge);
    }
    let mut body = Limited::new(body, BODY_BYTES);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(_) => {}
            Err(error) if error.is::<LengthLimitError>() => return Err(ErrorCode::BodyTooLarge),
            // The client left in the middle, or does not speak HTTP: what it asked for is not done by halves.
            Err(_) => return Err(ErrorCode::BodyBroken),
        }
    }
    Ok(())
}
