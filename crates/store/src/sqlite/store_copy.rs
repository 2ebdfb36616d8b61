//! The embedded store as one side of a copy.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, TransactionBehavior, params, params_from_iter};

use super::columns::{Column as _, unsigned};
use super::file::{configure_writer, connect, connect_read_only, create, has_log, location};
use super::migrations;
use crate::copy::side::{Position, RestoreEnd, Side, in_use};
use crate::copy::statements::{BYTES, Dialect, RowFilter, count, own_data_questions};
use crate::copy::tables::{STAGED, TABLES, Table};
use crate::copy::value::{CellValue, ColumnKind, Row};
use crate::schema_version::COPY_POSITION;
use crate::{Result, StoreError};

const DIALECT: Dialect = Dialect { parameter: '?', sequence: Some("rowid") };

/// The version of the schema.
pub(crate) const SCHEMA: usize = migrations::NEWEST;

struct FileSide(Arc<Mutex<Connection>>);

/// Opens the store that has the data, beside a service that may be running. It is never written to.
pub(crate) async fn source(path: PathBuf) -> Result<Box<dyn Side>> {
    let location = location(&path);
    let opened = open_side(move || {
        // Without a log nobody has the file open, and a service that starts meanwhile must know of this reader: only a connection
        // that may write makes the log, and removes it at its end.
        let connection = if has_log(&path) { connect_read_only(&path)? } else { connect(&path)? };
        expect_source(connection)
    });
    opened.await.map_err(|error| error.at(&location))
}

/// Opens the store that has the data, and keeps everybody else out until the end. It is never written to.
pub(crate) async fn sole_source(path: PathBuf) -> Result<Box<dyn Side>> {
    let location = location(&path);
    let opened = open_side(move || {
        let connection = connect(&path)?;
        if connection.is_readonly(rusqlite::MAIN_DB)? {
            // Who may not write cannot lock it either; what changes meanwhile is noticed at the end.
            return expect_source(connect_read_only(&path)?);
        }
        // The first read takes the lock, which nobody gets while a service has the file open.
        connection.pragma_update(None, "locking_mode", "exclusive")?;
        expect_source(connection).map_err(|error| match error {
            StoreError::Busy(_) => in_use(""),
            other => other,
        })
    });
    opened.await.map_err(|error| error.at(&location))
}

fn expect_source(connection: Connection) -> Result<Connection> {
    connection.pragma_update(None, "query_only", true)?;
    migrations::expect_current(&connection)?;
    migrations::refuse_unfinished_copy(&connection)?;
    Ok(connection)
}

/// Opens the store that takes the data, or makes it.
pub(crate) async fn destination(path: PathBuf) -> Result<Box<dyn Side>> {
    let location = location(&path);
    let opened = open_side(move || {
        create(&path)?;
        let mut connection = connect(&path)?;
        if migrations::version(&connection)? == 0 {
            migrations::run(&mut connection)?;
        }
        migrations::expect_current(&connection)?;
        configure_writer(&connection)?;
        // A batch that a power cut takes is copied again; the last transaction waits for the disk.
        connection.pragma_update(None, "synchronous", "normal")?;
        Ok(connection)
    });
    opened.await.map_err(|error| error.at(&location))
}

/// Opens the store into which a backup is restored, or makes it. Nobody else may have it open.
pub(crate) async fn restored(path: PathBuf) -> Result<Box<dyn Side>> {
    let location = location(&path);
    let opened = open_side(move || {
        create(&path)?;
        let mut connection = connect(&path)?;
        if migrations::version(&connection)? == 0 {
            migrations::run(&mut connection)?;
        }
        migrations::expect_current(&connection)?;
        // The write-ahead log goes only if nobody else has the file open. Without it the one large transaction is not written twice.
        let alone = connection.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get::<_, String>(0));
        match alone.map_err(StoreError::from) {
            Ok(mode) if mode == "delete" => {}
            Ok(_) | Err(StoreError::Busy(_)) => return Err(in_use("")),
            Err(error) => return Err(error),
        }
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(connection)
    });
    opened.await.map_err(|error| error.at(&location))
}

async fn open_side(open: impl FnOnce() -> Result<Connection> + Send + 'static) -> Result<Box<dyn Side>> {
    let connection = run_blocking(open).await?;
    Ok(Box::new(FileSide(Arc::new(Mutex::new(connection)))))
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
        let connection = Arc::clone(&self.0);
        run_blocking(move || work(&mut connection.lock())).await
    }
}

#[async_trait]
impl Side for FileSide {
    fn takes_all_text(&self) -> bool {
        true
    }

    /// Whether two files are the same was checked before.
    async fn mark(&mut self, _number: i64) -> Result<bool> {
        Ok(true)
    }

    async fn freeze(&mut self) -> Result<()> {
        self.run(|connection| {
            if !connection.is_autocommit() {
                connection.execute_batch("COMMIT")?;
            }
            // The first read of the transaction decides what all of them see.
            connection.execute_batch("BEGIN")?;
            migrations::expect_current(connection)
        })
        .await
    }

