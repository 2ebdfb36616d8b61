//! Middleware: what every request passes on its way to a handler, and every response on its way back. Limits come first, then a
//! cached response or the router. Panics and deadlines become ordinary errors, and every response gets its headers and, if it
//! is an error, a log line.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::envelope::Nothing;
use api::error::ErrorCode;
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::Time;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Body as _;
use telemetry::metrics::{GaugeGuard, LimitName, RequestMetrics};
use telemetry::request_id::{self, RequestScope};
use telemetry::untrusted::Untrusted;
use tokio::sync::{SemaphorePermit, TryAcquireError};
use tower::ServiceExt;
use tracing::debug;

use super::access::{self, AccessRecord};
use super::context::{REQUEST_ID, RequestContext};
use super::cors::UnlistedOrigins;
use super::error::{ApiError, OVERLOAD_RETRY};
use super::fast_path::HotRoutes;
use super::framing::TrackedBody;
use super::measure::MeasuredRequest;
use super::respond::Success;
use super::zone::{ErrorFormat, RequestBody, Zone, Zones};
use super::{bounds, date, framing, pages};
use crate::app::App;

mod arrival;

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The service as the server sees it: a request in, a response out, whatever happens.
#[derive(Clone)]
pub struct HttpService {
    app: Arc<App>,
    router: Router,
    zones: Arc<Zones>,
    hot_routes: Arc<HotRoutes>,
    unlisted_origins: Arc<UnlistedOrigins>,
    requests: Arc<RequestMetrics>,
}

impl HttpService {
    pub fn new(app: Arc<App>) -> Self {
        let table = super::routes::route_table(Some(&app.config.site).filter(|site| site.enabled));
        let router = table.router.fallback(async || ApiError::new(ErrorCode::NotFound)).with_state(Arc::clone(&app));
        let requests = app.sources.metrics.requests.get_or_init(|| Arc::new(RequestMetrics::new(table.zones.routes())));
        let requests = Arc::clone(requests);
        let hot_routes = Arc::new(HotRoutes::new(&app.config.http.base_path, &table.zones));
        Self { app, router, zones: Arc::new(table.zones), hot_routes, unlisted_origins: Arc::default(), requests }
    }

