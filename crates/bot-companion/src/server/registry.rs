//! Every open connection and what it is doing, so that none can wait for ever and a newcomer finds room.
//!
//! A connection is waiting for a request, in the middle of one, or busy with an answer. Slow ones are reaped by a look over all of
//! them twice a second, which costs less than a timer each; and when the house is full, the one that has waited longest without
//! ever completing a request makes room, so that a flood of slow requests cannot shut others out. One client address can hold
//! only a part of the house.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{debug, warn};

use super::entry::{Entry, Phase, millis};
use crate::clock::Clock;
use crate::config::{Config, Network};
use crate::log_throttle::Throttle;
use crate::rate_limit::subject;

/// How long a new connection may take before it counts as one that never asks.
const GRACE: Duration = Duration::from_secs(1);

/// All open connections.
pub(super) struct Registry {
    house: Mutex<House>,
    /// Tells of connections that were refused because their address has too many.
    refusals: Throttle,
    clock: Clock,
    draining: AtomicBool,
    most: usize,
    most_per_address: u32,
    /// Networks whose addresses have no bound of their own.
    unbounded: Vec<Network>,
    header_timeout: Duration,
    handshake_timeout: Duration,
    write_timeout: Duration,
    idle_timeout: Duration,
}

/// Who is in. Both grow with the open connections only.
#[derive(Default)]
struct House {
    entries: Vec<Arc<Entry>>,
    /// How many connections each client address has, if that has a bound.
    addresses: HashMap<u64, u32>,
}

impl House {
    fn forget(&mut self, subject: Option<u64>) {
        if let Some(subject) = subject
            && let Some(open) = self.addresses.get_mut(&subject)
        {
            *open -= 1;
            if *open == 0 {
                self.addresses.remove(&subject);
            }
        }
    }
}

impl Registry {
    pub(super) fn new(config: &Config, clock: Clock) -> Self {
        let limits = &config.limits;
        Self {
            house: Mutex::default(),
            refusals: Throttle::default(),
            clock,
            draining: AtomicBool::new(false),
            most: limits.connections,
            most_per_address: limits.connections_per_address,
            unbounded: [config.http.trusted_proxies.as_slice(), &limits.exempt].concat(),
            header_timeout: limits.header_timeout,
            handshake_timeout: limits.handshake_timeout,
            write_timeout: limits.write_timeout,
            idle_timeout: limits.idle_timeout,
        }
    }

