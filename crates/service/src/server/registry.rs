//! The registry of open connections, so that none can wait forever and new ones find room.
//!
//! A connection waits for a request, is in the middle of one, or is busy with a response. A pass over all of them twice a
//! second closes those that have waited too long, which is cheaper than a timer each. At the connection limit, it evicts the
//! one that has waited longest without ever completing a request, so that a flood of slow requests cannot lock others out. One
//! client address can only have a part of all connections.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::saturating;
use parking_lot::Mutex;
use runtime::Network;
use runtime::client_key::{ClientKey, CountPerClient};
use runtime::clock::Clock;
use telemetry::log_throttle::Throttle;
use telemetry::metrics::{LimitName, Metrics};
use tracing::{debug, warn};

use super::state::{ConnectionState, Phase, millis};
use crate::config::{Config, CurrentConfig, LimitsConfig};

/// How long a new connection may wait before it counts as one without a request.
const GRACE: Duration = Duration::from_secs(1);

const ADDRESS_HAS_TOO_MANY: &str =
    "connections refused: a client address already has limits.connections_per_address open";
const ALL_ARE_BUSY: &str = "connections refused: limits.connections are open, and all of them are busy";
const NO_ROOM: &str = "no room for another connection; evicting an idle one";

pub(super) struct Registry {
    open: Mutex<OpenConnections>,
    /// For the log line about connections refused because their address has too many.
    refusals: Throttle,
    /// For the one about connections refused because all others are busy.
    overloads: Throttle,
    /// For the one about connections that the system has no room for.
    exhaustions: Throttle,
    metrics: Arc<Metrics>,
    clock: Clock,
    draining: AtomicBool,
    /// Its limits may change while it runs.
    current: CurrentConfig,
    /// Their addresses have no limit.
    trusted_proxies: Vec<Network>,
}

/// Only grows with the open connections.
#[derive(Default)]
struct OpenConnections {
    /// By number, oldest first.
    states: BTreeMap<u64, Arc<ConnectionState>>,
    next: u64,
    /// How many connections each client has, if clients are limited.
    per_client: CountPerClient,
}

impl OpenConnections {
    fn insert(&mut self, state: &Arc<ConnectionState>) {
        self.next += 1;
        self.per_client.add(state.client);
        self.states.insert(state.number, Arc::clone(state));
    }

    fn remove(&mut self, state: &ConnectionState) {
        if self.states.remove(&state.number).is_some() {
            self.per_client.remove(state.client);
        }
    }

    /// Removes a waiting connection, for the caller to abort; `None` if all are busy.
    fn evict(&mut self, now: u64) -> Option<Arc<ConnectionState>> {
        let waiting = self.states.values().filter(|state| !state.is_busy());
        let first = waiting.min_by_key(|state| {
            let since = state.since.load(Ordering::Relaxed);
            let is_new = Duration::from_millis(now.saturating_sub(since)) < GRACE;
            // First those that never completed a request, then those that were served and wait; a new one may still send its
            // request. Live streams come last: they are in use, but a request is worth more.
            let rank = match state.answered.load(Ordering::Relaxed) {
                _ if state.has_stream() => 3,
                0 if is_new => 2,
                0 => 0,
                _ => 1,
            };
            (rank, since)
        });
        let evicted = first.cloned()?;
        self.remove(&evicted);
        Some(evicted)
    }
}

