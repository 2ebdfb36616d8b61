//! The SQLite store as the source or the destination of a backup.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::{Connection, params_from_iter};
use tracing::warn;

use super::database::{cells, run};
use super::file::{blocking, configure_writer, connect, connect_read_only, create, has_log, location};
use super::migrations;
use crate::backup::TableHeader;
use crate::backup::side::{RestoreEnd, Side, in_use};
use crate::backup::statements::{self, BRING_PROBE_BACK, Batch, KEEP_PROBE, columns, parameters, select};
use crate::backup::tables::{PROBE, STAGED, TABLES, Table};
use crate::backup::value::{CellValue, Row};
use crate::migrations::STEPS;
use crate::schema_version::Steps;
use crate::sql::{Database as _, ToValue as _};
use crate::{Result, StoreError};

const WORK: &str = "the work on the file";

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
    let connection = blocking(WORK, move || open(&path)).await.map_err(|error| error.at(&location))?;
    Ok(Box::new(FileSide { connection: Arc::new(Mutex::new(connection)), steps }))
}

impl FileSide {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.connection);
        blocking(WORK, move || work(&mut connection.lock())).await
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
        self.run(|connection| Ok(connection.query_row(Connection::WORDS.counter, [], |row| row.get(0))?)).await
    }

    async fn count(&mut self, table: &'static Table) -> Result<u64> {
        self.run(move |connection| Ok(run(statements::count(connection, table))?)).await
    }

    async fn read(&mut self, table: &'static Table, after: Option<Row>) -> Result<Vec<Row>> {
        self.run(move |connection| read(connection, table, after.as_ref())).await
    }

    async fn begin(&mut self) -> Result<Option<&'static str>> {
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
            Ok(run(statements::find_own_data(connection))?)
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
        let columns = columns::<Connection>(&table.name, table.columns.iter().map(String::as_str));
        let parameters = parameters(table.columns.len());
        let sql = format!("INSERT INTO {} ({columns}) VALUES ({parameters})", table.name);
        self.run(move |connection| {
            let mut insert = connection.prepare_cached(&sql)?;
            for row in rows {
                insert.execute(params_from_iter(row.iter().map(CellValue::value)))?;
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
            run(statements::finish(connection, &end))?;
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

fn read(connection: &Connection, table: &'static Table, after: Option<&Row>) -> Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(&select::<Connection>(table, after.is_some()))?;
    let mut found = statement.query(params_from_iter(after.into_iter().flatten().map(CellValue::value)))?;
    let mut batch = Batch::of(table);
    while batch.has_room()
        && let Some(row) = found.next()?
    {
        batch.add(cells(row, table.columns.len())?)?;
    }
    Ok(batch.rows)
}
