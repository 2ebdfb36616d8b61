//! The `Host` header, how a body is framed, and what a refusal means for the connection: anything that two programs on the way
//! could read differently is refused, and the connection ends with it.

use crate::harness::binary::{Running, command};
use crate::harness::{Answer, Folder, TestApp, Wire, raw};

/// Sends these bytes and returns the one answer, after which the service has to close the connection.
async fn last_answer(app: &TestApp, bytes: impl AsRef<[u8]>) -> Answer {
    let mut wire = Wire::open(app.address).await;
    wire.send(bytes).await;
    let answer = wire.answer().await.expect("an answer");
    assert_eq!(answer.header("connection"), "close", "{}", answer.text());
    assert_eq!(wire.rest().await, "", "nothing more comes");
    answer
}

#[tokio::test]
async fn a_host_that_is_missing_repeated_or_malformed_is_refused_in_the_envelope() {
    let app = TestApp::start().await;
    let headers: [&[u8]; 15] = [
        b"",
        b"Host: suite\r\nHost: suite\r\n",
        b"Host: suite\r\nHost: other\r\n",
        b"Host:\r\n",
        b"Host: a b\r\n",
        b"Host: a/b\r\n",
        b"Host: user@suite\r\n",
        b"Host: suite:port\r\n",
        b"Host: suite:80:80\r\n",
        b"Host: suite:123456\r\n",
        b"Host: [::1\r\n",
        b"Host: [suite]\r\n",
        b"Host: ::1\r\n",
        b"Host: s\xc3\xbcite\r\n",
        b"Host: suite%\r\n",
    ];
    // The fast path and the router.
    for start in ["GET /", "GET /team", "GET /nowhere", "POST /auth", "GET http://suite/team"] {
        for host in headers {
            let bytes = [start.as_bytes(), b" HTTP/1.1\r\n", host, b"\r\n"].concat();
            let shown = bytes.escape_ascii().to_string();
            let answer = last_answer(&app, bytes).await;
            assert_eq!((answer.status, answer.error().as_str()), (400, "host_invalid"), "{shown}");
        }
    }
    let older = last_answer(&app, "GET /team HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").await;
    assert_eq!(older.error(), "host_invalid", "several are refused in every version");
}

#[tokio::test]
async fn every_good_host_is_served() {
    let app = TestApp::start().await;
    let hosts = [
        "suite",
        "api.dashboard.example",
        "SUITE:8080",
        "suite:",
        "under_score",
        "127.0.0.1:80",
        "[::1]",
        "[2001:db8::1]:443",
        "suite.",
        "%C3%BC.example",
    ];
    let mut wire = Wire::open(app.address).await;
    for host in hosts {
        for path in ["/", "/team", "http://elsewhere.example/team"] {
            wire.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            let answer = wire.answer().await.expect("it stays open");
            assert_eq!((answer.status, answer.has("connection")), (200, false), "{host}: {}", answer.text());
        }
    }
    let older = raw(app.address, b"GET /team HTTP/1.0\r\n\r\n").await;
    assert!(older.starts_with("HTTP/1.0 200 OK\r\n"), "HTTP/1.0 knows no Host: {older}");
}

#[tokio::test]
async fn a_transfer_encoding_other_than_chunked_is_refused_and_ends_the_connection() {
    let app = TestApp::start().await;
    for coding in [
        "gzip, chunked",
        "identity, chunked",
        ", chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "\x22chunked\x22, chunked",
    ] {
        for start in ["POST /auth", "GET /", "POST /bot/events"] {
            let head = format!("{start} HTTP/1.1\r\nHost: suite\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n");
            let answer = last_answer(&app, head + "GET /team HTTP/1.1\r\nHost: suite\r\n\r\n").await;
            assert_eq!((answer.status, answer.error().as_str()), (400, "body_broken"), "{start} {coding:?}");
        }
    }
    // Anything that does not end with `chunked` has no end that the parser could find.
    for coding in ["gzip", "identity", "chunked, gzip", "xchunked", "chunked;a=b"] {
        let head = format!("POST /auth HTTP/1.1\r\nHost: suite\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n");
        let all = raw(app.address, head.as_bytes()).await;
        assert!(all.starts_with("HTTP/1.1 400 ") && all.matches("HTTP/1.1 ").count() == 1, "{coding}: {all}");
        assert!(all.contains("\r\nconnection: close\r\n"), "{coding}: {all}");
    }
    let mut wire = Wire::open(app.address).await;
    wire.send("GET /team HTTP/1.1\r\nHost: suite\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n").await;
    assert_eq!(wire.answer().await.unwrap().status, 200);
    assert_eq!(wire.get("/").await.status, 200, "chunked alone is fine, in any case of letters");
}

