//! The database opened by a read-only command.

use std::sync::Arc;

use runtime::random::Random;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::invalidation::Origin;
use super::work::Executor;
use super::{Postgres, SILENCE, look};
use crate::starting::{StoreLocation, keep_trying};
use crate::{Freshness, Result, StoreError, StoreOptions};

impl Postgres {
    /// Connects for a read-only command: nothing is migrated, nobody listens, and the database refuses every write.
    pub(crate) async fn open_read_only(options: &StoreOptions, freshness: Arc<Freshness>) -> Result<Self> {
        let address = Address::parse(&options.url).map_err(StoreError::Failed)?.read_only();
        let location = address.location();
        let open = async || {
            let opened = Self::open_read_only_now(&address, options, Arc::clone(&freshness)).await;
            opened.map_err(|error| error.at(&location))
        };
        keep_trying(options.start_wait, StoreLocation::Server(&address.hosts()), open).await
    }

    async fn open_read_only_now(address: &Address, options: &StoreOptions, freshness: Arc<Freshness>) -> Result<Self> {
        look::expect_readable(address, SILENCE).await?;
        let origin = Origin::new(&Random::from_system());
        let executor = Executor::new(address, options.connections, options.wait, freshness, origin)?;
        executor.warm().await?;
        Ok(Self { executor, stop: CancellationToken::new() })
    }
}
