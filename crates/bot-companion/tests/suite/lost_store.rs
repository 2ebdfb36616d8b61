//! A database file that is lost, new, or damaged: it is noticed and reported, and nothing is written where it would be lost.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use runtime::clock::Clock;
use rusqlite::Connection;
use serde_json::Value;

use crate::admin::Watcher;
use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, TestApp, eventually, sandbox, sqlite_only};

fn serve(config: &Path) -> Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

/// The output of a command, and its exit code.
async fn said(command: Command) -> (i32, String) {
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Stops it cleanly, and returns its log.
async fn stopped(mut service: Running) -> String {
    service.terminate();
    assert!(service.ended().await.success());
    service.logged()
}

/// The user who runs the tests, as `id` names them.
fn user_name() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_database_that_is_gone_is_noticed_and_nothing_is_written_until_it_is_back() {
    sqlite_only!("its files are the server's");
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let user = app.user("owner").await;
    app.settled().await;
    assert_eq!(watcher.health().await.0, 200);
    let (file, aside) = (app.folder.file(), app.folder.path().join("aside.db"));
    fs::rename(&file, &aside).unwrap();
    watcher.sees("companion_store_file_lost", 1.0).await;
    watcher.sees("companion_store_up", 0.0).await;
    let (status, health) = watcher.health().await;
    assert_eq!((status, &health["store"]["problem"]), (503, &"store_file_lost".into()), "{health}");
    assert_eq!((&health["store"]["read"], &health["store"]["write"]), (&"ok".into(), &"failed".into()));
    app.sign_in(&app.sandbox.issue_code("member")).await.refused(503, "store_unavailable");
    user.delete("/auth").send().await.refused(503, "store_unavailable");
    // A different file in its place is not accepted.
    fs::copy(&aside, &file).unwrap();
    app.sign_in(&app.sandbox.issue_code("member")).await.refused(503, "store_unavailable");
    fs::remove_file(&file).unwrap();
    assert!(!file.exists(), "the service makes no new one");

    fs::rename(&aside, &file).unwrap();
    watcher.sees("companion_store_file_lost", 0.0).await;
    watcher.sees("companion_store_up", 1.0).await;
    assert_eq!(app.sign_in(&app.sandbox.issue_code("member")).await.status, 200);
    assert_eq!(watcher.health().await.0, 200);
}

#[tokio::test]
async fn a_start_that_makes_a_new_database_says_so_and_a_lost_one_is_told_in_the_log() {
    sqlite_only!("the databases of the tests are copies of one that was made before");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let new = "created a new, empty store";
    let service = Running::start(serve(&config)).await;
    assert!(service.logged().contains(new) && service.logged().contains("data.db"), "{}", service.logged());
    stopped(service).await;
    let service = Running::start(serve(&config)).await;
    assert!(!service.logged().contains(new), "{}", service.logged());
    let aside = folder.path().join("aside.db");
    fs::rename(folder.file(), &aside).unwrap();
    eventually("the loss is logged", async || service.logged().contains("store_file_lost")).await;
    fs::rename(&aside, folder.file()).unwrap();
    let back = "the database file is at its path again";
    eventually("the return is logged", async || service.logged().contains(back)).await;
    assert_eq!(service.logged().matches("store_file_lost").count(), 1, "it is told once");
    stopped(service).await;
}

/// As if the database's volume were not mounted, or someone had deleted it.
fn lose(folder: &Folder) {
    for file in ["data.db", "data.db-wal", "data.db-shm"] {
        // The log may have been tidied away.
        let _ = fs::remove_file(folder.path().join(file));
    }
}

#[tokio::test]
async fn a_key_without_its_database_is_refused_unless_told_otherwise() {
    sqlite_only!("a server's keys are always given");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let path = config.to_str().unwrap();
    stopped(Running::start(serve(&config)).await).await;
    let backup = folder.path().join("companion.backup");
    let (code, text) = said(command(&["backup", backup.to_str().unwrap(), "--config", path])).await;
    assert_eq!(code, 0, "{text}");

    lose(&folder);
    for refused in [serve(&config), command(&["key", "create", "--label", "x", "--config", path])] {
        // Not `said`, which would wait forever for a running service.
        let mut refused = Running::spawn(refused);
        let (code, text) = (refused.ended().await.code().unwrap(), refused.logged());
        assert!(code == 78 && text.contains("its key file"), "{code}: {text}");
        assert!(text.contains("data.db.key") && text.contains("--new-database"), "{text}");
        assert!(text.contains(&format!("once as its owner, the user {}", user_name())), "{text}");
        assert!(!folder.file().exists(), "nothing was made");
    }
    let (code, text) = said(command(&["check", "--live", "--config", path])).await;
    let is_refusal = |line: &str| line.starts_with("failed") && line.contains(" database ");
    assert!(code == 78 && text.lines().any(|line| is_refusal(line) && line.contains("its key file")), "{code}: {text}");
    // An empty file isn't a database either.
    std::fs::write(folder.file(), "").unwrap();
    let (code, text) = said(command(&["check", "--live", "--config", path])).await;
    assert!(code == 78 && text.contains("its key file"), "{code}: {text}");
    std::fs::remove_file(folder.file()).unwrap();

    // A restore brings the data, so nothing else has to be confirmed.
    let (code, text) = said(command(&["restore", backup.to_str().unwrap(), "--config", path])).await;
    assert_eq!(code, 0, "{text}");
    stopped(Running::start(serve(&config)).await).await;

    lose(&folder);
    let mut anew = serve(&config);
    anew.arg("--new-database");
    let log = stopped(Running::start(anew).await).await;
    assert!(log.contains("created a new, empty store") && !log.contains("created a key"), "{log}");
    stopped(Running::start(serve(&config)).await).await;

    // Configured keys may be older than the database.
    lose(&folder);
    let mut configured = serve(&config);
    configured.env("COMPANION_SECRETS_KEYS", "mine:c3VpdGUta2V5LW1hdGVyaWFsLW9mLTMyLWJ5dGVzISE=");
    stopped(Running::start(configured).await).await;
}

/// Overwrites the first page of a table, as a failing disk might.
fn damage(file: &Path, table: &str) {
    let database = Connection::open(file).unwrap();
    let (page, size): (u32, u32) = database
        .query_row("SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?1", [table], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    drop(database);
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&vec![0x55; size as usize], u64::from(page - 1) * u64::from(size)).unwrap();
}

/// Asks the admin listener of a process.
async fn asked(service: &Running, path: &str) -> (u16, String) {
    let mut address = String::new();
    eventually("the admin listener listens", async || {
        let log = service.logged();
        let found = log.split_once("metrics and health are on http://").and_then(|(_, rest)| rest.split_once('/'));
        address = found.map_or_else(String::new, |(address, _)| address.to_owned());
        !address.is_empty()
    })
    .await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = http.get(format!("http://{address}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// What a live check says about damage: status and text.
async fn checked_damage(config: &Path) -> (String, String) {
    let output = run(command(&["check", "--live", "--json", "--config", config.to_str().unwrap()])).await;
    let lines: Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = lines.as_array().unwrap().iter().find(|line| line["check"] == "damage").unwrap().clone();
    (line["status"].as_str().unwrap().to_owned(), line["text"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn damage_is_told_as_such_by_log_health_metric_and_check() {
    sqlite_only!("nobody damages the server's files; a test of the store has it report damage");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "admin.listen = \"127.0.0.1:0\"");
    stopped(Running::start(serve(&config)).await).await;
    let (status, text) = checked_damage(&config).await;
    assert!(status == "ok" && text.contains("quick_check"), "{text}");

    damage(&folder.file(), "team");
    let (status, text) = checked_damage(&config).await;
    assert!(status == "failed" && text.contains("CompanionStoreDamaged"), "{text}");
    assert!(!text.contains("\\u{a}"), "a line break is shown escaped: {text}");

    let service = Running::start(serve(&config)).await;
    for _ in 0..3 {
        service.client().get("/team").await.refused(503, "store_unavailable");
    }
    let (status, health) = asked(&service, "/health").await;
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!((status, &health["status"]), (503, &"failing".into()), "{health}");
    assert_eq!(health["store"]["problem"], "store_damaged");
    let (_, metrics) = asked(&service, "/metrics").await;
    assert!(metrics.contains("\ncompanion_store_damaged 1\n"), "{metrics}");
    assert_eq!(asked(&service, "/readyz").await.0, 200, "what is whole is served");
    let log = service.logged();
    assert_eq!(log.matches("store_damaged:").count(), 1, "it is told once: {log}");
    assert_eq!(service.client().get("/feedback").await.status, 200, "the rest goes on");
}

#[tokio::test]
async fn dev_moves_data_of_an_unreleased_version_aside() {
    sqlite_only!("on PostgreSQL, the store says so itself");
    let folder = Folder::new();
    let (database, key) = (folder.path().join("bot-companion.db"), folder.path().join("bot-companion.db.key"));
    Connection::open(&database).unwrap().execute_batch("CREATE TABLE x (y); PRAGMA user_version = 9").unwrap();
    fs::write(&key, "an old key").unwrap();
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()];
    let log = stopped(Running::start(command(&arguments)).await).await;
    let aside = folder.path().join("unreleased");
    assert!(log.contains("made by an unreleased version") && log.contains(aside.to_str().unwrap()), "{log}");
    assert_eq!(fs::read_to_string(aside.join("bot-companion.db.key")).unwrap(), "an old key");
    assert!(aside.join("bot-companion.db").exists() && database.exists() && key.exists());
}

#[tokio::test]
async fn a_broken_row_that_is_read_again_and_again_is_told_once() {
    sqlite_only!("PostgreSQL refuses such text; the same throttle stands before its lines");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    stopped(Running::start(serve(&config)).await).await;
    let sql = "INSERT INTO feedback VALUES ('a', 'good', 5, 1, 7, CAST(x'ff00fe' AS TEXT), '', '', 0);
        INSERT INTO team VALUES (0, CAST(x'ff00fe' AS TEXT), '', '', 7, '', '', '', 0, '[]')";
    Connection::open(folder.file()).unwrap().execute_batch(sql).unwrap();
    let service = Running::start(serve(&config)).await;
    for _ in 0..5 {
        assert_eq!(service.client().get("/feedback").await.status, 200);
        assert_eq!(service.client().get("/team").await.status, 200);
    }
    let log = stopped(service).await;
    for what in ["feedback entry", "team member"] {
        let told = log.lines().filter(|line| line.contains("left out") && line.contains(what)).count();
        assert_eq!(told, 1, "{what}: {log}");
    }
}
