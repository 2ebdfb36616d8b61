//! Stores left by an older release. This release opens them, and nothing is lost.
//!
//! `tests/system/cluster/upgrade_fixtures.py` ran that release and recorded its last answers.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Time;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, UpdateOutcome, UpdatePhase, UpdateSubject};
use flate2::read::GzDecoder;
use provider::idp::Endpoint;
use runtime::clock::Clock;
use sandbox::people::{HARBOUR, OWNER};
use serde_json::{Value, json};

use crate::harness::binary::{command, config_file, run};
use crate::harness::{Folder, TestApp, on_postgres, sandbox};

/// What depends on the time, or on the process that answers.
const VOLATILE: [&str; 6] = ["expires", "heartbeat_age", "last_seen", "process", "readable", "snapshot_age"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/e7e93c1").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut content = Vec::new();
    GzDecoder::new(std::fs::File::open(fixture(name)).unwrap()).read_to_end(&mut content).unwrap();
    content
}

/// What the older release said about this kind of store.
fn recorded(store: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(&format!("{store}.json"))).unwrap()).unwrap()
}

/// The service on the older release's store, at the moment that release stopped, and what it had said until then.
async fn upgraded() -> (TestApp, Value) {
    let old = recorded(if on_postgres() { "postgres" } else { "sqlite" });
    let builder = TestApp::builder().clock(Clock::manual(Time::from_seconds(old["recorded"].as_u64().unwrap())));
    let statements = String::from_utf8(unpacked("postgres.sql.gz")).unwrap();
    let key = std::fs::read_to_string(fixture("sqlite.key")).unwrap();
    builder.folder().adopt(&unpacked("sqlite.db.gz"), &key, &statements).await;
    (builder.start().await, old)
}

/// Checks that all of the old answer is in the new one, which may have additional fields.
fn has_all_of(place: &str, old: &Value, new: &Value) {
    match (old, new) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, value) in fields.iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str())) {
                has_all_of(&format!("{place} {name}"), value, &new[name.as_str()]);
            }
        }
        (Value::Array(entries), Value::Array(others)) => {
            assert_eq!(entries.len(), others.len(), "{place}");
            for (entry, other) in entries.iter().zip(others) {
                has_all_of(place, entry, other);
            }
        }
        _ => assert_eq!(old, new, "{place}"),
    }
}

/// The entries of a list in a fixed order: `/feedback` has none.
fn ordered(mut list: Value) -> Value {
    if let Some(entries) = list.as_array_mut() {
        entries.sort_by_key(|entry| entry["timestamp"].as_u64());
    }
    list
}

/// Checks that every table has as many rows as before.
async fn has_every_row(folder: &Folder, old: &Value) {
    for (table, rows) in old["rows"].as_object().unwrap() {
        assert_eq!(json!(folder.count(table).await), *rows, "{table}");
    }
}

#[tokio::test]
async fn an_older_store_keeps_every_row_and_answers_as_before() {
    let (app, old) = upgraded().await;
    has_every_row(&app.folder, &old).await;
    let answers = &old["answers"];
    for path in ["/", "/team", "/feedback", "/stats"] {
        has_all_of(path, &ordered(answers[path].clone()), &ordered(app.anon().get(path).await.data()));
    }
    for person in ["owner", "member"] {
        let client = app.anon().with_token(answers[person]["token"].as_str().unwrap());
        for path in ["/me", "/guilds", "/guilds/invitable", "/sessions"] {
            has_all_of(&format!("{person} {path}"), &answers[person][path], &client.get(path).await.data());
        }
    }
    let bot = app.bot_with(old["bot_key"].as_str().unwrap(), old["instance"].as_str().unwrap());
    has_all_of("/bot/state", &answers["/bot/state"], &bot.state().await);
    let blocked = app.sign_in(&app.sandbox.issue_code("newcomer")).await;
    assert_eq!(blocked.status, 403, "who was blocked stays blocked: {}", blocked.text());
    assert!(app.anon().get("/site/status").await.text().contains("We have moved"), "announcements stay");
}

