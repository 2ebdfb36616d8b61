//! The database server as one side of a copy.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use futures_util::TryStreamExt as _;
use secrecy::SecretString;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::address::Address;
use super::columns::{Column as _, unsigned};
use super::errors::{Sql, SqlError};
use super::{invalidation, migrations};
use crate::copy::side::{Position, RestoreEnd, Side, in_use};
use crate::copy::statements::{BYTES, Dialect, RowFilter, count, own_data_questions};
use crate::copy::tables::{STAGED, TABLES, Table};
use crate::copy::value::{CellValue, ColumnKind, Row};
use crate::schema_version::COPY_POSITION;
use crate::starting::{StoreLocation, keep_trying};
use crate::{Result, StoreError};

const DIALECT: Dialect = Dialect { parameter: '$', sequence: None };
/// Held by the one that copies into a database. Its last connection may take a moment to be gone.
const ALONE: &str = "SET lock_timeout = '5s'; SELECT pg_advisory_lock(1651471460); SET lock_timeout = 0";
/// A batch that a crash of the server takes is copied again; the last transaction waits for the disk and the standbys.
const SETTINGS: &str =
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = off";
const FREEZE: &str = "COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The version of the schema.
pub(crate) const SCHEMA: usize = migrations::NEWEST;
/// How long connections that are being closed may take to be gone.
const LEAVING: Duration = Duration::from_secs(5);

struct ServerSide {
    client: Client,
    connection: JoinHandle<()>,
}

impl Drop for ServerSide {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Opens the store that has the data, beside services that may be running. It is never written to.
pub(crate) async fn source(url: &SecretString, start_wait: Duration) -> Result<Box<dyn Side>> {
    let server = ServerSide::open(url, start_wait).await?;
    migrations::expect_current(&server.client).await?;
    migrations::refuse_unfinished_copy(&server.client).await?;
    Ok(Box::new(server))
}

/// Opens the store that has the data, which nobody else may use. It is never written to.
pub(crate) async fn sole_source(url: &SecretString, start_wait: Duration) -> Result<Box<dyn Side>> {
    let server = ServerSide::open(url, start_wait).await?;
    migrations::expect_current(&server.client).await?;
    migrations::refuse_unfinished_copy(&server.client).await?;
    server.expect_alone().await?;
    Ok(Box::new(server))
}

/// Opens the store that takes the data, and makes its tables.
pub(crate) async fn destination(url: &SecretString, start_wait: Duration) -> Result<Box<dyn Side>> {
    Ok(Box::new(open_destination(url, start_wait).await?))
}

async fn open_destination(url: &SecretString, start_wait: Duration) -> Result<ServerSide> {
    let mut server = ServerSide::open(url, start_wait).await?;
    server.client.batch_execute(ALONE).await.map_err(|error| {
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return StoreError::Unavailable("another copy into it is at work".to_owned());
        }
        SqlError::from(error).into_store_error()
    })?;
    if migrations::version(&server.client).await? == 0 {
        migrations::run(&mut server.client).await?;
    }
    migrations::expect_current(&server.client).await?;
    Ok(server)
}

/// Opens the store into which a backup is restored, and makes its tables. Nobody else may be connected as the service's role.
pub(crate) async fn restored(url: &SecretString, start_wait: Duration) -> Result<Box<dyn Side>> {
    let server = open_destination(url, start_wait).await?;
    server.expect_alone().await?;
    Ok(Box::new(server))
}

impl ServerSide {
    async fn open(url: &SecretString, start_wait: Duration) -> Result<Self> {
        let address = Address::parse(url).map_err(StoreError::Failed)?;
        let hosts = address.hosts();
        let (client, connection) = keep_trying(start_wait, StoreLocation::Server(&hosts), || address.open()).await?;
        let server = Self { client, connection };
        server.client.batch_execute(SETTINGS).await.map_err(|error| SqlError::from(error).into_store_error())?;
        Ok(server)
    }

