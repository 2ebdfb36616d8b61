//! SQL that both stores understand, except for how they name the column of a sequence.

use super::side::RestoreEnd;
use super::tables::{STAGED, TABLES, Table, kind};
use super::value::{CellValue, ColumnKind, Row};
use crate::StoreError;
use crate::sql::{Database, Result, forgotten, values};

/// How many rows are read or written at a time, at most.
pub(super) const ROWS: usize = 4_000;
/// Roughly how many bytes are read or written at a time, at most.
pub(super) const BYTES: usize = 4 << 20;

/// Keeps the record of the last backup while the tables are recreated, and restores it.
pub(crate) const KEEP_PROBE: &str = "CREATE TABLE probe_kept AS SELECT id, at FROM probe";
pub(crate) const BRING_PROBE_BACK: &str =
    "INSERT INTO probe (id, at) SELECT id, at FROM probe_kept; DROP TABLE probe_kept";

/// The column names, separated by commas.
pub(crate) fn columns<'a, D: Database>(table: &str, columns: impl IntoIterator<Item = &'a str>) -> String {
    let named = columns.into_iter().map(|column| match (kind(table, column), D::WORDS.sequence) {
        (Some(ColumnKind::Sequence), Some(name)) => name.to_owned(),
        _ => format!("\"{column}\""),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// This many parameters, separated by commas.
pub(crate) fn parameters(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// Reads the next rows in key order; with `after`, those after the key given as a parameter.
pub(crate) fn select<D: Database>(table: &Table, after: bool) -> String {
    let name = table.name;
    let key = columns::<D>(name, table.names().take(table.key));
    let beyond = after.then(|| format!("({key}) > ({})", parameters(table.key)));
    let conditions: Vec<_> = table.only.map(ToOwned::to_owned).into_iter().chain(beyond).collect();
    let conditions = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let columns = columns::<D>(name, table.names());
    format!("SELECT {columns} FROM {name}{conditions} ORDER BY {key} LIMIT {ROWS}")
}

/// How many rows to back up.
pub(crate) async fn count<D: Database>(db: &D, table: &Table) -> Result<u64, D> {
    let condition = table.only.map_or_else(String::new, |only| format!(" WHERE {only}"));
    Ok(db.query_one(&format!("SELECT count(*) FROM {}{condition}", table.name), &[]).await?.get(0)?)
}

/// A table with rows that an unused store does not have, if any.
pub(crate) async fn find_own_data<D: Database>(db: &D) -> Result<Option<&'static str>, D> {
    let backed_up = TABLES.iter().map(|table| (table.name, table.unused));
    for (name, unused) in backed_up.chain(STAGED.map(|staged| (staged, None))) {
        let condition = unused.map_or_else(String::new, |unused| format!(" WHERE NOT ({unused})"));
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {name}{condition})");
        if db.query_one(&sql, &[]).await?.get(0)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The last changes, after all rows and the migrations.
pub(crate) async fn finish<D: Database>(db: &D, end: &RestoreEnd) -> Result<(), D> {
    if let Some(now) = end.end_sessions {
        db.execute("DELETE FROM sessions", &[]).await?;
        let sql = "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until)
            SELECT id, grant_sealed, ?1, 0, NULL FROM users WHERE grant_sealed IS NOT NULL
            ON CONFLICT (user_id) DO NOTHING";
        db.execute(sql, &values![now]).await?;
        db.execute("DELETE FROM users", &[]).await?;
    }
    for (hash, since) in &end.forgotten {
        forgotten::add(db, *hash, *since).await?;
    }
    Ok(())
}

/// Some of a table's rows as they are read.
pub(crate) struct Batch {
    table: &'static Table,
    pub(crate) rows: Vec<Row>,
    size: usize,
}

impl Batch {
    pub(crate) fn of(table: &'static Table) -> Self {
        Self { table, rows: Vec::new(), size: 0 }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.size < BYTES
    }

    /// Adds a row, each of whose values must be of its column's kind.
    pub(crate) fn add(&mut self, mut row: Row) -> crate::Result<()> {
        for (column, value) in self.table.columns.iter().zip(&mut row) {
            if let (ColumnKind::Boolean, CellValue::Integer(number)) = (column.kind, &*value) {
                *value = CellValue::Boolean(*number != 0);
            }
            if !value.fits(column.kind) {
                let (table, column) = (self.table.name, column.name);
                let why = format!("the column `{column}` of the table `{table}` holds an unexpected value");
                return Err(StoreError::Failed(why));
            }
            self.size += value.size();
        }
        self.rows.push(row);
        Ok(())
    }
}
