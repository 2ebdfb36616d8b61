//! The fast path for hot reads and the router answer identically, byte for byte. The fast path declines a request with a
//! one-byte body, which no route defines, so the same request with and without it goes both ways.

use domain::{Change, Permission};
use provider::idp::Endpoint;
use reqwest::Method;
use sandbox::people::MEMBER;

use crate::harness::{
    Answer, ORIGIN, TestApp, Wire, eventually, feedback, guild, listed, request, subscription, team, team_member,
};

/// A service with one entry of everything, all answers cached, and a session's token.
async fn warm() -> (TestApp, String) {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(1, 0)]);
    app.bot_says([
        Change::Guild(guild(1, "one", MEMBER)),
        Change::Subscription(subscription(MEMBER, &[1], None)),
        // One entry: its draw is the same for every seed.
        Change::Feedback(feedback("a", 5)),
        // Long enough to be compressed.
        team((1..9).map(|place| team_member(MEMBER, "Pip", "support", place, &[Permission::Support])).collect()),
    ])
    .await;
    let member = app.user("member").await;
    eventually("the feedback is cached", async || app.app.views.feedback.cached(1).is_some()).await;
    for path in ["/", "/team", "/feedback", "/stats", "/guilds"] {
        assert_eq!(member.get(path).await.status, 200);
        assert_eq!(member.call(Method::GET, path).header("Accept-Encoding", "gzip").send().await.status, 200);
    }
    let token = member.token().to_owned();
    (app, token)
}

/// The parts of an answer that must not depend on the path taken.
fn comparable(answer: &Answer) -> (u16, Vec<(String, String)>, String) {
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "x-request-id" | "date"))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.sort();
    (answer.status, headers, String::from_utf8_lossy(&answer.body).replace(answer.header("x-request-id"), "<id>"))
}

async fn send(app: &TestApp, method: &Method, path: &str, headers: &[(&str, &str)], body: bool) -> Answer {
    let call = app.anon().call(method.clone(), path);
    let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
    if body { call.body("x") } else { call }.send().await
}

