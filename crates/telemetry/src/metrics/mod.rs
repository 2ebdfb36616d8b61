//! Metrics: pure counting, with atomics and without locks, and their text for Prometheus. Everything may count, so this module
//! imports nothing of ours. [`list`] names every metric; `admin/scrape.rs` collects their values.

mod counters;
mod histogram;
mod labels;
pub mod list;
mod requests;
mod text;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use counters::{Counter, CounterGrid, Counters, Gauge, GaugeGuard};
pub use histogram::{Histogram, HistogramSnapshot};
pub use labels::{
    CacheName, CacheOutcome, Label, LimitName, ProviderOutcome, RequestMethod, ServerError, SignInOutcome, StoreAccess,
    StoreOutcome,
};
pub use list::MetricFamily;
pub use requests::{CLIENT_LEFT, RequestMetrics};
pub use text::{CONTENT_TYPE, Exposition};

use counters::Shards;

/// What the service counts outside the store and the provider's client, which count for themselves.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests, once the route table is known.
    pub requests: OnceLock<Arc<RequestMetrics>>,
    /// How often each limit refused something.
    pub limits: Counters<LimitName>,
    /// Requests that failed because of us.
    pub server_errors: Counters<ServerError>,
    /// The outcomes of exchanging codes.
    pub sign_ins: Counters<SignInOutcome>,
    pub caches: CacheMetrics,
    /// Open connections.
    pub connections: Gauge,
    /// Accepted connections, in total.
    pub accepted: Counter,
    /// Requests in flight with a permit from the pool that is not for bots.
    pub requests_in_flight: Gauge,
    /// Whether the last reload failed.
    pub reload_failed: Gauge,
    /// How often the clock was set.
    pub clock_steps: Counter,
    /// When the certificate expires, in epoch seconds; 0 without TLS. Reloading a certificate updates it.
    pub certificate_expiry: Gauge,
}

/// Cache metrics. Every hot read counts a hit, so each thread has its own counters.
#[derive(Debug, Default)]
pub struct CacheMetrics {
    requests: Shards<CounterGrid<CacheName, CacheOutcome>>,
    /// Entries that were evicted for lack of space.
    pub evictions: Counters<CacheName>,
}

impl CacheMetrics {
    /// Counts a cache lookup.
    pub fn count(&self, cache: CacheName, outcome: CacheOutcome) {
        self.requests.mine().count(cache, outcome);
    }

    /// How many lookups had this outcome.
    pub fn requests(&self, cache: CacheName, outcome: CacheOutcome) -> u64 {
        self.requests.iter().map(|shard| shard.get(cache, outcome)).sum()
    }
}

/// What a store counts.
#[derive(Debug, Default)]
pub struct StoreMetrics {
    /// Reads and writes, by outcome.
    pub operations: CounterGrid<StoreAccess, StoreOutcome>,
    /// How long reads and writes waited for their turn.
    waits: [Histogram; StoreAccess::ALL.len()],
    /// How long reads and writes took, including their wait.
    durations: [Histogram; StoreAccess::ALL.len()],
    /// Writes waiting for their turn.
    pub queue: Gauge,
    /// Whether any damage was found since startup.
    pub damaged: Gauge,
    /// Whether its file is no longer at its path.
    pub file_lost: Gauge,
}

impl StoreMetrics {
    pub fn waits(&self, access: StoreAccess) -> &Histogram {
        &self.waits[access.index()]
    }

    /// How long work of one kind took, including its wait.
    pub fn durations(&self, access: StoreAccess) -> &Histogram {
        &self.durations[access.index()]
    }

    pub fn end(&self, access: StoreAccess, outcome: StoreOutcome, took: Duration) {
        self.operations.count(access, outcome);
        self.durations[access.index()].observe(took);
    }
}
