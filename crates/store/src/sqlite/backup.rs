//! The SQLite store as the source or the destination of a backup.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params, params_from_iter};
use tracing::warn;

use super::file::{configure_writer, connect, connect_read_only, create, has_log, location};
use super::migrations;
use crate::backup::TableHeader;
use crate::backup::side::{RestoreEnd, Side, in_use};
use crate::backup::statements::{BRING_PROBE_BACK, BYTES, Dialect, KEEP_PROBE, count, own_data_questions};
use crate::backup::tables::{PROBE, STAGED, TABLES, Table};
use crate::backup::value::{CellValue, ColumnKind, Row};
use crate::columns::{Column as _, unsigned};
use crate::migrations::STEPS;
use crate::schema_version::Steps;
use crate::{Result, StoreError};

const DIALECT: Dialect = Dialect { parameter: '?', sequence: Some("rowid") };

struct FileSide {
    connection: Arc<Mutex<Connection>>,
    steps: Steps,
}

/// Opens the source, which is never written to. A service may be using it.
pub(crate) async fn source(path: PathBuf) -> Result<Box<dyn Side>> {
    open_side(path, STEPS, |path| {
        // Without a log, nobody has the file open, and a service that starts in the meantime must know about this reader: only
        // a connection that may write creates the log, and removes it at its end.
        let connection = if has_log(path) { connect_read_only(path)? } else { connect(path)? };
        connection.pragma_update(None, "query_only", true)?;
        migrations::expect_newest(&connection, STEPS)?;
        Ok(connection)
    })
    .await
}

/// Opens the destination, or creates the file.
pub(crate) async fn destination(path: PathBuf, steps: Steps) -> Result<Box<dyn Side>> {
    open_side(path, steps, move |path| {
        create(path)?;
        let connection = connect(path)?;
        migrations::refuse_something_else(&connection)?;
        if migrations::version(&connection)? != 0 {
            migrations::expect_newest(&connection, steps)?;
        }
        Ok(connection)
    })
    .await
}

fn busy_is_in_use(error: rusqlite::Error) -> StoreError {
    let error = StoreError::from(error);
    if matches!(error, StoreError::Busy(_)) { in_use("") } else { error }
}

async fn open_side(
    path: PathBuf,
    steps: Steps,
    open: impl FnOnce(&Path) -> Result<Connection> + Send + 'static,
) -> Result<Box<dyn Side>> {
    let location = location(&path);
    let connection = run_blocking(move || open(&path)).await.map_err(|error| error.at(&location))?;
    Ok(Box::new(FileSide { connection: Arc::new(Mutex::new(connection)), steps }))
}

/// Runs the work on a thread where it may block.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| StoreError::Failed("the work on the file panicked".to_owned()))?
}

impl FileSide {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.connection);
        run_blocking(move || work(&mut connection.lock())).await
    }
}

#[async_trait]
impl Side for FileSide {
    fn is_sqlite(&self) -> bool {
        true
    }

    async fn freeze(&mut self) -> Result<()> {
        let steps = self.steps;
        self.run(move |connection| {
            if !connection.is_autocommit() {
                connection.execute_batch("COMMIT")?;
            }
            // The first read of the transaction decides what all of them see.
            connection.execute_batch("BEGIN")?;
            migrations::expect_newest(connection, steps)
        })
        .await
    }

    async fn counter(&mut self) -> Result<i64> {
        self.run(|connection| Ok(connection.query_row("SELECT value FROM counter", [], |row| row.get(0))?)).await
    }

    async fn count(&mut self, table: &'static Table) -> Result<u64> {
        self.run(move |connection| Ok(connection.query_row(&count(table), [], |row| row.get(0)).map(unsigned)?)).await
    }

    async fn read(&mut self, table: &'static Table, after: Option<Row>) -> Result<Vec<Row>> {
        self.run(move |connection| read(connection, table, after)).await
    }