#[tokio::test]
async fn what_an_older_store_announced_gets_updates_and_new_maintenance_has_a_window() {
    let (app, _) = upgraded().await;
    let (store, now) = (&app.app.store, app.clock.now());
    let old = store.history().await.unwrap();
    let moved = old.announcements.iter().find(|announcement| announcement.title == "We have moved").unwrap();
    assert_eq!((moved.window, old.updates.len()), (None, 0));
    let subject = UpdateSubject::Announcement(moved.id);
    let update = NewUpdate::new(subject, UpdatePhase::Monitoring, "All is quiet.").unwrap();
    assert_eq!(store.update_happening(update, now).await.unwrap(), UpdateOutcome::Posted);
    let window =
        MaintenanceWindow { begins: now.after(Duration::from_hours(1)), ends: now.after(Duration::from_hours(2)) };
    store.announce(Notice::new("New disks", "").unwrap().during(window), now).await.unwrap();
    let shown = app.anon().get("/site/status").await.text();
    for said in ["We have moved", "All is quiet.", "New disks", ">Scheduled</span>"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let new = store.history().await.unwrap();
    assert_eq!((new.days, new.incidents), (old.days, old.incidents));
}

#[tokio::test]
async fn sessions_of_an_older_store_go_on_and_its_grants_can_be_read() {
    let (app, old) = upgraded().await;
    for (token, known) in old["sessions"].as_object().unwrap() {
        let text = |name: &str| known[name].as_str().unwrap();
        app.sandbox.accept_tokens(text("person"), text("access"), text("refresh"));
        assert_eq!(app.anon().with_token(token).guilds().await.len(), 2, "from the store");
    }
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), 0);
    // From now on the list has to come from the provider, with a token that the older release encrypted.
    app.clock.advance(Duration::from_hours(2));
    let owner = app.anon().with_token(old["answers"]["owner"]["token"].as_str().unwrap());
    let guilds = owner.guilds().await;
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), 1);
    assert_eq!(guilds.len(), 1, "the sandbox's list, not the stored one");
    assert_eq!(guilds[0]["id"], json!(HARBOUR.id.to_string()));
    assert_eq!(owner.delete("/auth").send().await.status, 200);
    assert_eq!(owner.get("/me").await.status, 401);
}

#[tokio::test]
async fn a_grant_that_an_older_release_had_yet_to_revoke_is_revoked() {
    let (app, _) = upgraded().await;
    // The time of the stop was recorded in whole seconds, and may be before the sign-out.
    app.clock.advance(Duration::from_secs(1));
    app.revoked(1).await;
}

#[tokio::test]
async fn the_feed_goes_on_where_it_was() {
    let (app, old) = upgraded().await;
    let bot = app.bot_with(old["bot_key"].as_str().unwrap(), old["instance"].as_str().unwrap());
    let next = old["next"].as_u64().unwrap();
    let event = json!({"type": "guild", "id": HARBOUR.id.to_string(), "name": "Harbour City", "icon": null,
        "owner": OWNER.to_string(), "members": 413, "setup": true, "linked": false, "grants": {}});
    let repeated = bot.events(next - 1, std::slice::from_ref(&event)).await;
    assert_eq!(repeated.data(), json!({"applied": 0, "ignored": 1, "next": next}), "what was sent before");
    let answer = bot.events(next, &[event]).await;
    assert_eq!(answer.data(), json!({"applied": 1, "ignored": 0, "next": next + 1}));
    let owner = app.anon().with_token(old["answers"]["owner"]["token"].as_str().unwrap());
    let guilds = owner.guilds().await;
    let harbour = guilds.iter().find(|guild| guild["id"] == json!(HARBOUR.id.to_string())).unwrap();
    assert_eq!(harbour["members"], json!(413));
    let gone = app.bot_with("bck_000000000000000000000000000000000000", "bot").state().await;
    assert_eq!(gone["error"], json!("bot_key_invalid"), "other keys stay out");
}

#[tokio::test]
async fn a_backup_of_an_older_release_is_restored() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let backup = folder.path().join("backup");
    std::fs::write(&backup, unpacked("sqlite.backup.gz")).unwrap();
    let mut restore = command(&["restore", backup.to_str().unwrap(), "--keep-sessions", "--config"]);
    restore.arg(&config).env("COMPANION_SECRETS_KEYS", std::fs::read_to_string(fixture("sqlite.key")).unwrap().trim());
    let done = run(restore).await;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("3 of 3 grants"), "{said}");
    let mut old = recorded("sqlite");
    // For SQLite only; and the restore is itself a command.
    old["rows"].as_object_mut().unwrap().remove("counter");
    old["rows"]["audit"] = json!(old["rows"]["audit"].as_u64().unwrap() + 1);
    has_every_row(&folder, &old).await;
}
