//! The provider's grant of a user's sessions: encrypted at rest, refreshed in time, revoked with the last session.

use std::time::Duration;

use domain::token::{self, TokenKind};
use domain::{Change, REVOCATION_WAIT, Session, SessionId, User};
use provider::idp::Endpoint;
use runtime::random::secret_bytes;
use sandbox::people::{HARBOUR, MEMBER, OWNER};
use sandbox::{Fault, Hold};
use secrecy::ExposeSecret;

use crate::harness::{Answer, Client, START, TestApp, eventually, guild, id};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const OLD: &str = "old:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
const NEW: &str = "new:QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";

fn keys(keys: &[&str]) -> String {
    format!("[secrets]\nkeys = {keys:?}")
}

/// Uses the session over these days, so that it does not end while the provider's token does.
async fn days_pass(app: &TestApp, user: &Client, days: u32) {
    for _ in 0..days {
        app.clock.advance(DAY);
        assert_eq!(user.get("/sessions").await.status, 200);
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn neither_the_providers_tokens_nor_our_own_lie_on_the_disk_in_the_clear() {
    let app = TestApp::start().await;
    let code = app.sandbox.issue_code("owner");
    let user = app.anon().with_token(app.sign_in(&code).await.data()["token"].as_str().unwrap());
    user.guilds().await;
    app.sandbox.expire_access("owner");
    app.clock.advance(2 * HOUR);
    user.guilds().await;
    assert_eq!(app.sandbox.calls(Endpoint::Token), 2, "the grant was sealed twice");
    let running = app.folder.at_rest();
    let folder = app.stopped().await;
    for bytes in [running, folder.at_rest()] {
        assert!(holds(&bytes, &OWNER.to_string()) || holds(&bytes, "marlow.quay"), "this is where the data lies");
        for secret in ["sandboxaccess_", "sandboxrefresh_", "sandboxcode_", &code, user.token(), &user.token()[4..]] {
            assert!(!holds(&bytes, secret), "a secret in the clear, which begins with {}", &secret[..4]);
        }
    }
}

#[tokio::test]
async fn keys_rotate_across_a_restart() {
    let app = TestApp::builder().set(&keys(&[OLD])).start().await;
    let user_token = app.user("owner").await.token().to_owned();
    let app = app.restarted(&[&keys(&[NEW, OLD])]).await;
    let user = app.anon().with_token(&user_token);
    app.clock.advance(2 * HOUR);
    app.sandbox.expire_access("owner");
    assert_eq!(user.get("/guilds").await.status, 200, "the old key reads");
    let app = app.restarted(&[&keys(&[NEW])]).await;
    app.clock.advance(2 * HOUR);
    let user = app.anon().with_token(&user_token);
    assert_eq!(user.get("/guilds").await.status, 200, "the refreshed grant was sealed with the new key");
}

#[tokio::test]
async fn a_retired_key_means_a_stale_list_and_never_a_crash() {
    let app = TestApp::builder().set(&keys(&[OLD])).start().await;
    app.bot_says([Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER))]).await;
    let user = app.user("owner").await;
    assert_eq!(user.guilds().await.len(), 1);
    let token = user.token().to_owned();
    let app = app.restarted(&[&keys(&[NEW])]).await;
    let user = app.anon().with_token(&token);
    app.clock.advance(HOUR / 2);
    let stale = user.get("/guilds").await;
    assert_eq!((stale.status, stale.header("age")), (200, "1800"));
    assert_eq!(stale.data().as_array().unwrap().len(), 1);
    app.clock.advance(HOUR);
    user.get("/guilds").await.refused(502, "idp_unavailable");
    assert_eq!(user.get("/sessions").await.status, 200, "the session is not to blame");
    assert_eq!(user.delete("/auth").send().await.status, 200, "and can be ended, though nothing can be revoked");
    // After a failure, the provider is left alone for a while.
    app.clock.advance(Duration::from_secs(15));
    assert_eq!(app.user("owner").await.guilds().await.len(), 1, "a new sign-in mends it");
}

#[tokio::test]
async fn an_expired_access_token_is_refreshed_once_by_the_clock() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    user.guilds().await;
    days_pass(&app, &user, 6).await;
    user.guilds().await;
    assert_eq!(app.sandbox.calls(Endpoint::Token), 1, "not before it is needed");
    days_pass(&app, &user, 1).await;
    user.guilds().await;
    user.guilds().await;
    assert_eq!(app.sandbox.calls(Endpoint::Token), 2);
    days_pass(&app, &user, 6).await;
    user.guilds().await;
    assert_eq!(app.sandbox.calls(Endpoint::Token), 2, "the new one lasts a week again");
}

