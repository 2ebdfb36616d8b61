//! The bot's history for the status page: minutes, days, incidents and announcements, as stored.

use std::sync::Arc;

use domain::history::History;
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheRead, CacheSlot, Cached};
use super::warm::Warm;
use crate::sources::Sources;

pub struct HistoryView {
    sources: Sources,
    cache: CacheSlot<Arc<History>>,
}

impl HistoryView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(CacheName::History, sources) }
    }

    /// The history, if it is cached and fresh.
    pub fn cached(&self) -> Option<Arc<History>> {
        self.cache.get_fresh().map(|cached| value(&cached))
    }

    /// The history, from the store if needed; stale if the store cannot be reached.
    pub async fn get(&self) -> Result<Arc<History>> {
        if let Some(cached) = self.cached() {
            return Ok(cached);
        }
        self.cache.count_miss();
        let cached = self.read().await.or_else(|error| self.cache.or_stale(error, Some))?;
        Ok(value(&cached))
    }

    async fn read(&self) -> Result<Arc<Cached<Arc<History>>>> {
        let mut read = CacheRead::begin(&self.sources);
        let history = read.depend_on([Topic::History]).history().await?;
        Ok(self.cache.insert(read, Arc::new(history)))
    }
}

fn value(cached: &Cached<Arc<History>>) -> Arc<History> {
    Arc::clone(cached)
}

impl Warm for HistoryView {
    type Value = Arc<History>;

    fn cache(&self) -> &CacheSlot<Arc<History>> {
        &self.cache
    }

    async fn refresh(&self) -> Result<()> {
        self.read().await.map(drop)
    }
}
