//! The audit log: what is recorded, who can fill it, and what `bot-companion audit` prints.

use std::time::Duration;

use provider::idp::Endpoint;
use reqwest::Method;
use sandbox::people::OWNER;
use serde_json::{Value, json};

use crate::harness::binary::{command, config_file, run};
use crate::harness::{Client, TestApp};

/// What `audit` prints with these arguments, once everything is written.
async fn audit(app: &TestApp, arguments: &[&str]) -> Vec<Value> {
    app.app.sources.audit.flush(true).await;
    let text = said(app, &[&["audit", "--json"], arguments].concat()).await;
    serde_json::from_str(&text).unwrap()
}

async fn said(app: &TestApp, arguments: &[&str]) -> String {
    let mut asked = command(arguments);
    asked.arg("--config").arg(config_file(&app.folder, &app.sandbox, ""));
    let output = run(asked).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn kinds(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["kind"].as_str().unwrap()).collect()
}

async fn state(client: &Client, key: &str) -> u16 {
    client.call(Method::GET, "/bot/state").header("Authorization", format!("Bearer {key}")).send().await.status
}

#[tokio::test]
async fn what_happens_is_written_down_with_user_network_and_request() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    let refused = app.sign_in("wrong-code").await;
    assert_eq!(refused.status, 401);
    assert_eq!(user.delete("/sessions").send().await.status, 200);
    app.revoked(1).await;
    let rows = audit(&app, &[]).await;
    assert_eq!(kinds(&rows), ["sign_in", "sign_in_refused", "signed_out", "grant_revoked"]);
    let signed_in = &rows[0];
    assert_eq!((&signed_in["user"], &signed_in["network"]), (&json!(OWNER.to_string()), &json!("127.0.0.0/24")));
    assert_eq!(signed_in["at"], "2027-01-15T08:00:00Z");
    assert_eq!(rows[1]["request"], refused.header("x-request-id"));
    assert_eq!((&rows[1]["detail"], &rows[1]["user"]), (&json!("rejected"), &Value::Null));
    assert_eq!(rows[2]["detail"], "all sessions");

    let of_owner = audit(&app, &["--user", &OWNER.to_string()]).await;
    assert_eq!(kinds(&of_owner), ["sign_in", "signed_out", "grant_revoked"]);
    assert_eq!(kinds(&audit(&app, &["--kind", "sign_in_refused"]).await), ["sign_in_refused"]);
    assert_eq!(kinds(&audit(&app, &["--limit", "1"]).await), ["grant_revoked"]);
    let text = said(&app, &["audit", "--limit", "4"]).await;
    let line = format!("2027-01-15T08:00:00Z  sign_in          user {OWNER}");
    assert!(text.starts_with(&line) && !text.contains(user.token()) && !text.contains("wrong-code"), "{text}");
}

#[tokio::test]
async fn hanging_up_hides_no_refusal() {
    let app = TestApp::start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let leaving = tokio::spawn(app.anon().post("/auth").header("Idp-Code", "wrong-code").try_send());
    hold.arrived(1).await;
    leaving.abort();
    hold.release();
    app.settled().await;
    assert_eq!(kinds(&audit(&app, &[]).await), ["sign_in_refused"]);
}

