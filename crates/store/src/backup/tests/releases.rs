//! Backups of other releases. `fixtures/README.md` says how those of commit e7e93c1 were made.

use std::collections::BTreeMap;

use super::format::{BackupReader, BackupWriter};
use super::*;
use crate::schema_version::EQUAL;

/// A backup, and the contents of a store it was restored into.
const OF_SQLITE: (&[u8], &str) =
    (include_bytes!("fixtures/e7e93c1-sqlite.backup"), include_str!("fixtures/e7e93c1-sqlite.rows"));
const OF_POSTGRES: (&[u8], &str) =
    (include_bytes!("fixtures/e7e93c1-postgres.backup"), include_str!("fixtures/e7e93c1-postgres.rows"));

fn restored(home: &Home, backup: &[u8], url: &SecretString) -> std::result::Result<RestoreReport, BackupError> {
    std::fs::write(home.file("backup"), backup).unwrap();
    run(restore(&RestoreOptions { replace: true, ..options(home, url, "backup") }, &mut unseen))
}

/// The rows of each table under its line; tables in `gone` have none.
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

/// The same for a store.
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
            // Over another store, whose counter continues, and into a new one.
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

/// The backup as a release with an older schema would have made it, with the columns in reverse order.
fn aged(backup: &[u8], schema: usize, gone: &[&str], gone_columns: &[(&str, &str)]) -> Vec<u8> {
    let mut reader = BackupReader::begin(backup).unwrap();
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
    // What each pair of schemas does not have yet. The totals are still expected, because a later step counts them.
    let tables = [
        "history_minutes",
        "history_days",
        "incidents",
        "announcements",
        "forgotten_users",
        "audit",
        "revocations",
        "feed_own_shards",
    ];
    let columns = [
        ("feed_shards", "member_sum"),
        ("feed_shards", "key"),
        ("feed_instances", "key"),
        ("feed_instances", "sent_snapshot"),
        ("instances", "key"),
        ("shards", "key"),
    ];
    // The step from the oldest schema finds the owners of these again, so only their number is compared.
    let keyed = ["feed_shards ", "feed_instances ", "instances ", "shards "];
    for ((sqlite, postgres), tables_gone, columns_gone) in
        [((7, 5), 4, 0), ((6, 4), 6, 0), ((5, 3), 6, 1), ((4, 2), 7, 1), ((3, 1), 8, 6)]
    {
        let gone = &tables[..tables_gone];
        let totals = if columns_gone > 0 { &["totals"][..] } else { &[] };
        for ((backup, rows), schema) in [(OF_SQLITE, sqlite), (OF_POSTGRES, postgres)] {
            let backup = aged(backup, schema, &[gone, totals].concat(), &columns[..columns_gone]);
            for to in destinations() {
                let mut home = Home::new();
                for url in [home.filled(to, 3), home.store(to, "new.db")] {
                    restored(&home, &backup, &url).unwrap();
                    let (mut found, mut expected) = (found(&url, rows), expected(rows, gone));
                    for rows in [&mut found, &mut expected] {
                        rows.retain(|line, _| line != "counter value");
                        rows.retain(|line, _| columns_gone < 2 || !line.starts_with("feed_own_shards "));
                        let of_keys =
                            rows.iter_mut().filter(|(line, _)| keyed.iter().any(|table| line.starts_with(table)));
                        of_keys.filter(|_| columns_gone > 1).flat_map(|(_, rows)| rows).for_each(String::clear);
                    }
                    assert_eq!(found, expected, "{to:?} without {gone:?}");
                    let again = BackupOptions { url: url.clone(), start_wait: Duration::from_mins(5), now: NOW };
                    let header = run(back_up_to(&again, std::io::sink(), &mut unseen)).unwrap();
                    assert_eq!(header.schema, format::newest(&header.store));
                }
            }
        }
    }
}

#[test]
fn what_an_older_schema_does_not_touch_stays() {
    use secrecy::ExposeSecret as _;
    let (backup, _) = OF_SQLITE;
    let history = ["history_minutes", "history_days", "incidents", "announcements"];
    for backup in [backup.to_vec(), aged(backup, 7, &history, &[])] {
        let mut home = Home::new();
        let url = home.small();
        let file = Connection::open(home.file("full.db")).unwrap();
        file.execute_batch("PRAGMA application_id = 0; DELETE FROM probe; INSERT INTO probe VALUES (1, 77)").unwrap();
        drop(file);
        restored(&home, &backup, &url).unwrap();
        let file = Connection::open(home.file("full.db")).unwrap();
        let mark: i64 = file.pragma_query_value(None, "application_id", |row| row.get(0)).unwrap();
        let noted: i64 = file.query_row("SELECT at FROM probe", [], |row| row.get(0)).unwrap();
        assert_eq!((mark, noted), (0, 77), "nobody has vacuumed it, and its last backup is still known");
    }
    if !has_server() {
        return;
    }
    let mut home = Home::new();
    let url = home.filled(On::Server, 3);
    ask(url.expose_secret(), "DELETE FROM probe; INSERT INTO probe VALUES (1, 77)");
    restored(&home, &aged(OF_POSTGRES.0, 5, &history, &[]), &url).unwrap();
    let noted: i64 =
        run(async { connect(url.expose_secret()).await.query_one("SELECT at FROM probe", &[]).await.unwrap().get(0) });
    assert_eq!(noted, 77);
}

#[test]
fn a_backup_of_a_newer_schema_is_refused_and_names_what_restores_it() {
    let mut home = Home::new();
    let url = home.small();
    let before = contents(&url);
    for ((backup, _), store) in [(OF_SQLITE, "SQLite"), (OF_POSTGRES, "PostgreSQL")] {
        let newest = format::newest(store);
        let newer = aged(backup, newest + 1, &[], &[]);
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
