//! Backups of other releases. `fixtures/README.md` says how those of commit e7e93c1 were made.

use std::collections::BTreeMap;

use super::format::{BackupReader, BackupWriter};
use super::*;
use crate::schema_version::EQUAL;

/// A backup, and what a store holds that it was restored into.
const OF_SQLITE: (&[u8], &str) =
    (include_bytes!("fixtures/e7e93c1-sqlite.backup"), include_str!("fixtures/e7e93c1-sqlite.rows"));
const OF_POSTGRES: (&[u8], &str) =
    (include_bytes!("fixtures/e7e93c1-postgres.backup"), include_str!("fixtures/e7e93c1-postgres.rows"));

fn restored(home: &Home, backup: &[u8], url: &SecretString) -> std::result::Result<RestoreReport, BackupError> {
    std::fs::write(home.file("backup"), backup).unwrap();
    let what = RestoreOptions {
        url: url.clone(),
        start_wait: Duration::from_mins(5),
        file: home.file("backup"),
        replace: true,
        keep_sessions: true,
        now: NOW,
    };
    run(restore(&what, &mut unseen))
}

/// The rows of each table under its line; the tables that are `gone` have none.
fn expected(rows: &str, gone: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut tables = BTreeMap::new();
    for text in rows.split("# ").skip(1) {
        let (columns, rows) = text.split_once('\n').unwrap();
        let is_gone = gone.contains(&columns.split_once(' ').unwrap().0);
        let rows = if is_gone { vec![] } else { rows.lines().map(ToOwned::to_owned).collect() };
        tables.insert(columns.to_owned(), rows);
    }
    tables
}

/// The same of a store.
fn found(url: &SecretString, rows: &str) -> BTreeMap<String, Vec<String>> {
    looked_at(url, |db| {
        let lines = rows.lines().filter_map(|line| line.strip_prefix("# "));
        let tables = lines.map(|line| {
            let (table, columns) = line.split_once(' ').unwrap();
            let columns: Vec<_> = columns.split(' ').map(|column| format!("quote({column})")).collect();
            let mut statement = db.prepare(&format!("SELECT {} FROM {table}", columns.join(" || ' ' || "))).unwrap();
            let mut rows: Vec<String> =
                statement.query_map([], |row| row.get(0)).unwrap().map(std::result::Result::unwrap).collect();
            rows.sort();
            (line.to_owned(), rows)
        });
        tables.collect()
    })
}

#[test]
fn backups_of_a_released_commit_are_restored_into_either_store() {
    for (backup, rows) in [OF_SQLITE, OF_POSTGRES] {
        for to in destinations() {
            let mut home = Home::new();
            // Over another store, whose counter goes on, and into none.
            for (url, counter) in [(home.filled(to, 3), Some("123456789")), (home.store(to, "new.db"), None)] {
                let report = restored(&home, backup, &url).unwrap();
                assert_eq!((report.header.release.as_str(), report.header.rows()), ("0.1.0", 222));
                let (found, mut expected) = (found(&url, rows), expected(rows, &[]));
                if let Some(counter) = counter {
                    expected.insert("counter value".to_owned(), vec![counter.to_owned()]);
                }
                assert_eq!(found, expected, "{to:?}");
                run(async {
                    let store = open(&url).await.unwrap();
                    assert_eq!(store.keys().await.unwrap().len(), 2);
                    store.close().await;
                });
            }
        }
    }
}

/// The backup as a release with an older schema would have made it, with the columns the other way round.
fn aged(backup: &[u8], schema: usize, gone: &[&str], gone_column: &str) -> Vec<u8> {
    let mut reader = BackupReader::begin(backup).unwrap();
    let of = reader.header.tables.clone();
    let mut header = BackupHeader { schema, ..reader.header.clone() };
    header.tables.retain(|table| !gone.contains(&table.name.as_str()));
    for table in &mut header.tables {
        table.columns.retain(|column| column != gone_column);
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
    let history = ["history_minutes", "history_days", "incidents", "announcements"];
    let upkeep =
        ["history_minutes", "history_days", "incidents", "announcements", "forgotten_users", "audit", "totals"];
    let ((of_sqlite, sqlite_rows), (of_postgres, postgres_rows)) = (OF_SQLITE, OF_POSTGRES);
    for (backup, rows, gone) in [
        (aged(of_sqlite, 7, &history, ""), sqlite_rows, &history[..]),
        (aged(of_postgres, 5, &history, ""), postgres_rows, &history),
        // Without the totals, which the next step counts.
        (aged(of_sqlite, 5, &upkeep, "member_sum"), sqlite_rows, &upkeep[..6]),
        (aged(of_postgres, 3, &upkeep, "member_sum"), postgres_rows, &upkeep[..6]),
    ] {
        for to in destinations() {
            let mut home = Home::new();
            for url in [home.filled(to, 3), home.store(to, "new.db")] {
                restored(&home, &backup, &url).unwrap();
                let (mut found, mut expected) = (found(&url, rows), expected(rows, gone));
                found.remove("counter value");
                expected.remove("counter value");
                assert_eq!(found, expected, "{to:?} without {gone:?}");
                let again = BackupOptions { url: url.clone(), start_wait: Duration::from_mins(5), now: NOW };
                let header = run(back_up_to(&again, std::io::sink(), &mut unseen)).unwrap();
                assert_eq!(header.schema, format::newest(&header.store));
            }
        }
    }
}

#[test]
fn a_backup_of_a_newer_schema_is_refused_and_names_what_restores_it() {
    let mut home = Home::new();
    let url = home.small();
    let before = contents(&url);
    for ((backup, _), store, newest) in [(OF_SQLITE, "SQLite", 8), (OF_POSTGRES, "PostgreSQL", 6)] {
        let newer = aged(backup, newest + 1, &[], "");
        let refused = restored(&home, &newer, &url).unwrap_err().to_string();
        let version = newest + 1;
        assert_eq!(
            refused,
            format!(
                "the backup was written by release 0.1.0 with a newer schema (version {version} of {store}, and this release has \
                 {newest}): restore it with that release or a newer one"
            )
        );
    }
    assert!(contents(&url) == before, "something was changed");
}

#[test]
fn the_newest_schemas_of_both_stores_are_a_pair() {
    assert_eq!(EQUAL.last(), Some(&(sqlite::migrations::NEWEST, postgres::migrations::NEWEST)));
    assert!(EQUAL.is_sorted());
}
