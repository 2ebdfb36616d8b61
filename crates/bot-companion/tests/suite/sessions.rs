//! Sessions: two devices, expiry, a user's own list, ending one or all, blocking.

use std::time::Duration;

use domain::retention::SWEEP_BATCH;
use provider::idp::Endpoint;
use sandbox::people::OWNER;
use serde_json::{Value, json};
use store::CodeHash;

use crate::harness::{Client, START, TestApp, id};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Someone who signs in with a browser of this name.
async fn user_with(app: &TestApp, person: &str, agent: impl AsRef<[u8]>) -> Client {
    let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code(person));
    let answer = call.header("User-Agent", agent).send().await;
    app.anon().with_token(answer.data()["token"].as_str().unwrap())
}

async fn sessions(user: &Client) -> Vec<Value> {
    let answer = user.get("/sessions").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.data().as_array().unwrap().clone()
}

/// The ID of the session that makes the request.
async fn own_id(user: &Client) -> String {
    let own = sessions(user).await.into_iter().find(|session| session["current"] == true).unwrap();
    own["id"].as_str().unwrap().to_owned()
}

async fn is_alive(user: &Client) -> bool {
    let answer = user.get("/sessions").await;
    if answer.status != 200 {
        answer.refused(401, "token_invalid");
        return false;
    }
    true
}

#[tokio::test]
async fn a_user_sees_their_own_sessions_newest_first_and_no_secret_in_them() {
    let app = TestApp::start().await;
    let phone = user_with(&app, "owner", "Phone/1.0").await;
    app.clock.advance(HOUR);
    let desk = user_with(&app, "owner", "Desk \"2\" 🖥").await;
    user_with(&app, "member", "Stranger").await;
    app.clock.advance(HOUR);
    let answer = phone.get("/sessions").await;
    let shown = answer.data();
    let start = START.seconds();
    let expected = json!([
        {"id": shown[0]["id"], "created": start + 3600, "last_seen": start + 3600, "user_agent": "Desk \"2\" 🖥", "current": false},
        {"id": shown[1]["id"], "created": start, "last_seen": start + 7200, "user_agent": "Phone/1.0", "current": true},
    ]);
    assert_eq!(shown, expected);
    assert_ne!(shown[0]["id"], shown[1]["id"]);
    for client in [&phone, &desk] {
        assert!(!answer.text().contains(&client.token()[4..12]), "not even a part of a token");
    }
    let longest = answer.text().split(|letter: char| !letter.is_ascii_alphanumeric()).map(str::len).max();
    assert!(longest.unwrap() < 32, "nothing as long as a hash: {}", answer.text());
    assert_eq!(own_id(&desk).await, shown[0]["id"]);
}

#[tokio::test]
async fn signing_out_ends_this_session_and_no_other() {
    let app = TestApp::start().await;
    let (phone, desk) = (app.user("owner").await, app.user("owner").await);
    for user in [&phone, &desk] {
        // Both are in memory now, with their answers.
        user.guilds().await;
    }
    let answer = phone.delete("/auth").send().await;
    assert_eq!((answer.status, answer.data()), (200, json!({})));
    phone.get("/guilds").await.refused(401, "token_invalid");
    phone.delete("/auth").send().await.refused(401, "token_invalid");
    assert!(is_alive(&desk).await);
    assert_eq!(sessions(&desk).await.len(), 1);
}

#[tokio::test]
async fn a_user_ends_one_of_their_sessions_by_its_id() {
    let app = TestApp::start().await;
    let (phone, desk, other) = (app.user("owner").await, app.user("owner").await, app.user("member").await);
    let (phone_id, desk_id, other_id) = (own_id(&phone).await, own_id(&desk).await, own_id(&other).await);
    let theirs = desk.delete(&format!("/sessions/{other_id}")).send().await.refused(404, "session_not_found");
    assert!(is_alive(&other).await, "another user's session");
    let unknown = desk.delete("/sessions/abcdefghijklmnop").send().await.refused(404, "session_not_found");
    let words = [theirs, unknown].map(|answer| answer.envelope()["message"].clone());
    assert_eq!(words[0], words[1], "no oracle");

    let ended = desk.delete(&format!("/sessions/{phone_id}")).send().await;
    assert_eq!((ended.status, ended.data()), (200, json!({})));
    assert!(!is_alive(&phone).await);
    desk.delete(&format!("/sessions/{phone_id}")).send().await.refused(404, "session_not_found");

    // The same id, written another way.
    let encoded = format!("/sessions/%{:02X}{}", desk_id.as_bytes()[0], &desk_id[1..]);
    assert_eq!(desk.delete(&encoded).send().await.status, 200);
    assert!(!is_alive(&desk).await, "one's own session can be ended so too");
}

