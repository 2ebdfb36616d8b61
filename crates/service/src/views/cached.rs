//! The cache under every view. Only this file can cache a value with a mark, and it does so in one order:
//!
//! 1. *Mark* what the value depends on, 2. *read* the store, 3. *cache* the value with that mark (`CacheRead` does these).
//! 4. A cached value is a hit while its mark is fresh (`Cached::is_fresh`).
//! 5. If the store cannot be asked, a stale value may be served for a while (stale-if-error; `or_stale`).
//!
//! Because the mark comes first, a change between mark and read makes the cached value stale immediately, never the other way round.
//!
//! `CacheSlot` holds the one value of a public view, `CacheMap` many private values by key. Their stale-if-error rules differ:
//! a public value may also be served if it is known to have changed less than a minute ago, and if the store is only busy.

use std::hash::Hash;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};
use store::freshness::{Dependencies, LastValid, Mark, Marking};
use store::{Freshness, Result, Store, StoreError, Topic};
use telemetry::metrics::{CacheName, CacheOutcome, Metrics};

use crate::sources::Sources;

/// A value read from the store, with the mark that tells whether it is fresh.
#[derive(Debug)]
pub struct Cached<T> {
    value: T,
    dependencies: Dependencies,
    mark: Mark,
    last_valid: LastValid,
}

impl<T> Cached<T> {
    fn is_fresh(&self, freshness: &Freshness) -> bool {
        freshness.is_fresh(&self.dependencies, self.mark)
    }

    fn may_serve_stale(&self, freshness: &Freshness) -> bool {
        freshness.may_serve_stale(&self.dependencies, self.mark)
    }

    /// What it depends on, and its mark, to find out when it is no longer fresh.
    pub(super) fn marked(&self) -> Marked {
        Marked { dependencies: self.dependencies.clone(), mark: self.mark }
    }
}

impl<T> std::ops::Deref for Cached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Counters, and their sum when last checked.
#[derive(Clone, Debug)]
pub struct Marked {
    dependencies: Dependencies,
    mark: Mark,
}

impl Marked {
    pub fn of(freshness: &Freshness, topic: Topic) -> Self {
        let mut marking = freshness.marking();
        marking.depend_on([topic]);
        Self::end(marking)
    }

    pub(super) fn end(marking: Marking<'_>) -> Self {
        let (dependencies, mark, _) = marking.finish();
        Self { dependencies, mark }
    }

    pub fn has_moved(&self, freshness: &Freshness) -> bool {
        !freshness.is_current(&self.dependencies, self.mark)
    }

    /// Marks them again, and returns whether they have moved.
    pub fn renew(&mut self, freshness: &Freshness) -> bool {
        let before = self.mark;
        self.mark = freshness.mark(&self.dependencies);
        self.mark != before
    }

    /// Whether both were marked when the same had changed.
    pub fn is_same(&self, other: &Self) -> bool {
        self.mark == other.mark
    }
}

/// A read on its way into a cache.
pub struct CacheRead<'a> {
    store: &'a Store,
    marking: Marking<'a>,
}

impl<'a> CacheRead<'a> {
    pub(super) fn begin(sources: &'a Sources) -> Self {
        Self { store: &sources.store, marking: sources.freshness.marking() }
    }

    /// Marks these topics, then returns the store to read what depends on them.
    pub(super) fn depend_on(&mut self, topics: impl IntoIterator<Item = Topic>) -> &'a Store {
        self.marking.depend_on(topics);
        self.store
    }

    /// The store, to find out what the value depends on. What is read here is not covered by the mark.
    pub(super) fn look_up(&self) -> &'a Store {
        self.store
    }

    fn finish<T>(self, value: T) -> Arc<Cached<T>> {
        let (dependencies, mark, last_valid) = self.marking.finish();
        Arc::new(Cached { value, dependencies, mark, last_valid })
    }
}

/// The cache of a public view: one value, the same for everyone.
pub(super) struct CacheSlot<T> {
    name: CacheName,
    sources: Sources,
    cached: ArcSwapOption<Cached<T>>,
}

