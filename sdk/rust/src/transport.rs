//! Requests to the service and their responses, independent of the transport.

use std::fmt;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

/// The body of a request, before compression.
pub enum Body {
    /// A JSON document.
    Json(Vec<u8>),
    /// Complete lines.
    Lines(Vec<u8>),
    /// Lines that are built while they are sent.
    Stream(BoxStream<'static, Vec<u8>>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(bytes) => write!(f, "Json({} bytes)", bytes.len()),
            Self::Lines(bytes) => write!(f, "Lines({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// `PUT` or `POST`.
    pub method: &'static str,
    /// The path below the service's address, with a leading slash.
    pub path: String,
    /// The `Feed-Instance` header.
    pub instance: Option<String>,
    /// The `Feed-Sequence` header.
    pub sequence: Option<u64>,
    /// The `Feed-After` header.
    pub after: Option<u64>,
    /// The body.
    pub body: Body,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header.
    pub retry_after: Option<String>,
    /// `data` from the envelope; `None` if the response has no envelope.
    pub data: Option<Map<String, Value>>,
}

/// Carries requests to the service. Only the feed retries, so report a failure immediately.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request. The error says what happened, without any secret.
    fn send(&self, request: Request) -> BoxFuture<'static, Result<Response, String>>;
}

/// A response, as far as the sender is concerned.
pub(crate) enum Answer {
    /// No usable response: try the same again after this time.
    Later(std::time::Duration),
    /// 200, or what the caller handles.
    Answered(u16, Map<String, Value>),
}

/// `data` of an envelope.
pub(crate) fn envelope_data(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body).ok()? {
        Value::Object(mut envelope) if envelope.contains_key("code") => match envelope.remove("data") {
            Some(Value::Object(data)) => Some(data),
            _ => None,
        },
        _ => None,
    }
}
