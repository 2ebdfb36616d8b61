//! Responses with an `ETag`, and 304 for who has them already.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::encoding::{self, EncodedBody};
use super::respond::encoded_json;
use crate::views::tagged::{EntityTags, TaggedBody};

/// The response, or a 304 if what the client has is still valid; `caching` is its `Cache-Control`.
pub(super) async fn respond(cached: &TaggedBody, caching: HeaderValue, asked: &HeaderMap) -> Response<Full<Bytes>> {
    respond_encoded(encoding::encode(&cached.body, asked).await, &cached.tags, caching, asked)
}

/// The same for a body that is not JSON.
pub(super) async fn respond_as(
    cached: &TaggedBody,
    media_type: HeaderValue,
    caching: HeaderValue,
    asked: &HeaderMap,
) -> Response<Full<Bytes>> {
    let mut response = respond(cached, caching, asked).await;
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    }
    response
}

/// The same, if that takes no work now.
pub(super) fn try_respond(
    cached: &TaggedBody,
    caching: HeaderValue,
    asked: &HeaderMap,
) -> Option<Response<Full<Bytes>>> {
    encoding::try_encode(&cached.body, asked).map(|body| respond_encoded(body, &cached.tags, caching, asked))
}

/// The same for a body that is encoded already.
pub(super) fn respond_encoded(
    body: EncodedBody,
    tags: &EntityTags,
    caching: HeaderValue,
    asked: &HeaderMap,
) -> Response<Full<Bytes>> {
    let etag = if body.is_gzip { &tags.gzip } else { &tags.plain };
    let unchanged = asked.get_all(header::IF_NONE_MATCH).iter().any(|known| matches_etag(known, etag));
    let mut response = encoded_json(body);
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Full::default();
        // They describe a body, and there is none.
        response.headers_mut().remove(header::CONTENT_TYPE);
        response.headers_mut().remove(header::CONTENT_ENCODING);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Whether an `If-None-Match` names this tag. The comparison is weak, as the header's rules say.
fn matches_etag(known: &HeaderValue, etag: &str) -> bool {
    let known = known.to_str().unwrap_or_default();
    known.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
