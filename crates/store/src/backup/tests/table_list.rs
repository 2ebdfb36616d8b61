//! That the list of tables and columns names everything in either store.

use std::collections::BTreeSet;

use super::*;

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
