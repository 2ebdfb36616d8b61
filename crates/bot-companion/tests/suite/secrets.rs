//! `bot-companion secrets …` next to a running service: what is encrypted with which key, and a change of keys.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::TestApp;
use crate::harness::binary::{command, config_file, run};

const OLD: &str = "old:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
const NEW: &str = "new:QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
/// Another key under the old one's ID.
const WRONG: &str = "old:Q0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0M=";

fn keys(keys: &[&str]) -> String {
    format!("[secrets]\nkeys = {keys:?}")
}

/// What a command says about the service's store when it is given these keys.
async fn said(app: &TestApp, keys: &[&str], arguments: &[&str]) -> String {
    let mut asked = command(arguments);
    asked.arg("--config").arg(config_file(&app.folder, &app.sandbox, ""));
    asked.env("COMPANION_SECRETS_KEYS", keys.join(","));
    let output = run(asked).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
    // A change of keys next to a service that cannot be reached is explained.
    assert_eq!(error.contains("no running service could be reached"), arguments.contains(&"reseal"), "{error}");
    assert_eq!(error.lines().count(), usize::from(arguments.contains(&"reseal")), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

async fn status(app: &TestApp, keys: &[&str]) -> Value {
    serde_json::from_str(&said(app, keys, &["secrets", "status", "--json"]).await).unwrap()
}

#[tokio::test]
async fn keys_are_changed_while_the_service_runs_and_nobody_has_to_sign_in_again() {
    let app = TestApp::builder().set(&keys(&[OLD])).start().await;
    let owner = app.user("owner").await.token().to_owned();
    let leaver = app.user("newcomer").await;
    app.settled().await;
    assert_eq!(leaver.delete("/auth").send().await.status, 200);
    // As documented: the new key first, everywhere; then reseal; then remove the old one.
    let app = app.restarted(&[&keys(&[NEW, OLD])]).await;
    let text = said(&app, &[NEW, OLD], &["secrets", "status"]).await;
    assert!(text.contains("\nnew  0       0           configured; writes\n"), "{text}");
    assert!(text.contains("\nold  2       0           configured; reads\n"), "{text}");
    assert!(text.contains("Not encrypted with the first key: 2 grants. Run `bot-companion secrets reseal`."), "{text}");
    let text = said(&app, &[NEW, OLD], &["secrets", "reseal"]).await;
    assert!(text.starts_with("Encrypted 2 of 2 grants with new.\n"), "{text}");
    assert!(text.contains("Nothing needs the key old any more: remove it from secrets.keys"), "{text}");
    let again: Value = serde_json::from_str(&said(&app, &[NEW, OLD], &["secrets", "reseal", "--json"]).await).unwrap();
    assert_eq!((&again["looked_at"], &again["resealed"], &again["removable"]), (&json!(2), &json!(0), &json!(["old"])));
    let app = app.restarted(&[&keys(&[NEW])]).await;
    assert_eq!(
        status(&app, &[NEW]).await,
        json!([{ "id": "new", "configured": true, "writes": true, "grants": 2, "unreadable": 0 }])
    );
    app.clock.advance(Duration::from_hours(2));
    app.sandbox.expire_access("owner");
    assert_eq!(app.anon().with_token(&owner).get("/guilds").await.status, 200, "the refresh token was readable");
    app.revoked(1).await;
}

#[tokio::test]
async fn what_cannot_be_read_is_said_with_its_remedy_and_left_alone() {
    let app = TestApp::builder().set(&keys(&[OLD])).start().await;
    app.user("owner").await;
    app.settled().await;
    let text = said(&app, &[NEW], &["secrets", "status"]).await;
    assert!(
        text.contains("1 grant can't be read without the key old, which is not configured: add it to secrets.keys"),
        "{text}"
    );
    let unreadable = json!({ "id": "old", "configured": false, "writes": false, "grants": 1, "unreadable": 1 });
    assert_eq!(status(&app, &[NEW]).await[1], unreadable);
    let text = said(&app, &[NEW, WRONG], &["secrets", "reseal"]).await;
    assert!(text.starts_with("Encrypted 0 of 1 grant with new.\n"), "{text}");
    assert!(text.contains("1 grant can't be read with the key old"), "{text}");
    assert!(!text.contains("Nothing needs"), "{text}");
    for secret in [OLD, NEW, WRONG] {
        assert!(!text.contains(secret.split_once(':').unwrap().1), "a key is shown");
    }
    let text = said(&app, &[NEW, OLD], &["secrets", "reseal"]).await;
    assert!(text.starts_with("Encrypted 1 of 1"), "the right key reads it still: {text}");
}
