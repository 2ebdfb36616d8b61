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
use super::columns::unsigned;
use super::errors::{Sql, SqlError};
use super::notice;
use super::{connect, migrations};
use crate::store::copy::{
    BYTES, Dialect, Kind, PLACE, Place as Reached, Row, STAGED, Side, TABLES, Table, UNFINISHED, Value, Which, count,
    used,
};
use crate::store::starting::{Place, keep_trying};
use crate::store::{Result, StoreError};

const DIALECT: Dialect = Dialect { parameter: '$', sequence: None };
/// Held by the one that copies into a database. Its last connection may take a moment to be gone.
const ALONE: &str = "SET lock_timeout = '5s'; SELECT pg_advisory_lock(1651471460); SET lock_timeout = 0";
/// A batch that a crash of the server takes is copied again; the last transaction waits for the disk and the standbys.
const SETTINGS: &str =
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = off";
const LOOK: &str = "COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

struct Server {
    client: Client,
    connection: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Opens the store that has the data. It is never written to.
pub(in crate::store) async fn source(url: &SecretString, start_wait: Duration) -> Result<Box<dyn Side>> {
    let server = Server::open(url, start_wait).await?;
    migrations::expect_current(&server.client).await?;
    refuse_unfinished(&server.client).await?;
    Ok(Box::new(server))
}

/// Opens the store that takes the data, and makes its tables.
pub(in crate::store) async fn destination(url: &SecretString, start_wait: Duration) -> Result<Box<dyn Side>> {
    let mut server = Server::open(url, start_wait).await?;
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
    Ok(Box::new(server))
}

/// A connection for a test.
#[cfg(test)]
pub(in crate::store) async fn connected(url: &SecretString) -> Result<(Client, JoinHandle<()>)> {
    connect(&Address::parse(url).map_err(StoreError::Failed)?).await
}

/// An unfinished copy is not a store.
pub(super) async fn refuse_unfinished(client: &Client) -> Result<()> {
    let unfinished = is_unfinished(client).await.map_err(SqlError::into_store_error)?;
    if unfinished { Err(StoreError::Failed(UNFINISHED.to_owned())) } else { Ok(()) }
}

async fn is_unfinished(client: &Client) -> Sql<bool> {
    Ok(client.query_one("SELECT to_regclass($1::text) IS NOT NULL", &[&PLACE]).await?.try_get(0)?)
}

impl Server {
    async fn open(url: &SecretString, start_wait: Duration) -> Result<Self> {
        let address = Address::parse(url).map_err(StoreError::Failed)?;
        let connecting = || connect(&address);
        let (client, connection) = keep_trying(start_wait, Place::Server(&address.hosts()), connecting).await?;
        let server = Self { client, connection };
        server.client.batch_execute(SETTINGS).await.map_err(|error| SqlError::from(error).into_store_error())?;
        Ok(server)
    }

    async fn last_number(&self) -> Sql<i64> {
        let sql = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM versions";
        Ok(self.client.query_one(sql, &[]).await?.try_get(0)?)
    }

    async fn rows(&self, table: &Table, which: Which) -> Sql<u64> {
        Ok(self.client.query_one(&count(table, which), &[]).await?.try_get(0).map(unsigned)?)
    }

    async fn next(&self, table: &Table, which: Which, after: Option<Row>) -> Sql<Vec<Row>> {
        let sql = DIALECT.select(table, which, after.is_some());
        let mut found = pin!(self.client.query_raw(&sql, after.unwrap_or_default()).await?);
        let (mut rows, mut size) = (Vec::new(), 0);
        while size < BYTES
            && let Some(row) = found.try_next().await?
        {
            let mut values = Row::with_capacity(table.columns.len());
            for (place, column) in table.columns.iter().enumerate() {
                let value = value(column.kind, &row, place)?;
                size += value.size();
                values.push(value);
            }
            rows.push(values);
        }
        Ok(rows)
    }

    async fn reached(&self) -> Sql<Option<Reached>> {
        if !is_unfinished(&self.client).await? {
            return Ok(None);
        }
        let sql = format!("SELECT source, tables, after, rows FROM {PLACE}");
        let Some(row) = self.client.query_opt(&sql, &[]).await? else { return Ok(Some(Reached::default())) };
        let place =
            Reached { source: row.try_get(0)?, tables: row.try_get(1)?, after: row.try_get(2)?, rows: row.try_get(3)? };
        Ok(Some(place))
    }

    async fn empty(&mut self, place: &Reached) -> Sql<()> {
        let transaction = self.client.transaction().await?;
        let tables: Vec<_> = TABLES.iter().map(|table| table.name).chain(STAGED).collect();
        let sql = format!(
            "TRUNCATE {}; DROP TABLE IF EXISTS {PLACE};
            CREATE TABLE {PLACE} (source TEXT NOT NULL, tables BIGINT NOT NULL, after BYTEA, rows BIGINT NOT NULL)",
            tables.join(", ")
        );
        transaction.batch_execute(&sql).await?;
        let sql = format!("INSERT INTO {PLACE} (source, tables, after, rows) VALUES ($1, $2, $3, $4)");
        transaction.execute(&sql, &[&place.source, &place.tables, &place.after, &place.rows]).await?;
        Ok(transaction.commit().await?)
    }

