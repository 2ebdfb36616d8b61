//! Sign-in: one exchange per code, replays, PKCE and redirect addresses.

use std::time::Duration;

use provider::idp::Endpoint;
use reqwest::Url;
use sandbox::people::{self, MEMBER, OWNER};
use sandbox::{Fault, Sandbox, SandboxOptions};
use secrecy::SecretString;
use serde_json::json;

use crate::harness::{Answer, CLIENT_SECRET, ORIGIN, TestApp, claiming, eventually};

const PREVIEW: &str = "http://localhost:3000";

/// The code that the provider's page sends a browser back with, requested on these terms.
async fn consented(app: &TestApp, person: &str, terms: &[(&str, &str)]) -> String {
    let mut page = Url::parse(&app.sandbox.authorize_url()).unwrap();
    page.query_pairs_mut().extend_pairs(terms).append_pair("choice", person);
    let browser = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let answer = browser.get(page).send().await.unwrap();
    let location = Url::parse(answer.headers()["location"].to_str().unwrap()).unwrap();
    location.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned()
}

fn token_in(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.data()["token"].as_str().unwrap().to_owned()
}

/// How often a code or refresh token was sent to the provider.
fn exchanges(app: &TestApp) -> usize {
    app.sandbox.calls(Endpoint::Token)
}

