//! What the site's pages show: the same public data as the JSON, as values.

use std::sync::Arc;

use domain::feedback::FeedbackEntry;
use domain::{Health, Stats, TeamMember};
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheRead, CacheSlot, Cached};
use super::warm::Warm;
use crate::sources::Sources;

pub struct SiteView {
    sources: Sources,
    cache: CacheSlot<SiteFacts>,
}

#[derive(Clone, Debug, Default)]
pub struct SiteFacts {
    /// The bot's health; what counts as alive depends on the time.
    pub health: Health,
    pub stats: Stats,
    /// The team, in display order.
    pub team: Vec<TeamMember>,
    /// Five entries, drawn again whenever any of this changes.
    pub reviews: Vec<FeedbackEntry>,
}

impl SiteView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(CacheName::Site, sources) }
    }

    /// The facts, from the store if needed; stale if the store cannot be reached.
    pub async fn get(&self) -> Result<Arc<Cached<SiteFacts>>> {
        if let Some(cached) = self.cache.get_fresh() {
            return Ok(cached);
        }
        self.cache.count_miss();
        self.read().await.or_else(|error| self.cache.or_stale(error, Some))
    }

    async fn read(&self) -> Result<Arc<Cached<SiteFacts>>> {
        let mut read = CacheRead::begin(&self.sources);
        let store = read.depend_on([Topic::Health, Topic::Stats, Topic::Team, Topic::Feedback]);
        let mut facts = SiteFacts {
            health: store.health().await?,
            stats: store.stats().await?,
            team: store.team().await?.into_ordered(),
            reviews: Vec::new(),
        };
        let sample = store.sample_feedback(self.sources.clock.now().millis()).await?;
        facts.reviews = sample.entries.into_iter().map(|(_, stored)| stored.entry).collect();
        Ok(self.cache.insert(read, facts))
    }
}

impl Warm for SiteView {
    type Value = SiteFacts;

    fn cache(&self) -> &CacheSlot<SiteFacts> {
        &self.cache
    }

    async fn refresh(&self) -> Result<()> {
        self.read().await.map(drop)
    }
}
