//! A few read-only connections. Each read is one transaction, so everything in it sees the same state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::clock::Clock;
use rusqlite::Connection;
use telemetry::metrics::{StoreAccess, StoreMetrics};
use tokio::sync::Semaphore;

use crate::{Result, StoreError, watch};

pub(crate) struct Readers {
    /// One permit per connection, so that with a permit there is an idle connection.
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
    count: u32,
    /// The path, which each error names.
    location: String,
    wait: Duration,
    metrics: Arc<StoreMetrics>,
    clock: Clock,
}

impl Readers {
    pub(super) fn new(
        connections: Vec<Connection>,
        location: String,
        wait: Duration,
        metrics: Arc<StoreMetrics>,
        clock: Clock,
    ) -> Self {
        // There are `READERS`, a handful.
        let count = u32::try_from(connections.len()).unwrap_or(u32::MAX);
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self { permits, idle: Arc::new(Mutex::new(connections)), count, location, wait, metrics, clock }
    }

    /// Runs the work on a pooled connection, on a thread where it may block.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run(work).await.map_err(|error| error.at(&self.location))
    }

    async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let began = self.clock.ticks();
        let permit = tokio::time::timeout(self.wait, Arc::clone(&self.permits).acquire_owned()).await;
        let waited = self.clock.ticks().saturating_sub(began);
        self.metrics.waits(StoreAccess::Read).observe(waited);
        let Ok(permit) = permit else {
            let busy = Err(StoreError::Busy("too many reads are waiting".to_owned()));
            watch::count(&self.metrics, StoreAccess::Read, &busy, waited);
            return busy;
        };
        let permit = permit.map_err(|_| closed())?;
        let (idle, metrics, clock) = (Arc::clone(&self.idle), Arc::clone(&self.metrics), self.clock.clone());
        let outcome = tokio::task::spawn_blocking(move || {
            let connection = idle.lock().pop().ok_or_else(closed)?;
            let outcome = catch_unwind(AssertUnwindSafe(|| in_transaction(&connection, work)));
            idle.lock().push(connection);
            drop(permit);
            let outcome = match outcome {
                Ok(outcome) => outcome.map_err(StoreError::from),
                Err(_) => Err(StoreError::Failed("a read panicked".to_owned())),
            };
            watch::count(&metrics, StoreAccess::Read, &outcome, clock.ticks().saturating_sub(began));
            outcome
        });
        outcome.await.map_err(|_| closed())?
    }

    /// How many connections are in use, and how many are idle.
    pub(super) fn in_use_and_idle(&self) -> (usize, usize) {
        let idle = self.permits.available_permits();
        ((self.count as usize).saturating_sub(idle), idle)
    }

    /// Waits for running reads, refuses all others and closes the connections.
    pub(super) async fn close(&self) {
        let all = self.permits.acquire_many(self.count).await;
        self.permits.close();
        drop(all);
        self.idle.lock().clear();
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("it is closing".to_owned())
}

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // Ends when it is dropped, even while a panic unwinds.
    let transaction = connection.unchecked_transaction()?;
    work(&transaction)
}
