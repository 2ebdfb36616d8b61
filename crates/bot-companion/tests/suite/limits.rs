//! How often a client may ask, how clients are told apart, and what an overloaded service still answers.

use std::time::Duration;

use provider::idp::Endpoint;
use reqwest::Method;
use sandbox::Fault;
use sandbox::people::MEMBER;

use crate::harness::{Answer, TestApp, id};

/// Behind a proxy on this machine, so that a test can be any client.
const PROXIED: &str = "[http]\ntrusted_proxies = [\"127.0.0.1\"]";

/// A service with these limits, behind a trusted proxy.
async fn proxied(limits: &str) -> TestApp {
    TestApp::builder().set(PROXIED).set(&format!("[limits]\n{limits}")).start().await
}

async fn from(app: &TestApp, client: &str) -> Answer {
    app.anon().call(Method::GET, "/").header("X-Forwarded-For", client).send().await
}

async fn sign_in_from(app: &TestApp, client: &str, code: &str) -> Answer {
    app.anon().post("/auth").header("Idp-Code", code).header("X-Forwarded-For", client).send().await
}

/// How many of a hundred requests get through before the first is refused.
async fn passed(app: &TestApp, path: &str) -> usize {
    for count in 0..100 {
        let answer = app.anon().get(path).await;
        if answer.status == 429 {
            assert_eq!(answer.error(), "rate_limited");
            return count;
        }
    }
    100
}

#[tokio::test]
async fn a_burst_comes_through_and_then_the_rate() {
    // The fast path, the router, a refusal and nothing at all: each is a request.
    for path in ["/", "/openapi.json", "/guilds", "/none"] {
        let app = TestApp::builder().set("[limits]\nrequests_per_second = 2\nrequests_burst = 5").start().await;
        assert_eq!(passed(&app, path).await, 5, "{path}");
        assert_eq!(app.anon().get(path).await.header("retry-after"), "1", "rounded up from half a second");
        app.clock.advance(Duration::from_millis(499));
        assert_eq!(passed(&app, path).await, 0, "{path}");
        app.clock.advance(Duration::from_millis(1));
        assert_eq!(passed(&app, path).await, 1, "{path}");
        app.clock.advance(Duration::from_secs(1));
        assert_eq!(passed(&app, path).await, 2, "{path}");
        app.clock.advance(Duration::from_hours(1));
        assert_eq!(passed(&app, path).await, 5, "no more is saved up than a burst; {path}");
    }
}

#[tokio::test]
async fn a_page_that_says_too_many_requests_gets_its_style() {
    let app = TestApp::builder().set("[limits]\nrequests_per_second = 1\nrequests_burst = 4").start().await;
    let page = app.anon().get("/site/").await.text();
    let style = page.split('"').find(|text| text.contains("/style.")).unwrap().to_owned();
    // One of these is counted: the file that does not exist.
    assert_eq!(app.anon().get(&style).await.status, 200);
    assert_eq!(app.anon().get("/site/assets/none.css").await.status, 404);
    assert_eq!(passed(&app, "/").await, 2);
    let refused = app.anon().get("/site/").await;
    assert!(refused.status == 429 && refused.text().contains(&style));
    for _ in 0..20 {
        assert_eq!(app.anon().get(&style).await.status, 200);
    }
    assert_eq!(app.anon().get("/site/assets/none.css").await.status, 429);
}

