//! What every request goes through: its bounds and limits, the short way or the router, and the dressing of the answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use tower::ServiceExt;
use tracing::{debug, error};

use super::arrival::{Arrival, Peer, REQUEST_ID};
use super::cors::Audience;
use super::error::ApiError;
use super::framing::Tracked;
use super::respond::Success;
use super::{framing, readiness, ready};
use crate::api::envelope::Nothing;
use crate::api::error::ErrorCode;
use crate::app::App;
use crate::untrusted::Untrusted;

const BODY_BOUND: usize = 64 * 1024;
const HEADER_COUNT: usize = 64;
const HEADER_BYTES: usize = 16 * 1024;
/// When a client that was turned away for load should come back.
const RELIEF: Duration = Duration::from_secs(1);

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer's body: ready bytes, or what the router made.
pub type Body = Either<Full<Bytes>, axum::body::Body>;

/// The service as the server sees it: a request in, an answer out, whatever happens.
#[derive(Clone)]
pub struct Web {
    app: Arc<App>,
    router: Router,
}

impl Web {
    /// The service over this app.
    pub fn new(app: Arc<App>) -> Self {
        Self { router: super::router(Arc::clone(&app)), app }
    }

    /// The app inside.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Answers a request from memory, without waiting for anything, with the ticks of its arrival; else gives the arrival, for
    /// [`Web::routed`]. `room`: whether the connection has room for another answer now.
    pub(crate) fn at_once<B>(
        &self,
        request: &Request<B>,
        peer: Peer,
        room: bool,
    ) -> Result<(Response<Body>, Duration), Arrival>
    where
        B: hyper::body::Body<Data = Bytes>,
    {
        let app = &self.app;
        let path = inner_path(&app.config.http.base_path, request.uri().path());
        // The bot's side is limited by its keys; balancers ask often.
        let counted = path.is_none_or(|path| Audience::of(path) != Audience::Nobody && path != readiness::PATH);
        let arrival = Arrival::of(app, request.headers(), peer, counted);
        let Some(path) = path else {
            return Err(arrival);
        };
        if !room || arrival.limited.is_err() || !framing::host_is_good(request, app.config.http.loopback_names_only) {
            return Err(arrival);
        }
        // A panic here is a bug that the router then answers for.
        let answered = catch_unwind(AssertUnwindSafe(|| ready::answer(app, request, path, &arrival)));
        let Some(response) = answered.unwrap_or_default() else {
            return Err(arrival);
        };
        debug!(id = arrival.id(), method = %Untrusted(request.method().as_str()), status = response.status().as_u16(), "answered at once");
        let response = if request.method() == Method::HEAD { without_body(response) } else { response };
        let mut response = response.map(Either::Left);
        self.dress(&mut response, request.headers(), Audience::of(path), &arrival);
        Ok((response, arrival.ticks))
    }

