//! The database server as the source or the destination of a backup.

use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use futures_util::TryStreamExt as _;
use secrecy::SecretString;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tracing::warn;

use super::address::Address;
use super::database::{Connection, cells};
use super::invalidation;
use super::migrations::{self, LOCK};
use crate::backup::TableHeader;
use crate::backup::side::{RestoreEnd, Side, in_use};
use crate::backup::statements::{self, BRING_PROBE_BACK, Batch, KEEP_PROBE, columns, select};
use crate::backup::tables::{PROBE, STAGED, TABLES, Table};
use crate::backup::value::{CellValue, ColumnKind, Row};
use crate::migrations::STEPS;
use crate::schema_version::Steps;
use crate::sql::{Database as _, ToValue as _};
use crate::starting::{StoreLocation, keep_trying};
use crate::{Result, StoreError};

/// Held while writing a backup into a database. Its last connection may take a moment to disappear.
const ALONE: &str = "SET lock_timeout = '5s'; SELECT pg_advisory_lock(1651471460); SET lock_timeout = 0";
const SETTINGS: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";
const FREEZE: &str = "COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Begins a transaction that ends with the connection, if not before.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '5s';
    SET LOCAL client_min_messages = warning";

/// How long closing connections may take to disappear.
const LEAVING: Duration = Duration::from_secs(5);

struct ServerSide {
    client: ClientWrapper,
    steps: Steps,
}

/// Opens the source, which is never written to. Services may be using it.
pub(crate) async fn source(url: &SecretString, start_wait: Duration) -> Result<Box<dyn Side>> {
    let server = ServerSide::open(url, start_wait, STEPS).await?;
    migrations::expect_newest(&server.client, STEPS).await?;
    Ok(Box::new(server))
}

pub(crate) async fn destination(url: &SecretString, start_wait: Duration, steps: Steps) -> Result<Box<dyn Side>> {
    let server = ServerSide::open(url, start_wait, steps).await?;
    server.client.batch_execute(ALONE).await.map_err(|error| {
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return StoreError::Unavailable("another restore into this database is running".to_owned());
        }
        error.into()
    })?;
    if migrations::version(&server.client).await? != 0 {
        migrations::expect_newest(&server.client, steps).await?;
    }
    Ok(Box::new(server))
}

impl ServerSide {
    async fn open(url: &SecretString, start_wait: Duration, steps: Steps) -> Result<Self> {
        let address = Address::parse(url).map_err(StoreError::Failed)?;
        let hosts = address.hosts();
        let client = keep_trying(start_wait, StoreLocation::Server(&hosts), || address.open()).await?;
        client.batch_execute(SETTINGS).await?;
        Ok(Self { client, steps })
    }

    fn db(&self) -> Connection<'_> {
        Connection::from(&self.client)
    }

    /// Makes sure that nobody else is connected as the service's role.
    async fn expect_alone(&self) -> Result<()> {
        let others =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user
            AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let patience = tokio::time::Instant::now() + LEAVING;
        loop {
            match self.client.query_one(others, &[]).await?.try_get::<_, i64>(0)? {
                0 => return Ok(()),
                _ if tokio::time::Instant::now() < patience => tokio::time::sleep(Duration::from_millis(100)).await,
                connected => return Err(in_use(&format!(" ({connected} other connections to the database)"))),
            }
        }
    }
}

fn ours() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name).chain(STAGED)
}