#[tokio::test]
async fn all_paths_and_methods_share_a_clients_count() {
    let app = TestApp::builder().set("[limits]\nrequests_per_second = 1\nrequests_burst = 6").start().await;
    for path in ["/", "/team", "/none"] {
        assert_ne!(app.anon().get(path).await.status, 429);
    }
    assert_eq!(app.anon().call(Method::HEAD, "/").send().await.status, 200);
    assert_eq!(app.anon().post("/auth").send().await.status, 400);
    let preflight = app.anon().call(Method::OPTIONS, "/team").header("Origin", "https://a.example");
    assert_eq!(preflight.header("Access-Control-Request-Method", "GET").send().await.status, 204);
    for path in ["/", "/team", "/feedback", "/guilds", "/none"] {
        assert_eq!(app.anon().get(path).await.status, 429, "{path}");
    }
    assert_eq!(app.anon().call(Method::HEAD, "/team").send().await.status, 429);
    assert_eq!(app.anon().post("/auth").header("Idp-Code", "x").send().await.status, 429);
    assert_eq!(app.sandbox.calls(Endpoint::Token), 0, "what is refused reaches nobody");
}

#[tokio::test]
async fn a_slow_rate_tells_a_long_wait() {
    let app = proxied("requests_per_second = 1\nrequests_burst = 1").await;
    assert_eq!(from(&app, "203.0.113.1").await.status, 200);
    app.clock.advance(Duration::from_millis(1));
    assert_eq!(from(&app, "203.0.113.1").await.header("retry-after"), "1");
    app.clock.advance(Duration::from_millis(999));
    assert_eq!(from(&app, "203.0.113.1").await.status, 200, "whoever obeys comes through");
}

#[tokio::test]
async fn each_client_has_its_own_count() {
    let app = proxied("requests_per_second = 1\nrequests_burst = 1").await;
    for (client, status) in [
        ("203.0.113.1", 200),
        ("203.0.113.1", 429),
        ("203.0.113.2", 200),
        ("::ffff:203.0.113.2", 429),
        ("203.0.113.1:4711", 429),
    ] {
        assert_eq!(from(&app, client).await.status, status, "{client}");
    }
}

#[tokio::test]
async fn what_a_client_writes_left_of_the_proxys_word_does_not_matter() {
    let app = TestApp::builder()
        .set("[http]\ntrusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]")
        .set("[limits]\nrequests_per_second = 1\nrequests_burst = 1")
        .start()
        .await;
    for (forwarded, status) in [
        ("1.1.1.1, 203.0.113.5", 200),
        ("2.2.2.2, 203.0.113.5", 429),
        ("203.0.113.6, 203.0.113.5", 429),
        ("nonsense, 203.0.113.5", 429),
        ("203.0.113.7, 203.0.113.5, 10.1.2.3", 429),
        ("203.0.113.5, 203.0.113.7", 200),
        // If a line cannot be parsed, the proxy's own address is left.
        ("203.0.113.8, nonsense", 200),
        ("203.0.113.9, nonsense", 429),
    ] {
        assert_eq!(from(&app, forwarded).await.status, status, "{forwarded}");
    }
    let twice = app.anon().call(Method::GET, "/").header("X-Forwarded-For", "203.0.113.20");
    let twice = twice.header("X-Forwarded-For", "203.0.113.5").send().await;
    assert_eq!(twice.status, 429, "the last line is the proxy's");
}

#[tokio::test]
async fn a_byte_that_is_no_ascii_hides_nobody() {
    let app = proxied("requests_per_second = 1\nrequests_burst = 1").await;
    let send = async |forwarded: &[u8]| {
        let call = app.anon().call(Method::GET, "/").header("X-Forwarded-For", forwarded);
        call.send().await.status
    };
    assert_eq!(send(b"\xff, 203.0.113.5").await, 200);
    assert_eq!(send(b"\xff, 203.0.113.6").await, 200, "another client, not the proxy again");
    assert_eq!(send("ü, 203.0.113.5".as_bytes()).await, 429, "the same client as the first");
    assert_eq!(send(b"203.0.113.5\xa0").await, 200, "of an entry that cannot be read the proxy's own address is left");
    assert_eq!(send(b"203.0.113.9, \xff").await, 429);
}

#[tokio::test]
async fn a_stranger_cannot_choose_its_address() {
    let app = TestApp::builder().set("[limits]\nrequests_per_second = 1\nrequests_burst = 1").start().await;
    assert_eq!(from(&app, "203.0.113.1").await.status, 200);
    assert_eq!(from(&app, "203.0.113.2").await.status, 429);
}

