use std::net::Ipv4Addr;

use axum::extract::Path;
use axum::routing::get;
use domain::Time;
use http_body_util::{BodyExt, Full};
use runtime::clock::Clock;
use runtime::random::Random;
use serde_json::Value;
use telemetry::Version;
use test_support::TestFolder;

use super::super::context::Peer;
use super::super::zone::{PUBLIC, Routes};
use super::*;
use crate::config::{Config, Layer};

/// The middleware over this router, with a single permit for requests.
async fn service(folder: &TestFolder, router: Router) -> HttpService {
    service_with(folder, router, "concurrent_requests = 1").await
}

/// The same with these limits.
async fn service_with(folder: &TestFolder, router: Router, limits: &str) -> HttpService {
    let configuration = format!("[store]\nurl = \"sqlite:{}\"\n[limits]\n{limits}", folder.path("test.db").display());
    let nothing = std::iter::empty::<(String, String)>();
    let config = Config::load_over(&[Layer::new("test", configuration)], None, nothing).unwrap();
    let clock = Clock::manual(Time::from_seconds(1));
    let app = Arc::new(App::build(config, clock, Random::seeded(1), Version::UNKNOWN).await.unwrap());
    let zones = Arc::new(Routes::default().unknown(PUBLIC).zones);
    let requests = Arc::new(RequestMetrics::new(zones.routes()));
    let hot_routes = Arc::new(HotRoutes::new("", &zones));
    HttpService { app, router, zones, hot_routes, unlisted_origins: Arc::default(), requests }
}

