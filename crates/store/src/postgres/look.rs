//! Inspects the database without changing it.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use secrecy::SecretString;
use tokio::time::timeout;
use tokio_postgres::Client;

use super::address::Address;
use super::database::Connection;
use super::migrations;
use super::pool::READ_ONLY;
use crate::sql::upkeep::content;
use crate::{Result, ServerLook, StoreError, StoreLook};

/// Inspects the database, with `limit` for each question.
pub(crate) async fn look(url: &SecretString, limit: Duration) -> Result<StoreLook> {
    let address = address(url)?;
    let newest = crate::migrations::NEWEST;
    let (schema, server) =
        ask(&address, limit, async |client| Ok((migrations::version(client).await?, server(client).await?))).await?;
    let content = if usize::try_from(schema) == Ok(newest) {
        Some(ask(&address, limit, async |client| Ok(content(&Connection::from(client)).await?)).await?)
    } else {
        None
    };
    Ok(StoreLook { schema, newest, server: Some(server), content, integrity: None })
}

/// What the server allows the URL's role, for a running service.
pub(crate) async fn look_at_server(url: &SecretString, limit: Duration) -> Result<ServerLook> {
    ask(&address(url)?, limit, async |client| server(client).await).await
}

/// Makes sure that a command of this release can read the database as is.
pub(super) async fn expect_readable(address: &Address, limit: Duration) -> Result<()> {
    let version = ask(address, limit, async |client| migrations::version(client).await);
    crate::migrations::STEPS.expect_readable(version.await?)
}

fn address(url: &SecretString) -> Result<Address> {
    Ok(Address::parse(url).map_err(StoreError::Failed)?.named("check").read_only())
}

/// Asks on a read-only connection, within `limit`.
async fn ask<T>(
    address: &Address,
    limit: Duration,
    question: impl AsyncFnOnce(&ClientWrapper) -> Result<T>,
) -> Result<T> {
    let client = address.open().await?;
    let asked = async {
        // The database gives up as well, instead of going on for nobody.
        client.batch_execute(&format!("{READ_ONLY}; SET statement_timeout = {}", limit.as_millis())).await?;
        question(&client).await
    };
    timeout(limit, asked).await.map_err(silent)?
}

pub(super) fn silent(_: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Unavailable("the database accepted the connection but does not respond".to_owned())
}

/// What the server allows the role that asks.
async fn server(client: &Client) -> Result<ServerLook> {
    // A superuser has no limit other than the server's.
    let asked = "SELECT current_user::text, current_schema()::text,
            coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
            current_setting('max_connections')::bigint,
            CASE WHEN rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::bigint
                + coalesce(current_setting('reserved_connections', true)::bigint, 0) END,
            CASE WHEN rolsuper THEN -1 ELSE rolconnlimit END::bigint,
            CASE WHEN rolsuper THEN -1 ELSE
                (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) END::bigint
        FROM pg_roles WHERE rolname = current_user";
    let row = client.query_one(asked, &[]).await?;
    let (most, reserved): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
    let limits = [
        (most - reserved, "max_connections"),
        (row.try_get(5)?, "the role's CONNECTION LIMIT"),
        (row.try_get(6)?, "the database's CONNECTION LIMIT"),
    ];
    let connections = limits.into_iter().filter(|(limit, _)| *limit >= 0).min().unwrap_or(limits[0]);
    Ok(ServerLook { role: row.try_get(0)?, schema: row.try_get(1)?, may_create: row.try_get(2)?, connections })
}
