//! `bot-companion secrets …` next to a running service: what is encrypted with which key, and a change of keys.

use std::time::Duration;

use runtime::clock::Clock;
use serde_json::{Value, json};

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, TestApp, eventually, on_postgres, sandbox};

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
    assert!(text.contains("1 grant can't be read with its key old"), "{text}");
    assert!(!text.contains("Nothing needs"), "{text}");
    for secret in [OLD, NEW, WRONG] {
        assert!(!text.contains(secret.split_once(':').unwrap().1), "a key is shown");
    }
    let text = said(&app, &[NEW, OLD], &["secrets", "reseal"]).await;
    assert!(text.starts_with("Encrypted 1 of 1"), "the right key reads it still: {text}");
}

#[tokio::test]
async fn a_change_of_keys_that_the_running_service_does_not_know_of_is_refused() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "admin.listen = \"127.0.0.1:0\"");
    let config = config.to_str().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, OLD).unwrap();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--config", config]);
    serve.env("COMPANION_SECRETS_KEYS_FILE", &keys);
    let service = Running::start(serve).await;
    let answer = service.client().post("/auth").header("Idp-Code", provider.issue_code("owner")).send().await;
    assert_eq!(answer.status, 200);
    let mark = "metrics and health are on http://";
    eventually("the admin listener is there", async || service.logged().contains(mark)).await;
    let admin = service.logged().split_once(mark).unwrap().1.split('/').next().unwrap().to_owned();
    let asked = async |admin: &str, arguments: &[&str]| {
        let mut command = command(&[arguments, &["--config", config]].concat());
        command.env("COMPANION_SECRETS_KEYS_FILE", &keys).env("COMPANION_ADMIN_LISTEN", admin);
        let output = run(command).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let reseal = ["secrets", "reseal"];
    let sealed_with_old = async || {
        let (_, status, _) = asked("off", &["secrets", "status", "--json"]).await;
        let status: Value = serde_json::from_str(&status).unwrap();
        let old = status.as_array().unwrap().iter().find(|key| key["id"] == "old").unwrap();
        old["grants"].as_u64().unwrap()
    };

    // Step 5 of the document before step 4.
    std::fs::write(&keys, format!("{NEW},{OLD}")).unwrap();
    let (code, output, error) = asked(&admin, &reseal).await;
    assert!(code == 1 && output.is_empty(), "{output}{error}");
    assert!(error.contains("does not have the key `new` yet") && error.contains("Nothing was changed"), "{error}");
    assert_eq!(sealed_with_old().await, 1);

    service.reload("reloaded changed=secrets.keys").await;
    let (code, output, error) = asked(&admin, &reseal).await;
    assert!(code == 0 && output.starts_with("Encrypted 1 of 1 grant with new."), "{output}{error}");
    assert_eq!(error.contains("was asked. Every service that uses this store"), on_postgres(), "{error}");
    assert_eq!(sealed_with_old().await, 0);
}
