//! Monitoring a running store: what it counts, how busy it is, and whether it can be read and written.

use std::time::Duration;

use async_trait::async_trait;
use domain::Time;
use telemetry::metrics::{StoreAccess, StoreMetrics, StoreOutcome};
use tracing::error;

use super::{Result, StoreError};

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

/// Rows of the table `probe`, by ID: what the health probe wrote, and when the last backup was taken.
pub(super) const PROBE_ROW: i64 = 1;
pub(super) const BACKUP_ROW: i64 = 2;

/// The monitoring side of a store. Its methods can be called on every [`super::Store`].
#[async_trait]
pub trait StoreWatch: Send + Sync + 'static {
    fn metrics(&self) -> &StoreMetrics;
    fn load(&self) -> StoreLoad;
    /// Reads a row, as any read would.
    async fn probe_read(&self) -> Result<()>;
    /// Writes a meaningless row, commits it and waits until it is durable, as any write would.
    async fn probe_write(&self, now: Time) -> Result<()>;
    async fn bytes(&self) -> Result<StoreBytes>;
    /// Records that a backup was taken then. The last record counts, so that the next one replaces a record from a clock that was
    /// ahead.
    async fn note_backup(&self, at: Time) -> Result<()>;
    /// When the last recorded backup was taken.
    async fn last_backup(&self) -> Result<Option<Time>>;
    /// How many sessions are stored, including expired ones. Goes through all of them, so call it once in a while.
    async fn session_count(&self) -> Result<u64>;
}

/// Counts the outcome of work. Damage is remembered until the process ends, and logged once, because clients may request the
/// damaged part over and over.
pub(super) fn count<T>(metrics: &StoreMetrics, access: StoreAccess, outcome: &Result<T>, took: Duration) {
    metrics.end(access, outcome_of(outcome), took);
    if let Err(StoreError::Damaged(why)) = outcome
        && metrics.damaged.raise()
    {
        error!(cause = %why, "store_damaged: what is stored cannot be read; see docs/alerts.md, CompanionStoreDamaged");
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
