//! Responses with an `ETag`, and 304 for who has them already.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::respond::json;
use crate::views::tagged::TaggedBody;

/// The response, or a 304 if what the client has is still valid; `caching` is its `Cache-Control`.
pub(super) fn respond(cached: &TaggedBody, caching: HeaderValue, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let unchanged = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| matches_etag(known, &cached.etag));
    let mut response = if unchanged {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        json(cached.body.clone())
    };
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    if let Ok(etag) = HeaderValue::from_str(&cached.etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Whether an `If-None-Match` names this tag. The comparison is weak, as the header's rules say.
fn matches_etag(known: &HeaderValue, etag: &str) -> bool {
    let known = known.to_str().unwrap_or_default();
    known.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
