//! What a browser sees: who may read an answer, how long it may be cached, and the allowed methods.

use provider::idp::Endpoint;
use reqwest::Method;

use crate::harness::{Answer, Client, ORIGIN, TestApp, Wire, request};

const LISTED: [(&str, Method); 6] = [
    ("/auth", Method::POST),
    ("/auth", Method::DELETE),
    ("/guilds", Method::GET),
    ("/sessions", Method::GET),
    ("/sessions", Method::DELETE),
    ("/sessions/abc", Method::DELETE),
];
const PUBLIC: [&str; 6] = ["/", "/team", "/feedback", "/stats", "/ready", "/openapi.json"];

async fn from(client: &Client, method: Method, path: &str, origin: Option<&str>) -> Answer {
    let call = client.call(method, path);
    match origin {
        Some(origin) => call.header("Origin", origin),
        None => call,
    }
    .send()
    .await
}

fn allowed(answer: &Answer) -> Option<&str> {
    answer.has("access-control-allow-origin").then(|| answer.header("access-control-allow-origin"))
}

fn never_credentials(answer: &Answer) {
    assert!(!answer.has("access-control-allow-credentials"));
}

#[tokio::test]
async fn public_answers_and_404_are_for_every_page() {
    let app = TestApp::start().await;
    for path in PUBLIC.into_iter().chain(["/none", "/team/", "/sessions/a/b", "/guildsx", "/authx"]) {
        for origin in [None, Some(ORIGIN), Some("https://evil.example"), Some("null")] {
            for method in [Method::GET, Method::HEAD, Method::PUT] {
                let answer = from(&app.anon(), method, path, origin).await;
                assert_eq!(allowed(&answer), Some("*"), "{path} {origin:?}");
                if answer.has("vary") {
                    assert_eq!(answer.header("vary"), "accept-encoding", "the same for every page: {path}");
                }
                never_credentials(&answer);
            }
        }
    }
}

#[tokio::test]
async fn what_hangs_on_a_session_is_for_the_configured_origins_to_the_letter() {
    let app = TestApp::start().await;
    let strangers = [
        "null",
        "*",
        "https://evil.example",
        "http://dashboard.example",
        "https://dashboard.example:443",
        "https://dashboard.example/",
        "https://DASHBOARD.example",
        "https://dashboard.example.evil.example",
        "https://evil-dashboard.example",
        "http://localhost:3001",
        "",
    ];
    let member = app.user("member").await;
    for client in [app.anon(), member] {
        for (path, method) in LISTED {
            for origin in [ORIGIN, "http://localhost:3000"] {
                let answer = from(&client, method.clone(), path, Some(origin)).await;
                assert_eq!(allowed(&answer), Some(origin), "{method} {path}");
                assert!(answer.header("vary").starts_with("origin"));
                never_credentials(&answer);
            }
            for origin in strangers.map(Some).into_iter().chain([None]) {
                let answer = from(&client, method.clone(), path, origin).await;
                assert_eq!(allowed(&answer), None, "{method} {path} {origin:?}");
                assert!(answer.header("vary").starts_with("origin"), "a cache must know that there are two versions");
                assert!(!answer.has("access-control-expose-headers"));
                never_credentials(&answer);
            }
        }
    }
}

#[tokio::test]
async fn two_origins_at_once_are_not_one_of_ours() {
    let app = TestApp::start().await;
    let call = app.anon().call(Method::GET, "/guilds").header("Origin", format!("{ORIGIN}, https://evil.example"));
    assert_eq!(allowed(&call.send().await), None);
}