impl<T> CacheSlot<T> {
    pub(super) fn new(name: CacheName, sources: &Sources) -> Self {
        Self { name, sources: sources.clone(), cached: ArcSwapOption::empty() }
    }

    /// The value, if it is fresh.
    pub(super) fn get_fresh(&self) -> Option<Arc<Cached<T>>> {
        let fresh = self.cached.load_full().filter(|cached| cached.is_fresh(&self.sources.freshness));
        fresh.inspect(|_| self.sources.metrics.caches.count(self.name, CacheOutcome::Hit))
    }

    /// Uses the value if it is fresh, without the cost of another reference to it. It may turn out to be of no use.
    pub(super) fn with_fresh<R>(&self, hit: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        let cached = self.cached.load();
        let used =
            cached.as_ref().filter(|cached| cached.is_fresh(&self.sources.freshness)).and_then(|cached| hit(cached));
        used.inspect(|_| self.sources.metrics.caches.count(self.name, CacheOutcome::Hit))
    }

    /// Counts a miss. A request may look into the cache more than once, so looking alone does not count.
    pub(super) fn count_miss(&self) {
        self.sources.metrics.caches.count(self.name, CacheOutcome::Miss);
    }

    /// Uses the value, fresh or not.
    pub(super) fn with_any<R>(&self, hit: impl FnOnce(&T) -> R) -> Option<R> {
        self.cached.load().as_ref().map(|cached| hit(cached))
    }

    /// Caches a value, unless there is a fresh one: another read was faster, and this one may be older.
    pub(super) fn insert(&self, read: CacheRead<'_>, value: T) -> Arc<Cached<T>> {
        let cached = read.finish(value);
        if !self.cached.load().as_ref().is_some_and(|present| present.is_fresh(&self.sources.freshness)) {
            self.cached.store(Some(Arc::clone(&cached)));
        }
        cached
    }

    /// The stale value if it passes `check`, because the store cannot be read now; otherwise the store's error.
    pub(super) fn or_stale<R>(&self, error: StoreError, check: impl FnOnce(Arc<Cached<T>>) -> Option<R>) -> Result<R> {
        // A store that answers with an error is reachable, so its error is passed on.
        if !matches!(error, StoreError::Unavailable(_) | StoreError::Busy(_)) {
            return Err(error);
        }
        let freshness = &self.sources.freshness;
        let may_serve = |cached: &Arc<Cached<T>>| {
            cached.may_serve_stale(freshness) || freshness.was_valid_recently(&cached.last_valid)
        };
        let Some(stale) = self.cached.load_full().filter(may_serve).and_then(check) else { return Err(error) };
        self.sources.warn_served_stale(&error);
        Ok(stale)
    }

    /// Whether the value is fresh, which is remembered for [`Self::was_valid_recently`].
    pub(super) fn renew(&self) -> bool {
        let cached = self.cached.load();
        cached.as_ref().is_some_and(|cached| {
            self.sources.freshness.renew_if_fresh(&cached.dependencies, cached.mark, &cached.last_valid)
        })
    }

    /// Whether the value could be served stale now, even if all of it had just changed.
    pub(super) fn was_valid_recently(&self) -> bool {
        let cached = self.cached.load();
        cached.as_ref().is_some_and(|cached| self.sources.freshness.was_valid_recently(&cached.last_valid))
    }
}

/// How much an entry of a [`CacheMap`] counts towards the map's capacity.
pub(super) trait Weigh {
    /// In the unit of the capacity; 1 if the map counts entries.
    fn weight(&self) -> usize {
        1
    }
}

/// The cache of a private view: many values by key, up to a capacity beyond which the least useful ones are evicted.
pub(super) struct CacheMap<K, T> {
    name: CacheName,
    sources: Sources,
    cached: Cache<K, Arc<Cached<T>>, ByWeight, DefaultHashBuilder, CountEvictions>,
}

#[derive(Clone)]
struct ByWeight;