#[tokio::test]
async fn a_sign_in_gives_a_token_and_the_user_and_nothing_else() {
    let app = TestApp::start().await;
    let answer = app.sign_in(&app.sandbox.issue_code("owner")).await;
    assert_eq!(answer.envelope()["message"], "OK");
    let data = answer.data();
    assert_eq!(data.as_object().unwrap().keys().collect::<Vec<_>>(), ["token", "user"]);
    let token = data["token"].as_str().unwrap();
    let random = token.strip_prefix("bcs_").unwrap();
    assert!(random.len() == 36 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let avatar = format!("https://cdn.discordapp.com/embed/avatars/{}.png", (OWNER >> 22) % 6);
    assert_eq!(
        data["user"],
        json!({"username": "marlow.quay", "name": "Marlow Quay", "id": OWNER.to_string(), "avatar": avatar})
    );
    assert_eq!(app.anon().with_token(token).get("/guilds").await.status, 200);
}

#[tokio::test]
async fn a_user_is_shown_as_the_provider_knows_them_now() {
    let app = TestApp::start().await;
    let cdn = "https://cdn.discordapp.com";
    let default = format!("{cdn}/embed/avatars/{}.png", (MEMBER >> 22) % 6);
    let table = [
        (None, None, "pip.okafor", default.clone()),
        (Some("  "), None, "pip.okafor", default.clone()),
        (
            Some("Pip \"P\" <b>🎩</b>"),
            Some("0a1b2c"),
            "Pip \"P\" <b>🎩</b>",
            format!("{cdn}/avatars/{MEMBER}/0a1b2c.png"),
        ),
        (Some("Pip"), Some("a_0a1b2c"), "Pip", format!("{cdn}/avatars/{MEMBER}/a_0a1b2c.webp?animated=true")),
        (Some("Pip"), Some("../../evil"), "Pip", default),
    ];
    for (global_name, avatar, name, shown) in table {
        app.sandbox.edit("member", |person| {
            person.global_name = global_name.map(str::to_owned);
            person.avatar = avatar.map(str::to_owned);
        });
        let user = app.sign_in(&app.sandbox.issue_code("member")).await.data()["user"].clone();
        let expected = json!({"username": "pip.okafor", "name": name, "id": MEMBER.to_string(), "avatar": shown});
        assert_eq!(user, expected);
    }
}

#[tokio::test]
async fn every_sign_in_is_a_new_session_and_they_live_side_by_side() {
    let app = TestApp::start().await;
    let (phone, desk, other) = (app.user("owner").await, app.user("owner").await, app.user("member").await);
    assert_ne!(phone.token(), desk.token());
    assert_eq!(phone.delete("/auth").send().await.status, 200);
    phone.get("/guilds").await.refused(401, "token_invalid");
    for alive in [&desk, &other] {
        assert_eq!(alive.get("/guilds").await.status, 200);
    }
}

#[tokio::test]
async fn a_code_that_is_sent_again_while_it_is_exchanged_gives_each_sender_a_session_of_their_own() {
    let app = TestApp::start().await;
    let code = app.sandbox.issue_code("owner");
    let (token, user) = (app.sandbox.hold(Endpoint::Token), app.sandbox.hold(Endpoint::User));
    let senders: Vec<_> =
        (0..3).map(|_| tokio::spawn(app.anon().post("/auth").header("Idp-Code", &code).send())).collect();
    token.arrived(1).await;
    let in_work = || app.app.config.limits.concurrent_requests - app.app.request_permits.available_permits();
    eventually("all three wait", async || in_work() == 3).await;
    token.release();
    user.arrived(1).await;
    user.release();
    let mut tokens = Vec::new();
    for sender in senders {
        tokens.push(token_in(&sender.await.unwrap()));
    }
    assert_eq!(exchanges(&app), 1);
    for token in &tokens {
        assert_eq!(tokens.iter().filter(|other| *other == token).count(), 1, "each their own");
        let sessions = app.anon().with_token(token).get("/sessions").await;
        assert_eq!(sessions.data().as_array().unwrap().len(), 3);
    }
}

#[tokio::test]
async fn a_code_that_another_replica_exchanges_is_waited_for_and_then_refused_there_too() {
    let app = TestApp::start().await;
    let replica = app.replica().await;
    let held = app.sandbox.hold(Endpoint::Token);
    let here = tokio::spawn(app.anon().post("/auth").header("Idp-Code", "owner").send());
    held.arrived(1).await;
    let ask = || tokio::spawn(replica.anon().post("/auth").header("Idp-Code", "owner").send());
    let there = claiming(&replica, ask).await;
    held.release();
    let tokens = [token_in(&here.await.unwrap()), token_in(&there.await.unwrap())];
    assert_ne!(tokens[0], tokens[1]);
    replica.sign_in("owner").await.refused(401, "idp_code_rejected");
    assert_eq!(exchanges(&app), 1);
    for token in &tokens {
        assert_eq!(replica.anon().with_token(token).get("/sessions").await.data().as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_used_code_is_refused_for_two_minutes_without_asking_the_provider() {
    let app = TestApp::start().await;
    // The provider would accept this code any number of times, so it is the service that refuses it.
    token_in(&app.sign_in("owner").await);
    for wait in [0, 60, 59] {
        app.clock.advance(Duration::from_secs(wait));
        app.sign_in("owner").await.refused(401, "idp_code_rejected");
    }
    assert_eq!(exchanges(&app), 1);
    app.clock.advance(Duration::from_secs(1));
    token_in(&app.sign_in("owner").await);
    assert_eq!(exchanges(&app), 2);
}

#[tokio::test]
async fn a_used_code_is_still_refused_after_a_restart() {
    let app = TestApp::start().await;
    token_in(&app.sign_in("owner").await);
    let app = app.restarted(&[]).await;
    app.sign_in("owner").await.refused(401, "idp_code_rejected");
    assert_eq!(exchanges(&app), 1);
}

#[tokio::test]
async fn a_failure_that_cannot_have_used_the_code_lets_it_be_tried_again() {
    let faults = [
        (Fault::RateLimited { retry_after: Some(2.0), json: true, global: false }, 503),
        (Fault::RateLimited { retry_after: None, json: false, global: false }, 503),
        (Fault::InvalidClient, 502),
    ];
    for (fault, status) in faults {
        let app = TestApp::start().await;
        let code = app.sandbox.issue_code("owner");
        app.sandbox.fail_times(Endpoint::Token, fault.clone(), 1);
        assert_eq!(app.sign_in(&code).await.status, status, "{fault:?}");
        app.clock.advance(Duration::from_secs(5));
        token_in(&app.sign_in(&code).await);
    }
}

#[tokio::test]
async fn a_failure_that_may_have_used_the_code_keeps_it_from_being_sent_again() {
    let page = Fault::Status { code: 500, body: String::new(), headers: vec![] };
    let at_token = [page.clone(), Fault::Nonsense, Fault::Truncated, Fault::Huge, Fault::Refuse, Fault::InvalidGrant];
    let limit = Fault::RateLimited { retry_after: None, json: true, global: false };
    let at_user = [page, Fault::Nonsense, Fault::Refuse, Fault::Unauthorized, limit];
    let cases = at_token.map(|fault| (Endpoint::Token, fault)).into_iter();
    for (endpoint, fault) in cases.chain(at_user.map(|fault| (Endpoint::User, fault))) {
        let app = TestApp::start().await;
        app.sandbox.fail(endpoint, fault.clone());
        assert!(app.sign_in("owner").await.status >= 400, "{fault:?}");
        app.clock.advance(Duration::from_secs(10));
        app.sign_in("owner").await.refused(401, "idp_code_rejected");
        assert_eq!(exchanges(&app), 1, "{endpoint:?} {fault:?}");
    }
}

#[tokio::test]
async fn a_provider_that_does_not_answer_in_time_keeps_the_code() {
    let app = TestApp::builder().set("[idp]\nsign_in_timeout = \"3s\"").start().await;
    let held = app.sandbox.hold(Endpoint::Token);
    let call = tokio::spawn(app.anon().post("/auth").header("Idp-Code", "owner").send());
    held.arrived(1).await;
    call.await.unwrap().refused(504, "idp_timeout");
    held.release();
    app.sign_in("owner").await.refused(401, "idp_code_rejected");
    assert_eq!(exchanges(&app), 1);
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_has_not_used_the_code() {
    // Bound but not listening: the port is ours, and every connection is refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let app = TestApp::builder().set(&format!("[idp]\nbase_url = \"http://{address}/api/v10\"")).start().await;
    app.sign_in("owner").await.refused(502, "idp_unavailable");
    let options = SandboxOptions {
        client_id: "suite".to_owned(),
        client_secret: SecretString::from(CLIENT_SECRET),
        redirect_uris: Vec::new(),
        people: people::demo(),
        service_url: None,
        clock: app.clock.clone(),
        token_key: SecretString::from("token key"),
    };
    let listener = socket.listen(16).unwrap().into_std().unwrap();
    let late = Sandbox::start(listener, options).unwrap();
    token_in(&app.sign_in("owner").await);
    assert_eq!(late.calls(Endpoint::Token), 1);
}

#[tokio::test]
async fn the_breaker_opens_after_repeated_failures_keeps_codes_usable_and_closes_by_the_clock() {
    let app = TestApp::start().await;
    let page = Fault::Status { code: 503, body: String::new(), headers: vec![] };
    app.sandbox.fail(Endpoint::Token, page);
    for _ in 0..5 {
        let failed = app.sign_in(&app.sandbox.issue_code("owner")).await.refused(502, "idp_unavailable");
        assert!(!failed.has("retry-after"), "this code may be used up: it is not to be sent again");
    }
    let code = app.sandbox.issue_code("owner");
    let refused = app.sign_in(&code).await.refused(502, "idp_unavailable");
    assert_eq!(refused.retry_after(), 5, "the circuit breaker says when it lets the next call through");
    assert_eq!(exchanges(&app), 5, "open: the provider is left alone");
    app.sandbox.heal(Endpoint::Token);
    app.clock.advance(Duration::from_millis(3500));
    assert_eq!(app.sign_in(&code).await.refused(502, "idp_unavailable").retry_after(), 2);
    app.clock.advance(Duration::from_millis(1500));
    token_in(&app.sign_in(&code).await);
    token_in(&app.sign_in(&app.sandbox.issue_code("member")).await);
}

#[tokio::test]
async fn a_code_that_was_exchanged_before_the_breaker_refused_the_next_call_is_not_to_be_sent_again() {
    let app = TestApp::start().await;
    app.sandbox.fail(Endpoint::User, Fault::Status { code: 503, body: String::new(), headers: vec![] });
    for _ in 0..6 {
        let failed = app.sign_in(&app.sandbox.issue_code("owner")).await.refused(502, "idp_unavailable");
        assert!(!failed.has("retry-after"), "the code is used up");
    }
    assert_eq!((exchanges(&app), app.sandbox.calls(Endpoint::User)), (6, 5));
}

#[tokio::test]
async fn an_exchange_runs_to_its_end_though_the_client_has_left() {
    let app = TestApp::start().await;
    let held = app.sandbox.hold(Endpoint::Token);
    let call = tokio::spawn(app.anon().post("/auth").header("Idp-Code", "owner").send());
    held.arrived(1).await;
    call.abort();
    let everything = app.app.config.limits.concurrent_requests;
    eventually("the service has noticed", async || app.app.request_permits.available_permits() == everything).await;
    held.release();
    eventually("the list was fetched", async || app.sandbox.calls(Endpoint::Guilds) == 1).await;
    app.sign_in("owner").await.refused(401, "idp_code_rejected");
    assert_eq!(exchanges(&app), 1, "the code is spent");

    // Nobody ever opened a session with that grant, so it is revoked after a while.
    app.app.accounts.sweep().await.unwrap();
    app.clock.advance(Duration::from_mins(11));
    app.app.accounts.sweep().await.unwrap();
    app.revoked(1).await;
}

#[tokio::test]
async fn the_redirect_address_is_the_one_of_the_page_that_asks_and_else_the_first() {
    let app = TestApp::start().await;
    let (first, second) = (format!("{ORIGIN}/callback"), format!("{PREVIEW}/callback"));
    let table = [
        (Some(ORIGIN), &first),
        (Some(PREVIEW), &second),
        (None, &first),
        (Some("https://elsewhere.example"), &first),
        (Some("null"), &first),
        (Some(""), &first),
        // The start of an address, but not its origin.
        (Some("http:"), &first),
        (Some("http://localhost"), &first),
        (Some("http://localhost:300"), &first),
        (Some("http://localhost:3000/callback"), &first),
        (Some("http://LOCALHOST:3000"), &first),
    ];
    for (origin, expected) in table {
        // The provider compares letter by letter what the code was requested with and what we send.
        let code = consented(&app, "owner", &[("redirect_uri", expected)]).await;
        let call = app.anon().post("/auth").header("Idp-Code", &code);
        let answer = origin.into_iter().fold(call, |call, origin| call.header("Origin", origin)).send().await;
        assert_eq!(answer.status, 200, "{origin:?} for {expected}: {}", answer.text());
    }
    let code = consented(&app, "owner", &[("redirect_uri", &second)]).await;
    let refused = app.sign_in(&code).await.refused(502, "idp_misconfigured");
    let told = refused.envelope()["message"].as_str().unwrap().to_owned();
    assert!(told.contains("must match") && told.contains("`GET /auth`") && !told.contains("://"), "{told}");
}

#[tokio::test]
async fn a_redirect_address_is_found_by_its_origin_however_it_is_written() {
    let written = "https://Preview.Example:443?from=provider";
    let configuration = format!(
        "[http]\nallowed_origins = [\"{ORIGIN}\", \"https://preview.example\"]
        [idp]\nredirect_uri = [\"{ORIGIN}/callback\", \"{written}\"]"
    );
    let app = TestApp::builder().set(&configuration).start().await;
    app.sandbox.register_redirect_uri(written);
    let code = consented(&app, "owner", &[("redirect_uri", written)]).await;
    let call = app.anon().post("/auth").header("Idp-Code", &code).header("Origin", "https://preview.example");
    token_in(&call.send().await);
}

#[tokio::test]
async fn a_verifier_is_passed_on() {
    let app = TestApp::start().await;
    // The example of RFC 7636.
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let challenge =
        [("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"), ("code_challenge_method", "S256")];
    let terms = [[("redirect_uri", "https://dashboard.example/callback")].as_slice(), &challenge].concat();
    for (sent, status) in [(Some(verifier), 200), (Some("another"), 401), (None, 401)] {
        let code = consented(&app, "owner", &terms).await;
        let call = app.anon().post("/auth").header("Idp-Code", &code);
        let answer = sent.into_iter().fold(call, |call, sent| call.header("Idp-Code-Verifier", sent)).send().await;
        assert_eq!(answer.status, status, "{sent:?}: {}", answer.text());
        if status == 401 {
            answer.refused(401, "idp_code_rejected");
        }
    }
}

#[tokio::test]
async fn a_sign_in_does_not_wait_for_the_guild_list() {
    let app = TestApp::start().await;
    let held = app.sandbox.hold(Endpoint::Guilds);
    let user = app.user("owner").await;
    held.arrived(1).await;
    assert_eq!(user.get("/sessions").await.status, 200);
    held.release();
    assert_eq!(user.get("/guilds").await.status, 200);
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), 1, "the list that was fetched beside the login is used");
}
