//! Requests that no browser sends: smuggling, odd targets and methods, broken or huge headers.

use provider::idp::Endpoint;

use crate::harness::{Answer, TestApp, Wire, raw, request};

/// Sends these bytes on a new connection and returns the one answer.
async fn answer(app: &TestApp, bytes: impl AsRef<[u8]>) -> Answer {
    let mut wire = Wire::open(app.address).await;
    wire.send(bytes).await;
    wire.answer().await.expect("an answer")
}

/// The first line of the response.
async fn first_line(app: &TestApp, bytes: &[u8]) -> String {
    raw(app.address, bytes).await.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn what_is_hidden_behind_two_lengths_is_never_a_request_of_its_own() {
    let app = TestApp::start().await;
    let code = app.sandbox.issue_code("owner");
    let hidden = request("POST", "/auth", &format!("Idp-Code: {code}\r\n"));
    let lengths = [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", hidden.len() + 5),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", hidden.len() + 5),
        format!("Content-Length: {}\r\nContent-Length: 5\r\n", hidden.len() + 5),
        "Content-Length: 5, 6\r\n".to_owned(),
        "Content-Length: +5\r\n".to_owned(),
        "Content-Length: 0x5\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n".to_owned(),
        "Transfer-Encoding:\x0bchunked\r\n".to_owned(),
        "Content-Length : 5\r\n".to_owned(),
    ];
    for lengths in lengths {
        let bytes = format!("{}0\r\n\r\n{hidden}", request("POST", "/team", &lengths));
        let all = raw(app.address, bytes.as_bytes()).await;
        assert!(!all.contains(" 200 ") && !all.contains("bcs_"), "{lengths:?}: {all}");
        assert!(all.matches("HTTP/1.1 ").count() <= 1, "{lengths:?}: one answer at most: {all}");
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), 0);
}

#[tokio::test]
async fn broken_chunks_end_the_connection() {
    let app = TestApp::start().await;
    let chunks =
        ["zz\r\nabc\r\n0\r\n\r\n", "-1\r\n", "ffffffffffffffffff\r\nabc", "5;\r\nhello!!\r\n0\r\n\r\n", "5\rhello"];
    for chunks in chunks {
        let hidden = request("GET", "/team", "");
        let bytes = format!("{}{chunks}{hidden}", request("GET", "/nowhere", "Transfer-Encoding: chunked\r\n"));
        let all = raw(app.address, bytes.as_bytes()).await;
        assert!(!all.contains(" 200 "), "{chunks:?}: {all}");
        assert!(all.matches("HTTP/1.1 ").count() <= 1, "{chunks:?}: one answer at most: {all}");
    }
    assert_eq!(app.anon().get("/").await.status, 200);
}