#[tokio::test]
async fn errors_can_be_read_by_the_page_too() {
    let app = TestApp::builder().set("[limits]\nrequests_per_second = 1\nrequests_burst = 20").start().await;
    let member = app.user("member").await;
    let page = async |client: &Client, method: Method, path: &str| from(client, method, path, Some(ORIGIN)).await;
    let mut seen = vec![
        page(&app.anon(), Method::GET, "/guilds").await,
        page(&app.anon(), Method::POST, "/auth").await,
        page(&app.anon(), Method::PUT, "/guilds").await,
        page(&member, Method::DELETE, "/sessions/unknown").await,
        app.anon().call(Method::GET, "/guilds").header("Origin", ORIGIN).header("X", "x".repeat(20_000)).send().await,
    ];
    // Announced and never sent: the refusal does not wait for it.
    let mut wire = Wire::open(app.address).await;
    wire.send(request("POST", "/auth", &format!("Origin: {ORIGIN}\r\nContent-Length: 70000\r\n"))).await;
    seen.push(wire.answer().await.unwrap());
    let places = u32::try_from(app.app.request_permits.available_permits()).unwrap();
    let all = app.app.request_permits.acquire_many(places).await.unwrap();
    seen.push(page(&member, Method::GET, "/sessions").await);
    drop(all);
    app.folder.sql("DROP TABLE guilds").await;
    app.sandbox.edit("member", |person| person.guilds = vec![crate::harness::listed(1, 0)]);
    seen.push(
        member.call(Method::GET, "/guilds").header("Origin", ORIGIN).header("Cache-Control", "no-cache").send().await,
    );
    while seen.last().unwrap().status != 429 {
        seen.push(page(&member, Method::GET, "/sessions").await);
    }
    let mut statuses: Vec<_> = seen.iter().map(|answer| answer.status).filter(|status| *status != 200).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [400, 401, 404, 405, 413, 429, 431, 500, 503]);
    for answer in seen {
        assert_eq!(allowed(&answer), Some(ORIGIN), "{}", answer.status);
        assert_eq!(answer.header("access-control-expose-headers"), "Retry-After, X-Request-Id, Age, ETag");
        never_credentials(&answer);
    }
}

#[tokio::test]
async fn a_preflight_allows_what_the_api_takes_and_has_no_body() {
    let app = TestApp::start().await;
    let preflight = |path: &str, origin: &str| {
        let call = app.anon().call(Method::OPTIONS, path).header("Origin", origin);
        call.header("Access-Control-Request-Method", "DELETE").header("Access-Control-Request-Headers", "token").send()
    };
    let paths = PUBLIC.into_iter().chain(["/none", "/auth", "/guilds", "/sessions", "/sessions/abc"]);
    for path in paths {
        let answer = preflight(path, ORIGIN).await;
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{path}");
        assert_eq!(answer.header("access-control-allow-methods"), "GET, HEAD, POST, DELETE");
        assert_eq!(
            answer.header("access-control-allow-headers"),
            "Idp-Code, Idp-Code-Verifier, Token, Sent-Epoch, If-None-Match, Cache-Control, Content-Type, traceparent, \
             tracestate, sentry-trace, baggage"
        );
        assert_eq!(answer.header("access-control-max-age"), "7200");
        assert!(!answer.has("content-length") && !answer.has("content-type"), "{:?}", answer.headers);
        assert_eq!(answer.header("cache-control"), "no-store");
        never_credentials(&answer);
        let listed = LISTED.iter().any(|(listed, _)| *listed == path);
        assert_eq!(allowed(&answer), Some(if listed { ORIGIN } else { "*" }), "{path}");
        let stranger = preflight(path, "https://evil.example").await;
        assert_eq!(allowed(&stranger), if listed { None } else { Some("*") }, "{path}");
    }
}

#[tokio::test]
async fn a_page_sees_why_it_is_refused_because_the_preflight_is_not() {
    let configuration = "[limits]\nconcurrent_requests = 1\nrequests_per_second = 1\nrequests_burst = 4";
    let app = TestApp::builder().set(configuration).start().await;
    let preflight = || {
        let call = app.anon().call(Method::OPTIONS, "/sessions").header("Origin", ORIGIN);
        call.header("Access-Control-Request-Method", "GET").header("Access-Control-Request-Headers", "token").send()
    };
    let ask = || app.anon().call(Method::GET, "/sessions").header("Origin", ORIGIN).send();
    let hold = app.sandbox.hold(Endpoint::Token);
    let signing_in = tokio::spawn({
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
        async move { call.send().await }
    });
    hold.arrived(1).await;
    for (status, error) in [(503, "overloaded"), (429, "rate_limited")] {
        let answer = preflight().await;
        assert_eq!((answer.status, allowed(&answer)), (204, Some(ORIGIN)), "{error}");
        let refused = ask().await;
        assert_eq!((refused.status, refused.error().as_str(), allowed(&refused)), (status, error, Some(ORIGIN)));
        // The fourth request of the burst.
        ask().await;
    }
    hold.release();
    assert_eq!(signing_in.await.unwrap().status, 200);
}

#[tokio::test]
async fn the_bots_side_is_for_no_page() {
    let app = TestApp::start().await;
    for path in ["/bot", "/bot/", "/bot/events", "/bot/none"] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let call = app.anon().call(method, path).header("Origin", ORIGIN);
            let answer = call.header("Access-Control-Request-Method", "POST").send().await;
            assert_ne!(answer.status, 204, "no preflight succeeds");
            let cors = answer.headers.keys().filter(|name| name.as_str().starts_with("access-control"));
            assert_eq!(cors.count(), 0, "{path} {:?}", answer.headers);
        }
    }
}