#[tokio::test]
async fn odd_text_in_the_place_of_an_id_is_an_unknown_session() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    let long = "a".repeat(8000);
    for odd in ["x", "%00", "%ff%fe", "%2F", "..%2f..", "%E2%80%AEabc", "'%20OR%20''='", "*", long.as_str()] {
        user.delete(&format!("/sessions/{odd}")).send().await.refused(404, "session_not_found");
    }
    assert!(is_alive(&user).await);
}

#[tokio::test]
async fn a_user_signs_out_everywhere() {
    let app = TestApp::start().await;
    let (phone, desk, other) = (app.user("owner").await, app.user("owner").await, app.user("member").await);
    let answer = phone.delete("/sessions").send().await;
    assert_eq!((answer.status, answer.data()), (200, json!({})));
    for user in [&phone, &desk] {
        assert!(!is_alive(user).await);
        user.get("/guilds").await.refused(401, "token_invalid");
    }
    assert!(is_alive(&other).await);
    app.revoked(1).await;
}

#[tokio::test]
async fn an_answer_from_memory_counts_as_a_use_and_ends_with_the_session() {
    let app = TestApp::builder()
        .set("[guilds]\nfresh = \"1d\"\nstale_while_revalidate = \"1d\"\nmax_stale = \"7d\"")
        .start()
        .await;
    let user = app.user("owner").await;
    user.guilds().await;
    for _ in 0..20 {
        app.clock.advance(DAY / 2);
        assert_eq!(user.get("/guilds").await.status, 200);
    }
    app.clock.advance(7 * DAY);
    user.get("/guilds").await.refused(401, "token_invalid");
}

#[tokio::test]
async fn the_limits_can_be_set() {
    let app = TestApp::builder().set("[sessions]\nidle = \"2m\"\nabsolute = \"3m\"").start().await;
    let (used, unused) = (app.user("owner").await, app.user("owner").await);
    app.clock.advance(Duration::from_secs(90));
    assert!(is_alive(&used).await);
    app.clock.advance(Duration::from_secs(30));
    assert!(!is_alive(&unused).await);
    assert_eq!(sessions(&used).await.len(), 1, "a session that has ended is not listed, even before it is swept");
    assert!(is_alive(&used).await);
    app.clock.advance(Duration::from_mins(1));
    assert!(!is_alive(&used).await);
}

#[tokio::test]
async fn sessions_and_their_last_use_survive_a_restart() {
    let app = TestApp::start().await;
    let (used, other) = (app.user("owner").await, app.user("owner").await);
    let (used, other) = (used.token().to_owned(), other.token().to_owned());
    app.clock.advance(6 * DAY);
    assert!(is_alive(&app.anon().with_token(&used)).await);
    assert!(is_alive(&app.anon().with_token(&other)).await);
    app.clock.advance(HOUR);
    assert!(is_alive(&app.anon().with_token(&used)).await);
    let app = app.restarted(&[]).await;
    app.clock.advance(6 * DAY);
    let (used, other) = (app.anon().with_token(&used), app.anon().with_token(&other));
    let shown = sessions(&other).await;
    let last_seen = START.after(6 * DAY + HOUR).seconds();
    assert_eq!(shown.iter().find(|session| session["current"] == false).unwrap()["last_seen"], last_seen);
    assert!(is_alive(&used).await, "12 days after its start, 6 after its last use");
    used.guilds().await;
}

#[tokio::test]
async fn what_has_expired_is_swept_and_its_grant_given_back() {
    let app = TestApp::start().await;
    let (idle, used) = (app.user("owner").await, [app.user("member").await, app.user("manager").await]);
    let mut swept = Vec::new();
    for _ in 0..5 {
        app.clock.advance(6 * DAY);
        for user in &used {
            user.get("/sessions").await;
        }
        // The use of a session is written in the background.
        app.app.views.sessions.flush().await.unwrap();
        swept.push(app.app.accounts.sweep().await.unwrap());
    }
    assert_eq!(swept, [0, 1, 0, 0, 0]);
    app.revoked(1).await;
    assert!(!is_alive(&idle).await);
    app.user("newcomer").await;
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(app.app.accounts.sweep().await.unwrap(), 2, "those that are 30 days old, though in use");
    app.revoked(3).await;
    assert_eq!(app.app.accounts.sweep().await.unwrap(), 0);
}

