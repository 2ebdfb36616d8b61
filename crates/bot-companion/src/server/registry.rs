//! Every open connection and what it is doing, so that none can wait for ever and a newcomer finds room.
//!
//! A connection is waiting for a request, in the middle of its headers, or busy with an answer. Slow ones are reaped by a look
//! over all of them twice a second, which costs less than a timer each; and when the house is full, the one that has waited
//! longest without ever completing a request makes room, so that a flood of slow headers cannot shut others out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tracing::debug;

use crate::clock::Clock;
use crate::config::Limits;

/// How long a new connection may take before it counts as one that never asks.
const GRACE: Duration = Duration::from_secs(1);

/// All open connections.
pub(super) struct Registry {
    entries: Mutex<Vec<Arc<Entry>>>,
    clock: Clock,
    draining: AtomicBool,
    most: usize,
    header_timeout: Duration,
    handshake_timeout: Duration,
    idle_timeout: Duration,
}

/// One open connection.
pub(super) struct Entry {
    clock: Clock,
    /// Milliseconds of the clock's ticks at which the present wait began.
    since: AtomicU64,
    phase: AtomicU32,
    /// Whether the client has sent anything at all.
    spoke: AtomicBool,
    /// Whether several requests share it, so that bytes between two requests mean nothing.
    multiplexed: AtomicBool,
    /// Requests that are being answered now.
    in_flight: AtomicU32,
    answered: AtomicU64,
    /// Nothing new is to begin on it.
    draining: AtomicBool,
    waker: AtomicWaker,
    task: Mutex<Task>,
}

/// What runs a connection.
#[derive(Default)]
struct Task {
    handle: Option<AbortHandle>,
    /// It is to end; if there is no handle yet, as soon as there is one.
    cut: bool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The TLS handshake.
    Handshake,
    /// The first byte.
    FirstByte,
    /// The rest of a request's headers.
    Headers,
    /// The next request.
    Idle,
}

impl Registry {
    pub(super) fn new(limits: &Limits, clock: Clock) -> Self {
        Self {
            entries: Mutex::default(),
            clock,
            draining: AtomicBool::new(false),
            most: limits.connections,
            header_timeout: limits.header_timeout,
            handshake_timeout: limits.handshake_timeout,
            idle_timeout: limits.idle_timeout,
        }
    }

    /// Takes a connection in, sending another away if the house is full; `None` if all are busy.
    pub(super) fn enter(&self) -> Option<Arc<Entry>> {
        if self.entries.lock().len() >= self.most && !self.make_room() {
            return None;
        }
        let entry = Arc::new(Entry {
            clock: self.clock.clone(),
            since: AtomicU64::new(millis(&self.clock)),
            phase: AtomicU32::new(Phase::FirstByte as u32),
            spoke: AtomicBool::new(false),
            multiplexed: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            answered: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            task: Mutex::default(),
        });
        let mut entries = self.entries.lock();
        // A drain that began since then has not met it.
        entry.draining.store(self.draining.load(Ordering::SeqCst), Ordering::SeqCst);
        entries.push(Arc::clone(&entry));
        Some(Arc::clone(&entry))
    }

    pub(super) fn leave(&self, entry: &Arc<Entry>) {
        let mut entries = self.entries.lock();
        if let Some(index) = entries.iter().position(|other| Arc::ptr_eq(other, entry)) {
            entries.swap_remove(index);
        }
    }

    /// Ends the connection that has the weakest claim to stay; `false` if all are busy.
    pub(super) fn make_room(&self) -> bool {
        let entries = self.entries.lock();
        let now = millis(&self.clock);
        let waiting = entries.iter().filter(|entry| entry.in_flight.load(Ordering::Relaxed) == 0);
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
        drop(entries);
        weakest.inspect(|entry| entry.cut()).inspect(|entry| self.leave(entry)).is_some()
    }

