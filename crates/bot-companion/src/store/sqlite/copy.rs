//! The embedded store as one side of a copy.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, TransactionBehavior, params, params_from_iter};

use super::columns::unsigned;
use super::{configure_writer, connect, create_file, migrations};
use crate::store::copy::{
    BYTES, Dialect, Kind, PLACE, Place, Row, STAGED, Side, TABLES, Table, UNFINISHED, Value, Which, count, used,
};
use crate::store::{Result, StoreError};

const DIALECT: Dialect = Dialect { parameter: '?', sequence: Some("rowid") };

struct File(Arc<Mutex<Connection>>);

/// Opens the store that has the data. It is never written to.
pub(in crate::store) async fn source(path: PathBuf) -> Result<Box<dyn Side>> {
    opened(move || {
        let connection = connect(&path)?;
        connection.pragma_update(None, "query_only", true)?;
        migrations::expect_current(&connection)?;
        refuse_unfinished(&connection)?;
        Ok(connection)
    })
    .await
}

/// Opens the store that takes the data, or makes it.
pub(in crate::store) async fn destination(path: PathBuf) -> Result<Box<dyn Side>> {
    opened(move || {
        create_file(&path)
            .map_err(|error| StoreError::Failed(format!("the file `{}` cannot be created: {error}", path.display())))?;
        let mut connection = connect(&path)?;
        if migrations::version(&connection)? == 0 {
            migrations::run(&mut connection)?;
        }
        migrations::expect_current(&connection)?;
        configure_writer(&connection)?;
        // A batch that a power cut takes is copied again; the last transaction waits for the disk.
        connection.pragma_update(None, "synchronous", "normal")?;
        Ok(connection)
    })
    .await
}

/// An unfinished copy is not a store.
pub(super) fn refuse_unfinished(connection: &Connection) -> Result<()> {
    if is_unfinished(connection)? { Err(StoreError::Failed(UNFINISHED.to_owned())) } else { Ok(()) }
}

fn is_unfinished(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = ?1")?.exists([PLACE])
}

async fn opened(open: impl FnOnce() -> Result<Connection> + Send + 'static) -> Result<Box<dyn Side>> {
    let connection = away(open).await?;
    Ok(Box::new(File(Arc::new(Mutex::new(connection)))))
}

/// Does the work away from the runtime's threads.
async fn away<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| StoreError::Failed("the work on the file panicked".to_owned()))?
}

impl File {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.0);
        away(move || work(&mut connection.lock())).await
    }
}

#[async_trait]
impl Side for File {
    fn takes_all_text(&self) -> bool {
        true
    }

    /// Files are told apart by themselves.
    async fn mark(&mut self, _number: i64) -> Result<bool> {
        Ok(true)
    }

    async fn look(&mut self) -> Result<()> {
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

    async fn count(&mut self, table: &'static Table, which: Which) -> Result<u64> {
        self.run(move |connection| {
            Ok(connection.query_row(&count(table, which), [], |row| row.get(0)).map(unsigned)?)
        })
        .await
    }

    async fn read(&mut self, table: &'static Table, which: Which, after: Option<Row>) -> Result<Vec<Row>> {
        self.run(move |connection| read(connection, table, which, after)).await
    }

    async fn place(&mut self) -> Result<Option<Place>> {
        self.run(|connection| {
            if !is_unfinished(connection)? {
                return Ok(None);
            }
            let sql = format!("SELECT source, tables, after, rows FROM {PLACE}");
            let read = |row: &rusqlite::Row<'_>| {
                Ok(Place { source: row.get(0)?, tables: row.get(1)?, after: row.get(2)?, rows: row.get(3)? })
            };
            Ok(Some(connection.query_row(&sql, [], read).optional()?.unwrap_or_default()))
        })
        .await
    }

    async fn used(&mut self) -> Result<Option<&'static str>> {
        self.run(|connection| {
            for (table, question) in used() {
                if connection.query_row(&question, [], |row| row.get(0))? {
                    return Ok(Some(table));
                }
            }
            Ok(None)
        })
        .await
    }

    async fn begin(&mut self, place: Place) -> Result<()> {
        self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // What refers to a row goes before it.
            for table in TABLES.iter().rev().map(|table| table.name).chain(STAGED) {
                transaction.execute(&format!("DELETE FROM {table}"), [])?;
            }
            transaction.execute_batch(&format!(
                "DROP TABLE IF EXISTS {PLACE};
                CREATE TABLE {PLACE} (
                    source TEXT NOT NULL, tables INTEGER NOT NULL, after BLOB, rows INTEGER NOT NULL
                ) STRICT"
            ))?;
            let sql = format!("INSERT INTO {PLACE} (source, tables, after, rows) VALUES (?1, ?2, ?3, ?4)");
            transaction.execute(&sql, params![place.source, place.tables, place.after, place.rows])?;
            Ok(transaction.commit()?)
        })
        .await
    }

    async fn write(&mut self, table: &'static Table, rows: Vec<Row>, from: Place, to: Place) -> Result<()> {
        self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let (columns, parameters) = (DIALECT.columns(table.columns), DIALECT.parameters(table.columns.len()));
            let sql = format!("INSERT INTO {} ({columns}) VALUES ({parameters})", table.name);
            let mut insert = transaction.prepare_cached(&sql)?;
            for row in rows {
                insert.execute(params_from_iter(row))?;
            }
            drop(insert);
            let sql = format!(
                "UPDATE {PLACE} SET tables = ?1, after = ?2, rows = ?3 WHERE source = ?4 AND tables = ?5 AND rows = ?6"
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
            transaction.execute_batch(&format!("DROP TABLE {PLACE}"))?;
            transaction.commit()?;
            // Leaves one tidy file behind.
            Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
        })
        .await
    }
}

fn read(connection: &Connection, table: &Table, which: Which, after: Option<Row>) -> Result<Vec<Row>> {
    let sql = DIALECT.select(table, which, after.is_some());
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(after.unwrap_or_default()))?;
    let (mut rows, mut size) = (Vec::new(), 0);
    while size < BYTES
        && let Some(row) = found.next()?
    {
        let mut values = Row::with_capacity(table.columns.len());
        for (place, column) in table.columns.iter().enumerate() {
            let value = value(column.kind, row.get_ref(place)?).ok_or_else(|| {
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

fn value(kind: Kind, value: ValueRef<'_>) -> Option<Value> {
    Some(match (kind, value) {
        (_, ValueRef::Null) => Value::Null,
        (Kind::Integer | Kind::Sequence, ValueRef::Integer(number)) => Value::Integer(number),
        (Kind::Boolean, ValueRef::Integer(number)) => Value::Boolean(number != 0),
        (Kind::Real, ValueRef::Real(number)) => Value::Real(number),
        (Kind::Text, ValueRef::Text(text)) => Value::Text(std::str::from_utf8(text).ok()?.to_owned()),
        (Kind::Bytes, ValueRef::Blob(bytes)) => Value::Bytes(bytes.to_vec()),
        _ => return None,
    })
}

impl ToSql for Value {
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