impl<K, T: Weigh> Weighter<K, Arc<Cached<T>>> for ByWeight {
    fn weight(&self, _: &K, cached: &Arc<Cached<T>>) -> u64 {
        cached.weight() as u64
    }
}

/// Counts the entries that a map evicts.
#[derive(Clone)]
struct CountEvictions(CacheName, Arc<Metrics>);

impl<K, V> Lifecycle<K, V> for CountEvictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: K, _: V) {
        self.1.caches.evictions.count(self.0);
    }
}

impl<K: Clone + Eq + Hash, T: Weigh> CacheMap<K, T> {
    /// `capacity` in the unit of [`Weigh::weight`].
    pub(super) fn new(name: CacheName, sources: &Sources, estimated_entries: usize, capacity: u64) -> Self {
        let evictions = CountEvictions(name, Arc::clone(&sources.metrics));
        let cached = Cache::with(estimated_entries, capacity, ByWeight, DefaultHashBuilder::default(), evictions);
        Self { name, sources: sources.clone(), cached }
    }

    /// The value of this key, if it is fresh.
    pub(super) fn get_fresh(&self, key: &K) -> Option<Arc<Cached<T>>> {
        let fresh = self.cached.get(key).filter(|cached| cached.is_fresh(&self.sources.freshness));
        fresh.inspect(|_| self.sources.metrics.caches.count(self.name, CacheOutcome::Hit))
    }

    pub(super) fn count_miss(&self) {
        self.sources.metrics.caches.count(self.name, CacheOutcome::Miss);
    }

    /// How many values are cached, fresh or not.
    pub(super) fn len(&self) -> usize {
        self.cached.len()
    }

    /// The value of this key, fresh or not.
    pub(super) fn peek(&self, key: &K) -> Option<Arc<Cached<T>>> {
        self.cached.peek(key)
    }

    /// Every value, fresh or not.
    pub(super) fn values(&self) -> impl Iterator<Item = Arc<Cached<T>>> {
        self.cached.iter().map(|(_, cached)| cached)
    }

    /// Caches a value, unless something it depends on changed during the read: another read may have cached a newer value in
    /// the meantime.
    pub(super) fn insert(&self, key: K, read: CacheRead<'_>, value: T) -> Arc<Cached<T>> {
        let cached = read.finish(value);
        if self.sources.freshness.is_current(&cached.dependencies, cached.mark) {
            self.cached.insert(key, Arc::clone(&cached));
        }
        cached
    }

    /// Removes this key, because what it named has ended or does not exist.
    pub(super) fn remove(&self, key: &K) {
        self.cached.remove(key);
    }

    /// The stale value if it passes `check`, because the store cannot be read now; otherwise the store's error. A store that is
    /// only busy knows about revocations that the cache does not, so its error is passed on.
    pub(super) fn or_stale<R>(
        &self,
        error: StoreError,
        key: &K,
        check: impl FnOnce(Arc<Cached<T>>) -> Option<R>,
    ) -> Result<R> {
        if !matches!(error, StoreError::Unavailable(_)) {
            return Err(error);
        }
        let stale = self.cached.get(key).filter(|cached| cached.may_serve_stale(&self.sources.freshness));
        let Some(stale) = stale.and_then(check) else { return Err(error) };
        self.sources.warn_served_stale(&error);
        Ok(stale)
    }
}

#[cfg(test)]
mod tests {
    use domain::Time;
    use runtime::clock::Clock;
    use runtime::random::Random;
    use telemetry::Version;
    use test_support::TestFolder;

    use super::*;
    use crate::app::App;
    use crate::config::{Config, Layer};

    #[derive(Debug, PartialEq)]
    struct Number(u8);

    impl Weigh for Number {}

    async fn app(folder: &TestFolder) -> Arc<App> {
        let configuration = format!("[store]\nurl = \"sqlite:{}\"", folder.path("test.db").display());
        let nothing = std::iter::empty::<(String, String)>();
        let config = Config::load_over(&[Layer::new("test", configuration)], None, nothing).unwrap();
        let clock = Clock::manual(Time::from_seconds(1));
        Arc::new(App::build(config, clock, Random::seeded(1), Version::UNKNOWN).await.unwrap())
    }

