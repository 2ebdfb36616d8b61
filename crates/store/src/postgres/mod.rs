//! The store that several replicas share: a PostgreSQL database. Every write is one transaction that tells the other replicas
//! what it changed.

mod address;
mod advice;
pub(super) mod backup;
mod bulk_insert;
mod circuit_breaker;
mod database;
mod errors;
mod invalidation;
mod listener;
mod locks;
mod look;
pub(super) mod migrations;
mod pool;
mod reachability;
mod subscriptions;
mod tls;
mod work;

use std::sync::Arc;
use std::time::Duration;

use runtime::random::Random;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use self::address::Address;
use self::invalidation::Origin;
use self::listener::Listener;
pub(super) use self::look::{look, look_at_server};
use self::work::Executor;
pub(super) use self::work::{Pace, Read};
use super::starting::{StoreLocation, keep_trying};
use super::{Access, Freshness, Result, StoreError, StoreOptions};

pub(super) struct Postgres {
    pub(super) executor: Executor,
    stop: CancellationToken,
}

/// What is wrong with a URL, if anything.
pub(super) fn check(url: &SecretString) -> std::result::Result<(), String> {
    Address::parse(url).map(drop)
}

/// The database and its hosts, for people.
pub(super) fn location(url: &SecretString) -> String {
    Address::parse(url).map_or_else(|_| "PostgreSQL".to_owned(), |address| address.location())
}

/// Connections over the network that someone in between could read or answer.
pub(super) fn cautions(url: &SecretString) -> Vec<String> {
    let Ok(address) = Address::parse(url) else { return Vec::new() };
    let open = address.unverified_hosts();
    let caution = format!(
        "the connection to PostgreSQL at {} is not verified, so someone on the network could read and change everything; add \
         `sslmode=verify-full` to store.url, and `sslrootcert=FILE` if the authority is your own (see Scaling in the documentation)",
        open.join(", ")
    );
    if open.is_empty() { Vec::new() } else { vec![caution] }
}

impl Postgres {
    /// Connects, migrates the database as needed, and starts listening to the other replicas. For a read-only command, nothing is
    /// migrated, nobody listens, and the database refuses every write. Waits for a database that is not ready yet.
    pub(super) async fn open(options: &StoreOptions, access: Access, freshness: Arc<Freshness>) -> Result<Self> {
        let address = Address::parse(&options.url).map_err(StoreError::Failed)?;
        let address = if access == Access::ReadOnly { address.read_only() } else { address };
        let location = address.location();
        let open = async || {
            let opened = Self::open_now(&address, options, Arc::clone(&freshness)).await;
            opened.map_err(|error| error.at(&location))
        };
        keep_trying(options.start_wait, StoreLocation::Server(&address.hosts()), open).await
    }

    async fn open_now(address: &Address, options: &StoreOptions, freshness: Arc<Freshness>) -> Result<Self> {
        let (origin, stop) = (Origin::new(&Random::from_system()), CancellationToken::new());
        // Unless it opens, nobody listens.
        let stop_listening = stop.clone().drop_guard();
        if address.is_read_only() {
            look::expect_readable(address, SILENCE).await?;
        } else {
            migrate(address).await?;
            let listener = Listener::new(address.clone(), Arc::clone(&freshness), origin.clone(), stop.clone());
            listener.start().await.map_err(StoreError::Unavailable)?;
        }
        let executor = Executor::new(address, options.connections, options.wait, freshness, origin)?;
        // So that the first request finds a connection; opening one may take longer than a request may wait.
        executor.warm().await?;
        stop_listening.disarm();
        Ok(Self { executor, stop })
    }

    pub(super) fn close(&self) {
        self.stop.cancel();
        self.executor.close();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How long a database that has accepted a connection may take for the first questions.
const SILENCE: Duration = Duration::from_mins(1);

async fn migrate(address: &Address) -> Result<()> {
    let mut client = address.open().await?;
    let begin = async {
        // A replica that vanishes in the middle must not keep the lock for hours, and nobody should wait for it in silence.
        let bounds = "SET lock_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'";
        let bounded = client.batch_execute(bounds).await;
        bounded.map_err(|error| StoreError::Unavailable(errors::SqlError::from(error).to_string()))
    };
    tokio::time::timeout(SILENCE, begin).await.map_err(look::silent)??;
    if migrations::run(&mut client, crate::migrations::STEPS).await? {
        super::schema_version::log_new_store(&address.location());
    }
    Ok(())
}