    /// The same service with middleware around its routes. Answers of the fast path do not pass through it.
    #[must_use]
    pub fn wrap(self, middleware: impl FnOnce(Router) -> Router) -> Self {
        Self { router: middleware(self.router), ..self }
    }

    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Responds through the router, whatever happens. `start_work` is called before any work is done: after a drained body has
    /// arrived, or before a streamed one is read.
    pub(crate) async fn call<B>(
        self,
        request: Request<B>,
        context: RequestContext,
        start_work: impl FnOnce() + Send,
    ) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let (body, unread) = TrackedBody::track(body);
        let request = Request::from_parts(parts, body);
        let record = AccessRecord::begin(&self.app, &context, &request);
        let trace = record.as_ref().and_then(AccessRecord::trace_parent);
        // Everything logged in the meantime carries the ID.
        let scope = RequestScope { id: context.id.into(), trace };
        request_id::scope(scope, self.respond(request, unread, context, record, start_work)).await
    }

    async fn respond(
        self,
        request: Request<Body>,
        unread: Arc<AtomicBool>,
        context: RequestContext,
        record: Option<AccessRecord>,
        start_work: impl FnOnce() + Send,
    ) -> Response<Body> {
        let asked = request.uri().path().to_owned();
        let (method, headers, version) = (request.method().clone(), request.headers().clone(), request.version());
        let measured = MeasuredRequest::new(&self.requests, &self.app.sources.clock, &method, &context);
        let work = AssertUnwindSafe(self.route(request, self.inner_path(&asked), &context, start_work)).catch_unwind();
        let mut response = work
            .await
            .unwrap_or_else(|_| ApiError::new(ErrorCode::Internal).because(&"a handler panicked").into_response());
        let mut ends_connection = false;
        if let Some(refusal) = response.extensions_mut().remove::<ApiError>() {
            self.note(&refusal, &context, &method, &asked);
            // The router has set the length of the empty body that the error travelled with.
            response.headers_mut().remove(header::CONTENT_LENGTH);
            match context.zone.errors {
                ErrorFormat::Envelope => {
                    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
                    *response.body_mut() = refusal.body(context.id()).into();
                }
                ErrorFormat::Page => pages::show_error(&mut response, &self.app, &refusal, &headers, &context),
            }
            ends_connection = refusal.ends_connection();
        }
        // The unread rest of a body cannot be told from the next request.
        if version < Version::HTTP_2 && (ends_connection || unread.load(Ordering::Relaxed)) {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
        }
        debug!(id = context.id(), method = %Untrusted(method.as_str()), path = %Untrusted(&asked), status = response.status().as_u16(), "answered");
        if method == Method::HEAD {
            response = without_body(response);
        }
        self.add_headers(&mut response, &headers, &context, self.app.sources.clock.now());
        measured.end(response.status());
        match record {
            Some(record) => record.end(response),
            None => response,
        }
    }

    /// Counts and logs a refusal.
    fn note(&self, refusal: &ApiError, context: &RequestContext, method: &Method, path: &str) {
        if let Some(error) = refusal.code.server_error() {
            self.app.sources.metrics.server_errors.count(error);
        }
        access::log(&self.app, refusal, context, method, path);
    }

    /// Checks the request against its limits and its zone's, then passes it to the router. The client and we each have the
    /// zone's time limit, one after the other, so that a slow client cannot make us late.
    async fn route(
        &self,
        request: Request<Body>,
        path: Option<&str>,
        context: &RequestContext,
        start_work: impl FnOnce() + Send,
    ) -> Response<Body> {
        let zone = context.zone;
        let is_preflight = zone.cors.has_readers() && is_preflight(request.method(), request.headers());
        if let Err(refusal) = check(request.headers(), context, is_preflight) {
            return refusal.into_response();
        }
        let (parts, body) = request.into_parts();
        let limit = match zone.body {
            RequestBody::Drained => Some(self.app.current.get().limits.request_timeout),
            RequestBody::Streamed => None,
        };
        let body = match within(limit, receive(body, zone, start_work)).await {
            Some(Ok(body)) => body,
            Some(Err(code)) => return ApiError::new(code).into_response(),
            None => return ApiError::new(ErrorCode::RequestTimeout).into_response(),
        };
        // A refused preflight would hide the refusal: the browser reports a network error and never sends the request.
        if is_preflight {
            let mut response = StatusCode::NO_CONTENT.into_response();
            zone.cors.add_preflight_headers(response.headers_mut(), &self.app.current.get().allowed_headers);
            return response;
        }
        let worked = within(limit, self.work(Request::from_parts(parts, body), path, context)).await;
        worked.unwrap_or_else(|| ApiError::new(ErrorCode::Timeout).after(OVERLOAD_RETRY).into_response())
    }

    /// Answers a request that has arrived, or whose body the handler reads.
    async fn work(&self, request: Request<Body>, path: Option<&str>, context: &RequestContext) -> Response<Body> {
        let zone = context.zone;
        let (mut parts, body) = request.into_parts();
        // Only now, because a request whose body never comes must not take a permit from others.
        let Ok(_permit) = self.permit(zone) else {
            self.app.sources.metrics.limits.count(LimitName::ConcurrentRequests);
            return ApiError::new(ErrorCode::Overloaded).after(OVERLOAD_RETRY).into_response();
        };
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let Some(uri) = path.and_then(|path| format!("{path}{query}").parse::<Uri>().ok()) else {
            return ApiError::new(ErrorCode::NotFound).into_response();
        };
        // HTTP/2 names the host in its target, which is shortened to its path here.
        if let Some(host) = parts.uri.authority().and_then(|host| HeaderValue::try_from(host.as_str()).ok()) {
            parts.headers.entry(header::HOST).or_insert(host);
        }
        parts.uri = uri;
        parts.extensions.insert(context.clone());
        let asks_options = parts.method == Method::OPTIONS;
        let routed = self.router.clone().oneshot(Request::from_parts(parts, body)).await;
        let response = routed.unwrap_or_else(|never| match never {});
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            refuse_method(&response, asks_options)
        } else if !zone.may_stream && response.body().size_hint().exact().is_none() {
            ApiError::new(ErrorCode::Internal).because(&"a streamed response in a zone that has none").into_response()
        } else {
            response
        }
    }

    fn permit(&self, zone: Zone) -> Result<Option<(SemaphorePermit<'_>, GaugeGuard)>, TryAcquireError> {
        match zone.body {
            RequestBody::Drained => {
                let permit = self.app.request_permits.try_acquire()?;
                Ok(Some((permit, self.app.sources.metrics.requests_in_flight.hold())))
            }
            RequestBody::Streamed => Ok(None),
        }
    }

    /// The path below the base path; `None` if it is not below it.
    fn inner_path<'a>(&self, path: &'a str) -> Option<&'a str> {
        match path.strip_prefix(self.app.config.http.base_path.as_str())? {
            "" => Some("/"),
            below if below.starts_with('/') => Some(below),
            _ => None,
        }
    }

    /// Adds the headers that every response has.
    fn add_headers(&self, response: &mut Response<Body>, asked: &HeaderMap, context: &RequestContext, now: Time) {
        let status = response.status();
        let headers = response.headers_mut();
        if status == StatusCode::NOT_MODIFIED {
            // It would have to be the length of the client's copy, not of this empty response.
            headers.remove(header::CONTENT_LENGTH);
        }
        headers.insert(REQUEST_ID, context.id.into());
        headers.insert(header::DATE, date::header(now));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, NO_STORE);
        }
        if context.secure {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
        }
        if let Err(origin) = context.zone.cors.add_headers(headers, asked.get(header::ORIGIN), &self.app.current) {
            self.unlisted_origins.warn(origin, asked, context);
        }
    }
}

