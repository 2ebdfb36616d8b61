//! The sandbox's responses, in the provider's wire format, and its faults, which are responses too.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use futures_util::stream;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use super::faults::Fault;

/// A response; an error instead closes the connection.
pub(super) type Reply = Response<UnsyncBoxBody<Bytes, io::Error>>;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// A page loads nothing from elsewhere, and no scripts.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
const FORM_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);
const PNG: HeaderValue = HeaderValue::from_static("image/png");

pub(super) fn json(status: StatusCode, body: &Value) -> Reply {
    build(status, JSON, body.to_string())
}

pub(super) fn page(status: StatusCode, html: String) -> Reply {
    let mut reply = build(status, HTML, html);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, PAGE_POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// A page with forms that come back here. Without its own referrer policy, the browser would send them with `Origin: null`.
pub(super) fn form_page(status: StatusCode, html: String) -> Reply {
    let mut reply = page(status, html);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, FORM_POLICY);
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    reply
}

/// An image, which any page may show and keep, like the provider's own.
pub(super) fn picture(image: Vec<u8>) -> Reply {
    let mut reply = build(StatusCode::OK, PNG, image);
    let headers = reply.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin"));
    reply
}

pub(super) fn redirect(to: HeaderValue) -> Reply {
    let mut reply = page(StatusCode::FOUND, String::new());
    reply.headers_mut().insert(header::LOCATION, to);
    reply
}

/// An error of the OAuth endpoints.
pub(super) fn oauth_error(status: StatusCode, error: &str, description: Option<&str>) -> Reply {
    let mut body = json!({ "error": error });
    if let Some(description) = description {
        body["error_description"] = description.into();
    }
    json(status, &body)
}

/// An error of all other endpoints.
pub(super) fn api_error(status: StatusCode) -> Reply {
    let message = format!("{}: {}", status.as_u16(), status.canonical_reason().unwrap_or_default());
    json(status, &json!({ "message": message, "code": 0 }))
}

pub(super) fn invalid_grant() -> Reply {
    oauth_error(StatusCode::BAD_REQUEST, "invalid_grant", Some("Invalid \"code\" in request."))
}

pub(super) fn invalid_client() -> Reply {
    oauth_error(StatusCode::UNAUTHORIZED, "invalid_client", None)
}

pub(super) async fn fault(fault: Fault) -> io::Result<Reply> {
    Ok(match fault {
        Fault::Status { code, body, headers } => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut reply = build(status, JSON, body);
            reply.headers_mut().extend(readable(&headers));
            reply
        }
        Fault::RateLimited { retry_after, json, global } => rate_limited(retry_after, json, global),
        Fault::Hang => std::future::pending().await,
        Fault::Nonsense => build(StatusCode::OK, HTML, "<!doctype html><title>Just a moment</title>".to_owned()),
        Fault::Truncated => truncated(),
        Fault::Huge => build(StatusCode::OK, JSON, format!("[{}]", " ".repeat(1024 * 1024))),
        Fault::Refuse => return Err(io::ErrorKind::ConnectionAborted.into()),
        Fault::InvalidGrant => invalid_grant(),
        Fault::InvalidClient => invalid_client(),
        Fault::Unauthorized => api_error(StatusCode::UNAUTHORIZED),
    })
}

fn rate_limited(retry_after: Option<f64>, json: bool, global: bool) -> Reply {
    let mut reply = if json {
        let mut body = json!({ "message": "You are being rate limited.", "global": global });
        if let Some(seconds) = retry_after {
            body["retry_after"] = seconds.into();
        }
        self::json(StatusCode::TOO_MANY_REQUESTS, &body)
    } else {
        build(StatusCode::TOO_MANY_REQUESTS, HTML, "error code: 1015".to_owned())
    };
    let whole_seconds = retry_after.map(|seconds| seconds.ceil().to_string());
    if let Some(value) = whole_seconds.and_then(|text| HeaderValue::try_from(text).ok()) {
        reply.headers_mut().insert(header::RETRY_AFTER, value);
    }
    if json {
        let (name, value) = if global { ("x-ratelimit-global", "true") } else { ("x-ratelimit-scope", "user") };
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

fn truncated() -> Reply {
    let body = stream::unfold(0, |step| async move {
        match step {
            0 => Some((Ok(Frame::data(Bytes::from_static(b"{\"id\": \"80351"))), 1)),
            1 => {
                // One turn of the runtime, in which the first half is sent.
                tokio::task::yield_now().await;
                Some((Err(io::ErrorKind::ConnectionAborted.into()), 2))
            }
            _ => None,
        }
    });
    let mut reply = Response::new(StreamBody::new(body).boxed_unsync());
    reply.headers_mut().insert(header::CONTENT_TYPE, JSON);
    reply.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("1000"));
    reply
}

fn build(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Reply {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    reply
}

fn readable(headers: &[(String, String)]) -> HeaderMap {
    let pairs = headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::try_from(name.as_str()).ok()?, HeaderValue::try_from(value.as_str()).ok()?))
    });
    pairs.collect()
}
