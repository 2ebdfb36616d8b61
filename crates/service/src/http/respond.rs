//! Turns the bytes from `api` into responses.

use api::envelope;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body_util::Full;
use serde::Serialize;

use super::encoding::EncodedBody;

/// A success with this data.
#[derive(Debug)]
pub(super) struct Success<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Success<T> {
    fn into_response(self) -> Response {
        json(envelope::success(&self.0)).into_response()
    }
}

/// A 200 with a body that is already JSON.
pub(super) fn json(body: Bytes) -> http::Response<Full<Bytes>> {
    let mut response = http::Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A 200 with a JSON body, possibly compressed.
pub(super) fn encoded_json(body: EncodedBody) -> http::Response<Full<Bytes>> {
    let mut response = json(Bytes::new());
    body.add_headers(response.headers_mut());
    *response.body_mut() = body.bytes.into();
    response
}
