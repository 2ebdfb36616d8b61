//! The connection pool, and how connections are made.

use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Connect, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tracing::debug;

use super::address::Address;
use super::errors::SqlError;
use crate::{Result, StoreError};

/// Makes the database itself refuse all changes.
pub(super) const READ_ONLY: &str = "SET default_transaction_read_only = on";

/// A pool of connections to this address, each with the database's own limits: `wait` for a statement, and `idle` between two
/// statements of a transaction.
pub(super) fn build(address: &Address, connections: usize, wait: Duration, idle: Duration) -> Result<Pool> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    // These options are not used, because `ByAddress` connects instead of the manager.
    let manager = Manager::from_connect(tokio_postgres::Config::new(), ByAddress(address.clone()), recycling);
    // JIT compilation is for statements that run for seconds; it would make some of ours a hundred times slower.
    let limits = format!(
        "SET jit = off; SET statement_timeout = {millis}; SET idle_in_transaction_session_timeout = {idle}; {access}",
        access = if address.is_read_only() { READ_ONLY } else { "" },
        millis = wait.as_millis(),
        // A replica that is cut off in the middle of a transaction must not hold up the others for long.
        idle = idle.as_millis(),
    );
    let set_limits = Hook::async_fn(move |client: &mut ClientWrapper, _| {
        let limits = limits.clone();
        Box::pin(async move { client.batch_execute(&limits).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(connections)
        .timeouts(Timeouts { wait: Some(wait), create: Some(address.patience()), recycle: Some(wait) })
        .runtime(Runtime::Tokio1)
        .post_create(set_limits)
        .build()
        .map_err(|error| StoreError::Failed(format!("its pool cannot be created: {error}")))
}

struct ByAddress(Address);

type Connected = std::result::Result<(tokio_postgres::Client, JoinHandle<()>), tokio_postgres::Error>;

impl Connect for ByAddress {
    fn connect(&self, _: &tokio_postgres::Config) -> BoxFuture<'_, Connected> {
        Box::pin(async {
            match self.0.connect().await {
                Ok((client, connection)) => {
                    let reading = async {
                        if let Err(error) = connection.await {
                            debug!(error = %SqlError::from(error), "a connection to the database ended");
                        }
                    };
                    Ok((client, tokio::spawn(reading)))
                }
                Err(error) => match error.into_driver_error() {
                    Some(error) => Err(error),
                    // The pool has no error for a silent server. Its own time limit is about to end this wait.
                    None => std::future::pending().await,
                },
            }
        })
    }
}