/// Sets the sequences of all columns to their largest values.
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
    fn is_sqlite(&self) -> bool {
        false
    }

    async fn freeze(&mut self) -> Result<()> {
        self.client.batch_execute(FREEZE).await?;
        migrations::expect_newest(&self.client, self.steps).await
    }

    async fn counter(&mut self) -> Result<i64> {
        Ok(self.client.query_one(Connection::WORDS.counter, &[]).await?.try_get(0)?)
    }

    async fn count(&mut self, table: &'static Table) -> Result<u64> {
        Ok(statements::count(&self.db(), table).await?)
    }

    async fn read(&mut self, table: &'static Table, after: Option<Row>) -> Result<Vec<Row>> {
        let sql = select::<Connection<'_>>(table, after.is_some());
        let key: Vec<_> = after.iter().flatten().map(CellValue::value).collect();
        let (mut found, mut batch) = (pin!(self.client.query_raw(&sql, key).await?), Batch::of(table));
        while batch.has_room()
            && let Some(row) = found.try_next().await?
        {
            batch.add(cells(&row)?)?;
        }
        Ok(batch.rows)
    }

    async fn begin(&mut self) -> Result<Option<&'static str>> {
        self.expect_alone().await?;
        let is_new = migrations::version(&self.client).await? == 0;
        self.client.batch_execute(&format!("{BEGIN}; {LOCK}")).await?;
        if is_new {
            migrations::take_steps(&self.client, self.steps, 0, self.steps.newest()).await?;
        }
        Ok(statements::find_own_data(&self.db()).await?)
    }

    async fn make_room(&mut self, version: usize) -> Result<()> {
        if version != self.steps.newest() {
            let made = ours().chain([PROBE, "schema_version"]).collect::<Vec<_>>().join(", ");
            self.client.batch_execute(&format!("{KEEP_PROBE}; DROP TABLE {made}; DROP SEQUENCE versions")).await?;
            migrations::take_steps(&self.client, self.steps, 0, version).await?;
        }
        let tables: Vec<_> = ours().filter(|table| self.steps.makes(version, table)).collect();
        // A restarted sequence is a new one until the commit: only then does setting it end with the transaction.
        let sql = format!("TRUNCATE {} RESTART IDENTITY; ALTER SEQUENCE versions RESTART", tables.join(", "));
        Ok(self.client.batch_execute(&sql).await?)
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        let table = self.client.prepare(&format!("SELECT * FROM {table}")).await?;
        Ok(table.columns().iter().map(|column| column.name().to_owned()).collect())
    }

    async fn put(&mut self, table: &TableHeader, rows: Vec<Row>) -> Result<()> {
        let name = &table.name;
        let columns = columns::<Connection<'_>>(name, table.columns.iter().map(String::as_str));
        let stored = self.client.prepare(&format!("SELECT {columns} FROM {name}")).await?;
        let types: Vec<_> = stored.columns().iter().map(|column| column.type_().clone()).collect();
        let copy_in = format!("COPY {name} ({columns}) FROM STDIN (FORMAT binary)");
        let mut writer = pin!(BinaryCopyInWriter::new(self.client.copy_in(&copy_in).await?, &types));
        for row in rows {
            writer.as_mut().write_raw(row.iter().map(CellValue::value)).await?;
        }
        writer.finish().await?;
        Ok(())
    }

    async fn commit(&mut self, end: RestoreEnd) -> Result<()> {
        if end.version != self.steps.newest() {
            migrations::take_steps(&self.client, self.steps, end.version, self.steps.newest()).await?;
            self.client.batch_execute(BRING_PROBE_BACK).await?;
        }
        // A sequence starts at 1.
        self.client.execute("SELECT setval('versions', greatest($1::bigint, 1))", &[&end.counter]).await?;
        self.client.batch_execute(&sequences_set()).await?;
        statements::finish(&self.db(), &end).await?;
        let notify = format!("NOTIFY {}, '{}'; COMMIT", invalidation::CHANNEL, invalidation::EVERYTHING);
        self.client.batch_execute(&notify).await?;
        // The planner knows nothing yet about the tables' contents. If this fails, the server's own upkeep does it later.
        let tables: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        if let Err(error) = self.client.batch_execute(&format!("ANALYZE {}", tables.join(", "))).await {
            warn!(error = %StoreError::from(error), "the data is in the database, but the tables could not be analysed");
        }
        Ok(())
    }
}
