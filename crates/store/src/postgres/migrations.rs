//! Migrates a database to the schema of this release.

use tokio_postgres::Client;

use crate::migrations::Dialect;
use crate::schema_version::{self, Steps};
use crate::{Result, StoreError};

const DIALECT: Dialect = Dialect {
    mark: "@postgres",
    words: [
        ("{number}", "BIGINT"),
        ("{flag}", "BOOLEAN"),
        ("{float}", "DOUBLE PRECISION"),
        ("{bytes}", "BYTEA"),
        // Text for programs, in the order of its bytes.
        ("{code}", "TEXT COLLATE \"C\""),
        ("{plain}", ""),
        ("{sorted}", ""),
    ],
};

/// Held while the schema changes: if ten replicas start at the same time, one migrates and nine wait.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(1651471459)";
const VERSION: &str = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)";

/// Migrates the database to the newest schema, all or nothing. Returns whether it is new.
pub(crate) async fn run(client: &mut Client, steps: Steps) -> Result<bool> {
    match migrate(client, steps).await {
        Ok(migrated) => migrated,
        Err(error) => Err(match error.into() {
            StoreError::Failed(why) => StoreError::Failed(format!("the schema cannot be created: {why}")),
            // For example, the server stopped in the meantime.
            passing => passing,
        }),
    }
}

/// Returns whether the schema is new.
async fn migrate(client: &mut Client, steps: Steps) -> std::result::Result<Result<bool>, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    // The server need not report at every start that the table exists.
    transaction.batch_execute("SET LOCAL client_min_messages = warning").await?;
    transaction.batch_execute(VERSION).await?;
    let known = transaction.query_opt("SELECT version FROM schema_version", &[]).await?;
    let version = match steps.expect_known(known.map_or(Ok(0), |row| row.try_get(0))?) {
        Ok(version) if version == steps.newest() => return transaction.rollback().await.map(|()| Ok(false)),
        Ok(version) => version,
        Err(refused) => return Ok(Err(refused)),
    };
    take_steps(transaction.client(), steps, version, steps.newest()).await?;
    transaction.commit().await.map(|()| Ok(version == 0))
}

/// Migrates the schema from one version to another, in the caller's transaction.
pub(super) async fn take_steps(
    db: &Client,
    steps: Steps,
    from: usize,
    to: usize,
) -> std::result::Result<(), tokio_postgres::Error> {
    for step in steps.between(from, to) {
        db.batch_execute(&DIALECT.write(step)).await?;
    }
    let noted = format!("{VERSION}; DELETE FROM schema_version; INSERT INTO schema_version (version) VALUES ({to})");
    db.batch_execute(&noted).await
}

/// The schema's version; 0 if there is none.
pub(super) async fn version(client: &Client) -> Result<i64> {
    let known = "SELECT to_regclass('schema_version') IS NOT NULL";
    if !client.query_one(known, &[]).await?.try_get(0)? {
        return Ok(0);
    }
    let version = client.query_opt("SELECT version FROM schema_version", &[]).await?;
    let version = version.map_or(Ok(0), |row| row.try_get(0))?;
    schema_version::refuse_unreleased(version)?;
    Ok(version)
}

/// Makes sure that the schema is the newest of these, without changing anything.
pub(super) async fn expect_newest(client: &Client, steps: Steps) -> Result<()> {
    steps.expect_newest(version(client).await?)
}