    /// Takes a connection in, sending another away if the house is full; `None` if all are busy, or the address has too many.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Arc<Entry>> {
        let is_shared = self.unbounded.iter().any(|network| network.contains(address));
        let subject = (self.most_per_address > 0 && !is_shared).then(|| subject(address));
        let mut house = self.house.lock();
        if let Some(subject) = subject {
            let open = house.addresses.entry(subject).or_insert(0);
            if *open >= self.most_per_address {
                drop(house);
                if let Some(count) = self.refusals.count(self.clock.ticks()) {
                    let address = address.to_canonical();
                    warn!(count, %address, "connections refused: a client address has limits.connections_per_address open");
                }
                return None;
            }
            *open += 1;
        }
        let full = house.entries.len() >= self.most;
        drop(house);
        if full && !self.make_room() {
            self.house.lock().forget(subject);
            // Every connection is in the middle of a request: closing at once is the kindest way to say so.
            debug!("too many busy connections");
            return None;
        }
        let entry = Arc::new(Entry::new(&self.clock, subject, is_shared));
        let mut house = self.house.lock();
        // A drain that began since then has not met it.
        entry.draining.store(self.draining.load(Ordering::SeqCst), Ordering::SeqCst);
        house.entries.push(Arc::clone(&entry));
        Some(entry)
    }

    pub(super) fn leave(&self, entry: &Arc<Entry>) {
        let mut house = self.house.lock();
        if let Some(index) = house.entries.iter().position(|other| Arc::ptr_eq(other, entry)) {
            house.entries.swap_remove(index);
            house.forget(entry.subject);
        }
    }

    /// Ends the connection that has the weakest claim to stay; `false` if all are busy.
    pub(super) fn make_room(&self) -> bool {
        let house = self.house.lock();
        let now = millis(&self.clock);
        let waiting = house.entries.iter().filter(|entry| !entry.is_busy());
        let weakest = waiting.min_by_key(|entry| {
            let since = entry.since.load(Ordering::Relaxed);
            let newcomer = Duration::from_millis(now.saturating_sub(since)) < GRACE;
            // Who never asked for anything goes first, then who has been served and waits; a newcomer may get its request out.
            let claim = match entry.answered.load(Ordering::Relaxed) {
                0 if newcomer => 2,
                0 => 0,
                _ => 1,
            };
            (claim, since)
        });
        let weakest = weakest.cloned();
        drop(house);
        weakest.inspect(|entry| entry.cut()).inspect(|entry| self.leave(entry)).is_some()
    }

    /// Tells every connection, and those still to come, to finish what is in flight and close.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        for entry in &self.house.lock().entries {
            entry.draining.store(true, Ordering::SeqCst);
            entry.waker.wake();
        }
    }

    /// Ends every connection that has waited too long, or that takes nothing of its answers.
    pub(super) fn reap(&self) {
        let now = millis(&self.clock);
        let mut house = self.house.lock();
        let reaped: Vec<_> = house.entries.extract_if(.., |entry| self.is_overdue(entry, now)).collect();
        for entry in &reaped {
            house.forget(entry.subject);
        }
        drop(house);
        if !reaped.is_empty() {
            debug!(count = reaped.len(), "connections that waited too long were closed");
        }
        for entry in reaped {
            entry.cut();
        }
        if let Some(count) = self.refusals.rest(self.clock.ticks()) {
            warn!(count, "connections refused: a client address has limits.connections_per_address open");
        }
    }

    fn is_overdue(&self, entry: &Entry, now: u64) -> bool {
        if entry.stalled_for(now) > self.write_timeout {
            return true;
        }
        let waited = Duration::from_millis(now.saturating_sub(entry.since.load(Ordering::Relaxed)));
        !entry.is_busy() && !entry.awaits_body() && waited > self.patience(entry)
    }

    fn patience(&self, entry: &Entry) -> Duration {
        if entry.is_in(Phase::Handshake) {
            self.handshake_timeout
        } else if entry.is_in(Phase::Idle) {
            self.idle_timeout
        } else {
            self.header_timeout
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Turn;
    use super::*;
    use crate::config::Layer;
    use crate::domain::Time;

    fn registry(settings: &str) -> (Registry, Clock) {
        let nothing = std::iter::empty::<(String, String)>();
        let config = Config::load_over(&[Layer::new("test", settings)], None, nothing).unwrap();
        let clock = Clock::manual(Time::from_seconds(1));
        (Registry::new(&config, clock.clone()), clock)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_connection_that_is_sent_away_before_its_task_is_known_ends_all_the_same() {
        let (registry, _) = registry("");
        let entry = registry.enter(address("192.0.2.1")).unwrap();
        assert!(registry.make_room(), "another thread's newcomer");
        let task = tokio::spawn(std::future::pending::<()>());
        entry.belongs_to(task.abort_handle());
        tokio::task::yield_now().await;
        assert!(task.is_finished());
    }

    #[test]
    fn each_address_has_its_own_bound_an_ipv6_client_its_64_and_proxies_none() {
        let (registry, _) = registry(
            "[http]\ntrusted_proxies = [\"10.0.0.0/8\"]\n[limits]\nconnections_per_address = 2\nexempt = [\"2001:db8:1::/48\"]",
        );
        let mut entries = Vec::new();
        for (client, enters) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.1", false),
            ("192.0.2.2", true),
            ("2001:db8::1", true),
            ("2001:db8::ffff:1", true),
            ("2001:db8::2", false),
            ("2001:db8:0:1::1", true),
            ("10.1.2.3", true),
            ("10.1.2.3", true),
            ("10.1.2.3", true),
            ("2001:db8:1::1", true),
            ("2001:db8:1::1", true),
            ("2001:db8:1::1", true),
        ] {
            let entry = registry.enter(address(client));
            assert_eq!(entry.is_some(), enters, "{client}");
            entries.extend(entry);
        }
        registry.leave(&entries[0]);
        registry.leave(&entries[0]);
        assert!(registry.enter(address("192.0.2.1")).is_some(), "one has left");
        assert!(registry.enter(address("192.0.2.1")).is_none(), "and only one");
    }

    #[test]
    fn the_count_of_an_address_ends_with_its_connections_however_they_end() {
        let (registry, clock) = registry("limits.connections_per_address = 2\nlimits.connections = 2");
        let client = address("192.0.2.1");
        for _ in 0..3 {
            let busy = registry.enter(address("192.0.2.9")).unwrap();
            let turn = Turn::new(&busy, None, false);
            assert!(registry.enter(client).is_some());
            assert!(registry.enter(client).is_some(), "the first one made room");
            clock.advance(Duration::from_secs(11));
            registry.reap();
            let kept = registry.enter(client).unwrap();
            let turns = Turn::new(&kept, None, false);
            assert!(registry.enter(client).is_none(), "all are busy");
            drop((turn, turns));
            registry.leave(&busy);
            registry.leave(&kept);
            assert!(registry.house.lock().addresses.is_empty());
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_overdue_after_the_write_timeout_and_one_that_moves_is_not() {
        let (registry, clock) = registry("");
        let entry = registry.enter(address("192.0.2.1")).unwrap();
        let overdue = || registry.is_overdue(&entry, millis(&clock));
        // Even while it is being answered otherwise.
        let _turn = Turn::new(&entry, None, false);
        entry.has_unread();
        clock.advance(Duration::from_secs(20));
        entry.has_unread();
        clock.advance(Duration::from_secs(10));
        assert!(!overdue());
        clock.advance(Duration::from_millis(1));
        assert!(overdue());
        for _ in 0..10 {
            entry.took(true);
            clock.advance(Duration::from_secs(30));
            assert!(!overdue(), "a byte in 30 seconds is enough");
        }
        entry.took(false);
        clock.advance(Duration::from_mins(5));
        assert!(!overdue(), "nothing is left to take");
    }

    #[test]
    fn a_connection_that_waits_for_a_body_makes_room_but_is_not_reaped() {
        let (registry, clock) = registry("limits.connections = 1");
        let entry = registry.enter(address("192.0.2.1")).unwrap();
        let turn = Turn::new(&entry, None, true);
        clock.advance(Duration::from_mins(5));
        registry.reap();
        assert_eq!(registry.house.lock().entries.len(), 1, "its request has a limit of its own");
        assert!(registry.make_room());
        drop(turn);
    }
}
