use std::net::Ipv4Addr;

use axum::routing::get;
use http_body_util::BodyExt;
use serde_json::Value;

use super::super::zone::{PUBLIC, Routes};
use super::*;
use crate::clock::Clock;
use crate::config::{Config, Layer};
use crate::domain::Time;
use crate::random::Random;
use crate::test_folder::TestFolder;

/// The middleware over this router, with a single permit for requests.
async fn service(folder: &TestFolder, router: Router) -> HttpService {
    let settings =
        format!("[store]\nurl = \"sqlite:{}\"\n[limits]\nconcurrent_requests = 1", folder.path("test.db").display());
    let nothing = std::iter::empty::<(String, String)>();
    let config = Config::load_over(&[Layer::new("test", settings)], None, nothing).unwrap();
    let app = App::build(config, Clock::manual(Time::from_seconds(1)), Random::seeded(1)).await.unwrap();
    let zones = Arc::new(Routes::default().unknown(PUBLIC).zones);
    let requests = Arc::new(RequestMetrics::new(zones.routes()));
    HttpService { app, router, zones, unlisted_origins: Arc::default(), requests }
}

async fn get_from(service: &HttpService, path: &str) -> (StatusCode, HeaderMap, Value) {
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
    let request = Request::get(path).header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
    let context = service.try_cached(&request, peer, true).err().unwrap();
    let response = service.clone().call(request, context, std::future::ready(())).await;
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
    let context = service.try_cached(&request, peer, true).err().unwrap();
    let mut slow = std::pin::pin!(service.clone().call(request, context, std::future::ready(())));
    assert!(slow.as_mut().now_or_never().is_none());
    assert_eq!(get_from(&service, "/works").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_long_method_does_not_fill_the_log() {
    let folder = TestFolder::new();
    let service = service(&folder, Router::new()).await;
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), secure: false };
    let request = Request::get("/nowhere").header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
    let context = service.try_cached(&request, peer, true).err().unwrap();
    let lines = std::fs::File::create(folder.path("log")).unwrap();
    let subscriber = tracing_subscriber::fmt().with_writer(std::sync::Mutex::new(lines)).finish();
    let method = Method::from_bytes(&[b'M'; 10_000]).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        access::log(&service.app, &ApiError::new(ErrorCode::Timeout), &context, &method, "/nowhere");
    });
    let written = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(written.contains("request failed") && written.len() < 1000, "{} bytes", written.len());
}
