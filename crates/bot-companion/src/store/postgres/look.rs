//! A look at the database that changes nothing.

use std::time::Duration;

use secrecy::SecretString;
use tokio::time::timeout;

use super::address::Address;
use super::errors::SqlError;
use super::pool::READ_ONLY;
use super::{health, migrations, pool, upkeep};
use crate::store::{Result, StoreContent, StoreError, StoreLook, schema_version};

/// Looks at the database, each question for `limit` at most.
pub(in crate::store) async fn look(url: &SecretString, limit: Duration) -> Result<StoreLook> {
    let address = Address::parse(url).map_err(StoreError::Failed)?.named("check").read_only();
    let (schema, newest) = (version(&address, limit).await?, migrations::newest());
    let content = if usize::try_from(schema) == Ok(newest) {
        Some(timeout(limit, content(&address, limit)).await.map_err(silent)??)
    } else {
        None
    };
    Ok(StoreLook { schema, newest, content })
}

/// Makes sure that a command of this release can read the database as it is.
pub(super) async fn expect_readable(address: &Address, limit: Duration) -> Result<()> {
    schema_version::expect_readable(version(address, limit).await?, migrations::newest())
}

/// The version of the schema, for `limit` at most.
async fn version(address: &Address, limit: Duration) -> Result<i64> {
    let (client, connection) = address.open().await?;
    let version = async {
        client.batch_execute(READ_ONLY).await.map_err(|error| SqlError::from(error).into_store_error())?;
        migrations::refuse_unfinished_copy(&client).await?;
        migrations::version(&client).await
    };
    let version = timeout(limit, version).await;
    connection.abort();
    version.map_err(silent)?
}

fn silent(_: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Unavailable("the database accepted the connection and fell silent".to_owned())
}

async fn content(address: &Address, limit: Duration) -> Result<StoreContent> {
    // The questions are asked of a connection of a pool, because that is what the store has.
    let pool = pool::build(address, 1, limit, limit)?;
    let client = pool.get().await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let failed = SqlError::into_store_error;
    let grants_by_key = upkeep::grants_by_key(&client).await.map_err(failed)?;
    let health = health::load(&client).await.map_err(failed)?;
    Ok(StoreContent { grants_by_key, health })
}