#[tokio::test]
async fn exempt_networks_have_no_limit() {
    let app = proxied(
        "requests_per_second = 1\nrequests_burst = 1\nrefused_sign_ins_per_minute = 1\nexempt = [\"203.0.113.0/24\", \"2001:db8::/32\"]",
    )
    .await;
    for client in ["203.0.113.9", "2001:db8:5::1"] {
        for _ in 0..20 {
            assert_eq!(from(&app, client).await.status, 200, "{client}");
            assert_eq!(sign_in_from(&app, client, "refused").await.status, 401, "{client}");
        }
    }
    assert_eq!(from(&app, "203.0.114.1").await.status, 200);
    assert_eq!(from(&app, "203.0.114.1").await.status, 429);
}

#[tokio::test]
async fn a_rate_of_0_is_no_limit() {
    let app = proxied("requests_per_second = 0\nrequests_burst = 1\nrefused_sign_ins_per_minute = 0").await;
    for _ in 0..150 {
        assert_eq!(from(&app, "203.0.113.1").await.status, 200);
    }
    for _ in 0..30 {
        assert_eq!(sign_in_from(&app, "203.0.113.1", "refused").await.status, 401);
    }
}

#[tokio::test]
async fn ten_refused_sign_ins_per_minute_and_then_no_more_from_that_address() {
    let app = proxied("refused_sign_ins_per_minute = 10").await;
    let (bad, good) = ("203.0.113.1", "203.0.113.2");
    for attempt in 0..10 {
        assert_eq!(sign_in_from(&app, bad, &format!("refused-{attempt}")).await.error(), "idp_code_rejected");
    }
    let calls = app.sandbox.calls(Endpoint::Token);
    let refused = sign_in_from(&app, bad, "refused-again").await;
    assert_eq!((refused.status, refused.error().as_str(), refused.header("retry-after")), (429, "rate_limited", "6"));
    assert_eq!(refused.envelope()["message"], "Too many requests. Try again in 6 seconds.");
    assert_eq!(sign_in_from(&app, bad, &app.sandbox.issue_code("member")).await.status, 429);
    assert_eq!(app.sandbox.calls(Endpoint::Token), calls, "the provider is not asked");
    assert_eq!(sign_in_from(&app, good, &app.sandbox.issue_code("member")).await.status, 200);
    assert_eq!(from(&app, bad).await.status, 200, "all else still works");
    app.clock.advance(Duration::from_secs(6));
    let code = app.sandbox.issue_code("member");
    assert_eq!(sign_in_from(&app, bad, &code).await.status, 200, "after the time in Retry-After");
    assert_eq!(sign_in_from(&app, bad, "refused-once-more").await.status, 401, "the good one did not count");
    assert_eq!(sign_in_from(&app, bad, "refused-once-more").await.status, 429);
    app.clock.advance(Duration::from_mins(1));
    for attempt in 0..10 {
        assert_eq!(sign_in_from(&app, bad, &format!("later-{attempt}")).await.status, 401);
    }
    assert_eq!(sign_in_from(&app, bad, "later").await.status, 429);
}

#[tokio::test]
async fn only_refused_sign_ins_count() {
    let app = proxied("refused_sign_ins_per_minute = 2").await;
    let client = "203.0.113.1";
    for _ in 0..4 {
        assert_eq!(sign_in_from(&app, client, &app.sandbox.issue_code("member")).await.status, 200);
        assert_eq!(sign_in_from(&app, client, "").await.error(), "idp_code_missing");
        assert_eq!(sign_in_from(&app, client, &"x".repeat(513)).await.error(), "idp_code_malformed");
    }
    let broken = Fault::Status { code: 500, body: String::new(), headers: Vec::new() };
    app.sandbox.fail_times(Endpoint::Token, broken, 4);
    for attempt in 0..4 {
        assert_eq!(sign_in_from(&app, client, &format!("unlucky-{attempt}")).await.status, 502);
    }
    app.app.accounts.block(id(MEMBER), "test".to_owned()).await.unwrap();
    for _ in 0..2 {
        let blocked = sign_in_from(&app, client, &app.sandbox.issue_code("member")).await;
        assert_eq!(blocked.error(), "user_blocked", "this one is refused, and counts");
    }
    assert_eq!(sign_in_from(&app, client, &app.sandbox.issue_code("owner")).await.status, 429);
}

