//! Schemas of other versions, for both stores: a list with one more step that ends in today's schema.

use secrecy::ExposeSecret as _;

use super::format::{BackupReader, BackupWriter};
use super::restore::restore_into;
use super::*;
use crate::migrations::STEPS;
use crate::schema_version::{FIRST, Steps};

const TABLE: &str = "CREATE TABLE history_updates (";
const COLUMN: &str = "rescheduled";

/// A release with one more step, the last, which adds the table and the column that the first step then lacks.
fn later() -> Steps {
    let (whole, rest) = STEPS.0.split_first().unwrap();
    let (first, table) = whole.split_at(whole.find(TABLE).unwrap());
    let column = format!(",\n    {COLUMN} {{number}}");
    assert!(first.contains(&column));
    let last = format!("{table}ALTER TABLE announcements ADD COLUMN {COLUMN} {{number}};");
    leaked([&[&*first.replace(&column, "").leak()], rest, &[&*last.leak()]].concat())
}

fn leaked(steps: Vec<&'static str>) -> Steps {
    Steps(steps.leak())
}

/// The same without the last step.
fn earlier(later: Steps) -> Steps {
    Steps(&later.0[..later.0.len() - 1])
}

/// This release's version.
fn newest() -> usize {
    STEPS.newest()
}

/// Opens the store as a service with these steps does; whether it is new.
fn migrated(url: &SecretString, steps: Steps) -> crate::Result<bool> {
    match crate::local_file(url) {
        Some(path) => sqlite::migrations::run(&mut Connection::open(path).unwrap(), steps),
        None => run(async { postgres::migrations::run(&mut connect(url.expose_secret()).await, steps).await }),
    }
}

/// Runs statements that both stores understand.
fn change(url: &SecretString, sql: &str) {
    match crate::local_file(url) {
        Some(path) => Connection::open(path).unwrap().execute_batch(sql).unwrap(),
        None => ask(url.expose_secret(), sql),
    }
}

/// A number that the statement finds.
fn number(url: &SecretString, sql: &str) -> i64 {
    match crate::local_file(url) {
        Some(path) => Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap(),
        None => run(async { connect(url.expose_secret()).await.query_one(sql, &[]).await.unwrap().get(0) }),
    }
}

fn version(url: &SecretString) -> usize {
    let is_file = crate::local_file(url).is_some();
    let sql =
        if is_file { "SELECT user_version FROM pragma_user_version" } else { "SELECT version FROM schema_version" };
    usize::try_from(number(url, sql)).unwrap()
}

fn set_version(url: &SecretString, version: usize) {
    let is_file = crate::local_file(url).is_some();
    let set = if is_file { "PRAGMA user_version =" } else { "UPDATE schema_version SET version =" };
    change(url, &format!("{set} {version}"));
}

#[test]
fn a_store_is_migrated_step_by_step_and_keeps_its_data() {
    let later = later();
    for on in destinations() {
        let mut home = Home::new();
        let url = home.store(on, "store.db");
        assert!(migrated(&url, earlier(later)).unwrap(), "{on:?}: it is new");
        assert_eq!(version(&url), newest());
        change(&url, "INSERT INTO announcements (id, title, text, posted) VALUES (7, 'a', 'b', 5)");
        assert!(!migrated(&url, later).unwrap());
        assert!(!migrated(&url, later).unwrap(), "the second time, there is nothing to do");
        assert_eq!(version(&url), newest() + 1);
        let kept = "SELECT count(*) FROM announcements WHERE id = 7 AND rescheduled IS NULL";
        assert_eq!((number(&url, kept), number(&url, "SELECT count(*) FROM history_updates")), (1, 0));
        let refused = migrated(&url, earlier(later)).unwrap_err().to_string();
        assert!(refused.contains("written by a newer release"), "{on:?}: {refused}");
        assert_eq!(version(&url), newest() + 1);
    }
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    for on in destinations() {
        let mut home = Home::new();
        let url = home.filled(on, 3);
        let before = contents(&url);
        let broken = leaked([STEPS.0, &["DELETE FROM team; DELETE FROM absent"]].concat());
        assert!(migrated(&url, broken).is_err());
        assert!(contents(&url) == before && version(&url) == newest(), "{on:?}");
    }
}

