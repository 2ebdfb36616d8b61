//! Monitoring a running store: what it counts, how busy it is, and whether it can be read and written.

use std::time::Duration;

use domain::Time;
use telemetry::metrics::{StoreAccess, StoreMetrics, StoreOutcome};
use tracing::error;

use super::postgres::Pace::Quick;
use super::sql::{probe, sessions};
use super::store::{Backend, read, transact};
use super::{Result, Store, StoreError};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreLoad {
    pub in_use: usize,
    pub idle: usize,
    pub queued_writes: u64,
    /// Whether the database server cannot be reached, so that nothing is sent to it.
    pub circuit_open: bool,
}

/// The size of a store, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreBytes {
    pub database: u64,
    /// What was written but is not in it yet; `None` if the store does not say.
    pub log: Option<u64>,
}

impl Store {
    pub fn metrics(&self) -> &StoreMetrics {
        match &self.0 {
            Backend::Sqlite(sqlite) => &sqlite.metrics,
            Backend::Postgres(postgres) => postgres.executor.metrics(),
        }
    }

    pub fn load(&self) -> StoreLoad {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.load(),
            Backend::Postgres(postgres) => postgres.executor.load(),
        }
    }

    /// Reads a row, as any read would.
    pub async fn probe_read(&self) -> Result<()> {
        read!(self, Statement, (), |db| probe::read(db))
    }

    /// Writes a meaningless row, commits it and waits until it is durable, as any write would.
    pub async fn probe_write(&self, now: Time) -> Result<()> {
        transact!(self, Quick, (now), |db, _topics| probe::write(db, *now))
    }

    pub async fn bytes(&self) -> Result<StoreBytes> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.bytes().await,
            // Only a superuser may read the server's log.
            Backend::Postgres(_) => {
                read!(self, Statement, (), |db| probe::size(db)).map(|database| StoreBytes { database, log: None })
            }
        }
    }

    /// Records that a backup was taken then. The last record counts, so that the next one replaces a record from a clock that was
    /// ahead.
    pub async fn note_backup(&self, at: Time) -> Result<()> {
        transact!(self, Quick, (at), |db, _topics| probe::note_backup(db, *at))
    }

    /// When the last recorded backup was taken.
    pub async fn last_backup(&self) -> Result<Option<Time>> {
        read!(self, Statement, (), |db| probe::last_backup(db))
    }

    /// How many sessions are stored, including expired ones. Goes through all of them, so call it once in a while.
    pub async fn session_count(&self) -> Result<u64> {
        read!(self, Statement, (), |db| sessions::count(db))
    }
}

/// Counts the outcome of work. Damage is remembered until the process ends, and logged once, because clients may request the
/// damaged part over and over.
pub(super) fn count<T>(metrics: &StoreMetrics, access: StoreAccess, outcome: &Result<T>, took: Duration) {
    metrics.end(access, outcome_of(outcome), took);
    if let Err(StoreError::Damaged(why)) = outcome
        && metrics.damaged.raise()
    {
        error!(cause = %why, "store_damaged: what is stored cannot be read; see CompanionStoreDamaged in the documentation, under Alerts");
    }
}

fn outcome_of<T>(outcome: &Result<T>) -> StoreOutcome {
    match outcome {
        Ok(_) => StoreOutcome::Done,
        Err(StoreError::Busy(_)) => StoreOutcome::Busy,
        Err(StoreError::Unavailable(_)) => StoreOutcome::Unavailable,
        Err(StoreError::Failed(_) | StoreError::Damaged(_)) => StoreOutcome::Failed,
    }
}
