//! The commands for maintaining a store: backup, restore, stats, and what is stored about one person.

use std::path::{Path, PathBuf};

use domain::Change;
use sandbox::people::{HARBOUR, OWNER};
use serde_json::{Value, json};

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, TestApp, eventually, feedback, guild, id, sqlite_only, team, team_member};

/// Runs a command with this configuration, and returns whether it succeeded and both outputs.
async fn said(config: &Path, arguments: &[&str]) -> (bool, String) {
    let mut asked = command(arguments);
    asked.arg("--config").arg(config);
    let output = run(asked).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

async fn done(config: &Path, arguments: &[&str]) -> String {
    let (done, text) = said(config, arguments).await;
    assert!(done, "{arguments:?}: {text}");
    text
}

async fn json_of(config: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&done(config, &[arguments, &["--json"]].concat()).await).unwrap()
}

async fn serve(config: &Path) -> Running {
    let mut asked = command(&["serve", "--listen", "127.0.0.1:0"]);
    asked.arg("--config").arg(config);
    Running::start(asked).await
}

async fn stop(service: &mut Running) {
    service.terminate();
    assert!(service.ended().await.success());
}

/// The ID of a newly created key.
fn id_of(text: &str) -> String {
    text.split_whitespace().nth(2).unwrap().trim_end_matches('.').to_owned()
}

#[tokio::test]
async fn a_backup_drill_from_a_running_service_to_a_restored_one() {
    let (provider, folder) = (TestApp::start().await, Folder::new());
    let config = config_file(&folder, &provider.sandbox, "");
    let revoked = id_of(&done(&config, &["key", "create", "--label", "old bot"]).await);
    let mut service = serve(&config).await;
    let code = provider.sandbox.issue_code("owner");
    let answer = service.client().post("/auth").header("Idp-Code", &code).send().await;
    let token = answer.data()["token"].as_str().unwrap().to_owned();
    let file: PathBuf = folder.path().join("companion.backup");
    let file = file.to_str().unwrap();

    let text = done(&config, &["backup", file]).await;
    assert!(text.contains("was read back and is intact") && text.contains("the key is not included"), "{text}");
    let bytes = std::fs::read(file).unwrap();
    for secret in ["sandboxaccess_", "sandboxrefresh_", &token] {
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "a secret in the clear");
    }
    let (written, text) = said(&config, &["backup", file]).await;
    assert!(!written && text.contains("already exists"), "{text}");

    done(&config, &["key", "revoke", &revoked]).await;
    done(&config, &["users", "block", "4711"]).await;
    let (restored, text) = said(&config, &["restore", file, "--replace"]).await;
    assert!(!restored && text.contains("the store is in use"), "{text}");
    stop(&mut service).await;
    let (restored, text) = said(&config, &["restore", file]).await;
    assert!(!restored && text.contains("the store is not empty") && text.contains("--replace"), "{text}");

    let text = done(&config, &["restore", file, "--replace"]).await;
    assert!(text.contains("Ended 1 session from the backup"), "{text}");
    let key = format!("Key {revoked} (old bot) works now but was revoked at 20");
    assert!(text.contains(&key) && text.contains(&format!("`bot-companion key revoke {revoked}`")), "{text}");
    assert!(text.contains("User 4711 was blocked before the restore and no longer is"), "{text}");
    let mut service = serve(&config).await;
    service.client().with_token(&token).get("/sessions").await.refused(401, "token_invalid");
    stop(&mut service).await;

    let report = json_of(&config, &["restore", file, "--replace", "--keep-sessions"]).await;
    assert_eq!((&report["sessions_ended"], &report["keys_that_work_again"]), (&json!(0), &json!([])));
    let service = serve(&config).await;
    assert_eq!(service.client().with_token(&token).get("/sessions").await.status, 200);
}