#[tokio::test]
async fn requests_side_by_side_share_one_refresh() {
    let app = TestApp::start().await;
    let (phone, desk) = (app.user("owner").await, app.user("owner").await);
    phone.guilds().await;
    // The list fetched in the background of the second sign-in must not be the one that finds the token expired.
    app.settled().await;
    app.sandbox.expire_access("owner");
    app.clock.advance(2 * HOUR);
    let held = app.sandbox.hold(Endpoint::Token);
    let before = app.sandbox.calls(Endpoint::Token);
    let asking: Vec<_> = [phone, desk].map(|user| tokio::spawn(async move { user.get("/guilds").await.status })).into();
    held.arrived(1).await;
    held.release();
    for status in asking {
        assert_eq!(status.await.unwrap(), 200);
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), before + 1);
}

#[tokio::test]
async fn a_grant_that_the_provider_has_forgotten_ends_the_users_sessions() {
    let app = TestApp::start().await;
    let (phone, desk, other) = (app.user("owner").await, app.user("owner").await, app.user("member").await);
    phone.guilds().await;
    app.sandbox.revoke_all("owner");
    app.clock.advance(2 * HOUR);
    phone.get("/guilds").await.refused(401, "token_invalid");
    for ended in [&phone, &desk] {
        ended.get("/guilds").await.refused(401, "token_invalid");
        ended.get("/sessions").await.refused(401, "token_invalid");
    }
    assert_eq!(other.get("/guilds").await.status, 200, "nobody else's");
    assert_eq!(app.sandbox.calls(Endpoint::Revoke), 0, "there is nothing left to revoke");
    assert_eq!(app.user("owner").await.get("/guilds").await.status, 200);
}

#[tokio::test]
async fn a_background_refresh_learns_of_a_forgotten_grant_too() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    user.guilds().await;
    app.sandbox.revoke_all("owner");
    app.clock.advance(Duration::from_mins(5));
    // Served stale and refreshed in the background; once that has happened, the session is over.
    user.guilds().await;
    eventually("the session ended", async || user.get("/sessions").await.status == 401).await;
}

#[tokio::test]
async fn a_refused_bearer_that_persists_after_a_refresh_ends_the_sessions() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    user.guilds().await;
    app.clock.advance(2 * HOUR);
    app.sandbox.fail(Endpoint::Guilds, Fault::Unauthorized);
    user.get("/guilds").await.refused(401, "token_invalid");
    assert_eq!(app.sandbox.calls(Endpoint::Token), 2, "after one refresh");
    user.get("/sessions").await.refused(401, "token_invalid");
}

#[tokio::test]
async fn a_refused_bearer_that_a_refresh_mends_ends_nothing() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    user.guilds().await;
    app.clock.advance(2 * HOUR);
    app.sandbox.fail_times(Endpoint::Guilds, Fault::Unauthorized, 1);
    assert_eq!(user.get("/guilds").await.status, 200);
    assert_eq!(app.sandbox.calls(Endpoint::Token), 2);
}

#[tokio::test]
async fn refused_credentials_of_ours_end_nobodys_session() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    user.guilds().await;
    app.sandbox.expire_access("owner");
    app.sandbox.fail(Endpoint::Token, Fault::InvalidClient);
    app.clock.advance(HOUR / 2);
    let stale = user.get("/guilds").await;
    assert_eq!((stale.status, stale.header("age")), (200, "1800"), "the last good list");
    app.clock.advance(HOUR);
    user.get("/guilds").await.refused(502, "idp_misconfigured");
    assert_eq!(user.get("/sessions").await.status, 200);
    app.sandbox.heal(Endpoint::Token);
    // Longer than the pause after a failure, and than the failed refresh's claim can last.
    app.clock.advance(HOUR / 10);
    assert_eq!(user.get("/guilds").await.status, 200);
}

#[tokio::test]
async fn a_forgotten_grant_does_not_end_the_sessions_of_a_user_who_signs_in_again_meanwhile() {
    let app = TestApp::start().await;
    let before = app.user("owner").await;
    before.guilds().await;
    app.clock.advance(2 * HOUR);
    let held = app.sandbox.hold(Endpoint::Guilds);
    let asking = tokio::spawn({
        let before = before.clone();
        async move { before.get("/guilds").await.status }
    });
    held.arrived(1).await;
    app.sandbox.revoke_all("owner");
    let anew = app.user("owner").await;
    held.release();
    assert_eq!(asking.await.unwrap(), 200, "asked again with the new grant");
    for alive in [&before, &anew] {
        assert_eq!(alive.get("/guilds").await.status, 200);
    }
}

