//! The provider's rows of the contract's error table: whatever it does, the answer is ours, without any of its words.

use provider::idp::Endpoint;
use sandbox::Fault;

use crate::admin::Watcher;
use crate::harness::{Answer, TestApp, eventually, suite_log};

/// Appears in everything the provider says, and never in what we say.
const MARKER: &str = "upstream-words";

/// What the client is told: status, code and the seconds of `Retry-After`.
type Told = (u16, &'static str, Option<u64>);

const DOWN: Told = (502, "idp_unavailable", None);
const SLOW: Told = (504, "idp_timeout", None);

const fn limited(seconds: u64) -> Told {
    (503, "idp_rate_limited", Some(seconds))
}

fn says(code: u16, body: &str) -> Fault {
    Fault::Status { code, body: body.replace('~', MARKER), headers: vec![] }
}

/// What can happen to any call.
fn faults() -> Vec<(Fault, Told)> {
    let limit = |retry_after, json| Fault::RateLimited { retry_after, json, global: false };
    let elsewhere = vec![("Location".to_owned(), "/api/v10/users/@me".to_owned())];
    vec![
        (limit(Some(2.5), true), limited(3)),
        (limit(Some(0.0), true), limited(1)),
        (limit(Some(7.0), false), limited(7)),
        (limit(None, true), limited(5)),
        (limit(None, false), limited(5)),
        (limit(Some(1e9), true), limited(3600)),
        (says(500, "~"), DOWN),
        (says(503, "{\"message\":\"~\"}"), DOWN),
        (says(403, "<html>~"), DOWN),
        (says(404, "{\"message\":\"~\"}"), DOWN),
        (says(200, "~"), DOWN),
        (says(200, "{\"access_token\":\"~\"}"), DOWN),
        (says(204, ""), DOWN),
        (Fault::Status { code: 302, body: MARKER.to_owned(), headers: elsewhere }, DOWN),
        (Fault::Nonsense, DOWN),
        (Fault::Truncated, DOWN),
        (Fault::Huge, DOWN),
        (Fault::Refuse, DOWN),
        (Fault::Hang, SLOW),
    ]
}

/// A service with a short timeout if the provider hangs, and a long one otherwise.
async fn service(fault: &Fault, patience: &str) -> TestApp {
    let hangs = matches!(fault, Fault::Hang);
    TestApp::builder().set(if hangs { patience } else { "" }).start().await
}

#[track_caller]
fn check(answer: &Answer, (status, error, retry_after): Told, fault: &Fault) {
    assert_eq!((answer.status, answer.error().as_str()), (status, error), "{fault:?}");
    assert_eq!(answer.has("retry-after").then(|| answer.retry_after()), retry_after, "{fault:?}");
    let whole = format!("{:?} {}", answer.headers, answer.text());
    assert!(!whole.contains(MARKER) && !whole.contains("sandbox"), "{fault:?}: {whole}");
}

#[tokio::test]
async fn trouble_with_the_exchange_is_told_as_the_contract_says() {
    for (fault, told) in faults() {
        let app = service(&fault, "[idp]\nsign_in_timeout = \"50ms\"").await;
        app.sandbox.fail(Endpoint::Token, fault.clone());
        check(&app.sign_in(&app.sandbox.issue_code("owner")).await, told, &fault);
        assert!(app.sandbox.calls(Endpoint::Token) <= 1, "a code is never sent twice: {fault:?}");
        assert_eq!(app.sandbox.calls(Endpoint::User), 0, "no redirect is followed");
    }
}

#[tokio::test]
async fn trouble_with_the_user_is_told_as_the_contract_says() {
    // A token that is refused right after it was issued is the provider's nonsense.
    for (fault, told) in faults().into_iter().chain([(Fault::Unauthorized, DOWN)]) {
        let app = service(&fault, "[idp]\nsign_in_timeout = \"50ms\"").await;
        app.sandbox.fail(Endpoint::User, fault.clone());
        // The code is used up, so a time to wait would wrongly promise that it works later.
        let told = if told.2.is_some() { DOWN } else { told };
        check(&app.sign_in(&app.sandbox.issue_code("owner")).await, told, &fault);
    }
}

#[tokio::test]
async fn trouble_with_the_guild_list_is_told_as_the_contract_says_and_never_spoils_the_sign_in() {
    for (fault, told) in faults() {
        let app = service(&fault, "[idp]\nlist_timeout = \"50ms\"").await;
        app.sandbox.fail(Endpoint::Guilds, fault.clone());
        let user = app.user("owner").await;
        let answer = user.get("/guilds").await;
        // The service also backs off by itself, so it may be longer than the provider asked for, but never shorter.
        let hold = told.2.map(|asked| answer.retry_after().max(asked));
        check(&answer, (told.0, told.1, hold), &fault);
        // A read whose connection breaks is sent once more.
        let most = if matches!(fault, Fault::Refuse) { 2 } else { 1 };
        assert!(app.sandbox.calls(Endpoint::Guilds) <= most, "not asked again right after a failure: {fault:?}");
    }
}

#[tokio::test]
async fn refused_credentials_are_the_operators_business() {
    for fault in [Fault::InvalidClient, says(400, "{\"error\":\"invalid_client\",\"error_description\":\"~\"}")] {
        let app = TestApp::start().await;
        let watcher = Watcher::of(&app);
        watcher.sees("companion_provider_credentials_refused", 0.0).await;
        app.sandbox.fail(Endpoint::Token, fault.clone());
        let answer = app.sign_in(&app.sandbox.issue_code("owner")).await;
        let id = answer.header("x-request-id").to_owned();
        check(&answer, (502, "idp_misconfigured", None), &fault);
        // The provider refusing the service is logged separately, once per minute; this is the request that ran into it.
        eventually("a line in the log", async || {
            let log = std::fs::read(suite_log("suite")).unwrap();
            let log = String::from_utf8_lossy(&log);
            log.lines().any(|line| line.contains("idp_misconfigured") && line.contains(&id))
        })
        .await;
        watcher.sees("companion_provider_credentials_refused", 1.0).await;
        let (status, health) = watcher.health().await;
        assert_eq!((status, &health["provider"]["status"]), (200, &"failing".into()), "{health}");
        assert!(health["provider"]["reason"].as_str().unwrap().contains("idp.client_secret"), "{health}");
        // A rejected code proves nothing about our credentials; a sign-in does.
        app.sandbox.fail(Endpoint::Token, says(400, "{\"error\":\"invalid_grant\"}"));
        app.sign_in("whatever").await.refused(401, "idp_code_rejected");
        watcher.sees("companion_provider_credentials_refused", 1.0).await;
        app.sandbox.heal(Endpoint::Token);
        app.user("owner").await;
        watcher.sees("companion_provider_credentials_refused", 0.0).await;
        assert_eq!(watcher.health().await.1["provider"]["status"], "ok");
    }
}

#[tokio::test]
async fn a_refused_code_is_told_without_the_providers_words() {
    for body in [
        "{\"error\":\"invalid_grant\",\"error_description\":\"~\"}",
        "{\"error\":\"invalid_request\",\"error_description\":\"Invalid \\\"code\\\" in request. ~\"}",
    ] {
        let app = TestApp::start().await;
        let fault = says(400, body);
        app.sandbox.fail(Endpoint::Token, fault.clone());
        check(&app.sign_in("whatever").await, (401, "idp_code_rejected", None), &fault);
    }
}
