//! A look at the database that changes nothing.

use std::time::Duration;

use secrecy::SecretString;
use tokio::time::timeout;

use super::address::Address;
use super::errors::SqlError;
use super::{health, migrations, pool, upkeep};
use crate::store::{Result, StoreContent, StoreError, StoreLook};

/// From here on the database itself refuses to change anything.
const READ_ONLY: &str = "SET default_transaction_read_only = on";

/// Looks at the database, each question for `limit` at most.
pub(in crate::store) async fn look(url: &SecretString, limit: Duration) -> Result<StoreLook> {
    let address = Address::parse(url).map_err(StoreError::Failed)?.named("check");
    let silent = |_| StoreError::Unavailable("the database accepted the connection and fell silent".to_owned());
    let (client, connection) = address.open().await?;
    let version = async {
        client.batch_execute(READ_ONLY).await.map_err(|error| SqlError::from(error).into_store_error())?;
        migrations::refuse_unfinished_copy(&client).await?;
        migrations::version(&client).await
    };
    let version = timeout(limit, version).await;
    connection.abort();
    let (schema, newest) = (version.map_err(silent)??, migrations::newest());
    let content = if usize::try_from(schema) == Ok(newest) {
        Some(timeout(limit, content(&address, limit)).await.map_err(silent)??)
    } else {
        None
    };
    Ok(StoreLook { schema, newest, content, file: None })
}

async fn content(address: &Address, limit: Duration) -> Result<StoreContent> {
    // The questions are asked of a connection of a pool, because that is what the store has.
    let pool = pool::build(address, 1, limit, limit)?;
    let client = pool.get().await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let failed = SqlError::into_store_error;
    client.batch_execute(READ_ONLY).await.map_err(|error| failed(error.into()))?;
    let grants_by_key = upkeep::grants_by_key(&client).await.map_err(failed)?;
    let health = health::load(&client).await.map_err(failed)?;
    Ok(StoreContent { grants_by_key, health })
}
