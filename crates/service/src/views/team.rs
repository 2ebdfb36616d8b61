//! `GET /team`: the cached response with its `ETag`.

use std::sync::Arc;

use api::team;
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheRead, CacheSlot, Cached};
use super::tagged::TaggedBody;
use super::warm::Warm;
use crate::sources::Sources;

pub struct TeamView {
    sources: Sources,
    cache: CacheSlot<TaggedBody>,
}

impl TeamView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(CacheName::Team, sources) }
    }

    /// Uses the response, if it is cached and fresh.
    pub fn with_cached<R>(&self, hit: impl FnOnce(&TaggedBody) -> Option<R>) -> Option<R> {
        self.cache.with_fresh(hit)
    }

    /// The response, from the store if needed; stale if the store cannot be reached.
    pub async fn get(&self) -> Result<Arc<Cached<TaggedBody>>> {
        if let Some(cached) = self.cache.get_fresh() {
            return Ok(cached);
        }
        self.cache.count_miss();
        self.read().await.or_else(|error| self.cache.or_stale(error, Some))
    }

    async fn read(&self) -> Result<Arc<Cached<TaggedBody>>> {
        let mut read = CacheRead::begin(&self.sources);
        let roster = read.depend_on([Topic::Team]).team().await?;
        Ok(self.cache.insert(read, TaggedBody::new(team::list(roster, &self.sources.pictures))))
    }
}

impl Warm for TeamView {
    type Value = TaggedBody;

    fn cache(&self) -> &CacheSlot<TaggedBody> {
        &self.cache
    }

    async fn refresh(&self) -> Result<()> {
        self.read().await.map(drop)
    }
}