impl Registry {
    pub(super) fn new(config: &Config, current: CurrentConfig, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            open: Mutex::default(),
            refusals: Throttle::default(),
            overloads: Throttle::default(),
            exhaustions: Throttle::default(),
            metrics,
            clock,
            draining: AtomicBool::new(false),
            current,
            trusted_proxies: config.http.trusted_proxies.clone(),
        }
    }

    /// Adds a connection, evicting another at the limit; `None` if all are busy or the address has too many.
    pub(super) fn add(&self, address: IpAddr) -> Option<Arc<ConnectionState>> {
        let current = self.current.get();
        let LimitsConfig { connections, connections_per_address, exempt, .. } = &current.limits;
        let is_shared = self.trusted_proxies.iter().chain(exempt).any(|network| network.contains(address));
        let most = saturating::to_usize(*connections_per_address);
        let client = (most != 0 && !is_shared).then(|| ClientKey::of(address));
        let mut open = self.open.lock();
        if !open.per_client.has_room(client, most) {
            drop(open);
            self.metrics.limits.count(LimitName::ConnectionsPerAddress);
            if let Some(count) = self.refusals.count(self.clock.ticks()) {
                let address = address.to_canonical();
                warn!(count, %address, "{ADDRESS_HAS_TOO_MANY}");
            }
            return None;
        }
        let is_full = open.states.len() >= *connections;
        let evicted = if is_full { open.evict(millis(&self.clock)) } else { None };
        if is_full && evicted.is_none() {
            drop(open);
            self.metrics.limits.count(LimitName::Connections);
            // Every connection is busy with a request, so closing the new one immediately is the kindest way to say so.
            if let Some(count) = self.overloads.count(self.clock.ticks()) {
                warn!(count, %address, "{ALL_ARE_BUSY}");
            }
            return None;
        }
        let state = Arc::new(ConnectionState::new(open.next, &self.clock, client, is_shared));
        // A drain that has begun does not know this connection.
        state.draining.store(self.draining.load(Ordering::SeqCst), Ordering::SeqCst);
        open.insert(&state);
        self.metrics.accepted.increment();
        self.metrics.connections.set(open.states.len() as u64);
        drop(open);
        if let Some(evicted) = evicted {
            evicted.abort();
        }
        Some(state)
    }

    pub(super) fn remove(&self, state: &ConnectionState) {
        let mut open = self.open.lock();
        open.remove(state);
        self.metrics.connections.set(open.states.len() as u64);
    }

    /// Makes room for a connection that the system has no room for.
    pub(super) fn make_room(&self, error: &io::Error) {
        if let Some(count) = self.exhaustions.count(self.clock.ticks()) {
            warn!(count, %error, "{NO_ROOM}");
        }
        self.evict_one();
    }

    /// Evicts a waiting connection; `false` if all are busy.
    pub(super) fn evict_one(&self) -> bool {
        let mut open = self.open.lock();
        let evicted = open.evict(millis(&self.clock));
        self.metrics.connections.set(open.states.len() as u64);
        drop(open);
        evicted.inspect(|state| state.abort()).is_some()
    }

    /// Tells all current and future connections to finish requests in flight and close.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        for state in self.open.lock().states.values() {
            state.draining.store(true, Ordering::SeqCst);
            state.waker.wake();
        }
    }

    /// Closes every connection that has waited too long, or that reads nothing of its responses.
    pub(super) fn reap(&self) {
        let now = millis(&self.clock);
        let current = self.current.get();
        let mut open = self.open.lock();
        let reaped: Vec<_> =
            open.states.values().filter(|state| is_overdue(&current.limits, state, now)).cloned().collect();
        for state in &reaped {
            open.remove(state);
        }
        self.metrics.connections.set(open.states.len() as u64);
        drop(open);
        if !reaped.is_empty() {
            debug!(count = reaped.len(), "connections that waited too long were closed");
        }
        for state in reaped {
            state.abort();
        }
        let throttled =
            [(&self.refusals, ADDRESS_HAS_TOO_MANY), (&self.overloads, ALL_ARE_BUSY), (&self.exhaustions, NO_ROOM)];
        for (throttle, line) in throttled {
            if let Some(count) = throttle.rest(self.clock.ticks()) {
                warn!(count, "{line}");
            }
        }
    }
}

fn is_overdue(limits: &LimitsConfig, state: &ConnectionState, now: u64) -> bool {
    if state.stalled_for(now) > limits.write_timeout {
        return true;
    }
    let waited = Duration::from_millis(now.saturating_sub(state.since.load(Ordering::Relaxed)));
    !state.is_busy() && !state.has_stream() && !state.awaits_body() && waited > timeout_of(limits, state)
}

fn timeout_of(limits: &LimitsConfig, state: &ConnectionState) -> Duration {
    if state.is_in(Phase::Handshake) {
        limits.handshake_timeout
    } else if state.is_in(Phase::Idle) {
        limits.idle_timeout
    } else {
        limits.header_timeout
    }
}

#[cfg(test)]
mod tests {
    use domain::Time;

    use super::super::state::RequestGuard;
    use super::*;
    use crate::config::Layer;

