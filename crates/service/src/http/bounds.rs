//! Limits on a request: the size of its headers, and of a body that no route wants.

use api::error::ErrorCode;
use axum::body::Body;
use http::HeaderMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;

const BODY_BYTES: usize = 64 * 1024;
const HEADER_COUNT: usize = 64;
const HEADER_BYTES: usize = 16 * 1024;

/// The size of a request's headers, which has lower limits than the parser's.
#[derive(Default)]
pub(super) struct HeaderSize {
    count: usize,
    bytes: usize,
}

impl HeaderSize {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut size = Self::default();
        headers.iter().for_each(|(name, value)| size.add(name.as_str(), value.as_bytes()));
        size
    }

    pub(super) fn add(&mut self, name: &str, value: &[u8]) {
        self.count += 1;
        // A line's colon, space and line break count too.
        self.bytes += name.len() + value.len() + 4;
    }

    pub(super) fn fits(&self) -> bool {
        self.count <= HEADER_COUNT && self.bytes <= HEADER_BYTES
    }
}

/// Reads a body and drops it, up to a limit.
pub(super) async fn drain(body: Body) -> Result<(), ErrorCode> {
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
            // The client left in the middle, or does not speak HTTP: nothing is done by halves.
            Err(_) => return Err(ErrorCode::BodyBroken),
        }
    }
    Ok(())
}