    /// Makes sure that nobody else is connected as the service's role.
    async fn expect_alone(&self) -> Result<()> {
        let others =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user
            AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let patience = tokio::time::Instant::now() + LEAVING;
        loop {
            let connected = self.client.query_one(others, &[]).await.and_then(|row| row.try_get::<_, i64>(0));
            match connected.map_err(|error| SqlError::from(error).into_store_error())? {
                0 => return Ok(()),
                _ if tokio::time::Instant::now() < patience => tokio::time::sleep(Duration::from_millis(100)).await,
                connected => return Err(in_use(&format!(" ({connected} other connections to the database)"))),
            }
        }
    }

    async fn last_number(&self) -> Sql<i64> {
        let sql = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM versions";
        Ok(self.client.query_one(sql, &[]).await?.try_get(0)?)
    }

    async fn rows(&self, table: &Table, filter: RowFilter) -> Sql<u64> {
        Ok(self.client.query_one(&count(table, filter), &[]).await?.try_get(0).map(unsigned)?)
    }

    async fn next(&self, table: &Table, filter: RowFilter, after: Option<Row>) -> Sql<Vec<Row>> {
        let sql = DIALECT.select(table, filter, after.is_some());
        let mut found = pin!(self.client.query_raw(&sql, after.unwrap_or_default()).await?);
        let (mut rows, mut size) = (Vec::new(), 0);
        while size < BYTES
            && let Some(row) = found.try_next().await?
        {
            let mut values = Row::with_capacity(table.columns.len());
            for (index, column) in table.columns.iter().enumerate() {
                let value = value(column.kind, &row, index)?;
                size += value.size();
                values.push(value);
            }
            rows.push(values);
        }
        Ok(rows)
    }

    async fn stored_position(&self) -> Sql<Option<Position>> {
        if !migrations::has_unfinished_copy(&self.client).await? {
            return Ok(None);
        }
        let sql = format!("SELECT source, tables, after, rows FROM {COPY_POSITION}");
        let Some(row) = self.client.query_opt(&sql, &[]).await? else { return Ok(Some(Position::default())) };
        let position = Position {
            source: row.try_get(0)?,
            tables: row.try_get(1)?,
            after: row.try_get(2)?,
            rows: row.try_get(3)?,
        };
        Ok(Some(position))
    }

    async fn empty(&mut self, position: &Position) -> Sql<()> {
        let transaction = self.client.transaction().await?;
        let tables: Vec<_> = TABLES.iter().map(|table| table.name).chain(STAGED).collect();
        let sql = format!(
            "TRUNCATE {}; DROP TABLE IF EXISTS {COPY_POSITION};
            CREATE TABLE {COPY_POSITION} (source TEXT NOT NULL, tables BIGINT NOT NULL, after BYTEA, rows BIGINT NOT NULL)",
            tables.join(", ")
        );
        transaction.batch_execute(&sql).await?;
        let sql = format!("INSERT INTO {COPY_POSITION} (source, tables, after, rows) VALUES ($1, $2, $3, $4)");
        transaction.execute(&sql, &[&position.source, &position.tables, &position.after, &position.rows]).await?;
        Ok(transaction.commit().await?)
    }

    /// Says whether the copy was where it was thought to be.
    async fn put(&mut self, table: &Table, rows: Vec<Row>, from: &Position, to: &Position) -> Sql<bool> {
        let transaction = self.client.transaction().await?;
        if !rows.is_empty() {
            let types: Vec<_> = table.columns.iter().map(|column| column_type(column.kind)).collect();
            fill(BinaryCopyInWriter::new(transaction.copy_in(&copy_in(table)).await?, &types), rows).await?;
        }
        let sql = format!(
            "UPDATE {COPY_POSITION} SET tables = $1, after = $2, rows = $3 WHERE source = $4 AND tables = $5 AND rows = $6"
        );
        let noted = transaction
            .execute(&sql, &[&to.tables, &to.after, &to.rows, &from.source, &from.tables, &from.rows])
            .await?;
        if noted == 1 {
            transaction.commit().await?;
        }
        Ok(noted == 1)
    }

