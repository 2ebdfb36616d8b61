//! `GET /ready`, for balancers.

use serde_json::json;

use crate::harness::TestApp;

#[tokio::test]
async fn a_running_process_is_ready_for_anybody_who_asks() {
    let app = TestApp::start().await;
    let answer = app.anon().get("/ready").await;
    assert_eq!(answer.envelope(), json!({"code": 200, "message": "OK", "data": {"status": "ready"}}));
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    let head = app.anon().call(reqwest::Method::HEAD, "/ready").send().await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    app.anon().post("/ready").send().await.refused(405, "method_not_allowed");
}

#[tokio::test]
async fn balancers_may_ask_as_often_as_they_like() {
    let limits = "[limits]\nrequests_per_second = 1\nrequests_burst = 1";
    let app = TestApp::builder().set(limits).start().await;
    for _ in 0..5 {
        assert_eq!(app.anon().get("/ready").await.status, 200);
    }
    assert_eq!(app.anon().get("/").await.status, 200, "and nobody else pays for it");
    app.anon().get("/").await.refused(429, "rate_limited");
    assert_eq!(app.anon().get("/ready").await.status, 200);
}

#[tokio::test]
async fn a_service_at_its_request_limit_stays_ready() {
    let app = TestApp::builder().set("limits.concurrent_requests = 1").start().await;
    let _permit = app.app.request_permits.try_acquire().unwrap();
    app.anon().get("/nowhere").await.refused(503, "overloaded");
    assert_eq!(app.anon().get("/ready").await.status, 200);
}