#[tokio::test]
async fn commands_and_keys_are_written_down_and_a_forgotten_user_is_not_named() {
    // Commands use the system's clock, which is behind the test's.
    let app = TestApp::builder().set("[audit]\nkeep = \"3650d\"").start().await;
    let made = said(&app, &["key", "create", "--label", "bot"]).await;
    let key = made.lines().find(|line| line.starts_with("bck_")).unwrap().to_owned();
    let id = made.split_whitespace().nth(2).unwrap().trim_end_matches('.').to_owned();
    for _ in 0..3 {
        assert_eq!(state(&app.anon(), &key).await, 200);
    }
    app.clock.advance(Duration::from_hours(1));
    assert_eq!(state(&app.anon(), &key).await, 200);
    assert_eq!(state(&app.anon(), "bck_nonsense").await, 401);
    let used = audit(&app, &["--kind", "key_used"]).await;
    assert_eq!(used.len(), 2, "once per hour: {used:?}");
    assert_eq!(used[0]["key"], id);
    assert_eq!(audit(&app, &["--kind", "key_refused"]).await.len(), 1);

    let user = OWNER.to_string();
    said(&app, &["users", "block", &user]).await;
    said(&app, &["users", "unblock", &user]).await;
    app.user("owner").await;
    said(&app, &["key", "revoke", &id]).await;
    let of_user = |rows: &[Value]| rows.iter().filter(|row| row["user"] == json!(user)).count();
    assert_eq!(of_user(&audit(&app, &[]).await), 3, "blocked, unblocked, signed in");
    said(&app, &["users", "forget", &user, "--yes"]).await;
    let rows = audit(&app, &[]).await;
    assert_eq!(of_user(&rows), 0);
    let commands: Vec<_> = rows.iter().filter(|row| row["kind"] == "command").map(|row| &row["detail"]).collect();
    assert_eq!(commands, ["key create", "key revoke", "users forget"]);
    let hashed = audit(&app, &["--user", &user]).await;
    // The service may already have told the provider, which adds a row.
    assert!((4..=5).contains(&hashed.len()), "anyone who knows the ID can find the rows: {hashed:?}");
    assert!(hashed.iter().all(|row| row["user"].as_str().unwrap().starts_with("forgotten:")), "{hashed:?}");
}

#[tokio::test]
async fn strangers_fill_no_audit() {
    let app = TestApp::builder().set("[feed]\nrefused_keys_per_minute = 0").start().await;
    for _ in 0..50 {
        assert_eq!(state(&app.anon(), "bck_nonsense").await, 401);
    }
    let rows = audit(&app, &["--kind", "key_refused"]).await;
    assert_eq!(rows.len(), 11, "ten rows, and one with a count of the rest");
    let counted: u64 = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, 50);
}

#[tokio::test]
async fn what_strangers_and_users_cause_removes_no_row_of_the_operators() {
    // Commands use the system's clock, which is behind the test's.
    let app = TestApp::builder().set("[audit]\nkeep = \"3650d\"").adjust(|config| config.audit.rows = 20).start().await;
    let blocked = "80351110224678912";
    said(&app, &["users", "block", blocked]).await;
    said(&app, &["key", "create", "--label", "bot"]).await;
    for _ in 0..12 {
        assert_eq!(app.sign_in("wrong-code").await.status, 401);
        assert_eq!(state(&app.anon(), "bck_nonsense").await, 401);
        let user = app.user("owner").await;
        assert_eq!(user.delete("/sessions").send().await.status, 200);
        app.app.sources.audit.flush(true).await;
    }
    let rows = audit(&app, &["--limit", "1000"]).await;
    let count = |kind: &str| kinds(&rows).into_iter().filter(|found| *found == kind).count();
    assert_eq!(["blocked", "command", "sign_in", "signed_out"].map(count), [1, 1, 5, 2], "{rows:?}");
    assert_eq!(["sign_in_refused", "key_refused"].map(count), [2, 2], "{rows:?}");
    assert_eq!(rows[0]["user"], json!(blocked));
}

#[tokio::test]
async fn the_audit_keeps_so_many_rows_for_so_long_and_can_be_off() {
    let app = TestApp::builder().set("[audit]\nkeep = \"1h\"").adjust(|config| config.audit.rows = 12).start().await;
    for _ in 0..5 {
        app.user("owner").await;
    }
    assert_eq!(audit(&app, &[]).await.len(), 3, "a quarter of the rows is for sign-ins");
    app.clock.advance(Duration::from_hours(2));
    app.user("owner").await;
    assert_eq!(audit(&app, &[]).await.len(), 1);

    let app = TestApp::builder().set("[audit]\nkeep = \"0s\"").start().await;
    app.user("owner").await;
    app.app.sources.audit.flush(true).await;
    assert_eq!(app.folder.count("audit").await, 0);
}
