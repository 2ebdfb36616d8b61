//! What a copy transfers, and that nothing arrives if it is interrupted.

use std::collections::BTreeSet;

use super::*;

#[test]
fn everything_arrives_by_every_way() {
    for (from, to) in ways() {
        let mut home = Home::new();
        let (source, destination) = (home.full(from), home.store(to, "copy.db"));
        let mut seen = Vec::new();
        let mut watch =
            |progress: Progress<'_>| seen.push((progress.stage, progress.rows, progress.of, progress.table.to_owned()));
        let report = run(copy(&what(&source, &destination), &mut watch)).unwrap();
        let (old, new) = (contents(&source), contents(&destination));
        assert!(old == new, "{from:?} to {to:?}: the stores differ");
        assert!(old.len() > 21_000);
        // Neither invisible rows nor staged ones.
        let rows = |name: &str| report.tables.iter().find(|(table, ..)| *table == name).unwrap().1;
        let guilds = data::GUILDS as u64 + 5;
        assert_eq!((rows("users"), rows("guilds"), rows("guild_staff"), rows("feed_sweeps")), (2, guilds, guilds, 2));
        assert_eq!((report.mended, report.checksum.len()), (0, 64));
        let of = report.tables.iter().map(|(_, rows, _)| rows).sum();
        for stage in [Stage::Moving, Stage::Comparing] {
            let last = seen.iter().rfind(|(seen, ..)| *seen == stage).unwrap();
            assert_eq!(*last, (stage, of, of, "history_updates".to_owned()));
        }
        // It is a normal store now, which continues counting where the old one stopped.
        run(async {
            let store = open(&destination).await.unwrap();
            let keys: Vec<_> = store.keys().await.unwrap().into_iter().map(|key| key.id).collect();
            assert_eq!(keys, ["bb", "aa"]);
            store.close().await;
        });
    }
}

#[test]
fn a_copy_that_was_broken_off_leaves_nothing_and_can_be_run_again() {
    for (from, to) in ways() {
        let mut home = Home::new();
        let (source, destination) = (home.full(from), home.store(to, "copy.db"));
        broken_off(&source, &destination);
        run(async {
            let store = open(&destination).await.unwrap();
            assert!(store.blocked().await.unwrap().is_empty(), "{from:?} to {to:?}: half a copy");
            store.close().await;
        });
        run(copied(&source, &destination)).unwrap();
        assert!(contents(&source) == contents(&destination), "{from:?} to {to:?}");
    }
}

#[test]
fn what_postgresql_cannot_store_is_replaced_and_counted() {
    if !has_server() {
        return;
    }
    let mut home = Home::new();
    let (source, destination) = (home.small(), home.store(On::Server, "copy"));
    let file = Connection::open(home.file("full.db")).unwrap();
    // The second changes its position among the others.
    file.execute_batch(
        "UPDATE team SET name = 'a' || char(0) || 'b' || char(0), role = char(0) WHERE ordinal = 0;
        UPDATE feedback SET id = char(0) || 'x' WHERE slot = 3",
    )
    .unwrap();
    drop(file);
    let report = run(copied(&source, &destination)).unwrap();
    assert_eq!(report.mended, 2);
    let back = home.store(On::File, "back.db");
    assert_eq!(run(copied(&destination, &back)).unwrap().mended, 0);
    let back = Connection::open(home.file("back.db")).unwrap();
    let name: String = back.query_row("SELECT name FROM team WHERE ordinal = 0", [], |row| row.get(0)).unwrap();
    assert_eq!(name, "a\u{fffd}b\u{fffd}");
    let id: String = back.query_row("SELECT id FROM feedback WHERE slot = 3", [], |row| row.get(0)).unwrap();
    assert_eq!(id, "\u{fffd}x");
}

#[test]
fn the_list_of_tables_is_whole() {
    let mut listed: BTreeSet<(String, String)> = BTreeSet::new();
    for table in TABLES {
        listed.extend(table.columns.iter().map(|column| (table.name.to_owned(), column.name.to_owned())));
    }
    let passing = tables::PASSING.map(|(table, column)| (table.to_owned(), column.to_owned()));
    let is_ours = |(table, _): &(String, String)| !tables::STAGED.contains(&table.as_str()) && table != tables::PROBE;
    let mut home = Home::new();
    let url = home.store(On::File, "new.db");
    run(async { open(&url).await.unwrap().close().await });
    let file = Connection::open(home.file("new.db")).unwrap();
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'";
    let mut statement = file.prepare(sql).unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let found: BTreeSet<_> = found.map(std::result::Result::unwrap).filter(is_ours).collect();
    let sequences = ["sessions", "bot_keys"].map(|table| (table.to_owned(), "ordinal".to_owned()));
    let ours = |found: BTreeSet<(String, String)>| -> BTreeSet<_> {
        found.into_iter().filter(|column| !passing.contains(column)).collect()
    };
    let mut expected = listed.clone();
    expected.retain(|column| !sequences.contains(column));
    expected.extend(["id", "value"].map(|column| ("counter".to_owned(), column.to_owned())));
    assert_eq!(ours(found), expected);
    if !has_server() {
        return;
    }
    let url = home.store(On::Server, "new");
    run(async { open(&url).await.unwrap().close().await });
    let found = run(async {
        use secrecy::ExposeSecret as _;
        let sql =
            "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'
            AND table_name NOT IN ('schema_version', 'versions')";
        let rows = connect(url.expose_secret()).await.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).filter(is_ours).collect()
    });
    assert_eq!(ours(found), listed);
}