    /// Says whether the copy was where it was thought to be.
    async fn put(&mut self, table: &Table, rows: Vec<Row>, from: &Reached, to: &Reached) -> Sql<bool> {
        let transaction = self.client.transaction().await?;
        if !rows.is_empty() {
            let sql = format!("COPY {} ({}) FROM STDIN (FORMAT binary)", table.name, DIALECT.columns(table.columns));
            let types: Vec<_> = table.columns.iter().map(|column| column_type(column.kind)).collect();
            let mut writer = pin!(BinaryCopyInWriter::new(transaction.copy_in(&sql).await?, &types));
            for row in rows {
                writer.as_mut().write_raw(row).await?;
            }
            writer.finish().await?;
        }
        let sql = format!(
            "UPDATE {PLACE} SET tables = $1, after = $2, rows = $3 WHERE source = $4 AND tables = $5 AND rows = $6"
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
        for table in TABLES {
            for column in table.columns.iter().filter(|column| column.kind == Kind::Sequence) {
                let (table, column) = (table.name, column.name);
                transaction
                    .batch_execute(&format!(
                        "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), greatest(max({column}), 1)) FROM {table}"
                    ))
                    .await?;
            }
        }
        transaction.batch_execute(&format!("DROP TABLE {PLACE}")).await?;
        // A replica that was started too early has seen an empty store.
        transaction.batch_execute(&format!("NOTIFY {}, '{}'", notice::CHANNEL, notice::EVERYTHING)).await?;
        Ok(transaction.commit().await?)
    }
}

#[async_trait]
impl Side for Server {
    fn takes_all_text(&self) -> bool {
        false
    }

    async fn mark(&mut self, number: i64) -> Result<bool> {
        let made = self.client.query_one("SELECT pg_try_advisory_lock($1)", &[&number]).await;
        made.and_then(|row| row.try_get(0)).map_err(|error| SqlError::from(error).into_store_error())
    }

    async fn look(&mut self) -> Result<()> {
        self.client.batch_execute(LOOK).await.map_err(|error| SqlError::from(error).into_store_error())?;
        migrations::expect_current(&self.client).await
    }

    async fn counter(&mut self) -> Result<i64> {
        self.last_number().await.map_err(SqlError::into_store_error)
    }

    async fn count(&mut self, table: &'static Table, which: Which) -> Result<u64> {
        self.rows(table, which).await.map_err(SqlError::into_store_error)
    }

    async fn read(&mut self, table: &'static Table, which: Which, after: Option<Row>) -> Result<Vec<Row>> {
        self.next(table, which, after).await.map_err(SqlError::into_store_error)
    }

    async fn place(&mut self) -> Result<Option<Reached>> {
        self.reached().await.map_err(SqlError::into_store_error)
    }

    async fn used(&mut self) -> Result<Option<&'static str>> {
        for (table, question) in used() {
            let answer = self.client.query_one(&question, &[]).await.and_then(|row| row.try_get(0));
            if answer.map_err(|error| SqlError::from(error).into_store_error())? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    async fn begin(&mut self, place: Reached) -> Result<()> {
        self.empty(&place).await.map_err(SqlError::into_store_error)
    }

    async fn write(&mut self, table: &'static Table, rows: Vec<Row>, from: Reached, to: Reached) -> Result<()> {
        if self.put(table, rows, &from, &to).await.map_err(SqlError::into_store_error)? {
            return Ok(());
        }
        Err(StoreError::Failed("another copy into it is at work".to_owned()))
    }

    async fn finish(&mut self, counter: i64) -> Result<()> {
        self.end(counter).await.map_err(SqlError::into_store_error)
    }
}

fn column_type(kind: Kind) -> Type {
    match kind {
        Kind::Integer | Kind::Sequence => Type::INT8,
        Kind::Real => Type::FLOAT8,
        Kind::Text => Type::TEXT,
        Kind::Bytes => Type::BYTEA,
        Kind::Boolean => Type::BOOL,
    }
}

fn value(kind: Kind, row: &tokio_postgres::Row, place: usize) -> Sql<Value> {
    let value = match kind {
        Kind::Integer | Kind::Sequence => row.try_get::<_, Option<i64>>(place)?.map(Value::Integer),
        Kind::Real => row.try_get::<_, Option<f64>>(place)?.map(Value::Real),
        Kind::Text => row.try_get::<_, Option<String>>(place)?.map(Value::Text),
        Kind::Bytes => row.try_get::<_, Option<Vec<u8>>>(place)?.map(Value::Bytes),
        Kind::Boolean => row.try_get::<_, Option<bool>>(place)?.map(Value::Boolean),
    };
    Ok(value.unwrap_or(Value::Null))
}

impl ToSql for Value {
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