async fn get_from(service: &HttpService, path: &str) -> (StatusCode, HeaderMap, Value) {
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
    let request = Request::get(path).header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
    let context = service.arrive(&request, peer);
    let response = service.clone().call(request, *context, || {}).await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_panic_is_answered_like_any_other_error_and_frees_its_permit() {
    let folder = TestFolder::new();
    let router = Router::new()
        .route("/panics", get(async || -> StatusCode { panic!("a secret of the code") }))
        .route("/works", get(async || Success(Nothing {})));
    let service = service(&folder, router).await;
    for _ in 0..2 {
        let (status, headers, body) = get_from(&service, "/panics").await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!((&body["code"], &body["data"]["error"]), (&500.into(), &"internal".into()));
        assert_eq!(body["data"]["request_id"], headers[REQUEST_ID].to_str().unwrap());
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(!body.to_string().contains("secret"));
        assert_eq!(get_from(&service, "/works").await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_body_that_never_comes_takes_no_permit_from_others() {
    let folder = TestFolder::new();
    let service = service(&folder, Router::new().route("/works", get(async || Success(Nothing {})))).await;
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
    let withheld = http_body_util::StreamBody::new(futures_util::stream::pending::<
        Result<hyper::body::Frame<Bytes>, std::convert::Infallible>,
    >());
    let request = Request::post("/works").header(header::HOST, "test").body(withheld).unwrap();
    let context = service.arrive(&request, peer);
    let mut slow = std::pin::pin!(service.clone().call(request, *context, || {}));
    assert!(slow.as_mut().now_or_never().is_none());
    assert_eq!(get_from(&service, "/works").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_long_method_does_not_fill_the_log() {
    let folder = TestFolder::new();
    let service = service(&folder, Router::new()).await;
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
    let request = Request::get("/nowhere").header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
    let context = service.arrive(&request, peer);
    let lines = std::fs::File::create(folder.path("log")).unwrap();
    let subscriber = tracing_subscriber::fmt().with_writer(std::sync::Mutex::new(lines)).finish();
    let method = Method::from_bytes(&[b'M'; 10_000]).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        access::log(&service.app, &ApiError::new(ErrorCode::Timeout), &context, &method, "/nowhere");
    });
    let written = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(written.contains("request failed") && written.len() < 1000, "{} bytes", written.len());
}

/// Sends a request whose body takes as long as `body` to arrive, for work that takes as long as `work` says.
async fn slow_request(service: &HttpService, work: &str, body: Duration) -> Value {
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
    let late = futures_util::stream::once(async move {
        tokio::time::sleep(body).await;
        Ok::<_, std::convert::Infallible>(hyper::body::Frame::data(Bytes::from_static(b"x")))
    });
    let sent = http_body_util::StreamBody::new(Box::pin(late));
    let request = Request::post(format!("/work/{work}")).header(header::HOST, "test").body(sent).unwrap();
    let context = service.arrive(&request, peer);
    let response = service.clone().call(request, *context, || {}).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["code"], code);
    answer
}

#[tokio::test]
async fn who_is_late_is_decided_by_who_was_waited_for() {
    /// More than half of the limit.
    const MOST: Duration = Duration::from_secs(3);
    let folder = TestFolder::new();
    let handler = async |Path(time): Path<String>| {
        match time.as_str() {
            "at-once" => {}
            "in-time" => tokio::time::sleep(MOST).await,
            _ => std::future::pending().await,
        }
        Success(Nothing {})
    };
    let router = Router::new().route("/work/{time}", axum::routing::post(handler));
    let service = service_with(&folder, router, "request_timeout = \"5s\"").await;
    let (soon, never) = (Duration::ZERO, Duration::MAX);
    let told = |answer: &Value| (answer["code"].as_u64().unwrap(), answer["data"]["error"].clone());
    // Concurrently, because each waits for its limit.
    let (both_slow, no_body, no_end) = tokio::join!(
        slow_request(&service, "in-time", MOST),
        slow_request(&service, "at-once", never),
        slow_request(&service, "never", soon),
    );
    assert_eq!(told(&both_slow), (200, Value::Null), "each has the whole limit");
    assert_eq!(told(&no_body), (408, "request_timeout".into()));
    assert_eq!(told(&no_end), (503, "timeout".into()));
    assert_eq!(
        service.app.sources.metrics.server_errors.get(telemetry::metrics::ServerError::Timeout),
        1,
        "ours is counted"
    );
}

#[tokio::test]
async fn failures_have_one_line_per_minute_and_code_and_ours_alone_are_errors() {
    let folder = TestFolder::new();
    let service = service(&folder, Router::new()).await;
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
    let request = Request::get("/nowhere").header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
    let context = service.arrive(&request, peer);
    let lines = std::fs::File::create(folder.path("log")).unwrap();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(std::sync::Mutex::new(lines)).finish();
    tracing::subscriber::with_default(subscriber, || {
        let fail = |code| {
            let error = ApiError::new(code).because(&"why");
            (0..100).for_each(|_| access::log(&service.app, &error, &context, &Method::GET, "/nowhere"));
        };
        for code in ErrorCode::ALL {
            fail(*code);
        }
        service.app.sources.clock.advance(Duration::from_mins(1));
        fail(ErrorCode::Internal);
        service.app.sources.clock.advance(Duration::from_mins(1));
        service.app.sources.floods.report(service.app.sources.clock.ticks());
        service.app.sources.floods.report(service.app.sources.clock.ticks());
    });
    let written = std::fs::read_to_string(folder.path("log")).unwrap();
    let told = |with: &str| written.lines().filter(|line| line.contains(with)).count();
    for code in ErrorCode::ALL.iter().filter(|code| code.status().is_server_error()) {
        let is_told =
            !matches!(code, ErrorCode::Draining | ErrorCode::IdpMisconfigured | ErrorCode::IdpRedirectRefused);
        // At once, a minute later, and the rest when it is over.
        let expected = if *code == ErrorCode::Internal { 3 } else { 2 };
        let code = format!("code=\"{}\"", code.name());
        assert_eq!(told(&code), if is_told { expected } else { 0 }, "{code} in {written}");
    }
    assert_eq!((told("ERROR"), told(" times=100")), (3 + 2 + 2, 1), "{written}");
    assert_eq!(told("status=4"), 0, "{written}");
    let is_rest = |line: &&str| line.contains("request failed") && line.contains("times=99");
    assert_eq!(written.lines().filter(is_rest).count(), 7, "{written}");
}