#[tokio::test]
async fn good_chunks_are_read_and_forgotten() {
    let app = TestApp::start().await;
    let mut wire = Wire::open(app.address).await;
    wire.send(request("GET", "/team", "Transfer-Encoding: chunked\r\n")).await;
    wire.send("5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nTrailer: z\r\n\r\n").await;
    assert_eq!(wire.answer().await.unwrap().status, 200);
    assert_eq!(wire.get("/").await.status, 200, "the connection goes on after it");
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    let app = TestApp::start().await;
    let mut wire = Wire::open(app.address).await;
    wire.send(request("GET", "/team", "Expect: 100-continue\r\nContent-Length: 5\r\n")).await;
    assert_eq!(wire.answer().await.unwrap().status, 100);
    wire.send("hello").await;
    assert_eq!(wire.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_body_over_64_kib_is_refused_however_it_comes() {
    let app = TestApp::start().await;
    for (method, path) in [("POST", "/auth"), ("GET", "/team"), ("GET", "/"), ("GET", "/nowhere")] {
        let told = answer(&app, request(method, path, "Content-Length: 65537\r\n")).await;
        assert_eq!((told.status, told.error().as_str()), (413, "body_too_large"), "{method} {path}");
    }
    let mut wire = Wire::open(app.address).await;
    wire.send(request("POST", "/auth", "Transfer-Encoding: chunked\r\n")).await;
    // The service may have answered and closed before the last of them.
    for _ in 0..17 {
        let _ = wire.try_send(format!("1000\r\n{}\r\n", "x".repeat(4096))).await;
    }
    let counted = wire.answer().await.unwrap();
    assert_eq!((counted.status, counted.error().as_str()), (413, "body_too_large"));
    let most = format!("{}{}", request("GET", "/team", "Content-Length: 65536\r\n"), "x".repeat(65536));
    assert_eq!(answer(&app, most).await.status, 200);
}

#[tokio::test]
async fn every_form_of_target_gets_an_envelope() {
    let app = TestApp::start().await;
    let table = [
        ("GET", "http://elsewhere.example/team", 200),
        ("GET", "http://elsewhere.example", 200),
        ("GET", "/team?a=b&c", 200),
        ("GET", "/team?", 200),
        ("OPTIONS", "*", 404),
        ("GET", "//team", 404),
        ("GET", "/team/", 404),
        ("GET", "/./team", 404),
        ("GET", "/x/../team", 404),
        ("GET", "/Team", 404),
        ("GET", "/team%00", 404),
        ("POST", "/nowhere", 404),
        ("DELETE", "/sessions/a/b", 404),
        ("PUT", "/nowhere", 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET", "/team%", 404),
        ("GET", "/%ff", 404),
        ("GET", "/sessions/%ff", 405),
        ("CONNECT", "elsewhere.example:443", 405),
    ];
    for (method, target, status) in table {
        let answer = answer(&app, request(method, target, "")).await;
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
        answer.envelope();
    }
}

#[tokio::test]
async fn a_percent_encoded_path_is_never_taken_for_another_resource() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    for target in ["/%67uilds", "/guilds%2f", "/guilds%3f", "/a/%2e%2e/guilds", "/guilds%20"] {
        let answer = answer(&app, request("GET", target, &format!("Token: {}\r\n", user.token()))).await;
        assert_eq!((answer.status, answer.error().as_str()), (404, "not_found"), "{target}");
    }
}

#[tokio::test]
async fn http_1_0_is_answered_and_closed() {
    let app = TestApp::start().await;
    let all = raw(app.address, b"GET /team HTTP/1.0\r\n\r\n").await;
    assert!(all.starts_with("HTTP/1.0 200 OK\r\n") && all.contains("{\"code\":200,"), "{all}");
    let mut wire = Wire::open(app.address).await;
    for _ in 0..2 {
        wire.send("GET /team HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
        assert_eq!(wire.answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_client_that_asks_to_close_is_answered_and_closed() {
    let app = TestApp::start().await;
    let mut wire = Wire::open(app.address).await;
    wire.send(request("GET", "/team", "Connection: close\r\n")).await;
    assert_eq!(wire.answer().await.unwrap().header("connection"), "close");
    assert_eq!(wire.rest().await, "");
}

#[tokio::test]
async fn methods_that_nobody_defined_get_405_and_what_there_is() {
    let app = TestApp::start().await;
    for method in ["get", "PUT", "PATCH", "POST", "TRACE", "BREW", "M-SEARCH", "PRI"] {
        let answer = answer(&app, request(method, "/team", "")).await;
        assert_eq!((answer.status, answer.error().as_str()), (405, "method_not_allowed"), "{method}");
        assert_eq!(answer.header("allow"), "GET, HEAD, OPTIONS", "{method}");
    }
}

#[tokio::test]
async fn bytes_that_are_not_http_get_a_bare_400_and_are_closed() {
    let app = TestApp::start().await;
    let table: [&[u8]; 11] = [
        b"GET /team HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
        b"GET /team HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n",
        b"GET /team HTTP/1.1\r\nHost: a\r\nX\x00: a\r\n\r\n",
        b"GET /team HTTP/1.1\r\nHost: a\r\nX y: a\r\n\r\n",
        b"GET /team HTTP/1.1\r\nHost: a\r\nX: a\r\n folded\r\n\r\n",
        b"GET /team HTTP/1.1\r\n: empty\r\n\r\n",
        b"GET /te am HTTP/1.1\r\n\r\n",
        b"GET /team\x00 HTTP/1.1\r\n\r\n",
        b"GET /team HTTP/3.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\r\n\r\nnonsense\r\n\r\n",
    ];
    for bytes in table {
        assert_eq!(first_line(&app, bytes).await, "HTTP/1.1 400 Bad Request", "{:?}", bytes.escape_ascii().to_string());
    }
    assert_eq!(app.anon().get("/").await.status, 200);
}

#[tokio::test]
async fn a_credential_that_comes_twice_is_refused() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    let token = user.token();
    let twice = answer(&app, request("GET", "/guilds", &format!("Token: {token}\r\nToken: {token}\r\n"))).await;
    assert_eq!((twice.status, twice.error().as_str()), (401, "token_invalid"));
    let (first, second) = (app.sandbox.issue_code("owner"), app.sandbox.issue_code("member"));
    let calls = app.sandbox.calls(Endpoint::Token);
    let twice = answer(&app, request("POST", "/auth", &format!("Idp-Code: {first}\r\nidp-code: {second}\r\n"))).await;
    assert_eq!((twice.status, twice.error().as_str()), (400, "idp_code_malformed"));
    assert_eq!(app.sandbox.calls(Endpoint::Token), calls, "neither was used");
}

#[tokio::test]
async fn headers_over_our_bounds_get_431_in_an_envelope_and_those_within_are_served() {
    let app = TestApp::start().await;
    let many = |count: usize| (0..count).map(|index| format!("X-{index}: a\r\n")).collect::<String>();
    let long = |length: usize| format!("X-Long: {}\r\n", "a".repeat(length));
    let together = |count: usize| long(1_000).repeat(count);
    // `Host` is one of the 64.
    let table = [
        (many(63), 200),
        (many(64), 431),
        (many(200), 431),
        (long(16_000), 200),
        (long(17_000), 431),
        (long(60_000), 431),
        (together(15), 200),
        (together(20), 431),
    ];
    for path in ["/", "/team", "/nowhere"] {
        for (headers, status) in &table {
            let answer = answer(&app, request("GET", path, headers)).await;
            let expected = if (path, *status) == ("/nowhere", 200) { 404 } else { *status };
            assert_eq!(answer.status, expected, "{path} with {} bytes", headers.len());
            answer.envelope();
            if expected == 431 {
                assert_eq!(answer.error(), "headers_too_large");
            }
        }
    }
}

#[tokio::test]
async fn headers_beyond_the_parser_get_a_bare_431() {
    let app = TestApp::start().await;
    let many = (0..300).map(|index| format!("X-{index}: a\r\n")).collect::<String>();
    let long = format!("X-Long: {}\r\n", "a".repeat(200_000));
    for headers in [many, long] {
        let line = first_line(&app, request("GET", "/", &headers).as_bytes()).await;
        assert_eq!(line, "HTTP/1.1 431 Request Header Fields Too Large");
    }
    assert_eq!(app.anon().get("/").await.status, 200);
}

#[tokio::test]
async fn a_very_long_address_is_no_harm() {
    let app = TestApp::start().await;
    let long = answer(&app, request("GET", &format!("/{}", "a".repeat(20_000)), "")).await;
    assert_eq!((long.status, long.error().as_str()), (404, "not_found"));
    let query = answer(&app, request("GET", &format!("/team?{}", "a".repeat(20_000)), "")).await;
    assert_eq!(query.status, 200);
    let line = first_line(&app, request("GET", &format!("/{}", "a".repeat(200_000)), "").as_bytes()).await;
    assert!(line.starts_with("HTTP/1.1 431 ") || line.starts_with("HTTP/1.1 414 "), "{line:?}");
    assert_eq!(app.anon().get("/").await.status, 200);
}

#[tokio::test]
async fn a_request_whose_body_breaks_off_is_not_carried_out() {
    let app = TestApp::start().await;
    let code = app.sandbox.issue_code("owner");
    let broken = format!("Idp-Code: {code}\r\nTransfer-Encoding: chunked\r\n");
    raw(app.address, (request("POST", "/auth", &broken) + "zz\r\nno chunk").as_bytes()).await;
    assert_eq!(app.sandbox.calls(Endpoint::Token), 0);
    assert_eq!(app.sign_in(&code).await.status, 200, "the code is as good as before");
}

#[tokio::test]
async fn a_success_that_leaves_a_body_unread_closes_too() {
    let app = TestApp::start().await;
    let body = "x".repeat(70_000);
    let head = format!("Content-Length: {}\r\n", body.len());
    let asked = answer(&app, request("OPTIONS", "/bot/heartbeat", &head) + &body).await;
    assert_eq!((asked.status, asked.header("connection")), (200, "close"));
}
