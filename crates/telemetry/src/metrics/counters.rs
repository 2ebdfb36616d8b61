//! Counters and gauges.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::labels::Label;

#[derive(Debug)]
pub struct Counters<L> {
    counts: Box<[AtomicU64]>,
    label: PhantomData<L>,
}

impl<L: Label> Default for Counters<L> {
    fn default() -> Self {
        Self { counts: zeros(L::ALL.len()), label: PhantomData }
    }
}

impl<L: Label> Counters<L> {
    pub fn count(&self, label: L) {
        self.counts[label.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self, label: L) -> u64 {
        self.counts[label.index()].load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub struct CounterGrid<A, B> {
    counts: Box<[AtomicU64]>,
    labels: PhantomData<(A, B)>,
}

impl<A: Label, B: Label> Default for CounterGrid<A, B> {
    fn default() -> Self {
        Self { counts: zeros(A::ALL.len() * B::ALL.len()), labels: PhantomData }
    }
}

impl<A: Label, B: Label> CounterGrid<A, B> {
    pub fn count(&self, first: A, second: B) {
        self.cell(first, second).fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self, first: A, second: B) -> u64 {
        self.cell(first, second).load(Ordering::Relaxed)
    }

    fn cell(&self, first: A, second: B) -> &AtomicU64 {
        &self.counts[first.index() * B::ALL.len() + second.index()]
    }
}

pub(super) fn zeros(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// A number that only goes up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that is set, or goes up and down.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Sets it to 1, and returns whether it was 0 before.
    pub fn raise(&self) -> bool {
        self.0.swap(1, Ordering::Relaxed) == 0
    }

    /// Adds one until the guard is dropped.
    pub fn hold(&self) -> GaugeGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self.clone())
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One more in a [`Gauge`], until this is dropped.
#[derive(Debug)]
#[must_use = "it counts only while it lives"]
pub struct GaugeGuard(Gauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many threads can count without getting in each other's way.
const SHARDS: usize = 8;

/// Several copies of the same counters, so that threads that count at the same time do not wait for each other's cache lines.
#[derive(Debug)]
pub(super) struct Shards<T>(Box<[T]>);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T> Shards<T> {
    pub(super) fn new(make: impl Fn() -> T) -> Self {
        Self((0..SHARDS).map(|_| make()).collect())
    }

    /// The copy for this thread.
    pub(super) fn mine(&self) -> &T {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
        }
        &self.0[SHARD.with(|shard| *shard)]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CacheMetrics, CacheName, CacheOutcome, LimitName};
    use super::*;

    #[test]
    fn each_label_has_its_own_count_and_threads_add_up() {
        let limits = Counters::<LimitName>::default();
        for (times, limit) in LimitName::ALL.iter().enumerate() {
            (0..times).for_each(|_| limits.count(*limit));
        }
        let counted: Vec<u64> = LimitName::ALL.iter().map(|limit| limits.get(*limit)).collect();
        assert_eq!(counted, (0..LimitName::ALL.len() as u64).collect::<Vec<_>>());
        let caches = CacheMetrics::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| (0..1000).for_each(|_| caches.count(CacheName::Team, CacheOutcome::Hit)));
            }
        });
        let hits = |cache| caches.requests(cache, CacheOutcome::Hit);
        assert_eq!((hits(CacheName::Team), hits(CacheName::Feedback)), (2 * SHARDS as u64 * 1000, 0));
        assert_eq!(caches.requests(CacheName::Team, CacheOutcome::Miss), 0);
    }

    #[test]
    fn a_gauge_goes_down_again() {
        let gauge = Gauge::default();
        let held = [gauge.hold(), gauge.hold()];
        assert_eq!(gauge.get(), 2);
        drop(held);
        assert_eq!(gauge.get(), 0);
    }
}
