//! `--json` on commands that change something, and on `dev`: one JSON object on standard output.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Client, Folder, TestApp, eventually};

/// What a command prints with `--json`, and its exit code. Standard output is one JSON value and nothing else.
async fn printed(config: &Path, arguments: &[&str]) -> (i32, Value) {
    let mut asked = command(arguments);
    asked.args(["--json", "--config"]).arg(config);
    let output = run(asked).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let value = serde_json::from_str(&text);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), value.unwrap_or_else(|wrong| panic!("{arguments:?}: {wrong}: {text}{error}")))
}

async fn done(config: &Path, arguments: &[&str]) -> Value {
    let (code, value) = printed(config, arguments).await;
    assert_eq!(code, 0, "{arguments:?}: {value}");
    value
}

/// The names of an object's fields, in order.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with("20") && text.ends_with('Z'))
}

#[tokio::test]
async fn keys_and_announcements_say_what_changed_as_json() {
    let app = TestApp::start().await;
    let config = config_file(&app.folder, &app.sandbox, "");
    let key = done(&config, &["key", "create", "--label", "lantern \u{1f3ee}"]).await;
    assert_eq!(fields(&key), ["created", "id", "key", "label"]);
    assert!(is_time(&key["created"]) && key["key"].as_str().unwrap().len() > 30, "{key}");
    let id = key["id"].as_str().unwrap();
    let revoked = done(&config, &["key", "revoke", id]).await;
    assert_eq!((fields(&revoked), &revoked["id"]), (vec!["id", "revoked"], &key["id"]));
    assert!(is_time(&revoked["revoked"]), "{revoked}");

    let posted = done(&config, &["announce", "Maintenance", "--text", "tonight"]).await;
    assert_eq!((fields(&posted), &posted["id"]), (vec!["id", "posted"], &json!(1)));
    let ended = done(&config, &["announce", "end", "1"]).await;
    assert!(ended["id"] == 1 && is_time(&ended["ended"]), "{ended}");
    assert_eq!(done(&config, &["announce", "remove", "1"]).await, json!({ "id": 1, "removed": true }));
}

#[tokio::test]
async fn people_are_blocked_and_forgotten_with_json() {
    let app = TestApp::start().await;
    app.user("owner").await;
    app.settled().await;
    let config = config_file(&app.folder, &app.sandbox, "");
    let user = sandbox::people::OWNER.to_string();
    let blocked = done(&config, &["users", "block", &user, "--reason", "because"]).await;
    assert_eq!(fields(&blocked), ["reason", "sessions_ended", "since", "user"]);
    assert_eq!((&blocked["user"], &blocked["sessions_ended"]), (&json!(user), &json!(1)));
    let unblock = ["users", "unblock", &user];
    assert_eq!(done(&config, &unblock).await, json!({ "user": user, "unblocked": true }));
    assert_eq!(done(&config, &unblock).await, json!({ "user": user, "unblocked": false }));
    let forgotten = done(&config, &["users", "forget", &user, "--yes"]).await;
    let expected = [
        "audit_rows",
        "blocked",
        "feedback_entries",
        "grant_to_revoke",
        "left_in_file",
        "owner_of_guilds",
        "roster_entries",
        "sessions_ended",
        "staff_in_guilds",
        "subscriptions",
        "user",
    ];
    assert_eq!(fields(&forgotten), expected);
    assert_eq!((&forgotten["user"], &forgotten["blocked"]), (&json!(user), &json!(false)));
    assert_eq!(forgotten["left_in_file"], json!(null), "a small file is vacuumed at once");
}

#[tokio::test]
async fn imports_say_what_they_took_as_json() {
    let app = TestApp::start().await;
    let config = config_file(&app.folder, &app.sandbox, "");
    let team = app.folder.path().join("team.toml");
    fs::write(&team, "members = []").unwrap();
    for (more, changed) in [(&["--dry-run"][..], false), (&[], true)] {
        let said = done(&config, &[&["team", "import", team.to_str().unwrap()], more].concat()).await;
        assert_eq!(said, json!({ "changed": changed, "members": 0, "notes": [] }));
    }
    let feedback = app.folder.path().join("feedback.ndjson");
    fs::write(&feedback, "{\"id\": 7}\n").unwrap();
    let (code, said) = printed(&config, &["feedback", "import", feedback.to_str().unwrap()]).await;
    assert_eq!((code, fields(&said)), (1, vec!["changed", "first_refused", "refused", "taken"]));
    assert_eq!((&said["taken"], &said["refused"]), (&json!(0), &json!(1)));
    assert!(said["first_refused"][0].as_str().unwrap().starts_with("line 1: "), "{said}");
}

#[tokio::test]
async fn dev_says_its_addresses_and_its_bot_key_in_one_line() {
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let dev = Running::spawn(command(&["dev", "--json", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]));
    let printed = || fs::read_to_string(&dev.output).unwrap();
    eventually("dev says where it is", async || printed().ends_with('\n')).await;
    let said: Value = serde_json::from_str(&printed()).unwrap();
    assert_eq!(fields(&said), ["admin", "bot_key", "sandbox", "service"]);
    let at = |name: &str| Client::new(said[name].as_str().unwrap().to_owned());
    assert_eq!(at("admin").get("/metrics").await.status, 200);
    assert_eq!(at("sandbox").get("/control").await.status, 200);
    assert_ne!(at("service").get("/stats").await.data()["guilds"], 0, "the demo bot has sent its guilds");
    let key = format!("Bearer {}", said["bot_key"].as_str().unwrap());
    let state = at("service").call(reqwest::Method::GET, "/bot/state").header("Authorization", &key).send().await;
    assert_eq!(state.status, 200);
    assert_eq!(printed().lines().count(), 1, "nothing follows");
}
