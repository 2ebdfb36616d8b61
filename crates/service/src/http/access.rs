//! What is logged about a request: a line per error, and with `log.access` a line per request. Never a query or a header, which
//! may contain secrets.

use std::sync::Arc;

use api::error::ErrorCode;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame};
use telemetry::metrics::{CLIENT_LEFT, Label as _, RequestMethod};
use telemetry::traces::{RequestSpan, TraceParent, Traces};
use telemetry::untrusted::Untrusted;
use tracing::{debug, error, info, warn};

use super::context::RequestContext;
use super::error::ApiError;
use super::hot_request::HotRequest;
use super::hot_response::HotResponse;
use crate::app::App;
use crate::config::AccessLog;
use crate::floods::FloodKind;

/// Logs a request that the fast path answered, if requests are logged.
pub(super) fn log_hot(app: &App, request: &HotRequest<'_>, context: &RequestContext, response: &HotResponse<'_>) {
    let access = app.current.access();
    if let Some(traces) = app.sources.traces.get() {
        let span = begin_span(app, traces, &request.method, request.headers.trace_parent, context);
        span.end(app.sources.clock.ticks().saturating_sub(context.ticks), response.status().as_u16(), context.id());
    }
    if access != AccessLog::Off {
        let bytes = response.sent_bytes() as u64;
        let (method, path, status) = (&request.method, request.path, response.status().as_u16());
        AccessLine { context, method, path, status, bytes }.write(app, access);
    }
}

/// A request to log or trace when it ends: when its response is ready or, for a stream, when the stream ends.
pub(super) struct AccessRecord {
    app: Arc<App>,
    access: AccessLog,
    context: RequestContext,
    method: Method,
    path: String,
    status: u16,
    bytes: u64,
    span: Option<RequestSpan>,
}

impl AccessRecord {
    /// `None` if requests are neither logged nor traced.
    pub(super) fn begin<B>(app: &Arc<App>, context: &RequestContext, request: &Request<B>) -> Option<Self> {
        let (access, traces) = (app.current.access(), app.sources.traces.get());
        (access != AccessLog::Off || traces.is_some()).then(|| Self {
            app: Arc::clone(app),
            access,
            context: context.clone(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            status: CLIENT_LEFT,
            bytes: 0,
            span: traces.map(|traces| {
                let parent = request.headers().get("traceparent").map(HeaderValue::as_bytes);
                begin_span(app, traces, request.method(), parent, context)
            }),
        })
    }

    /// The parent of spans for the work on it.
    pub(super) fn trace_parent(&self) -> Option<TraceParent> {
        self.span.as_ref()?.parent()
    }

    fn count(&mut self, frame: &Frame<Bytes>) {
        self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }

    /// Records the response to the request.
    pub(super) fn end(mut self, response: Response<Body>) -> Response<Body> {
        self.status = response.status().as_u16();
        if let Some(bytes) = response.body().size_hint().exact() {
            self.bytes = bytes;
            return response;
        }
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // Moves the whole record into the closure: it is written when the closure is dropped.
                self.count(&frame);
                frame
            }))
        })
    }
}

// Runs however the request ends.
impl Drop for AccessRecord {
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            span.end(self.app.sources.clock.ticks().saturating_sub(self.context.ticks), self.status, self.context.id());
        }
        let Self { app, access, context, method, path, status, bytes, .. } = self;
        AccessLine { context, method, path, status: *status, bytes: *bytes }.write(app, *access);
    }
}

/// Starts the span of a request, named after its route.
fn begin_span(
    app: &App,
    traces: &Traces,
    method: &Method,
    parent: Option<&[u8]>,
    context: &RequestContext,
) -> RequestSpan {
    let route = app.sources.metrics.requests.get().map_or("unknown", |requests| requests.route(context.route as usize));
    let name = format!("{} {route}", RequestMethod::from(method).text());
    traces.begin(name, context.time, parent.filter(|_| context.from_proxy))
}

struct AccessLine<'a> {
    context: &'a RequestContext,
    method: &'a Method,
    path: &'a str,
    status: u16,
    bytes: u64,
}

impl AccessLine<'_> {
    fn write(self, app: &App, access: AccessLog) {
        let Self { context, method, path, status, bytes } = self;
        if access == AccessLog::Off || access == AccessLog::Errors && status < 400 {
            return;
        }
        let (id, client) = (context.id(), context.client);
        let (method, path) = (Untrusted(method.as_str()), Untrusted(path));
        let micros = app.sources.clock.ticks().saturating_sub(context.ticks).as_micros();
        #[expect(clippy::cast_precision_loss, reason = "a duration in a log line")]
        let millis = micros as f64 / 1000.0;
        info!(target: "bot_companion::access", id, %client, %method, %path, status, millis, bytes, "request");
    }
}

/// Logs an error, once and only here: our own faults as errors, other failures as warnings, the client's at debug. Strangers
/// can cause failures as often as they like, so each code gets at most one line per minute; the rest are logged at debug.
/// Sign-ins that the provider or the operator refuses are recorded where they are made, in `accounts/sign_in.rs`.
pub(super) fn log(app: &App, refusal: &ApiError, context: &RequestContext, method: &Method, path: &str) {
    if let Some(kind) = refusal.flood.or_else(|| flood_of(refusal.code)) {
        app.sources.floods.note(kind, context.client, context.id(), context.ticks);
    }
    let cause = refusal.cause.as_deref().unwrap_or("-");
    let (id, status, code) = (context.id(), refusal.code.status(), refusal.code.name());
    // The client can send anything as a method, up to the parser's limit.
    let (method, path) = (Untrusted(method.as_str()), Untrusted(path));
    // Load balancers are told on purpose, over and over, that the process is stopping. When the provider refuses us, that is
    // logged where it is called, at most once per minute.
    let is_expected =
        matches!(refusal.code, ErrorCode::Draining | ErrorCode::IdpMisconfigured | ErrorCode::IdpRedirectRefused);
    let failed = status.is_server_error() && !is_expected;
    let times = if failed { app.sources.floods.count_failure(refusal.code, app.sources.clock.ticks()) } else { None };
    let status = status.as_u16();
    match times {
        Some(times) if refusal.code.server_error().is_some() => {
            error!(id, %method, %path, status, code, cause, times, "request failed");
        }
        Some(times) => warn!(id, %method, %path, status, code, cause, times, "request failed"),
        None if failed => debug!(id, %method, %path, status, code, cause, "request failed"),
        None => debug!(id, %method, %path, status, code, cause, "request refused"),
    }
}

fn flood_of(code: ErrorCode) -> Option<FloodKind> {
    (code == ErrorCode::BotKeyInvalid).then_some(FloodKind::WrongKeys)
}