    async fn end(&mut self, counter: i64) -> Sql<()> {
        // The planner knows nothing yet of what is in the tables.
        let tables: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        self.client.batch_execute(&format!("ANALYZE {}", tables.join(", "))).await?;
        let transaction = self.client.transaction().await?;
        transaction.batch_execute("SET LOCAL synchronous_commit = on").await?;
        let sql = "SELECT setval('versions', greatest($1, last_value)) FROM versions";
        transaction.execute(sql, &[&counter]).await?;
        transaction.batch_execute(&sequences_set()).await?;
        transaction.batch_execute(&format!("DROP TABLE {COPY_POSITION}")).await?;
        // A replica that was started too early has seen an empty store.
        transaction.batch_execute(&format!("NOTIFY {}, '{}'", invalidation::CHANNEL, invalidation::EVERYTHING)).await?;
        Ok(transaction.commit().await?)
    }

    /// Begins a transaction that ends with the connection, if not before.
    async fn begin_replacing(&mut self) -> Sql<()> {
        let tables: Vec<_> = TABLES.iter().map(|table| table.name).chain(STAGED).collect();
        let sql = format!(
            "BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '5s';
            DROP TABLE IF EXISTS {COPY_POSITION}; TRUNCATE {}",
            tables.join(", ")
        );
        Ok(self.client.batch_execute(&sql).await?)
    }

    async fn put_replacing(&mut self, table: &Table, rows: Vec<Row>) -> Sql<()> {
        let types: Vec<_> = table.columns.iter().map(|column| column_type(column.kind)).collect();
        fill(BinaryCopyInWriter::new(self.client.copy_in(&copy_in(table)).await?, &types), rows).await
    }

    async fn commit_replacing(&mut self, end: &RestoreEnd) -> Sql<()> {
        // A sequence begins at 1.
        self.client.execute("SELECT setval('versions', greatest($1::bigint, 1))", &[&end.counter]).await?;
        self.client.batch_execute(&sequences_set()).await?;
        if let Some(now) = end.end_sessions {
            self.client.batch_execute("DELETE FROM sessions").await?;
            let sql = "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until)
                SELECT id, grant_sealed, $1, 0, NULL FROM users WHERE grant_sealed IS NOT NULL
                ON CONFLICT (user_id) DO NOTHING";
            self.client.execute(sql, &[&now.stored()]).await?;
            self.client.batch_execute("DELETE FROM users").await?;
        }
        for hash in &end.forgotten {
            let sql = "INSERT INTO forgotten_users (user_hash, since) VALUES ($1, $2)
        ON CONFLICT (user_hash) DO UPDATE SET since = excluded.since";
            self.client.execute(sql, &[&hash.0.as_slice(), &end.now.stored()]).await?;
        }
        let notify = format!("NOTIFY {}, '{}'; COMMIT", invalidation::CHANNEL, invalidation::EVERYTHING);
        self.client.batch_execute(&notify).await?;
        // The planner knows nothing yet of what is in the tables.
        let tables: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        Ok(self.client.batch_execute(&format!("ANALYZE {}", tables.join(", "))).await?)
    }
}

fn copy_in(table: &Table) -> String {
    format!("COPY {} ({}) FROM STDIN (FORMAT binary)", table.name, DIALECT.columns(table.columns))
}

async fn fill(writer: BinaryCopyInWriter, rows: Vec<Row>) -> Sql<()> {
    let mut writer = pin!(writer);
    for row in rows {
        writer.as_mut().write_raw(row).await?;
    }
    writer.finish().await?;
    Ok(())
}

/// Sets the sequences of all columns to what the columns hold.
fn sequences_set() -> String {
    let sequences = TABLES.iter().flat_map(|table| {
        let columns = table.columns.iter().filter(|column| column.kind == ColumnKind::Sequence);
        columns.map(|column| (table.name, column.name))
    });
    let set = sequences.map(|(table, column)| {
        format!(
            "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), greatest(max({column}), 1)) FROM {table};"
        )
    });
    set.collect()
}

#[async_trait]
impl Side for ServerSide {
    fn takes_all_text(&self) -> bool {
        false
    }

