//! The schema, one numbered file per step. A step that was released is never edited; the next one is added below it.

use tokio_postgres::Client;

use super::errors::{Sql, SqlError};
use crate::schema_version::{self, COPY_POSITION};
use crate::{Result, StoreError};

/// Step `n` brings the schema from version `n` to `n + 1`.
const STEPS: &[&str] = &[
    include_str!("0001_start.sql"),
    include_str!("0002_instances.sql"),
    include_str!("0003_revocations.sql"),
    include_str!("0004_stats.sql"),
    include_str!("0005_upkeep.sql"),
    include_str!("0006_history.sql"),
];

/// Held while the schema changes: of ten replicas that start at once, one does it and nine wait.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1651471459)";
const VERSION: &str = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)";

pub(super) const NEWEST: usize = STEPS.len();

/// Brings the database to the newest schema, all or nothing. Whether it is a new one.
pub(super) async fn run(client: &mut Client) -> Result<bool> {
    match migrate(client).await {
        Ok(migrated) => migrated,
        Err(error) => Err(match SqlError::from(error).into_store_error() {
            StoreError::Failed(why) => StoreError::Failed(format!("the schema cannot be made: {why}")),
            // The server stopped meanwhile, say.
            passing => passing,
        }),
    }
}

/// Whether the schema is a new one.
async fn migrate(client: &mut Client) -> std::result::Result<Result<bool>, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    // The server need not say at every start that the table is there.
    transaction.batch_execute("SET LOCAL client_min_messages = warning").await?;
    transaction.batch_execute(VERSION).await?;
    let known = transaction.query_opt("SELECT version FROM schema_version", &[]).await?;
    let version = known.map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(pending) = STEPS.get(version..) else {
        return Ok(Err(schema_version::newer_release(version, STEPS.len())));
    };
    if pending.is_empty() {
        return transaction.rollback().await.map(|()| Ok(false));
    }
    for step in pending {
        transaction.batch_execute(step).await?;
    }
    transaction.batch_execute("DELETE FROM schema_version").await?;
    let reached = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    transaction.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&reached]).await?;
    transaction.commit().await.map(|()| Ok(version == 0))
}

/// The version that this release makes.
pub(super) const fn newest() -> usize {
    STEPS.len()
}

/// The schema's version; 0 where there is none.
pub(super) async fn version(client: &Client) -> Result<i64> {
    let failed = |error| SqlError::from(error).into_store_error();
    let known = "SELECT to_regclass('schema_version') IS NOT NULL";
    if !client.query_one(known, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)? {
        return Ok(0);
    }
    let version = client.query_opt("SELECT version FROM schema_version", &[]).await.map_err(failed)?;
    version.map_or(Ok(0), |row| row.try_get(0)).map_err(failed)
}

/// Makes sure that the schema is this release's, without changing anything.
pub(super) async fn expect_current(client: &Client) -> Result<()> {
    schema_version::expect_version(version(client).await?, STEPS.len())
}

/// Refuses a database into which a copy was not finished.
pub(super) async fn refuse_unfinished_copy(client: &Client) -> Result<()> {
    let is_unfinished = has_unfinished_copy(client).await.map_err(SqlError::into_store_error)?;
    schema_version::refuse_unfinished_copy(is_unfinished)
}

pub(super) async fn has_unfinished_copy(client: &Client) -> Sql<bool> {
    Ok(client.query_one("SELECT to_regclass($1::text) IS NOT NULL", &[&COPY_POSITION]).await?.try_get(0)?)
}