#[tokio::test]
async fn stats_say_what_the_store_holds() {
    let app = TestApp::start().await;
    app.bot_says([Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER)), Change::Feedback(feedback("f", 5))]).await;
    app.user("owner").await;
    app.settled().await;
    let config = config_file(&app.folder, &app.sandbox, "");
    let stats = json_of(&config, &["stats"]).await;
    let found = ["users", "sessions", "guilds", "feedback", "blocked", "forgotten"].map(|name| stats[name].as_u64());
    assert_eq!(found, [1, 1, 1, 1, 0, 0].map(Some), "{stats}");
    assert_eq!(stats["grants"][0]["grants"], 1);
    assert_eq!(stats["oldest_session"], "2027-01-15T08:00:00Z");
    assert!(stats["bytes"].as_u64().unwrap() > 10_000 && stats["schema"].as_u64().unwrap() > 4, "{stats}");
    let text = done(&config, &["stats"]).await;
    assert!(text.contains("\nsessions         1 ") && text.contains(" from 2027-01-15T08:00:00Z to "), "{text}");
}

#[tokio::test]
async fn a_person_is_shown_and_forgotten_while_the_service_runs() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    let user = OWNER.to_string();
    owner.guilds().await;
    let name = owner.get("/me").await.data()["user"]["username"].as_str().unwrap().to_owned();
    let mut said_of_bot = feedback("f", 5);
    said_of_bot.entry.submitter.username.clone_from(&name);
    said_of_bot.entry.submitter.id = id(OWNER);
    let roster = || team(vec![team_member(OWNER, &name, "x", 0, &[])]);
    app.bot_says([
        Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER)),
        Change::Feedback(said_of_bot.clone()),
        roster(),
    ])
    .await;
    let config = config_file(&app.folder, &app.sandbox, "");

    let person = json_of(&config, &["users", "show", &user]).await;
    assert_eq!((&person["username"], &person["id"]), (&json!(name), &json!(user)));
    assert_eq!(person["sessions"].as_array().unwrap().len(), 1);
    assert_eq!((&person["roster_entries"], &person["feedback_entries"]), (&json!(1), &json!(1)));
    assert!(person["grant"]["scopes"].as_array().unwrap().contains(&json!("guilds")), "{person}");
    assert!(person["guild_list"]["fetched"].as_str().unwrap().ends_with('Z'));
    let text = done(&config, &["users", "show", &user]).await;
    assert!(text.contains(&name) && !text.contains(owner.token()), "{text}");

    let (forgotten, text) = said(&config, &["users", "forget", &user]).await;
    assert!(!forgotten && text.contains("add --yes"), "{text}");
    let text = done(&config, &["users", "forget", &user, "--yes"]).await;
    assert!(text.contains("Sessions ended: 1; roster entries removed: 1"), "{text}");
    assert!(text.contains("revoke their grant at the provider"), "{text}");
    let is_left = || app.folder.at_rest().windows(name.len()).any(|window| window == name.as_bytes());
    assert!(!is_left(), "the name is left in a file, the write-ahead log included");
    eventually("the session has ended", async || owner.get("/sessions").await.status == 401).await;
    app.revoked(1).await;
    eventually("the roster is empty", async || app.anon().get("/team").await.data() == json!([])).await;
    app.bot_says([Change::Feedback(said_of_bot), roster()]).await;
    assert_eq!(app.anon().get("/team").await.data(), json!([]));
    let shown = app.anon().get("/feedback").await;
    assert_eq!(shown.data()[0]["submitter"]["username"], "");
    assert!(!shown.text().contains(&name) && !shown.text().contains(&user), "{}", shown.text());
    assert_eq!(json_of(&config, &["users", "show", &user]).await["sessions"], json!([]));
    let text = done(&config, &["users", "show", "999"]).await;
    assert_eq!(text, "Nothing is stored about user 999.\n");
}

#[tokio::test]
async fn the_page_about_privacy_names_every_table_and_every_column() {
    sqlite_only!("the schema is read from the file; a test of the store compares the two schemas");
    let app = TestApp::start().await;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/privacy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let without_people = page.split_once("These tables contain nothing about people:").unwrap().1;
    let file = rusqlite::Connection::open(app.folder.file()).unwrap();
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'";
    let mut statement = file.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let columns: Vec<(String, String)> = columns.map(Result::unwrap).collect();
    assert!(columns.len() > 100, "{columns:?}");
    for (table, column) in columns {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{table}` |")));
        match row {
            Some(row) => assert!(row.contains(&format!("`{column}`")), "docs/privacy.md: {table}.{column} is missing"),
            None => assert!(without_people.contains(&format!("`{table}`")), "docs/privacy.md: {table} is missing"),
        }
    }
}