    async fn begin(&mut self) -> Result<()> {
        let steps = self.steps;
        self.run(move |connection| {
            // The write-ahead log can only be removed if nobody else has the file open. Without it, the one large transaction
            // is not written twice.
            let mode =
                connection.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get::<_, String>(0));
            if mode.map_err(busy_is_in_use)? != "delete" {
                return Err(in_use(""));
            }
            connection.pragma_update(None, "synchronous", "full")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.execute_batch("BEGIN EXCLUSIVE").map_err(busy_is_in_use)?;
            if migrations::version(connection)? == 0 {
                migrations::take_steps(connection, steps, 0, steps.newest())?;
            }
            Ok(())
        })
        .await
    }

    async fn find_own_data(&mut self) -> Result<Option<&'static str>> {
        self.run(|connection| {
            for (table, question) in own_data_questions() {
                if connection.query_row(&question, [], |row| row.get(0))? {
                    return Ok(Some(table));
                }
            }
            Ok(None)
        })
        .await
    }

    async fn make_room(&mut self, version: usize) -> Result<()> {
        let steps = self.steps;
        self.run(move |connection| {
            empty(connection, steps, steps.newest())?;
            if version == steps.newest() {
                return Ok(());
            }
            connection.execute_batch(KEEP_PROBE)?;
            for table in TABLES.iter().rev().map(|table| table.name).chain(STAGED).chain([PROBE, "counter"]) {
                connection.execute_batch(&format!("DROP TABLE {table}"))?;
            }
            migrations::take_steps(connection, steps, 0, version)?;
            empty(connection, steps, version)
        })
        .await
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        let table = table.to_owned();
        self.run(move |connection| {
            let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
            Ok(columns.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn put(&mut self, table: &TableHeader, rows: Vec<Row>) -> Result<()> {
        let columns = DIALECT.columns(&table.name, table.columns.iter().map(String::as_str));
        let parameters = DIALECT.parameters(table.columns.len());
        let sql = format!("INSERT INTO {} ({columns}) VALUES ({parameters})", table.name);
        self.run(move |connection| {
            let mut insert = connection.prepare_cached(&sql)?;
            for row in rows {
                insert.execute(params_from_iter(row))?;
            }
            Ok(())
        })
        .await
    }

    async fn commit(&mut self, end: RestoreEnd) -> Result<()> {
        let steps = self.steps;
        self.run(move |connection| {
            if end.version != steps.newest() {
                migrations::take_steps(connection, steps, end.version, steps.newest())?;
                connection.execute_batch(BRING_PROBE_BACK)?;
            }
            connection.execute("UPDATE counter SET value = ?1", [end.counter])?;
            if let Some(now) = end.end_sessions {
                connection.execute_batch("DELETE FROM sessions")?;
                connection.execute(
                    "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until)
                        SELECT id, grant_sealed, ?1, 0, NULL FROM users WHERE grant_sealed IS NOT NULL
                        ON CONFLICT (user_id) DO NOTHING",
                    [now.stored()],
                )?;
                connection.execute_batch("DELETE FROM users")?;
            }
            for (hash, since) in &end.forgotten {
                let sql = "INSERT INTO forgotten_users (user_hash, since) VALUES (?1, ?2)
        ON CONFLICT (user_hash) DO UPDATE SET since = excluded.since";
                connection.prepare_cached(sql)?.execute(params![hash.0, since.stored()])?;
            }
            connection.execute_batch("COMMIT")?;
            // The next start does this, too.
            if let Err(error) = configure_writer(connection) {
                warn!(%error, "the data is in the file, but its write-ahead log could not be set up");
            }
            Ok(())
        })
        .await
    }
}

/// Empties the tables of this version of the schema.
fn empty(connection: &Connection, steps: Steps, version: usize) -> Result<()> {
    // Rows go after what refers to them.
    for table in TABLES.iter().rev().map(|table| table.name).chain(STAGED) {
        if steps.makes(version, table) {
            connection.execute(&format!("DELETE FROM {table}"), [])?;
        }
    }
    Ok(())
}

fn read(connection: &Connection, table: &Table, after: Option<Row>) -> Result<Vec<Row>> {
    let sql = DIALECT.select(table, after.is_some());
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(after.unwrap_or_default()))?;
    let (mut rows, mut size) = (Vec::new(), 0);
    while size < BYTES
        && let Some(row) = found.next()?
    {
        let mut values = Row::with_capacity(table.columns.len());
        for (index, column) in table.columns.iter().enumerate() {
            let value = value(column.kind, row.get_ref(index)?).ok_or_else(|| {
                let (table, column) = (table.name, column.name);
                StoreError::Failed(format!("the column `{column}` of the table `{table}` holds an unexpected value"))
            })?;
            size += value.size();
            values.push(value);
        }
        rows.push(values);
    }
    Ok(rows)
}

fn value(kind: ColumnKind, value: ValueRef<'_>) -> Option<CellValue> {
    Some(match (kind, value) {
        (_, ValueRef::Null) => CellValue::Null,
        (ColumnKind::Integer | ColumnKind::Sequence, ValueRef::Integer(number)) => CellValue::Integer(number),
        (ColumnKind::Boolean, ValueRef::Integer(number)) => CellValue::Boolean(number != 0),
        (ColumnKind::Real, ValueRef::Real(number)) => CellValue::Real(number),
        (ColumnKind::Text, ValueRef::Text(text)) => CellValue::Text(std::str::from_utf8(text).ok()?.to_owned()),
        (ColumnKind::Bytes, ValueRef::Blob(bytes)) => CellValue::Bytes(bytes.to_vec()),
        _ => return None,
    })
}

impl ToSql for CellValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Boolean(truth) => ValueRef::Integer(i64::from(*truth)),
        }))
    }
}