    fn begin(sources: &Sources) -> CacheRead<'_> {
        let mut read = CacheRead::begin(sources);
        read.depend_on([Topic::Team]);
        read
    }

    fn away() -> StoreError {
        StoreError::Unavailable("away".to_owned())
    }

    #[tokio::test]
    async fn a_value_is_fresh_until_what_it_depends_on_changes_also_during_the_read() {
        let folder = TestFolder::new();
        let app = app(&folder).await;
        let (sources, map) = (&app.sources, CacheMap::<u8, Number>::new(CacheName::Me, &app.sources, 8, 8));
        map.insert(1, begin(sources), Number(1));
        sources.freshness.invalidate(Topic::Feedback);
        assert_eq!(map.get_fresh(&1).map(|cached| cached.0), Some(1));
        let slow = begin(sources);
        sources.freshness.invalidate(Topic::Team);
        assert!(map.get_fresh(&1).is_none(), "it has changed");
        map.insert(1, begin(sources), Number(2));
        assert_eq!(map.insert(1, slow, Number(3)).0, 3, "the reader gets what it read");
        assert_eq!(map.get_fresh(&1).map(|cached| cached.0), Some(2), "but it replaces nothing newer");
    }

    #[tokio::test]
    async fn a_slow_read_replaces_no_public_value_that_is_fresh() {
        let folder = TestFolder::new();
        let app = app(&folder).await;
        let slot = CacheSlot::<Number>::new(CacheName::Team, &app.sources);
        let (late, twin) = (begin(&app.sources), begin(&app.sources));
        slot.insert(begin(&app.sources), Number(1));
        slot.insert(twin, Number(2));
        assert_eq!(slot.get_fresh().map(|cached| cached.0), Some(1), "those who hold it hold what is cached");
        app.sources.freshness.invalidate(Topic::Team);
        slot.insert(begin(&app.sources), Number(3));
        assert_eq!(slot.insert(late, Number(4)).0, 4, "the reader gets what it read");
        assert_eq!(slot.get_fresh().map(|cached| cached.0), Some(3), "but it replaces nothing newer");
    }

    #[tokio::test]
    async fn a_private_value_that_is_known_to_have_changed_is_never_served_stale() {
        let folder = TestFolder::new();
        let app = app(&folder).await;
        let map = CacheMap::<u8, Number>::new(CacheName::Me, &app.sources, 8, 8);
        map.insert(1, begin(&app.sources), Number(1));
        assert_eq!(map.or_stale(away(), &1, |stale| Some(stale.0)).unwrap(), 1);
        assert!(map.or_stale(StoreError::Busy("busy".to_owned()), &1, Some).is_err(), "a busy store knows more");
        assert!(map.or_stale(away(), &1, |_| None::<u8>).is_err(), "the view has a word in it");
        app.sources.freshness.invalidate(Topic::Team);
        assert!(map.or_stale(away(), &1, Some).is_err());
    }

    #[tokio::test]
    async fn a_public_value_is_served_stale_for_a_minute_after_it_has_changed() {
        let folder = TestFolder::new();
        let app = app(&folder).await;
        let slot = CacheSlot::<Number>::new(CacheName::Team, &app.sources);
        assert!(slot.or_stale(away(), Some).is_err(), "nothing is cached yet");
        slot.insert(begin(&app.sources), Number(1));
        app.sources.freshness.invalidate(Topic::Team);
        assert!(slot.get_fresh().is_none() && !slot.renew());
        for error in [away(), StoreError::Busy("busy".to_owned())] {
            assert_eq!(slot.or_stale(error, |stale| Some(stale.0)).unwrap(), 1);
        }
        assert!(slot.or_stale(StoreError::Failed("broken".to_owned()), Some).is_err(), "it has answered");
        app.sources.clock.advance(std::time::Duration::from_millis(60_001));
        assert!(slot.or_stale(away(), Some).is_err());
    }
}