#[tokio::test]
async fn an_options_that_is_no_preflight_is_told_the_methods() {
    let app = TestApp::start().await;
    for (path, methods) in [
        ("/", "GET, HEAD, OPTIONS"),
        ("/team", "GET, HEAD, OPTIONS"),
        ("/feedback", "GET, HEAD, OPTIONS"),
        ("/stats", "GET, HEAD, OPTIONS"),
        ("/openapi.json", "GET, HEAD, OPTIONS"),
        ("/guilds", "GET, HEAD, OPTIONS"),
        ("/auth", "GET, HEAD, POST, DELETE, OPTIONS"),
        ("/me", "GET, HEAD, OPTIONS"),
        ("/guilds/1", "GET, HEAD, OPTIONS"),
        ("/guilds/invitable", "GET, HEAD, OPTIONS"),
        ("/sessions", "GET, HEAD, DELETE, OPTIONS"),
        ("/sessions/abc", "DELETE, OPTIONS"),
    ] {
        let sorted = |allow: &str| {
            let mut methods: Vec<_> = allow.split(", ").map(str::to_owned).collect();
            methods.sort();
            methods
        };
        let options = app.anon().call(Method::OPTIONS, path).send().await;
        assert_eq!((options.status, options.data()), (200, serde_json::json!({})), "{path}");
        assert_eq!(sorted(options.header("allow")), sorted(methods), "{path}");
        for method in [Method::PUT, Method::PATCH, Method::TRACE, Method::from_bytes(b"BREW").unwrap()] {
            let refused = app.anon().call(method, path).send().await;
            assert_eq!((refused.status, refused.error().as_str()), (405, "method_not_allowed"), "{path}");
            assert_eq!(sorted(refused.header("allow")), sorted(methods), "{path}");
        }
    }
    assert_eq!(app.anon().call(Method::OPTIONS, "/none").send().await.error(), "not_found");
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let app = TestApp::start().await;
    let member = app.user("member").await;
    member.get("/guilds").await;
    let paths = PUBLIC.into_iter().chain(["/guilds", "/sessions", "/none", "/auth"]);
    for path in paths {
        for client in [app.anon(), member.clone()] {
            let get = client.get(path).await;
            let head = client.call(Method::HEAD, path).send().await;
            assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
            assert_eq!(head.header("content-length"), get.body.len().to_string(), "{path}");
            let comparable = |answer: &Answer| {
                let mut headers = answer.headers.clone();
                headers.remove("date");
                headers.remove("x-request-id");
                headers
            };
            assert_eq!(comparable(&head), comparable(&get), "{path}");
        }
    }
}

#[tokio::test]
async fn nothing_follows_the_headers_of_a_head_on_the_wire() {
    let app = TestApp::start().await;
    app.anon().get("/").await;
    let mut wire = Wire::open(app.address).await;
    // Warm and cold, refused and unknown; each answer must begin where the headers before it ended.
    for (path, status) in [("/", 200), ("/team", 200), ("/guilds", 401), ("/none", 404), ("/auth", 200)] {
        wire.send(request("HEAD", path, "")).await;
        let head = wire.head().await.unwrap();
        assert_eq!(head.status, status, "{path}");
        assert_ne!(head.header("content-length"), "0", "{path}");
        let next = wire.get("/").await;
        assert_eq!(next.status, 200, "after {path}");
        next.envelope();
    }
}

#[tokio::test]
async fn a_304_claims_no_length_of_its_own() {
    let app = TestApp::start().await;
    let etag = app.anon().get("/team").await.header("etag").to_owned();
    let mut wire = Wire::open(app.address).await;
    for (method, body) in
        [("GET", ""), ("HEAD", ""), ("GET", "Content-Length: 1\r\n"), ("HEAD", "Content-Length: 1\r\n")]
    {
        let content = if body.is_empty() { "" } else { "x" };
        wire.send(request(method, "/team", &format!("If-None-Match: {etag}\r\n{body}")) + content).await;
        let head = wire.head().await.unwrap();
        assert_eq!(head.status, 304);
        // It would be the length of the client's copy, which is not 0.
        assert!(!head.has("content-length") && !head.has("transfer-encoding"), "{method}: {head:?}");
        assert!(head.header("cache-control").starts_with("public"), "{head:?}");
    }
}

