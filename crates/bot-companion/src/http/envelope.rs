//! The envelope that every answer comes in: `{"code", "message", "data"}`.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use serde::Serialize;
use utoipa::ToSchema;

/// The envelope of a success.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Envelope<T: ToSchema> {
    /// The HTTP status.
    #[schema(minimum = 200, maximum = 200)]
    pub(super) code: u16,
    /// Human-readable result text.
    pub(super) message: String,
    /// What was asked for.
    pub(super) data: T,
}

/// No data: `{}`.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct Nothing {}

/// The envelope of an error.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Refusal {
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub(super) code: u16,
    /// One sentence that says what to do.
    pub(super) message: &'static str,
    /// Its stable code and the request's id.
    pub(super) data: ErrorData,
}

/// The data of an error.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ErrorData {
    /// A stable code to program against.
    #[schema(pattern = "^[a-z_]+$", example = "token_invalid")]
    pub(super) error: &'static str,
    /// Names the request in the service's log; the same as the header `X-Request-Id`.
    pub(super) request_id: String,
    /// What the bot needs to know beyond the code.
    #[serde(flatten)]
    #[schema(value_type = Details)]
    pub(super) details: Option<Details>,
}

/// What some errors of the feed tell beyond their code.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct Details {
    /// The number of the event that the service waits for; with `resync_required` and `snapshot_outdated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(super) next: Option<u64>,
    /// The line that cannot be taken, counted from 1; with `line_invalid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(super) line: Option<u64>,
    /// Why, and what to send instead; with `line_invalid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(super) reason: Option<String>,
}

/// A success with this data.
#[derive(Debug)]
pub(super) struct Success<T>(pub(super) T);

impl<T: Serialize + ToSchema> IntoResponse for Success<T> {
    fn into_response(self) -> Response {
        json(success(self.0)).into_response()
    }
}

/// The body of a success with this data.
pub(super) fn success<T: Serialize + ToSchema>(data: T) -> Bytes {
    let envelope = Envelope { code: 200, message: "OK".to_owned(), data };
    serde_json::to_vec(&envelope).unwrap_or_default().into()
}

/// A 200 with a body that is JSON already.
pub(super) fn json(body: Bytes) -> http::Response<http_body_util::Full<Bytes>> {
    let mut response = http::Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