#[tokio::test]
async fn beside_chunked_a_length_counts_for_nothing_and_the_connection_ends() {
    let app = TestApp::start().await;
    let hidden = "GET /team HTTP/1.1\r\nHost: suite\r\n\r\n";
    for lengths in
        ["Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5"]
    {
        let head = format!("GET /nowhere HTTP/1.1\r\nHost: suite\r\n{lengths}\r\n\r\n0\r\n\r\n");
        let all = raw(app.address, (head + hidden).as_bytes()).await;
        assert!(all.starts_with("HTTP/1.1 404 ") && all.matches("HTTP/1.1 ").count() == 1, "{lengths:?}: {all}");
        assert!(all.contains("\r\nconnection: close\r\n"), "{lengths:?}: {all}");
    }
}

#[tokio::test]
async fn a_refusal_that_leaves_a_body_unread_says_that_the_connection_ends() {
    let app = TestApp::builder()
        .set("[limits]\nrequests_per_second = 1\nrequests_burst = 6\nrequest_timeout = \"200ms\"")
        .start()
        .await;
    let head = |start: &str, rest: &str| format!("{start} HTTP/1.1\r\nHost: suite\r\n{rest}\r\n");
    let long = format!("X-Long: {}\r\nContent-Length: 10\r\n", "a".repeat(17_000));
    let table = [
        (head("POST /auth", "Content-Length: 65537\r\n"), 413, "body_too_large"),
        (head("POST /auth", "Transfer-Encoding: chunked\r\n") + "zz\r\n", 400, "body_broken"),
        (head("POST /bot/events", "Content-Length: 10\r\n"), 401, "bot_key_invalid"),
        (head("POST /auth", &long), 431, "headers_too_large"),
        (head("POST /auth", "Content-Length: 10\r\n"), 408, "request_timeout"),
    ];
    for (bytes, status, error) in table {
        let answer = last_answer(&app, bytes).await;
        assert_eq!((answer.status, answer.error().as_str()), (status, error));
    }
    // If the whole request was read, the connection continues after a refusal.
    let mut wire = Wire::open(app.address).await;
    wire.send(head("POST /auth", "Content-Length: 3\r\n") + "abc").await;
    let refused = wire.answer().await.unwrap();
    assert_eq!((refused.error().as_str(), refused.has("connection")), ("idp_code_missing", false));
    assert_eq!(wire.get("/").await.status, 200);
    let limited = last_answer(&app, head("POST /auth", "Content-Length: 10\r\n")).await;
    assert_eq!(limited.error(), "rate_limited");
}

#[tokio::test]
async fn dev_and_its_sandbox_answer_to_loopback_names_only() {
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let service = Running::start(command(&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()])).await;
    let banner = std::fs::read_to_string(&service.output).unwrap();
    let sign_in = banner.lines().find_map(|line| line.trim().strip_prefix("sign-in    http://")).unwrap();
    let (sandbox, page) = sign_in.split_once('/').unwrap();
    let (sandbox, page) = (sandbox.parse().unwrap(), format!("/{page}"));
    for (address, path) in [(service.address, "/"), (service.address, "/nowhere"), (sandbox, page.as_str())] {
        let found = if path == "/nowhere" { 404 } else { 200 };
        for (host, status) in [
            ("localhost", found),
            ("LocalHost:1", found),
            ("127.0.0.1:8080", found),
            ("127.9.8.7", found),
            ("[::1]:8080", found),
            ("rebound.example", 400),
            ("localhost.rebound.example", 400),
            ("127.0.0.1.rebound.example", 400),
            ("128.0.0.1", 400),
            ("[::2]", 400),
            ("[::ffff:10.0.0.1]", 400),
            ("0.0.0.0", 400),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let all = raw(address, request.as_bytes()).await;
            assert!(all.starts_with(&format!("HTTP/1.1 {status} ")), "{path} for {host}: {all}");
        }
    }
    let absolute = "GET http://rebound.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let all = raw(service.address, absolute.as_bytes()).await;
    assert!(all.starts_with("HTTP/1.1 400 ") && all.contains("host_invalid"), "{all}");
}
