//! What is shown while the store cannot be asked: what is kept, as long as [`Freshness::may_serve_stale`] allows it.
//!
//! [`Freshness::may_serve_stale`]: crate::store::Freshness::may_serve_stale

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::warn;

use super::Sources;
use crate::store::{Result, StoreError};

/// How often an outage is told at most: it makes every request one that could tell it.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Stands for never.
const NEVER: u64 = u64::MAX;

/// When it was last told that memory stands in for the store.
#[derive(Clone, Debug)]
pub struct StandIns(Arc<AtomicU64>);

impl Default for StandIns {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(NEVER)))
    }
}

impl Sources {
    /// What is kept, in place of an answer that the store cannot give right now; else the store's error. A store that answers
    /// with an error is not away: that error is told.
    pub(super) fn in_place_of<T>(&self, error: StoreError, kept: impl FnOnce() -> Option<T>) -> Result<T> {
        if !matches!(error, StoreError::Unavailable(_) | StoreError::Busy(_)) {
            return Err(error);
        }
        let Some(kept) = kept() else { return Err(error) };
        let now = u64::try_from(self.clock.ticks().as_millis()).unwrap_or(NEVER - 1);
        let last = self.stand_ins.0.load(Ordering::Relaxed);
        let due = last == NEVER || u128::from(now.saturating_sub(last)) >= TOLD_EVERY.as_millis();
        // Of those who find it due at the same time, one tells.
        if due && self.stand_ins.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            warn!(%error, "the store cannot be asked; memory stands in for it, for a minute at most");
        }
        Ok(kept)
    }
}