#[tokio::test]
async fn the_grant_is_given_back_only_with_the_last_session() {
    let app = TestApp::start().await;
    let revoked = || app.sandbox.calls(Endpoint::Revoke);
    let (phone, desk, other) = (app.user("owner").await, app.user("owner").await, app.user("member").await);
    assert_eq!(phone.delete("/auth").send().await.status, 200);
    app.clock.advance(2 * HOUR);
    assert_eq!(desk.get("/guilds").await.status, 200, "the desk's grant still works");
    assert_eq!(desk.delete("/auth").send().await.status, 200);
    app.revoked(1).await;
    app.clock.advance(2 * HOUR);
    assert_eq!(other.get("/guilds").await.status, 200);
    assert_eq!(revoked(), 1, "once, and only that user's");
}

#[tokio::test]
async fn signing_in_right_after_signing_out_cancels_the_revocation() {
    let app = TestApp::start().await;
    assert_eq!(app.user("owner").await.delete("/auth").send().await.status, 200);
    let back = app.user("owner").await;
    app.revoked(0).await;
    app.clock.advance(2 * HOUR);
    assert_eq!(back.get("/guilds").await.status, 200, "revoking the old grant would have ended the new one too");
}

/// Signs the owner out, and returns a sign-in of theirs that begins while the revocation is on its way.
async fn signing_in_under_a_revocation(app: &TestApp) -> (tokio::task::JoinHandle<Answer>, Hold) {
    assert_eq!(app.user("owner").await.delete("/auth").send().await.status, 200);
    let held = app.sandbox.hold(Endpoint::Revoke);
    app.clock.advance(REVOCATION_WAIT);
    app.app.accounts.start_revoking();
    held.arrived(1).await;
    let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
    let signing_in = tokio::spawn(call.send());
    eventually("the code was exchanged", async || app.sandbox.calls(Endpoint::User) == 2).await;
    (signing_in, held)
}

#[tokio::test]
async fn a_sign_in_that_a_revocation_hits_fails_rather_than_give_a_session_that_dies() {
    let app = TestApp::start().await;
    let (signing_in, held) = signing_in_under_a_revocation(&app).await;
    held.release();
    signing_in.await.unwrap().refused(401, "idp_code_rejected");
    let back = app.user("owner").await;
    app.clock.advance(2 * HOUR);
    assert_eq!(back.get("/guilds").await.status, 200, "the next one is whole");
    assert_eq!(app.sandbox.calls(Endpoint::Revoke), 1);
}

#[tokio::test]
async fn a_sign_in_that_a_failed_revocation_spared_succeeds() {
    let app = TestApp::start().await;
    app.sandbox.fail(Endpoint::Revoke, Fault::Status { code: 500, body: String::new(), headers: vec![] });
    let (signing_in, held) = signing_in_under_a_revocation(&app).await;
    held.release();
    let answer = signing_in.await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    app.sandbox.heal(Endpoint::Revoke);
    app.clock.advance(2 * HOUR);
    let back = app.anon().with_token(answer.data()["token"].as_str().unwrap());
    assert_eq!(back.get("/guilds").await.status, 200);
    app.revoked(1).await;
}

#[tokio::test]
async fn a_revocation_that_fails_is_tried_again() {
    let app = TestApp::start().await;
    app.sandbox.fail_times(Endpoint::Revoke, Fault::Status { code: 500, body: String::new(), headers: vec![] }, 1);
    assert_eq!(app.user("owner").await.delete("/auth").send().await.status, 200);
    app.revoked(1).await;
    app.clock.advance(Duration::from_mins(1));
    app.revoked(2).await;
    app.clock.advance(HOUR);
    app.revoked(2).await;
}

#[tokio::test]
async fn a_revocation_outlives_the_process() {
    let app = TestApp::start().await;
    assert_eq!(app.user("owner").await.delete("/auth").send().await.status, 200);
    let app = app.restarted(&[]).await;
    app.revoked(1).await;
}

#[tokio::test]
async fn a_provider_that_cannot_revoke_keeps_nobody_signed_in() {
    let app = TestApp::start().await;
    app.sandbox.fail(Endpoint::Revoke, Fault::Status { code: 500, body: String::new(), headers: vec![] });
    let user = app.user("owner").await;
    assert_eq!(user.delete("/sessions").send().await.status, 200);
    user.get("/sessions").await.refused(401, "token_invalid");
}

#[tokio::test]
async fn a_session_whose_grant_went_with_another_one_ends() {
    let app = TestApp::start().await;
    let user = User { username: "m".into(), name: "m".into(), id: id(MEMBER), avatar: "https://a.example/m".into() };
    let token = token::generate(TokenKind::Session, secret_bytes);
    let session = SessionId::parse("0123456789abcdef").unwrap();
    let session = Session { id: session, user: user.id, created: START, last_seen: START, agent: String::new() };
    app.app.sources.store.open_session(user, token::hash_of(&token), session, 50).await.unwrap();
    let member = app.anon().with_token(token.expose_secret());
    for _ in 0..2 {
        member.get("/guilds").await.refused(401, "token_invalid");
    }
}
