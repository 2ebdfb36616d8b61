//! Every row of the contract's error table, except those of the provider and the feed.

use std::time::Duration;

use domain::token::{self, TokenKind};
use provider::idp::Endpoint;
use reqwest::Method;
use reqwest::header::HeaderName;
use runtime::random::secret_bytes;
use sandbox::people::MEMBER;
use secrecy::ExposeSecret;

use crate::harness::{Answer, Client, TestApp, eventually, id, raw};

/// Everything that needs a session.
const WITH_TOKEN: [(Method, &str); 5] = [
    (Method::GET, "/guilds"),
    (Method::GET, "/sessions"),
    (Method::DELETE, "/sessions"),
    (Method::DELETE, "/sessions/abcdefghijklmnop"),
    (Method::DELETE, "/auth"),
];

/// A well-formed token that nobody has.
fn made_up(kind: TokenKind) -> String {
    token::generate(kind, secret_bytes).expose_secret().to_owned()
}

async fn sign_in_with(client: &Client, headers: &[(&str, &[u8])]) -> Answer {
    headers.iter().fold(client.post("/auth"), |call, (name, value)| call.header(name, value)).send().await
}

/// Sends exactly these bytes and reads the answer, whose body has a known length.
async fn exchanged(app: &TestApp, request: &str) -> Answer {
    let text = raw(app.address, request.as_bytes()).await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
    let pairs = lines.map(|line| line.split_once(": ").unwrap());
    let headers = pairs.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect();
    Answer { status, headers, body: body.into(), version: reqwest::Version::HTTP_11 }
}

#[tokio::test]
async fn a_code_that_is_missing_or_malformed_is_refused_without_asking_the_provider() {
    let app = TestApp::start().await;
    let (longest, long) = ("x.Y_9~z-".repeat(64), "x".repeat(513));
    let table: &[(&[&[u8]], &str)] = &[
        (&[], "idp_code_missing"),
        (&[b""], "idp_code_missing"),
        (&[b"   "], "idp_code_missing"),
        (&[long.as_bytes()], "idp_code_malformed"),
        (&[b"a b"], "idp_code_malformed"),
        (&[b"a\tb"], "idp_code_malformed"),
        (&["cöde".as_bytes()], "idp_code_malformed"),
        (&[b"a\xff"], "idp_code_malformed"),
        (&[b"a", b"b"], "idp_code_malformed"),
        (&[b"a", b"a"], "idp_code_malformed"),
        (&[b"", b"a"], "idp_code_malformed"),
        (&[b"../../etc/passwd"], "idp_code_malformed"),
        (&[b"<script>"], "idp_code_malformed"),
        (&[b"a%00"], "idp_code_malformed"),
        (&[b"a'or'1'='1"], "idp_code_malformed"),
        (&[b"a+b"], "idp_code_malformed"),
    ];
    for (values, error) in table {
        let headers: Vec<_> = values.iter().map(|value| ("Idp-Code", *value)).collect();
        sign_in_with(&app.anon(), &headers).await.refused(400, error);
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), 0);
    app.sign_in(&longest).await.refused(401, "idp_code_rejected");
    assert_eq!(app.sandbox.calls(Endpoint::Token), 1);
}

#[tokio::test]
async fn a_malformed_verifier_is_refused_and_so_is_an_empty_one() {
    let app = TestApp::start().await;
    let long = "x".repeat(513);
    let code = app.sandbox.issue_code("owner");
    let table: &[&[&[u8]]] = &[
        &[long.as_bytes()],
        &[b"a b"],
        &[b"a\tb"],
        &["vérifier".as_bytes()],
        &[b"a\xff"],
        &[b"a", b"b"],
        &[b"", b""],
        &[b""],
        &[b"../../etc/passwd"],
        &[b"<script>"],
    ];
    for values in table {
        let verifiers = values.iter().map(|value| ("Idp-Code-Verifier", *value));
        let headers: Vec<_> = [("Idp-Code", code.as_bytes())].into_iter().chain(verifiers).collect();
        sign_in_with(&app.anon(), &headers).await.refused(400, "idp_code_verifier_malformed");
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), 0);
    let answer = sign_in_with(&app.anon(), &[("Idp-Code", code.as_bytes())]).await;
    assert_eq!(answer.status, 200, "the code was not used: {}", answer.text());
}

#[tokio::test]
async fn a_refused_code_a_missing_scope_and_a_blocked_user_are_told_apart() {
    let app = TestApp::start().await;
    app.app.accounts.block(id(MEMBER), "on purpose".to_owned()).await.unwrap();
    let blocked = app.sandbox.issue_code("member");
    for (code, status, error) in [
        ("refused", 401, "idp_code_rejected"),
        ("never-issued", 401, "idp_code_rejected"),
        ("no-scope", 403, "scope_missing"),
        (&blocked, 403, "user_blocked"),
    ] {
        let answer = app.sign_in(code).await.refused(status, error);
        assert!(!answer.has("www-authenticate"), "that names the session token, which is not what is wrong");
        assert!(!answer.text().contains("on purpose"), "the operator's reason is the operator's");
    }
}