#[tokio::test]
async fn everything_but_the_team_is_no_store_and_all_is_nosniff() {
    let app = TestApp::start().await;
    let member = app.user("member").await;
    let answers = [
        app.anon().get("/").await,
        app.anon().get("/feedback").await,
        app.anon().get("/openapi.json").await,
        app.anon().get("/none").await,
        app.anon().get("/guilds").await,
        app.anon().call(Method::OPTIONS, "/team").send().await,
        app.anon().call(Method::PUT, "/team").send().await,
        member.get("/guilds").await,
        member.get("/sessions").await,
        app.sign_in("nonsense").await,
        app.sign_in(&app.sandbox.issue_code("member")).await,
        member.delete("/sessions").send().await,
    ];
    for answer in &answers {
        assert_eq!(answer.header("cache-control"), "no-store", "{}", answer.text());
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("content-type"), "application/json");
        assert!(!answer.has("strict-transport-security"), "without TLS it would mean nothing");
        assert!(!answer.has("server") && !answer.has("etag"));
    }
    let team = app.anon().get("/team").await;
    assert_eq!(team.header("cache-control"), "public, max-age=60, stale-while-revalidate=300");
    assert_eq!(team.header("x-content-type-options"), "nosniff");
    let refused = app.anon().call(Method::GET, "/team").header("X", "x".repeat(20_000)).send().await;
    assert_eq!((refused.status, refused.header("cache-control")), (431, "no-store"), "errors must not be cached");
}

#[tokio::test]
async fn a_request_id_is_made_here_and_differs_each_time() {
    let app = TestApp::start().await;
    let given = app.anon().call(Method::GET, "/").header("X-Request-Id", "mine").send().await;
    assert_ne!(given.header("x-request-id"), "mine", "a stranger's is ignored");
    let other = app.anon().get("/none").await;
    assert_ne!(given.header("x-request-id"), other.header("x-request-id"));
    assert_eq!(other.error(), "not_found");
}

#[tokio::test]
async fn a_trusted_proxys_request_id_counts_in_its_shape() {
    let app = TestApp::builder().set("[http]\ntrusted_proxies = [\"127.0.0.1\"]").start().await;
    let longest = "a".repeat(64);
    let too_long = "a".repeat(65);
    for (given, taken) in [
        ("proxy_Id-1", true),
        (longest.as_str(), true),
        (too_long.as_str(), false),
        ("", false),
        ("a b", false),
        ("a\"b", false),
        ("a/b", false),
        ("<script>", false),
    ] {
        for path in ["/", "/none"] {
            let answer = app.anon().call(Method::GET, path).header("X-Request-Id", given).send().await;
            assert_eq!(answer.header("x-request-id") == given, taken, "{given:?}");
            if path == "/none" {
                assert_eq!(answer.error(), "not_found", "the body names the same id");
            }
        }
    }
}

#[tokio::test]
async fn under_a_base_path_every_route_is_below_it_and_nothing_outside() {
    let app = TestApp::builder().set("[http]\nbase_path = \"/api\"").start().await;
    let anyone = app.anon();
    for root in ["/api", "/api/", "/api?x=1", "/api/team", "/api/feedback", "/api/openapi.json"] {
        for _ in 0..2 {
            let answer = anyone.get(root).await;
            assert_eq!((answer.status, allowed(&answer)), (200, Some("*")), "{root}");
        }
    }
    for outside in ["/", "/team", "/guilds", "/auth", "/apix", "/apiteam", "/API/team", "/api//team", "/api/api/team"] {
        for method in [Method::GET, Method::POST] {
            let answer = from(&anyone, method, outside, Some(ORIGIN)).await;
            assert_eq!((answer.status, answer.error().as_str()), (404, "not_found"), "{outside}");
            assert_eq!(allowed(&answer), Some("*"), "{outside}");
        }
    }
    let code = app.sandbox.issue_code("member");
    let signed_in = anyone.post("/api/auth").header("Idp-Code", code).header("Origin", ORIGIN).send().await;
    assert_eq!((signed_in.status, allowed(&signed_in)), (200, Some(ORIGIN)));
    let member = anyone.with_token(signed_in.data()["token"].as_str().unwrap());
    for _ in 0..2 {
        let guilds = from(&member, Method::GET, "/api/guilds", Some(ORIGIN)).await;
        assert_eq!((guilds.status, allowed(&guilds)), (200, Some(ORIGIN)));
    }
    let sessions = member.get("/api/sessions").await.data();
    let session = sessions[0]["id"].as_str().unwrap();
    assert_eq!(member.delete(&format!("/api/sessions/{session}")).send().await.status, 200);
    assert_eq!(member.get("/api/guilds").await.error(), "token_invalid");
}