    async fn counter(&mut self) -> Result<i64> {
        self.run(|connection| Ok(connection.query_row("SELECT value FROM counter", [], |row| row.get(0))?)).await
    }

    async fn count(&mut self, table: &'static Table, filter: RowFilter) -> Result<u64> {
        self.run(move |connection| {
            Ok(connection.query_row(&count(table, filter), [], |row| row.get(0)).map(unsigned)?)
        })
        .await
    }

    async fn read(&mut self, table: &'static Table, filter: RowFilter, after: Option<Row>) -> Result<Vec<Row>> {
        self.run(move |connection| read(connection, table, filter, after)).await
    }

    async fn position(&mut self) -> Result<Option<Position>> {
        self.run(|connection| {
            if !migrations::has_unfinished_copy(connection)? {
                return Ok(None);
            }
            let sql = format!("SELECT source, tables, after, rows FROM {COPY_POSITION}");
            let read = |row: &rusqlite::Row<'_>| {
                Ok(Position { source: row.get(0)?, tables: row.get(1)?, after: row.get(2)?, rows: row.get(3)? })
            };
            Ok(Some(connection.query_row(&sql, [], read).optional()?.unwrap_or_default()))
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

    async fn begin(&mut self, position: Position) -> Result<()> {
        self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            empty(&transaction)?;
            transaction.execute_batch(&format!(
                "DROP TABLE IF EXISTS {COPY_POSITION};
                CREATE TABLE {COPY_POSITION} (
                    source TEXT NOT NULL, tables INTEGER NOT NULL, after BLOB, rows INTEGER NOT NULL
                ) STRICT"
            ))?;
            let sql = format!("INSERT INTO {COPY_POSITION} (source, tables, after, rows) VALUES (?1, ?2, ?3, ?4)");
            transaction.execute(&sql, params![position.source, position.tables, position.after, position.rows])?;
            Ok(transaction.commit()?)
        })
        .await
    }

    async fn write(&mut self, table: &'static Table, rows: Vec<Row>, from: Position, to: Position) -> Result<()> {
        self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            insert(&transaction, table, rows)?;
            let sql = format!(
                "UPDATE {COPY_POSITION} SET tables = ?1, after = ?2, rows = ?3 WHERE source = ?4 AND tables = ?5 AND rows = ?6"
            );
            let noted = transaction
                .execute(&sql, params![to.tables, to.after, to.rows, from.source, from.tables, from.rows])?;
            if noted != 1 {
                return Err(StoreError::Failed("another copy into it is at work".to_owned()));
            }
            Ok(transaction.commit()?)
        })
        .await
    }

    async fn finish(&mut self, counter: i64) -> Result<()> {
        self.run(move |connection| {
            connection.pragma_update(None, "synchronous", "full")?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute("UPDATE counter SET value = max(value, ?1)", [counter])?;
            transaction.execute_batch(&format!("DROP TABLE {COPY_POSITION}"))?;
            transaction.commit()?;
            // Leaves one tidy file.
            Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
        })
        .await
    }

    async fn begin_restore(&mut self) -> Result<()> {
        self.run(|connection| {
            connection.execute_batch("BEGIN EXCLUSIVE").map_err(|error| match StoreError::from(error) {
                StoreError::Busy(_) => in_use(""),
                other => other,
            })?;
            connection.execute_batch(&format!("DROP TABLE IF EXISTS {COPY_POSITION}"))?;
            empty(connection)
        })
        .await
    }

    async fn put_restored(&mut self, table: &'static Table, rows: Vec<Row>) -> Result<()> {
        self.run(move |connection| insert(connection, table, rows)).await
    }

    async fn commit_restore(&mut self, end: RestoreEnd) -> Result<()> {
        self.run(move |connection| {
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
            for hash in &end.forgotten {
                let sql = "INSERT INTO forgotten_users (user_hash, since) VALUES (?1, ?2)
        ON CONFLICT (user_hash) DO UPDATE SET since = excluded.since";
                connection.prepare_cached(sql)?.execute(params![hash.0, end.now.stored()])?;
            }
            connection.execute_batch("COMMIT")?;
            configure_writer(connection)
        })
        .await
    }
}

fn empty(connection: &Connection) -> Result<()> {
    // What refers to a row goes before it.
    for table in TABLES.iter().rev().map(|table| table.name).chain(STAGED) {
        connection.execute(&format!("DELETE FROM {table}"), [])?;
    }
    Ok(())
}

fn insert(connection: &Connection, table: &Table, rows: Vec<Row>) -> Result<()> {
    let (columns, parameters) = (DIALECT.columns(table.columns), DIALECT.parameters(table.columns.len()));
    let sql = format!("INSERT INTO {} ({columns}) VALUES ({parameters})", table.name);
    let mut insert = connection.prepare_cached(&sql)?;
    for row in rows {
        insert.execute(params_from_iter(row))?;
    }
    Ok(())
}

fn read(connection: &Connection, table: &Table, filter: RowFilter, after: Option<Row>) -> Result<Vec<Row>> {
    let sql = DIALECT.select(table, filter, after.is_some());
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
                StoreError::Failed(format!(
                    "the column `{column}` of the table `{table}` holds something else than it should"
                ))
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
