//! Read-only commands: they create, migrate and encrypt nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use runtime::clock::Clock;
use serde_json::{Value, json};

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, sandbox, sqlite_only};

/// The commands that read the store.
const READING: [&[&str]; 9] = [
    &["key", "list"],
    &["stats"],
    &["audit"],
    &["users", "show", "4711"],
    &["users", "blocked"],
    &["team", "export"],
    &["secrets", "status"],
    &["announce", "list"],
    &["secrets", "status", "--json"],
];
/// Commands that read the configuration, and at most look at the store.
const LOOKING: [&[&str]; 3] = [&["check"], &["config", "--effective"], &["config"]];

/// Exit code, standard output and standard error.
async fn outcome(config: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut asked = command(arguments);
    asked.arg("--config").arg(config);
    let output = run(asked).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn serve(config: &Path) -> Running {
    let mut asked = command(&["serve", "--listen", "127.0.0.1:0"]);
    asked.arg("--config").arg(config);
    Running::start(asked).await
}

/// Every file of a folder with its contents, except for the index of SQLite's log, which readers share and which contains no
/// data.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    files.filter(|(name, _)| !name.ends_with("-shm")).collect()
}

/// The names alone, for a readable message.
fn names(contents: &BTreeMap<String, Vec<u8>>) -> Vec<(&str, usize)> {
    contents.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect()
}

/// Runs all commands that read; each succeeds and leaves the folder unchanged. A backup records when it was made, and nothing
/// else.
async fn assert_nothing_changes(folder: &Path, config: &Path, backup: &Path) {
    let before = contents(folder);
    for arguments in READING.into_iter().chain(LOOKING) {
        let (code, _, error) = outcome(config, arguments).await;
        assert_eq!(code, 0, "{arguments:?}: {error}");
        let after = contents(folder);
        assert!(after == before, "{arguments:?} changed {:?} to {:?}", names(&before), names(&after));
    }
    let rows = stored(folder);
    let (code, _, error) = outcome(config, &["backup", backup.to_str().unwrap()]).await;
    assert_eq!(code, 0, "{error}");
    let without_log =
        |files: BTreeMap<String, Vec<u8>>| files.into_keys().filter(|name| !name.ends_with("-wal")).collect::<Vec<_>>();
    assert_eq!(without_log(contents(folder)), without_log(before), "a backup made a file");
    assert!(stored(folder) == rows, "a backup changed the data");
}

/// All rows of the store except the probe's.
fn stored(folder: &Path) -> Vec<String> {
    let store = rusqlite::Connection::open(folder.join("data.db")).unwrap();
    let of_table = |table: String| {
        let mut rows = store.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = rows.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            Ok((0..columns).map(|at| format!("{:?}", row.get_ref_unwrap(at))).collect::<String>())
        };
        rows.query_map([], text).unwrap().map(|row| format!("{table}: {}", row.unwrap())).collect::<Vec<_>>()
    };
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'probe' ORDER BY name";
    let tables: Vec<String> =
        store.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    tables.into_iter().flat_map(of_table).collect()
}

#[tokio::test]
async fn reading_commands_leave_every_file_as_it_is_and_make_no_key() {
    sqlite_only!("it is about the files; a test of the store shows that PostgreSQL refuses writes");
    let (folder, elsewhere, provider) = (Folder::new(), Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let mut service = serve(&config).await;
    let answer = service.client().post("/auth").header("Idp-Code", provider.issue_code("owner")).send().await;
    assert_eq!(answer.status, 200);
    service.terminate();
    assert!(service.ended().await.success());

    assert_nothing_changes(folder.path(), &config, &elsewhere.path().join("with key")).await;
    let key = folder.path().join("data.db.key");
    let aside = elsewhere.path().join("key");
    fs::rename(&key, &aside).unwrap();
    assert_nothing_changes(folder.path(), &config, &elsewhere.path().join("without key")).await;
    let (_, status, _) = outcome(&config, &["secrets", "status", "--json"]).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status[0]["configured"], &status[0]["unreadable"]), (&json!(false), &json!(1)), "{status}");

    // After a crash, the log next to the file is part of the data.
    fs::rename(&aside, &key).unwrap();
    let mut service = serve(&config).await;
    service.kill();
    assert!(folder.path().join("data.db-wal").exists());
    assert_nothing_changes(folder.path(), &config, &elsewhere.path().join("after a crash")).await;
}

#[tokio::test]
async fn a_schema_of_another_release_is_refused_by_every_reading_command_and_stays() {
    let (folder, elsewhere, provider) = (Folder::new(), Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let (code, _, error) = outcome(&config, &["key", "create", "--label", "x"]).await;
    assert_eq!(code, 0, "{error}");
    let on_postgres = crate::harness::on_postgres();
    let backup = elsewhere.path().join("backup");
    for (version, why) in [(9, "made by an unreleased version"), (1000, "written by a newer release")] {
        let set = if on_postgres { "UPDATE schema_version SET version =" } else { "PRAGMA user_version =" };
        folder.sql(&format!("{set} {version}")).await;
        let before = contents(folder.path());
        for arguments in READING {
            let (code, said, error) = outcome(&config, arguments).await;
            assert_eq!((code, said.as_str()), (1, ""), "{arguments:?}: {error}");
            assert!(error.contains(&format!("schema version {version}")) && error.contains(why), "{error}");
        }
        for arguments in LOOKING.into_iter().chain([&["backup", backup.to_str().unwrap()][..]]) {
            outcome(&config, arguments).await;
            assert!(contents(folder.path()) == before, "{arguments:?}: {:?}", names(&contents(folder.path())));
        }
        if on_postgres {
            assert_eq!(folder.count(&format!("schema_version WHERE version = {version}")).await, 1, "it was migrated");
        }
    }
}
