//! A public view: one value, the same for everyone. All of them are kept warm, which means refreshed whether or not anyone asks: a
//! new replica, or one whose data has just changed, must be able to serve them from the cache when the store goes away.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use api::{stats, team};
use domain::history::History;
use futures_util::FutureExt;
use store::{Result, Topic};
use telemetry::metrics::{CacheName, Label as _};
use tracing::{debug, error};

use super::Views;
use super::cached::{CacheRead, CacheSlot, Cached};
use super::tagged::TaggedBody;
use crate::sources::Sources;

const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How many checks to skip after a refresh: a view is refreshed at most once per second, however often it changes.
const PAUSE: u32 = 4;

/// What a public view caches.
pub trait PublicKind {
    type Value: Send + Sync;
    const NAME: CacheName;

    /// Marks what the value depends on, and reads it from the store.
    fn read(sources: &Sources, read: &mut CacheRead<'_>) -> impl Future<Output = Result<Self::Value>> + Send;

    /// How many entries a cached value counts for.
    fn entries(_: &Self::Value) -> usize {
        1
    }
}

pub struct PublicView<K: PublicKind> {
    pub(super) sources: Sources,
    pub(super) cache: CacheSlot<K::Value>,
}

impl<K: PublicKind> PublicView<K> {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(K::NAME, sources) }
    }

    /// Uses the value, if it is cached and fresh.
    pub fn with_cached<R>(&self, hit: impl FnOnce(&K::Value) -> Option<R>) -> Option<R> {
        self.cache.with_fresh(hit)
    }

    /// The value, from the store if needed; stale if the store cannot be reached.
    pub async fn get(&self) -> Result<Arc<Cached<K::Value>>> {
        if let Some(cached) = self.cache.get_fresh() {
            return Ok(cached);
        }
        self.cache.count_miss();
        self.refresh().await.or_else(|error| self.cache.or_stale(error, Some))
    }

    /// Reads it from the store into the cache.
    async fn refresh(&self) -> Result<Arc<Cached<K::Value>>> {
        let mut read = CacheRead::begin(&self.sources);
        let value = K::read(&self.sources, &mut read).await?;
        Ok(self.cache.insert(read, value))
    }

    /// How many entries are cached; none before the first read.
    pub(super) fn entries(&self) -> usize {
        self.cache.with_any(K::entries).unwrap_or(0)
    }

    async fn keep_warm(&self) {
        let mut checks = tokio::time::interval(CHECK_EVERY);
        checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let view = K::NAME.text();
        let mut pause = 0;
        loop {
            checks.tick().await;
            pause = u32::saturating_sub(pause, 1);
            if self.cache.renew() || pause > 0 {
                continue;
            }
            pause = PAUSE;
            // A bug in one view must not leave its cache cold for as long as the process lives.
            match AssertUnwindSafe(self.refresh()).catch_unwind().await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    debug!(view, %error, "a public view could not be refreshed; retrying in a second");
                }
                Err(_) => error!(view, "refreshing a public view panicked; retrying in a second"),
            }
        }
    }
}

impl Views {
    /// Keeps the public views cached. Never ends. A slow store delays only this task.
    pub async fn keep_warm(&self) {
        tokio::join!(
            self.team.keep_warm(),
            self.feedback.keep_warm(),
            self.stats.keep_warm(),
            self.history.keep_warm(),
            self.status.keep_warm(),
            self.site.keep_warm()
        );
    }

    /// Whether every public view could be served stale now, even if all of it had just changed.
    pub fn are_warm(&self) -> bool {
        self.team.cache.was_valid_recently()
            && self.feedback.cache.was_valid_recently()
            && self.stats.cache.was_valid_recently()
            && self.history.cache.was_valid_recently()
            && self.status.cache.was_valid_recently()
            && self.site.cache.was_valid_recently()
    }
}

/// `GET /team`: the response with its `ETag`.
pub struct TeamView;

impl PublicKind for TeamView {
    type Value = TaggedBody;
    const NAME: CacheName = CacheName::Team;

    async fn read(sources: &Sources, read: &mut CacheRead<'_>) -> Result<TaggedBody> {
        let roster = read.depend_on([Topic::Team]).team().await?;
        Ok(TaggedBody::new(team::list(roster, &sources.pictures)))
    }
}

/// `GET /stats`: the response with its `ETag`.
pub struct StatsView;

impl PublicKind for StatsView {
    type Value = TaggedBody;
    const NAME: CacheName = CacheName::Stats;

    async fn read(_: &Sources, read: &mut CacheRead<'_>) -> Result<TaggedBody> {
        // Everything that changes one of the numbers names this topic. Heartbeats and feedback change more, and more often.
        let stats = read.depend_on([Topic::Stats]).stats().await?;
        Ok(TaggedBody::new(stats::totals(stats)))
    }
}

/// The bot's history for the status page: minutes, days, incidents and announcements, as stored.
pub struct HistoryView;

impl PublicKind for HistoryView {
    type Value = History;
    const NAME: CacheName = CacheName::History;

    async fn read(_: &Sources, read: &mut CacheRead<'_>) -> Result<History> {
        read.depend_on([Topic::History]).history().await
    }
}