/// The backup as a release with another schema would have made it, with the columns in reverse order.
fn aged(backup: &[u8], schema: usize, gone: &[&str], gone_columns: &[(&str, &str)]) -> Vec<u8> {
    let mut reader = BackupReader::begin(backup, STEPS).unwrap();
    let of = reader.header.tables.clone();
    let mut header = BackupHeader { schema, ..reader.header.clone() };
    header.tables.retain(|table| !gone.contains(&table.name.as_str()));
    for table in &mut header.tables {
        let name = table.name.as_str();
        table.columns.retain(|column| !gone_columns.contains(&(name, column)));
        table.columns.reverse();
    }
    let mut writer = BackupWriter::begin(Vec::new(), &header).unwrap();
    while let Some((index, row)) = reader.next().unwrap() {
        if let Some(table) = header.tables.iter().find(|table| table.name == of[index].name) {
            let row: Vec<_> = table.columns.iter().map(|name| of[index].cell(&row, name).unwrap().clone()).collect();
            writer.row(&row).unwrap();
        }
    }
    writer.finish().unwrap()
}

#[test]
fn a_backup_of_an_older_schema_is_loaded_into_it_and_then_migrated() {
    let later = later();
    for (from, to) in ways() {
        let mut home = Home::new();
        let source = home.filled(from, 3);
        change(&source, "DELETE FROM history_updates; UPDATE announcements SET rescheduled = NULL");
        backed_up(&home, &source, "whole").unwrap();
        let whole = std::fs::read(home.file("whole")).unwrap();
        let old = aged(&whole, newest(), &["history_updates"], &[("announcements", COLUMN)]);
        std::fs::write(home.file("old"), old).unwrap();
        // Into a new store, and over one with data, whose last backup is still known.
        let used = home.store(to, "used.db");
        run(moved(&source, &used)).unwrap();
        // It has the tables of the later schema.
        set_version(&used, newest() + 1);
        change(&used, "DELETE FROM team; DELETE FROM probe; INSERT INTO probe (id, at) VALUES (1, 77)");
        for url in [home.store(to, "new.db"), used.clone()] {
            let what = RestoreOptions { replace: true, ..options(&home, &url, "old") };
            run(restore_into(&what, &mut unseen, later)).unwrap();
            assert_eq!(version(&url), newest() + 1, "{from:?} to {to:?}");
            // The tables are those of today.
            set_version(&url, newest());
            assert!(contents(&url) == contents(&source), "{from:?} to {to:?}");
        }
        assert_eq!(number(&used, "SELECT at FROM probe"), 77);
    }
}

#[test]
fn a_backup_of_a_newer_or_an_unreleased_schema_is_refused() {
    for on in destinations() {
        let mut home = Home::new();
        let url = home.filled(on, 3);
        let before = contents(&url);
        let header = backed_up(&home, &url, "backup").unwrap();
        let whole = std::fs::read(home.file("backup")).unwrap();
        assert_eq!(header.schema, newest());
        let (newer, ours, store) = (newest() + 1, newest(), &header.store);
        let refused_as_newer = format!(
            "the backup was written by release {} with a newer schema (version {newer} of {store}, and this release has \
             {ours}): restore it with that release or a newer one",
            header.release
        );
        for (schema, said) in
            [(newer, refused_as_newer.as_str()), (FIRST - 1, "made by an unreleased version"), (0, "unreleased")]
        {
            std::fs::write(home.file("other"), aged(&whole, schema, &[], &[])).unwrap();
            let what = RestoreOptions { replace: true, ..options(&home, &url, "other") };
            let refused = restored(&what).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        assert!(contents(&url) == before, "{on:?}: something was changed");
    }
}

#[test]
fn a_store_of_an_unreleased_version_is_refused_by_name_and_left_alone() {
    for on in destinations() {
        let mut home = Home::new();
        let url = home.filled(on, 3);
        backed_up(&home, &url, "backup").unwrap();
        for unreleased in [1, FIRST - 1] {
            set_version(&url, unreleased);
            let wait = Duration::from_mins(1);
            let what = RestoreOptions { replace: true, ..options(&home, &url, "backup") };
            let reading = StoreOptions { url: url.clone(), wait, connections: 2, start_wait: Duration::ZERO };
            for refused in [
                run(async { open(&url).await.err().unwrap().to_string() }),
                run(async { crate::open_read_only(reading, new_freshness()).await.err().unwrap().to_string() }),
                run(crate::look(&url, wait)).unwrap_err().to_string(),
                backed_up(&home, &url, "again").unwrap_err().to_string(),
                restored(&what).unwrap_err().to_string(),
            ] {
                let said = format!("schema version {unreleased}: it was made by an unreleased version");
                assert!(refused.contains(&said), "{on:?}: {refused}");
            }
            assert_eq!(version(&url), unreleased);
        }
    }
}

#[test]
fn a_reading_command_asks_for_a_migration_that_it_does_not_do() {
    let steps = later();
    let refused = steps.expect_readable(i64::try_from(newest()).unwrap()).unwrap_err().to_string();
    assert!(refused.contains("do not migrate it: start this release's service once"), "{refused}");
    steps.expect_readable(i64::try_from(steps.newest()).unwrap()).unwrap();
}