/// What is checked before the body is read. A preflight counts against the rate limit but is never refused by it.
fn check(headers: &HeaderMap, context: &RequestContext, is_preflight: bool) -> Result<(), ApiError> {
    context.headers?;
    // The fast path need not check this: it accepts no request with a body.
    if !framing::has_valid_transfer_encoding(headers) {
        return Err(ErrorCode::BodyBroken.into());
    }
    match context.rate_limit {
        Err(wait) if !is_preflight => Err(ApiError::limited(LimitName::Requests, wait)),
        _ => Ok(()),
    }
}

/// The result of this work within the limit, if there is one.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// Waits for the body to arrive, unless the handler reads it.
async fn receive(mut body: Body, zone: Zone, start_work: impl FnOnce()) -> Result<Body, ErrorCode> {
    if zone.body == RequestBody::Drained {
        bounds::drain(std::mem::take(&mut body)).await?;
    }
    start_work();
    Ok(body)
}

fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    const ASKS: HeaderName = header::ACCESS_CONTROL_REQUEST_METHOD;
    method == Method::OPTIONS && headers.contains_key(header::ORIGIN) && headers.contains_key(ASKS)
}

/// Answers a known path with another method: `OPTIONS` lists the methods, anything else is refused, both with `Allow`.
fn refuse_method(refused: &Response<Body>, asks_options: bool) -> Response<Body> {
    let methods = refused.headers().get(header::ALLOW).and_then(|allow| allow.to_str().ok()).unwrap_or_default();
    let allow = methods.split(',').map(str::trim).chain(["OPTIONS"]).collect::<Vec<_>>().join(", ");
    let mut response = if asks_options {
        Success(Nothing {}).into_response()
    } else {
        ApiError::new(ErrorCode::MethodNotAllowed).into_response()
    };
    if let Ok(allow) = HeaderValue::from_str(&allow) {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}

/// The response to a `HEAD`: every header of the `GET`, including its length, and no body.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact()
        && !parts.headers.contains_key(header::CONTENT_LENGTH)
    {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

#[cfg(test)]
mod tests;