#[tokio::test]
async fn blocking_a_user_ends_their_sessions_at_once_and_keeps_them_out_until_unblocked() {
    let app = TestApp::start().await;
    let (phone, desk, other) = (app.user("owner").await, app.user("owner").await, app.user("member").await);
    phone.guilds().await;
    assert_eq!(app.app.accounts.block(id(OWNER), "spam".to_owned()).await.unwrap(), 2);
    for user in [&phone, &desk] {
        user.get("/guilds").await.refused(401, "token_invalid");
    }
    assert!(is_alive(&other).await);
    app.revoked(1).await;
    app.sign_in(&app.sandbox.issue_code("owner")).await.refused(403, "user_blocked");
    // The attempt's grant, too.
    app.revoked(2).await;

    let app = app.restarted(&[]).await;
    app.sign_in(&app.sandbox.issue_code("owner")).await.refused(403, "user_blocked");
    assert!(app.app.sources.store.unblock(id(OWNER)).await.unwrap());
    let back = app.user("owner").await;
    assert_eq!(sessions(&back).await.len(), 1, "the sessions of before stay ended");
}

#[tokio::test]
async fn a_user_who_is_blocked_while_they_sign_in_does_not_come_in() {
    let app = TestApp::start().await;
    let held = app.sandbox.hold(Endpoint::User);
    let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
    let signing_in = tokio::spawn(call.send());
    held.arrived(1).await;
    app.app.accounts.block(id(OWNER), "spam".to_owned()).await.unwrap();
    held.release();
    signing_in.await.unwrap().refused(403, "user_blocked");
}

#[tokio::test]
async fn a_user_has_so_many_sessions_and_a_new_one_ends_the_one_least_recently_used() {
    let app = TestApp::builder().set("[sessions]\nper_user = 3").start().await;
    let other = app.user("member").await;
    let mut users = Vec::new();
    for _ in 0..3 {
        users.push(app.user("owner").await);
        app.clock.advance(Duration::from_secs(1));
    }
    // A use that only this process knows about counts too.
    assert!(is_alive(&users[0]).await);
    app.clock.advance(Duration::from_secs(1));
    let new = app.user("owner").await;
    assert!(!is_alive(&users[1]).await, "the least recently used");
    for user in [&users[0], &users[2], &new, &other] {
        assert!(is_alive(user).await);
    }
    assert_eq!(sessions(&new).await.len(), 3);
}

#[tokio::test]
async fn of_many_who_sign_in_at_once_no_more_stay_than_may() {
    let configuration = "[sessions]\nper_user = 3";
    let app = TestApp::builder().set(configuration).start().await;
    let replica = app.replica_with(configuration).await;
    let calls = (0..12).map(|number| {
        let service = if number % 2 == 0 { &app } else { &replica };
        service.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner")).send()
    });
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let stored = app.app.sources.store.sessions_of(id(OWNER)).await.unwrap();
    assert_eq!(stored.len(), 3);
}

#[tokio::test]
async fn a_use_that_is_only_in_memory_keeps_a_session_from_the_sweep() {
    let app = TestApp::builder().set("[sessions]\nidle = \"1m\"").start().await;
    let user = app.user("owner").await;
    // Too soon after the sign-in to be recorded.
    app.clock.advance(Duration::from_secs(14));
    assert_eq!(user.get("/sessions").await.status, 200);
    app.clock.advance(Duration::from_secs(47));
    assert_eq!(app.app.accounts.sweep().await.unwrap(), 0);
    assert_eq!(user.get("/sessions").await.status, 200, "47 seconds after its last use");
    app.clock.advance(Duration::from_mins(1));
    user.get("/sessions").await.refused(401, "token_invalid");
}

#[tokio::test]
async fn a_sweep_goes_on_until_nothing_is_left_to_do() {
    let app = TestApp::start().await;
    for number in 0..=u16::try_from(SWEEP_BATCH).unwrap() {
        let mut hash = [7; 32];
        hash[..2].copy_from_slice(&number.to_be_bytes());
        app.app.sources.store.claim_code(CodeHash(hash), START, START.after(Duration::from_secs(1))).await.unwrap();
    }
    app.clock.advance(HOUR);
    // The service's own round may have begun.
    app.app.accounts.sweep().await.unwrap();
    assert_eq!(app.folder.count("code_claims").await, 0);
}

#[tokio::test]
async fn a_user_agent_is_kept_up_to_256_bytes() {
    let app = TestApp::start().await;
    let long = "a".repeat(255);
    for (sent, kept) in [
        (format!("{long}é").into_bytes(), long),
        ("🎩".repeat(100).into_bytes(), "🎩".repeat(64)),
        (b"odd\xff".to_vec(), "odd\u{fffd}".to_owned()),
    ] {
        let user = user_with(&app, "owner", sent).await;
        assert_eq!(sessions(&user).await[0]["user_agent"], kept);
    }
    assert_eq!(sessions(&app.user("member").await).await[0]["user_agent"], "");
}
