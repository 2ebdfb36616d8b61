//! One open connection and what it waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::backlog::Backlog;
use crate::clock::Clock;

/// Stands for no time at all.
const NEVER: u64 = u64::MAX;

/// One open connection.
pub(super) struct Entry {
    clock: Clock,
    /// Whose it is, where connections of one client address have a bound.
    pub(super) subject: Option<u64>,
    /// Whether a proxy or another trusted peer may carry many clients over it.
    pub(super) is_shared: bool,
    /// Milliseconds of the clock's ticks at which the present wait began.
    pub(super) since: AtomicU64,
    phase: AtomicU32,
    /// Since when something of an answer is there that the client has not taken, and nothing of it was taken.
    stalled: AtomicU64,
    /// Whether the client has sent anything at all.
    spoke: AtomicBool,
    /// Whether several requests share it, so that bytes between two requests mean nothing.
    multiplexed: AtomicBool,
    /// Requests that are being answered now.
    in_flight: AtomicU32,
    /// Requests whose body has not come yet.
    awaited: AtomicU32,
    pub(super) answered: AtomicU64,
    /// Nothing new is to begin on it.
    pub(super) draining: AtomicBool,
    pub(super) waker: AtomicWaker,
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
    /// A request's body.
    Body,
    /// The next request.
    Idle,
}

impl Entry {
    pub(super) fn new(clock: &Clock, subject: Option<u64>, is_shared: bool) -> Self {
        Self {
            clock: clock.clone(),
            subject,
            is_shared,
            since: AtomicU64::new(millis(clock)),
            phase: AtomicU32::new(Phase::FirstByte as u32),
            stalled: AtomicU64::new(NEVER),
            spoke: AtomicBool::new(false),
            multiplexed: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            awaited: AtomicU32::new(0),
            answered: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            task: Mutex::default(),
        }
    }

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

    /// Whether this is what it waits for.
    pub(super) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u32
    }

    /// Whether work is being done for it, so that it must not be sent away.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Whether it waits for a request's body, which has a limit of its own.
    pub(super) fn awaits_body(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    /// For how long the client has taken nothing though there is something to take.
    pub(super) fn stalled_for(&self, now: u64) -> Duration {
        match self.stalled.load(Ordering::Relaxed) {
            NEVER => Duration::ZERO,
            since => Duration::from_millis(now.saturating_sub(since)),
        }
    }

    /// It speaks HTTP/2.
    pub(super) fn set_multiplexed(&self) {
        self.multiplexed.store(true, Ordering::Relaxed);
        self.stalled.store(NEVER, Ordering::Relaxed);
    }

    /// Whether it speaks HTTP/2.
    pub(super) fn is_multiplexed(&self) -> bool {
        self.multiplexed.load(Ordering::Relaxed)
    }

    /// Whether the client has not said a word yet, apart from a handshake.
    pub(super) fn is_silent(&self) -> bool {
        self.is_in(Phase::FirstByte) || !self.spoke.load(Ordering::Relaxed)
    }

    /// Bytes have arrived: where nothing was going on, a request's headers begin.
    pub(super) fn received(&self) {
        self.spoke.store(true, Ordering::Relaxed);
        let idle = self.is_in(Phase::Idle) && !self.is_busy() && !self.is_multiplexed();
        if idle || self.is_in(Phase::FirstByte) {
            self.waits_for(Phase::Headers);
        }
    }

    /// Something of an answer is there for the client to take.
    pub(super) fn has_unread(&self) {
        let now = millis(&self.clock);
        // Since when, not since the latest.
        let _ = self.stalled.compare_exchange(NEVER, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The client has taken something and is reading, so it is not idle; whether there is more.
    pub(super) fn took(&self, more: bool) {
        let now = self.now();
        self.stalled.store(if more { now } else { NEVER }, Ordering::Relaxed);
        // Also in the middle of the next request's headers, which wait behind the answer.
        if more || self.is_in(Phase::Idle) {
            self.since.store(now, Ordering::Relaxed);
        }
    }

    /// Of several answers at once: since when nothing was taken of the one that has waited longest, if any is unread.
    pub(super) fn has_unread_since(&self, since: Option<u64>) {
        self.stalled.store(since.unwrap_or(NEVER), Ordering::Relaxed);
        if self.is_in(Phase::Idle) {
            self.since.store(self.now(), Ordering::Relaxed);
        }
    }

    pub(super) fn now(&self) -> u64 {
        millis(&self.clock)
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

    pub(super) fn cut(&self) {
        let mut held = self.task.lock();
        held.cut = true;
        if let Some(task) = &held.handle {
            task.abort();
        }
    }
}

/// A request on its way through: while it lives, its connection is not idle.
pub(super) struct Turn {
    entry: Arc<Entry>,
    backlog: Option<Arc<Backlog>>,
    /// Whether the request is there as a whole.
    whole: AtomicBool,
    /// Whether it has a place in the backlog.
    placed: AtomicBool,
}

impl Turn {
    /// A request has come, perhaps without its body. As long as that is awaited, its connection may be sent away like one that
    /// waits for a request.
    pub(super) fn new(entry: &Arc<Entry>, backlog: Option<&Arc<Backlog>>, awaits_body: bool) -> Self {
        if awaits_body {
            entry.waits_for(Phase::Body);
            entry.awaited.fetch_add(1, Ordering::Relaxed);
        } else {
            entry.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        let (whole, placed) = (AtomicBool::new(!awaits_body), AtomicBool::new(false));
        Self { entry: Arc::clone(entry), backlog: backlog.cloned(), whole, placed }
    }

    /// The request is there as a whole. Its work begins when the client has taken enough of the answers before it.
    pub(super) async fn begins(&self) {
        if !self.whole.swap(true, Ordering::Relaxed) {
            self.entry.in_flight.fetch_add(1, Ordering::Relaxed);
            self.entry.awaited.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(backlog) = &self.backlog {
            backlog.enter().await;
            self.placed.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(backlog) = &self.backlog
            && *self.placed.get_mut()
        {
            backlog.leave();
        }
        self.entry.answered.fetch_add(1, Ordering::Relaxed);
        self.entry.waits_for(Phase::Idle);
        let counter = if *self.whole.get_mut() { &self.entry.in_flight } else { &self.entry.awaited };
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn millis(clock: &Clock) -> u64 {
    in_millis(clock.ticks())
}

fn in_millis(ticks: Duration) -> u64 {
    u64::try_from(ticks.as_millis()).unwrap_or(u64::MAX)
}