    /// Answers a request by the router, whatever happens. `begins` is awaited when the request is there as a whole, before any
    /// work is done for it.
    pub(crate) async fn routed<B>(
        self,
        request: Request<B>,
        arrival: Arrival,
        begins: impl Future<Output = ()> + Send,
    ) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let asked = request.uri().path().to_owned();
        let path = inner_path(&self.app.config.http.base_path, &asked);
        let audience = path.map_or(Audience::Everyone, Audience::of);
        let (method, headers, version) = (request.method().clone(), request.headers().clone(), request.version());
        let (parts, body) = request.into_parts();
        let (body, unread) = Tracked::new(body);
        let request = Request::from_parts(parts, body);
        let work = AssertUnwindSafe(self.route(request, path, &arrival, audience, begins)).catch_unwind();
        let outcome = if audience == Audience::Nobody {
            // An upload takes as long as it takes; its body has a limit for silence.
            Ok(work.await)
        } else {
            tokio::time::timeout(self.app.config.limits.request_timeout, work).await
        };
        let mut response = match outcome {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => ApiError::new(ErrorCode::Internal).because(&"a handler panicked").into_response(),
            Err(_) => ApiError::new(ErrorCode::Timeout).after(RELIEF).into_response(),
        };
        if let Some(refusal) = response.extensions_mut().remove::<ApiError>() {
            log(&refusal, &arrival, &method, &asked);
            response.headers_mut().insert(header::CONTENT_TYPE, JSON);
            // The router has noted the length of the empty body that the error travelled with.
            response.headers_mut().remove(header::CONTENT_LENGTH);
            *response.body_mut() = refusal.body(arrival.id()).into();
            // What of the body is still on its way cannot be told from the next request.
            if version < Version::HTTP_2 && (refusal.ends_connection() || unread.is_left()) {
                response.headers_mut().insert(header::CONNECTION, CLOSE);
            }
        }
        debug!(id = arrival.id(), method = %Untrusted(method.as_str()), path = %Untrusted(&asked), status = response.status().as_u16(), "answered");
        if method == Method::HEAD {
            response = without_body(response);
        }
        let mut response = response.map(Either::Right);
        self.dress(&mut response, &headers, audience, &arrival);
        response
    }

    /// The long way: bounds, limits, the body, then the router.
    async fn route<B>(
        &self,
        request: Request<B>,
        path: Option<&str>,
        arrival: &Arrival,
        audience: Audience,
        begins: impl Future<Output = ()> + Send,
    ) -> axum::response::Response
    where
        B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !headers_fit(request.headers()) {
            return ApiError::new(ErrorCode::HeadersTooLarge).into_response();
        }
        if !framing::host_is_good(&request, self.app.config.http.loopback_names_only) {
            return ApiError::new(ErrorCode::HostInvalid).into_response();
        }
        if !framing::coding_is_good(request.headers()) {
            return ApiError::new(ErrorCode::BodyBroken).into_response();
        }
        if let Err(wait) = arrival.limited {
            return ApiError::new(ErrorCode::RateLimited).after(wait).into_response();
        }
        let (mut parts, body) = request.into_parts();
        let body = if audience == Audience::Nobody {
            axum::body::Body::new(body)
        } else if let Err(refusal) = drained(body).await {
            return refusal.into_response();
        } else {
            axum::body::Body::empty()
        };
        begins.await;
        // Only now: a body that never comes must not keep a place from others; nor may a slow upload keep it from a sign-in.
        let places = if audience == Audience::Nobody { &self.app.uploads.in_work } else { &self.app.request_permits };
        let Ok(_place) = places.try_acquire() else {
            return ApiError::new(ErrorCode::Overloaded).after(RELIEF).into_response();
        };
        if is_preflight(&parts.method, &parts.headers) && audience != Audience::Nobody {
            let mut response = StatusCode::NO_CONTENT.into_response();
            audience.permit(response.headers_mut());
            return response;
        }
        let Some(uri) = path.and_then(|path| path.parse::<Uri>().ok()) else {
            return ApiError::new(ErrorCode::NotFound).into_response();
        };
        parts.uri = uri;
        parts.extensions.insert(arrival.clone());
        let asks_options = parts.method == Method::OPTIONS;
        let request = Request::from_parts(parts, body);
        let routed = self.router.clone().oneshot(request).await;
        let response = routed.unwrap_or_else(|never| match never {});
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            method_refused(&response, asks_options)
        } else {
            response
        }
    }

    /// What every answer wears.
    fn dress(&self, response: &mut Response<Body>, asked: &HeaderMap, audience: Audience, arrival: &Arrival) {
        let status = response.status();
        let headers = response.headers_mut();
        if status == StatusCode::NOT_MODIFIED {
            // It would have to be the length of the answer that the client has, not that of this empty one.
            headers.remove(header::CONTENT_LENGTH);
        }
        headers.insert(REQUEST_ID, arrival.id.clone());
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, NO_STORE);
        }
        if arrival.secure {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
        }
        audience.dress(headers, asked.get(header::ORIGIN), &self.app.config.http.allowed_origins);
    }
}

/// The path below the base path; `None` if it is not below it.
fn inner_path<'a>(base: &str, path: &'a str) -> Option<&'a str> {
    match path.strip_prefix(base)? {
        "" => Some("/"),
        below if below.starts_with('/') => Some(below),
        _ => None,
    }
}

/// Whether the headers are within our bounds, which lie below the parser's own.
pub(super) fn headers_fit(headers: &HeaderMap) -> bool {
    // A line's colon, space and end count too.
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    headers.len() <= HEADER_COUNT && bytes <= HEADER_BYTES
}

/// Nobody defined a body, so it is read and forgotten, up to a bound.
async fn drained<B>(body: B) -> Result<(), ApiError>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(());
    }
    if body.size_hint().lower() > BODY_BOUND as u64 {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    let mut body = Limited::new(body, BODY_BOUND);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(_) => {}
            Err(error) if error.is::<LengthLimitError>() => return Err(ErrorCode::BodyTooLarge.into()),
            // The client left in the middle, or does not speak HTTP: what it asked for is not done by halves.
            Err(_) => return Err(ErrorCode::BodyBroken.into()),
        }
    }
    Ok(())
}

fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    const ASKS: HeaderName = header::ACCESS_CONTROL_REQUEST_METHOD;
    method == Method::OPTIONS && headers.contains_key(header::ORIGIN) && headers.contains_key(ASKS)
}