    async fn mark(&mut self, number: i64) -> Result<bool> {
        let made = self.client.query_one("SELECT pg_try_advisory_lock($1)", &[&number]).await;
        made.and_then(|row| row.try_get(0)).map_err(|error| SqlError::from(error).into_store_error())
    }

    async fn freeze(&mut self) -> Result<()> {
        self.client.batch_execute(FREEZE).await.map_err(|error| SqlError::from(error).into_store_error())?;
        migrations::expect_current(&self.client).await
    }

    async fn counter(&mut self) -> Result<i64> {
        self.last_number().await.map_err(SqlError::into_store_error)
    }

    async fn count(&mut self, table: &'static Table, filter: RowFilter) -> Result<u64> {
        self.rows(table, filter).await.map_err(SqlError::into_store_error)
    }

    async fn read(&mut self, table: &'static Table, filter: RowFilter, after: Option<Row>) -> Result<Vec<Row>> {
        self.next(table, filter, after).await.map_err(SqlError::into_store_error)
    }

    async fn position(&mut self) -> Result<Option<Position>> {
        self.stored_position().await.map_err(SqlError::into_store_error)
    }

    async fn find_own_data(&mut self) -> Result<Option<&'static str>> {
        for (table, question) in own_data_questions() {
            let answer = self.client.query_one(&question, &[]).await.and_then(|row| row.try_get(0));
            if answer.map_err(|error| SqlError::from(error).into_store_error())? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    async fn begin(&mut self, position: Position) -> Result<()> {
        self.empty(&position).await.map_err(SqlError::into_store_error)
    }

    async fn write(&mut self, table: &'static Table, rows: Vec<Row>, from: Position, to: Position) -> Result<()> {
        if self.put(table, rows, &from, &to).await.map_err(SqlError::into_store_error)? {
            return Ok(());
        }
        Err(StoreError::Failed("another copy into it is at work".to_owned()))
    }

    async fn finish(&mut self, counter: i64) -> Result<()> {
        self.end(counter).await.map_err(SqlError::into_store_error)
    }

    async fn begin_restore(&mut self) -> Result<()> {
        self.begin_replacing().await.map_err(SqlError::into_store_error)
    }

    async fn put_restored(&mut self, table: &'static Table, rows: Vec<Row>) -> Result<()> {
        self.put_replacing(table, rows).await.map_err(SqlError::into_store_error)
    }

    async fn commit_restore(&mut self, end: RestoreEnd) -> Result<()> {
        self.commit_replacing(&end).await.map_err(SqlError::into_store_error)
    }
}

fn column_type(kind: ColumnKind) -> Type {
    match kind {
        ColumnKind::Integer | ColumnKind::Sequence => Type::INT8,
        ColumnKind::Real => Type::FLOAT8,
        ColumnKind::Text => Type::TEXT,
        ColumnKind::Bytes => Type::BYTEA,
        ColumnKind::Boolean => Type::BOOL,
    }
}

fn value(kind: ColumnKind, row: &tokio_postgres::Row, index: usize) -> Sql<CellValue> {
    let value = match kind {
        ColumnKind::Integer | ColumnKind::Sequence => row.try_get::<_, Option<i64>>(index)?.map(CellValue::Integer),
        ColumnKind::Real => row.try_get::<_, Option<f64>>(index)?.map(CellValue::Real),
        ColumnKind::Text => row.try_get::<_, Option<String>>(index)?.map(CellValue::Text),
        ColumnKind::Bytes => row.try_get::<_, Option<Vec<u8>>>(index)?.map(CellValue::Bytes),
        ColumnKind::Boolean => row.try_get::<_, Option<bool>>(index)?.map(CellValue::Boolean),
    };
    Ok(value.unwrap_or(CellValue::Null))
}

impl ToSql for CellValue {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql(ty, out),
            Self::Real(number) => number.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.to_sql(ty, out),
            Self::Boolean(truth) => truth.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT8, Type::FLOAT8, Type::TEXT, Type::BYTEA, Type::BOOL].contains(ty)
    }

    to_sql_checked!();
}