#[tokio::test]
async fn a_missing_token_is_asked_for() {
    let app = TestApp::start().await;
    for (method, path) in WITH_TOKEN {
        for value in [None, Some("")] {
            let call = app.anon().call(method.clone(), path);
            let call = value.into_iter().fold(call, |call, value| call.header("Token", value));
            let answer = call.send().await.refused(401, "token_missing");
            assert!(answer.header("www-authenticate").contains("Token"), "{method} {path}");
            assert!(answer.envelope()["message"].as_str().unwrap().contains("`Token`"));
        }
    }
}

#[tokio::test]
async fn a_token_that_does_not_work_is_refused_in_the_same_words_whatever_is_wrong_with_it() {
    let app = TestApp::start().await;
    let expired = app.user("owner").await.token().to_owned();
    app.clock.advance(Duration::from_hours(7 * 24));
    let revoked = app.user("manager").await;
    assert_eq!(revoked.delete("/auth").send().await.status, 200);
    let good = app.user("member").await.token().to_owned();
    let mut mistyped = good.clone().into_bytes();
    mistyped[10] = if mistyped[10] == b'x' { b'y' } else { b'x' };
    let bearer = format!("Bearer {good}");
    let (unknown, bot_key, long) = (made_up(TokenKind::Session), made_up(TokenKind::BotKey), "x".repeat(4000));
    let table: &[&[&[u8]]] = &[
        &[b"x"],
        &[b"bcs_"],
        &[b"null"],
        &[&mistyped],
        &["töken".as_bytes()],
        &[b"\xff\xfe"],
        &[long.as_bytes()],
        &[bearer.as_bytes()],
        &[bot_key.as_bytes()],
        &[unknown.as_bytes()],
        &[expired.as_bytes()],
        &[revoked.token().as_bytes()],
        &[good.as_bytes(), good.as_bytes()],
        &[good.as_bytes(), b""],
    ];
    let mut bodies = std::collections::BTreeSet::new();
    for values in table {
        for (method, path) in WITH_TOKEN {
            let call = app.anon().call(method, path);
            let call = values.iter().fold(call, |call, value| call.header("Token", value));
            let answer = call.send().await.refused(401, "token_invalid");
            assert!(answer.header("www-authenticate").contains("Token"));
            bodies.insert(answer.text().replace(answer.header("x-request-id"), ""));
        }
    }
    assert_eq!(bodies.len(), 1, "an oracle: {bodies:?}");
    let still = app.anon().with_token(good).get("/sessions").await;
    assert_eq!(still.status, 200, "nothing of that has harmed the good one");
}

#[tokio::test]
async fn a_body_that_nobody_asked_for_is_ignored_up_to_64_kib() {
    let app = TestApp::start().await;
    for size in [1, 64 * 1024] {
        let code = app.sandbox.issue_code("owner");
        let answer = app.anon().post("/auth").header("Idp-Code", &code).body(vec![b'{'; size]).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = app.anon().call(Method::GET, "/team").body(vec![0; size]).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let chunked = format!(
            "GET /team HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{}\r\n0\r\n\r\n",
            "x".repeat(size)
        );
        assert_eq!(exchanged(&app, &chunked).await.status, 200);
    }
}

#[tokio::test]
async fn query_strings_are_ignored() {
    let app = TestApp::start().await;
    let signed_in =
        app.anon().post("/auth?code=x&&%00=%ff").header("Idp-Code", app.sandbox.issue_code("owner")).send().await;
    assert_eq!(signed_in.status, 200, "{}", signed_in.text());
    let user = app.anon().with_token(signed_in.data()["token"].as_str().unwrap());
    for path in ["/?x", "/team?a=b", "/feedback?limit=100", "/guilds?token=x", "/sessions?%zz"] {
        assert_eq!(user.get(path).await.status, 200, "{path}");
    }
    user.get("/nothing?x").await.refused(404, "not_found");
    assert_eq!(user.delete("/auth?x=1").send().await.status, 200);
}

#[tokio::test]
async fn a_request_that_takes_too_long_ends_with_an_answer() {
    let app = TestApp::builder().set("[limits]\nrequest_timeout = \"50ms\"").start().await;
    let held = app.sandbox.hold(Endpoint::Token);
    app.sign_in(&app.sandbox.issue_code("owner")).await.refused(503, "timeout").retry_after();
    held.release();
}

#[tokio::test]
async fn a_write_that_another_process_keeps_out_is_a_503_and_works_later() {
    let app = TestApp::builder().set("store.wait = \"5s\"").start().await;
    let user = app.user("owner").await;
    let other = app.folder.keep_out().await;
    let answer = user.delete("/auth").send().await.refused(503, "store_unavailable");
    answer.retry_after();
    assert_nothing_internal(&answer);
    assert_eq!(user.get("/sessions").await.status, 200, "reads go on");
    drop(other);
    eventually("the write works", async || user.delete("/auth").send().await.status == 200).await;
}

#[tokio::test]
async fn a_bug_is_a_500_that_tells_nothing_internal() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    app.folder.sql("DROP TABLE sessions; DROP TABLE code_claims").await;
    for answer in [
        app.anon().with_token(made_up(TokenKind::Session)).get("/guilds").await,
        user.get("/sessions").await,
        app.sign_in("owner").await,
    ] {
        assert_nothing_internal(&answer.refused(500, "internal"));
    }
}

/// Asserts that there is no SQL, no file name, and nothing from the store.
fn assert_nothing_internal(answer: &Answer) {
    let text = answer.text().to_lowercase();
    for word in ["sql", "table", "lock", "busy", "data.db", "code_claims", "store failed", "/"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}