    fn registry(configuration: &str) -> (Registry, Clock) {
        let nothing = std::iter::empty::<(String, String)>();
        let config = Config::load_over(&[Layer::new("test", configuration)], None, nothing).unwrap();
        let clock = Clock::manual(Time::from_seconds(1));
        (Registry::new(&config, CurrentConfig::new(&config), clock.clone(), Arc::default()), clock)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_connection_that_is_evicted_before_its_task_is_known_ends_all_the_same() {
        let (registry, _) = registry("");
        let state = registry.add(address("192.0.2.1")).unwrap();
        assert!(registry.evict_one(), "by another thread's new connection");
        let task = tokio::spawn(std::future::pending::<()>());
        state.set_task(task.abort_handle());
        tokio::task::yield_now().await;
        assert!(task.is_finished());
    }

    #[test]
    fn however_many_come_at_once_the_limit_holds() {
        let (registry, _) = registry("limits.connections = 2\nlimits.connections_per_address = 0");
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..5_000 {
                        registry.add(address("192.0.2.1"));
                        assert!(registry.open.lock().states.len() <= 2);
                    }
                });
            }
        });
    }

    #[test]
    fn each_address_has_its_own_bound_an_ipv6_client_its_56_and_proxies_none() {
        let (registry, _) = registry(
            "[http]\ntrusted_proxies = [\"10.0.0.0/8\"]\n[limits]\nconnections_per_address = 2\nexempt = [\"2001:db8:1::/48\"]",
        );
        let mut states = Vec::new();
        for (client, allowed) in [
            ("192.0.2.1", 2),
            ("::ffff:192.0.2.1", 0),
            ("192.0.2.2", 2),
            ("2001:db8::1", 8),
            ("2001:db8:0:ff::1", 0),
            ("2001:db8:0:100::1", 8),
            ("10.1.2.3", 10),
            ("2001:db8:1::1", 10),
        ] {
            let added: Vec<_> = (0..10).filter_map(|_| registry.add(address(client))).collect();
            assert_eq!(added.len(), allowed, "{client}");
            states.extend(added);
        }
        registry.remove(&states[0]);
        registry.remove(&states[0]);
        assert!(registry.add(address("192.0.2.1")).is_some(), "one was removed");
        assert!(registry.add(address("192.0.2.1")).is_none(), "and only one");
    }

    #[test]
    fn the_count_of_an_address_ends_with_its_connections_however_they_end() {
        let (registry, clock) = registry("limits.connections_per_address = 2\nlimits.connections = 2");
        let client = address("192.0.2.1");
        for _ in 0..3 {
            let busy = registry.add(address("192.0.2.9")).unwrap();
            let guard = RequestGuard::new(&busy, false);
            assert!(registry.add(client).is_some());
            assert!(registry.add(client).is_some(), "the first one was evicted");
            clock.advance(Duration::from_secs(11));
            registry.reap();
            let kept = registry.add(client).unwrap();
            let kept_guard = RequestGuard::new(&kept, false);
            assert!(registry.add(client).is_none(), "all are busy");
            drop((guard, kept_guard));
            registry.remove(&busy);
            registry.remove(&kept);
            assert!(registry.open.lock().per_client.is_empty());
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_overdue_after_the_write_timeout_and_one_that_moves_is_not() {
        let (registry, clock) = registry("");
        let state = registry.add(address("192.0.2.1")).unwrap();
        let overdue = || is_overdue(&registry.current.get().limits, &state, millis(&clock));
        // Even while another request is being answered.
        let _guard = RequestGuard::new(&state, false);
        state.note_unread();
        clock.advance(Duration::from_secs(20));
        state.note_unread();
        clock.advance(Duration::from_secs(10));
        assert!(!overdue());
        clock.advance(Duration::from_millis(1));
        assert!(overdue());
        for _ in 0..10 {
            state.note_taken(true);
            clock.advance(Duration::from_secs(30));
            assert!(!overdue(), "a byte in 30 seconds is enough");
        }
        state.note_taken(false);
        clock.advance(Duration::from_mins(5));
        assert!(!overdue(), "nothing is left to take");
    }

    #[test]
    fn a_connection_that_waits_for_a_body_is_evicted_but_not_reaped() {
        let (registry, clock) = registry("limits.connections = 1");
        let state = registry.add(address("192.0.2.1")).unwrap();
        let guard = RequestGuard::new(&state, true);
        clock.advance(Duration::from_mins(5));
        registry.reap();
        assert_eq!(registry.open.lock().states.len(), 1, "its request has a limit of its own");
        assert!(registry.evict_one());
        drop(guard);
    }
}