#[tokio::test]
async fn both_ways_give_the_same_bytes() {
    let (app, token) = warm().await;
    let etag = app.anon().get("/team").await.header("etag").to_owned();
    let stats = app.anon().get("/stats").await.header("etag").to_owned();
    let wrong_checksum = format!("{}{}", &token[..token.len() - 1], if token.ends_with('A') { 'B' } else { 'A' });
    let origins: [&[(&str, &str)]; 4] =
        [&[], &[("Origin", ORIGIN)], &[("Origin", "https://evil.example")], &[("Origin", "null")]];
    let unknown = "bcs_0000000000000000000000000000000000000";
    let extras: [&[(&str, &str)]; 14] = [
        &[],
        &[("Token", &token)],
        &[("Token", &wrong_checksum)],
        &[("Token", unknown)],
        &[("Token", "")],
        &[("Token", &token), ("Token", &token)],
        &[("If-None-Match", &etag)],
        &[("If-None-Match", &stats)],
        &[("If-None-Match", "\"other\"")],
        &[("Sent-Epoch", "1799999999.25")],
        &[("Sent-Epoch", "later")],
        &[("Token", &token), ("Cache-Control", "max-age=0"), ("X-Request-Id", "mine"), ("Accept-Encoding", "br")],
        &[("Token", &token), ("Accept-Encoding", "gzip")],
        &[("If-None-Match", &etag), ("Accept-Encoding", "gzip")],
    ];
    let mut compared = 0;
    for method in [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS] {
        for path in ["/", "/?query=1", "/team", "/feedback", "/stats", "/guilds", "/guilds?x", "/team/", "/none"] {
            for headers in origins.iter().flat_map(|origin| extras.iter().map(|extra| [*origin, *extra].concat())) {
                let short = send(&app, &method, path, &headers, false).await;
                let long = send(&app, &method, path, &headers, true).await;
                assert_eq!(comparable(&short), comparable(&long), "{method} {path} {headers:?}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4 * 9 * 56);
}

#[tokio::test]
async fn both_ways_refuse_with_the_same_bytes() {
    let limits = "[limits]\nrequests_per_second = 1\nrequests_burst = 20";
    let app = TestApp::builder().set(limits).adjust(|config| config.limits.concurrent_exchanges = 1).start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let running = tokio::spawn(app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("member")).send());
    hold.arrived(1).await;
    // Duplicates go to the router. A body is no use here: a refusal leaves it unread, and closes the connection.
    let twice = [("Cache-Control", "max-age=0"), ("Cache-Control", "max-age=0")];
    let origins: [&[(&str, &str)]; 3] = [&[], &[("Origin", ORIGIN)], &[("Origin", "https://evil.example")]];
    for origin in origins {
        let headers = [origin, &[("Idp-Code", "another")]].concat();
        let short = send(&app, &Method::POST, "/auth", &headers, false).await;
        let long = send(&app, &Method::POST, "/auth", &[&headers[..], &twice].concat(), false).await;
        assert_eq!((short.error().as_str(), short.header("retry-after")), ("overloaded", "1"));
        assert_eq!(comparable(&short), comparable(&long), "{origin:?}");
    }
    hold.release();
    assert_eq!(running.await.unwrap().status, 200);
    while app.anon().get("/nowhere").await.status != 429 {}
    for (method, path) in
        [(Method::GET, "/"), (Method::HEAD, "/team"), (Method::GET, "/guilds"), (Method::POST, "/auth")]
    {
        for origin in origins {
            let short = send(&app, &method, path, origin, false).await;
            let long = send(&app, &method, path, &[origin, &twice].concat(), false).await;
            assert_eq!((short.status, short.header("retry-after")), (429, "1"), "{method} {path}");
            assert_eq!(comparable(&short), comparable(&long), "{method} {path} {origin:?}");
        }
    }
}

/// The bytes of a `GET`.
fn written(path: &str, headers: &[(&str, &str)]) -> String {
    request("GET", path, &headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>())
}

#[tokio::test]
async fn it_does_not_matter_whether_hyper_has_parsed_a_request() {
    let (app, token) = warm().await;
    let etag = app.anon().get("/team").await.header("etag").to_owned();
    let extras: [&[(&str, &str)]; 4] = [
        &[],
        &[("Token", &token), ("Origin", ORIGIN)],
        &[("Token", &token), ("Accept-Encoding", "gzip")],
        &[("If-None-Match", &etag)],
    ];
    for (path, headers) in ["/", "/team", "/feedback", "/stats", "/guilds", "/ready"]
        .iter()
        .flat_map(|path| extras.map(|extra| (path, extra)))
    {
        let mut wire = Wire::open(app.address).await;
        wire.send(written(path, headers)).await;
        let alone = wire.answer().await.unwrap();
        // Two at once are left to hyper, and so is everything after them.
        wire.send([written("/ready", &[]), written(path, headers)].concat()).await;
        assert_eq!(wire.answer().await.unwrap().status, 200);
        let second = wire.answer().await.unwrap();
        assert_eq!(comparable(&alone), comparable(&second), "{path} {headers:?}");
    }
}

#[tokio::test]
async fn requests_of_all_kinds_are_answered_in_turn_on_one_connection() {
    let (app, token) = warm().await;
    let token = [("Token", token.as_str())];
    let (hot, unknown) = (written("/guilds", &token), written("/nowhere", &token));
    let query = written("/team?a=b", &[]);
    let post = request("POST", "/auth", "Idp-Code: never-issued\r\n");
    let with_body = request("POST", "/auth", "Idp-Code: never-issued\r\nContent-Length: 4\r\n") + "GET ";
    let alone = [(&hot, 200), (&unknown, 404), (&hot, 200), (&post, 401), (&query, 200), (&hot, 200), (&hot, 200)];
    let mut wire = Wire::open(app.address).await;
    for (index, (request, status)) in alone.iter().enumerate() {
        wire.send(request).await;
        assert_eq!(wire.answer().await.unwrap().status, *status, "request {index}");
    }
    // All at once, byte by byte, and with bodies that look like requests.
    let everything: Vec<(&String, u16)> =
        alone.into_iter().chain([(&with_body, 401), (&hot, 200), (&unknown, 404)]).collect();
    wire.send(everything.iter().map(|(request, _)| request.as_str()).collect::<String>()).await;
    for (index, (_, status)) in everything.iter().enumerate() {
        assert_eq!(wire.answer().await.unwrap().status, *status, "request {index} of many at once");
    }
    let mut wire = Wire::open(app.address).await;
    wire.send(&hot).await;
    assert_eq!(wire.answer().await.unwrap().status, 200);
    for byte in hot.as_bytes() {
        wire.send([*byte]).await;
    }
    assert_eq!(wire.answer().await.unwrap().status, 200);
    wire.send(&unknown).await;
    assert_eq!(wire.answer().await.unwrap().status, 404);
}

#[tokio::test]
async fn without_a_body_warm_reads_take_the_short_way() {
    let (app, token) = warm().await;
    // With every permit taken, whatever needs the router is turned away.
    let places = app.app.request_permits.available_permits();
    let _all = app.app.request_permits.acquire_many(u32::try_from(places).unwrap()).await.unwrap();
    for method in [Method::GET, Method::HEAD] {
        for path in ["/", "/team", "/feedback", "/stats", "/guilds"] {
            let headers = [("Token", token.as_str()), ("Origin", ORIGIN), ("Accept-Encoding", "gzip")];
            assert_eq!(send(&app, &method, path, &headers, false).await.status, 200, "{method} {path}");
            assert_eq!(send(&app, &method, path, &headers, true).await.status, 503, "{method} {path}");
        }
    }
    let fresh = [("Token", token.as_str()), ("Cache-Control", "no-cache")];
    assert_eq!(send(&app, &Method::GET, "/guilds", &fresh, false).await.status, 503, "a refresh is the router's");
}