#[tokio::test]
async fn hanging_up_does_not_dodge_the_limit_of_refused_sign_ins() {
    let app = proxied("refused_sign_ins_per_minute = 10").await;
    let (bad, good) = ("203.0.113.1", "203.0.113.2");
    for round in 0..2 {
        let hold = app.sandbox.hold(Endpoint::Token);
        for attempt in 0..8 {
            let call = app.anon().post("/auth").header("Idp-Code", format!("refused-{round}-{attempt}"));
            let leaving = tokio::spawn(call.header("X-Forwarded-For", bad).try_send());
            hold.arrived(attempt + 1).await;
            leaving.abort();
        }
        sign_in_from(&app, bad, "refused-early").await.refused(429, "rate_limited");
        hold.release();
        app.settled().await;
    }
    for attempt in 0..20 {
        let refused = sign_in_from(&app, bad, &format!("refused-late-{attempt}")).await;
        assert_eq!(refused.refused(429, "rate_limited").retry_after(), 42, "six too many have to be paid off, too");
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), 16, "the limit, and those that ran at the same time");
    assert_eq!(sign_in_from(&app, good, &app.sandbox.issue_code("member")).await.status, 200);
}

#[tokio::test]
async fn a_sign_in_that_succeeds_after_its_client_has_left_does_not_count() {
    let app = proxied("refused_sign_ins_per_minute = 1").await;
    let client = "203.0.113.1";
    for _ in 0..3 {
        let hold = app.sandbox.hold(Endpoint::Token);
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("member"));
        let leaving = tokio::spawn(call.header("X-Forwarded-For", client).try_send());
        hold.arrived(1).await;
        leaving.abort();
        hold.release();
        app.settled().await;
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), 3);
    assert_eq!(sign_in_from(&app, client, "refused").await.status, 401);
}

