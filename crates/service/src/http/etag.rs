//! Responses with an `ETag`, and 304 for clients that already have them.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::encoding::{self, EncodedBody};
use super::hot_request::{self, HotHeaders};
use super::hot_response::{HotBody, HotEncoding};
use super::respond::encoded_json;
use crate::views::tagged::TaggedBody;

/// The response, or a 304 if the client's copy is still valid; `caching` is its `Cache-Control`.
pub(super) async fn respond(cached: &TaggedBody, caching: HeaderValue, asked: &HeaderMap) -> Response<Full<Bytes>> {
    let body = encoding::encode(&cached.body, asked).await;
    let etag = cached.tags.of(body.is_gzip);
    let unchanged = asked.get_all(header::IF_NONE_MATCH).iter().any(|known| matches_etag(known.as_bytes(), etag));
    let mut response = encoded_json(body);
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Full::default();
        // They describe a body, and there is none.
        response.headers_mut().remove(header::CONTENT_TYPE);
        response.headers_mut().remove(header::CONTENT_ENCODING);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    response.headers_mut().insert(header::ETAG, etag.clone());
    response
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

/// The response of the fast path, if it takes no work now.
pub(super) fn try_respond(cached: &TaggedBody, caching: &'static str, asked: &HotHeaders<'_>) -> Option<HotBody> {
    let EncodedBody { bytes, is_gzip } = encoding::try_encode_hot(&cached.body, asked)?;
    let etag = cached.tags.of(is_gzip);
    let is_unchanged = asked.if_none_match.is_some_and(|known| matches_etag(known, etag));
    let status = if is_unchanged { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let encoding = if is_gzip { HotEncoding::Gzip } else { HotEncoding::Plain };
    Some(HotBody { encoding, caching, etag: Some(etag.clone()), status, ..HotBody::fixed(bytes) })
}

/// Whether an `If-None-Match` names this tag. The comparison is weak, as the standard requires.
fn matches_etag(known: &[u8], etag: &HeaderValue) -> bool {
    let known = hot_request::text(known).unwrap_or_default();
    known.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