/// A known path with another method: `OPTIONS` is told what there is, all else refused, both with `Allow`.
fn method_refused(refused: &axum::response::Response, asks_options: bool) -> axum::response::Response {
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

/// The answer to a `HEAD`: every header of the `GET`, its length too, and no body.
fn without_body<B: hyper::body::Body + Default>(response: Response<B>) -> Response<B> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact()
        && !parts.headers.contains_key(header::CONTENT_LENGTH)
    {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, B::default())
}

/// A failure is logged once, here: ours as errors, the world's as a note.
fn log(refusal: &ApiError, arrival: &Arrival, method: &Method, path: &str) {
    let cause = refusal.cause.as_deref().unwrap_or("-");
    let (id, status, code) = (arrival.id(), refusal.code.status(), refusal.code.name());
    // A method too is whatever the client wrote, as long as the parser's bound allows.
    let (method, path) = (Untrusted(method.as_str()), Untrusted(path));
    // A balancer is told on purpose, and again and again, that the process is stopping; that the provider refuses us is logged
    // where it is called, at most once per minute.
    let told = matches!(refusal.code, ErrorCode::Draining | ErrorCode::IdpMisconfigured);
    let failed = status.is_server_error() && !told;
    let status = status.as_u16();
    if failed {
        error!(id, %method, %path, status, code, cause, "request failed");
    } else {
        debug!(id, %method, %path, status, code, cause, "request refused");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use serde_json::Value;

    use super::*;
    use crate::clock::Clock;
    use crate::config::{Config, Layer};
    use crate::domain::Time;
    use crate::random::Random;
    use crate::test_folder::TestFolder;

    /// The pipeline over this router, with the places for work at their least.
    async fn web(folder: &TestFolder, router: Router) -> Web {
        let settings =
            format!("[store]\nurl = \"sqlite:{}\"\n[limits]\nrequests = 1", folder.path("test.db").display());
        let nothing = std::iter::empty::<(String, String)>();
        let config = Config::load_over(&[Layer::new("test", settings)], None, nothing).unwrap();
        let app = App::build(config, Clock::manual(Time::from_seconds(1)), Random::seeded(1)).await.unwrap();
        Web { app, router }
    }

    async fn get_from(web: &Web, path: &str) -> (StatusCode, HeaderMap, Value) {
        let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
        let request = Request::get(path).header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
        let arrival = web.at_once(&request, peer, true).err().unwrap();
        let response = web.clone().routed(request, arrival, std::future::ready(())).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_answered_like_any_other_error_and_frees_its_place() {
        let folder = TestFolder::new();
        let router = Router::new()
            .route("/panics", get(async || -> StatusCode { panic!("a secret of the code") }))
            .route("/works", get(async || Success(Nothing {})));
        let web = web(&folder, router).await;
        for _ in 0..2 {
            let (status, headers, body) = get_from(&web, "/panics").await;
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!((&body["code"], &body["data"]["error"]), (&500.into(), &"internal".into()));
            assert_eq!(body["data"]["request_id"], headers[REQUEST_ID].to_str().unwrap());
            assert_eq!(headers[header::CACHE_CONTROL], "no-store");
            assert_eq!(headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
            assert!(!body.to_string().contains("secret"));
            assert_eq!(get_from(&web, "/works").await.0, StatusCode::OK);
        }
    }

    #[tokio::test]
    async fn a_body_that_never_comes_takes_no_place_from_others() {
        let folder = TestFolder::new();
        let web = web(&folder, Router::new().route("/works", get(async || Success(Nothing {})))).await;
        let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
        let withheld = http_body_util::StreamBody::new(futures_util::stream::pending::<
            Result<hyper::body::Frame<Bytes>, std::convert::Infallible>,
        >());
        let request = Request::post("/works").header(header::HOST, "test").body(withheld).unwrap();
        let arrival = web.at_once(&request, peer, true).err().unwrap();
        let mut slow = std::pin::pin!(web.clone().routed(request, arrival, std::future::ready(())));
        assert!(slow.as_mut().now_or_never().is_none());
        assert_eq!(get_from(&web, "/works").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_long_method_does_not_fill_the_log() {
        let folder = TestFolder::new();
        let web = web(&folder, Router::new()).await;
        let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
        let request = Request::get("/nowhere").header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
        let arrival = web.at_once(&request, peer, true).err().unwrap();
        let lines = std::fs::File::create(folder.path("log")).unwrap();
        let subscriber = tracing_subscriber::fmt().with_writer(std::sync::Mutex::new(lines)).finish();
        let method = Method::from_bytes(&[b'M'; 10_000]).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            log(&ApiError::new(ErrorCode::Timeout), &arrival, &method, "/nowhere");
        });
        let written = std::fs::read_to_string(folder.path("log")).unwrap();
        assert!(written.contains("request failed") && written.len() < 1000, "{} bytes", written.len());
    }
}