    /// Tells every connection, and those still to come, to finish what is in flight and close.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        for entry in self.entries.lock().iter() {
            entry.draining.store(true, Ordering::SeqCst);
            entry.waker.wake();
        }
    }

    /// Ends every connection that has waited too long.
    pub(super) fn reap(&self) {
        let now = millis(&self.clock);
        let overdue = |entry: &Arc<Entry>| {
            let waited = Duration::from_millis(now.saturating_sub(entry.since.load(Ordering::Relaxed)));
            entry.in_flight.load(Ordering::Relaxed) == 0 && waited > self.patience(entry)
        };
        let reaped: Vec<_> = self.entries.lock().extract_if(.., |entry| overdue(entry)).collect();
        if !reaped.is_empty() {
            debug!(count = reaped.len(), "connections that waited too long were closed");
        }
        for entry in reaped {
            entry.cut();
        }
    }

    fn patience(&self, entry: &Entry) -> Duration {
        match entry.phase.load(Ordering::Relaxed) {
            phase if phase == Phase::Handshake as u32 => self.handshake_timeout,
            phase if phase == Phase::Idle as u32 => self.idle_timeout,
            _ => self.header_timeout,
        }
    }
}

impl Entry {
    /// Whose end ends the connection.
    pub(super) fn belongs_to(&self, task: AbortHandle) {
        let mut held = self.task.lock();
        if held.cut {
            task.abort();
        }
        held.handle = Some(task);
    }

    /// A new wait begins.
    pub(super) fn waits_for(&self, phase: Phase) {
        self.since.store(millis(&self.clock), Ordering::Relaxed);
        self.phase.store(phase as u32, Ordering::Relaxed);
    }

    /// It speaks HTTP/2.
    pub(super) fn is_multiplexed(&self) {
        self.multiplexed.store(true, Ordering::Relaxed);
    }

    /// Whether the client has not said a word yet, apart from a handshake.
    pub(super) fn is_silent(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::FirstByte as u32 || !self.spoke.load(Ordering::Relaxed)
    }

    /// Bytes have arrived: where nothing was going on, a request's headers begin.
    pub(super) fn received(&self) {
        self.spoke.store(true, Ordering::Relaxed);
        let phase = self.phase.load(Ordering::Relaxed);
        let idle = phase == Phase::Idle as u32
            && self.in_flight.load(Ordering::Relaxed) == 0
            && !self.multiplexed.load(Ordering::Relaxed);
        if idle || phase == Phase::FirstByte as u32 {
            self.waits_for(Phase::Headers);
        }
    }

    /// Bytes have left: the client is reading, so it is not idle.
    pub(super) fn sent(&self) {
        if self.phase.load(Ordering::Relaxed) == Phase::Idle as u32 {
            self.since.store(millis(&self.clock), Ordering::Relaxed);
        }
    }

    /// Whether to finish what is in flight and close; if not, the task is woken when it is.
    pub(super) fn is_draining(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.draining.load(Ordering::SeqCst)
    }

    /// A request was answered at once, at these ticks.
    pub(super) fn answered_at(&self, ticks: Duration) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.since.store(in_millis(ticks), Ordering::Relaxed);
        self.phase.store(Phase::Idle as u32, Ordering::Relaxed);
    }

    /// A request is being answered, until the returned value is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    fn cut(&self) {
        let mut held = self.task.lock();
        held.cut = true;
        if let Some(task) = &held.handle {
            task.abort();
        }
    }
}

/// While it lives, its connection is answering a request.
pub(super) struct Busy(Arc<Entry>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
        self.0.waits_for(Phase::Idle);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn millis(clock: &Clock) -> u64 {
    in_millis(clock.ticks())
}

fn in_millis(ticks: Duration) -> u64 {
    u64::try_from(ticks.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::domain::Time;

    #[tokio::test]
    async fn a_connection_that_is_sent_away_before_its_task_is_known_ends_all_the_same() {
        let config = Config::load(None, std::iter::empty::<(String, String)>()).unwrap();
        let registry = Registry::new(&config.limits, Clock::manual(Time::from_seconds(1)));
        let entry = registry.enter().unwrap();
        assert!(registry.make_room(), "another thread's newcomer");
        let task = tokio::spawn(std::future::pending::<()>());
        entry.belongs_to(task.abort_handle());
        tokio::task::yield_now().await;
        assert!(task.is_finished());
    }
}