#[tokio::test]
async fn what_the_provider_refuses_counts_whatever_its_words() {
    let status = |code: u16, body: &str| Fault::Status { code, body: body.to_owned(), headers: Vec::new() };
    let limited = Fault::RateLimited { retry_after: Some(0.0), json: true, global: false };
    for (fault, error) in [
        (
            status(400, r#"{"error":"invalid_grant","error_description":"Invalid \"redirect_uri\" in request."}"#),
            "idp_misconfigured",
        ),
        (status(400, r#"{"code":50035,"errors":{"redirect_uri":{"_errors":[]}}}"#), "idp_misconfigured"),
        (status(400, r#"{"grant_type":["Not a choice."]}"#), "idp_unavailable"),
        (status(400, r#"{"error":"invalid_request"}"#), "idp_unavailable"),
        (status(400, r#"{"code":["Must be 512 or fewer in length."]}"#), "idp_code_rejected"),
        (status(400, "what?"), "idp_unavailable"),
        (status(403, "<html>blocked</html>"), "idp_unavailable"),
        (status(403, r#"{"message":"Missing Access","code":50001}"#), "idp_unavailable"),
        (status(404, "{}"), "idp_unavailable"),
        (limited, "idp_rate_limited"),
    ] {
        let app = proxied("refused_sign_ins_per_minute = 2").await;
        app.sandbox.fail(Endpoint::Token, fault.clone());
        for attempt in 0..2 {
            assert_eq!(sign_in_from(&app, "203.0.113.1", &format!("code-{attempt}")).await.error(), error, "{fault:?}");
            // Past the wait that the provider's limit requires.
            app.clock.advance(Duration::from_millis(200));
        }
        sign_in_from(&app, "203.0.113.1", "code-last").await.refused(429, "rate_limited");
        assert_eq!(app.sandbox.calls(Endpoint::Token), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn exchanges_at_the_same_time_are_bounded_per_address_and_in_all() {
    let builder = TestApp::builder().set(PROXIED).adjust(|config| {
        config.limits.concurrent_exchanges = 3;
        config.limits.concurrent_exchanges_per_address = 2;
    });
    let app = builder.start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut waiting = Vec::new();
    for (number, client) in [(1, "203.0.113.1"), (2, "203.0.113.1"), (3, "203.0.113.2")] {
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("member"));
        waiting.push(tokio::spawn(call.header("X-Forwarded-For", client).send()));
        hold.arrived(number).await;
    }
    let refused = sign_in_from(&app, "203.0.113.1", &app.sandbox.issue_code("member")).await;
    assert_eq!((refused.status, refused.error().as_str(), refused.header("retry-after")), (429, "rate_limited", "1"));
    let refused = sign_in_from(&app, "203.0.113.3", &app.sandbox.issue_code("member")).await;
    assert_eq!((refused.status, refused.error().as_str(), refused.header("retry-after")), (503, "overloaded", "1"));
    assert_eq!(refused.envelope()["message"], "The service is overloaded. Try again in 1 second.");
    assert_eq!(app.sandbox.calls(Endpoint::Token), 3);
    hold.release();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status, 200);
    }
    assert_eq!(sign_in_from(&app, "203.0.113.1", &app.sandbox.issue_code("member")).await.status, 200);
}

#[tokio::test]
async fn a_user_signs_in_twenty_times_in_ten_minutes_and_then_has_to_wait() {
    let app = TestApp::start().await;
    for _ in 0..20 {
        app.user("member").await;
    }
    let refused = app.sign_in(&app.sandbox.issue_code("member")).await;
    assert_eq!((refused.status, refused.error().as_str(), refused.header("retry-after")), (429, "rate_limited", "30"));
    let other = app.user("owner").await;
    assert_eq!(other.get("/guilds").await.status, 200, "others have their own count");
    app.clock.advance(Duration::from_secs(30));
    app.user("member").await;
}

#[tokio::test]
async fn an_overloaded_service_says_so_while_ready_answers_still_flow() {
    let app = TestApp::builder().set("[limits]\nconcurrent_requests = 1").start().await;
    let member = app.user("member").await;
    for path in ["/", "/team", "/feedback", "/stats", "/guilds"] {
        assert_eq!(member.get(path).await.status, 200);
    }
    let hold = app.sandbox.hold(Endpoint::Token);
    let waiting = tokio::spawn({
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
        async move { call.send().await }
    });
    hold.arrived(1).await;
    for path in ["/sessions", "/openapi.json", "/none"] {
        let refused = member.get(path).await;
        assert_eq!((refused.status, refused.error().as_str()), (503, "overloaded"), "{path}");
        assert_eq!(refused.header("retry-after"), "1");
    }
    for path in ["/", "/team", "/feedback", "/stats", "/guilds"] {
        assert_eq!(member.get(path).await.status, 200, "{path}");
    }
    hold.release();
    assert_eq!(waiting.await.unwrap().status, 200);
    assert_eq!(member.get("/sessions").await.status, 200, "the place is free again");
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_permit() {
    let app = TestApp::builder().set("[limits]\nconcurrent_requests = 1").start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let leaving = tokio::spawn({
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
        async move { call.try_send().await.map(drop) }
    });
    hold.arrived(1).await;
    assert_eq!(app.app.request_permits.available_permits(), 0);
    leaving.abort();
    crate::harness::eventually("the place is free", async || app.app.request_permits.available_permits() == 1).await;
    hold.release();
}
