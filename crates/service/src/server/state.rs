//! The state of one open connection: what it waits for, and what it is busy with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use domain::saturating;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use runtime::client_key::ClientKey;
use runtime::clock::Clock;
use tokio::task::AbortHandle;

/// Means that nothing is unread.
const NEVER: u64 = u64::MAX;

pub(super) struct ConnectionState {
    /// Connections are numbered as they arrive.
    pub(super) number: u64,
    clock: Clock,
    /// What the connection counts against; `None` if its address has no limit.
    pub(super) client: Option<ClientKey>,
    /// Whether it may carry many clients, because the peer is a trusted proxy or exempt from limits.
    pub(super) is_shared: bool,
    /// When the current wait began, in milliseconds of the clock's ticks.
    pub(super) since: AtomicU64,
    phase: AtomicU32,
    /// Since when the client has read nothing of a response that is available.
    stalled: AtomicU64,
    /// Whether the client has sent anything at all.
    has_sent: AtomicBool,
    /// Whether several requests share the connection, so that bytes between requests mean nothing.
    multiplexed: AtomicBool,
    in_flight: AtomicU32,
    /// Requests whose body has not arrived yet.
    awaiting_body: AtomicU32,
    /// Responses of unknown length that are being sent: live streams.
    streams: AtomicU32,
    pub(super) answered: AtomicU64,
    /// Whether no new request may begin.
    pub(super) draining: AtomicBool,
    pub(super) waker: AtomicWaker,
    task: Mutex<ConnectionTask>,
}

#[derive(Default)]
struct ConnectionTask {
    handle: Option<AbortHandle>,
    /// The task should be aborted as soon as there is a handle.
    aborted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Handshake,
    FirstByte,
    /// The rest of a request's headers.
    Headers,
    Body,
    /// The next request.
    Idle,
}

impl ConnectionState {
    pub(super) fn new(number: u64, clock: &Clock, client: Option<ClientKey>, is_shared: bool) -> Self {
        Self {
            number,
            clock: clock.clone(),
            client,
            is_shared,
            since: AtomicU64::new(millis(clock)),
            phase: AtomicU32::new(Phase::FirstByte as u32),
            stalled: AtomicU64::new(NEVER),
            has_sent: AtomicBool::new(false),
            multiplexed: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            awaiting_body: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            answered: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            task: Mutex::default(),
        }
    }

    /// Sets the task that serves the connection.
    pub(super) fn set_task(&self, handle: AbortHandle) {
        let mut task = self.task.lock();
        if task.aborted {
            handle.abort();
        }
        task.handle = Some(handle);
    }

    pub(super) fn abort(&self) {
        let mut task = self.task.lock();
        task.aborted = true;
        if let Some(handle) = &task.handle {
            handle.abort();
        }
    }

    pub(super) fn enter_phase(&self, phase: Phase) {
        self.since.store(self.now(), Ordering::Relaxed);
        self.phase.store(phase as u32, Ordering::Relaxed);
    }

    pub(super) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u32
    }

    /// Whether a request is in progress, so that the connection must not be evicted.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Whether it waits for a request's body, which has its own limit.
    pub(super) fn awaits_body(&self) -> bool {
        self.awaiting_body.load(Ordering::Relaxed) > 0
    }

    /// Whether it carries a live stream, so that it is not idle but may be evicted.
    pub(super) fn has_stream(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }

    /// How long the client has read nothing although there is something to read.
    pub(super) fn stalled_for(&self, now: u64) -> Duration {
        match self.stalled.load(Ordering::Relaxed) {
            NEVER => Duration::ZERO,
            since => Duration::from_millis(now.saturating_sub(since)),
        }
    }

    /// Records that it speaks HTTP/2.
    pub(super) fn set_multiplexed(&self) {
        self.multiplexed.store(true, Ordering::Relaxed);
        self.stalled.store(NEVER, Ordering::Relaxed);
    }

    /// Whether it speaks HTTP/2.
    pub(super) fn is_multiplexed(&self) -> bool {
        self.multiplexed.load(Ordering::Relaxed)
    }

    /// Whether the client has sent nothing yet, apart from a handshake.
    pub(super) fn is_silent(&self) -> bool {
        self.is_in(Phase::FirstByte) || !self.has_sent.load(Ordering::Relaxed)
    }

    /// Records that bytes have arrived. If nothing was going on, a request's headers begin.
    pub(super) fn note_received(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
        let idle = self.is_in(Phase::Idle) && !self.is_busy() && !self.is_multiplexed();
        if idle || self.is_in(Phase::FirstByte) {
            self.enter_phase(Phase::Headers);
        }
    }

    /// Records that the client has not read everything available.
    pub(super) fn note_unread(&self) {
        // The first time counts, not the latest.
        let _ = self.stalled.compare_exchange(NEVER, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Records that the client has read something and so is not idle. `more`: whether there is more to read.
    pub(super) fn note_taken(&self, more: bool) {
        let now = self.now();
        self.stalled.store(if more { now } else { NEVER }, Ordering::Relaxed);
        // Even in the middle of the next request's headers, which wait until the response is read.
        if more || self.is_in(Phase::Idle) {
            self.since.store(now, Ordering::Relaxed);
        }
    }

    /// For several responses at a time: sets since when the one that has waited longest has not been read, if any is unread.
    pub(super) fn set_unread_since(&self, since: Option<u64>) {
        self.stalled.store(since.unwrap_or(NEVER), Ordering::Relaxed);
        if self.is_in(Phase::Idle) {
            self.since.store(self.now(), Ordering::Relaxed);
        }
    }

    pub(super) fn now(&self) -> u64 {
        millis(&self.clock)
    }

    /// Whether to finish requests in flight and close; if not yet, the task is woken when the drain begins.
    pub(super) fn poll_draining(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.draining.load(Ordering::SeqCst)
    }

    /// The same for a task that polls repeatedly: its waker is only registered when it has changed.
    pub(super) fn poll_draining_as(&self, registered: &mut Option<Waker>, context: &Context<'_>) -> bool {
        if registered.as_ref().is_none_or(|waker| !waker.will_wake(context.waker())) {
            *registered = Some(context.waker().clone());
            return self.poll_draining(context);
        }
        self.is_draining()
    }

    /// Whether to finish requests in flight and close.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Records a request that was answered from the cache, at these ticks.
    pub(super) fn note_answered(&self, ticks: Duration) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.since.store(saturating::millis(ticks), Ordering::Relaxed);
        self.phase.store(Phase::Idle as u32, Ordering::Relaxed);
    }
}

/// A request in progress: while this lives, its connection is not idle.
pub(super) struct RequestGuard {
    connection: Arc<ConnectionState>,
    /// Whether the whole request has arrived.
    has_started: AtomicBool,
}

impl RequestGuard {
    /// A request has arrived, possibly without its body. While it waits for that, its connection may be evicted like one that
    /// waits for a request.
    pub(super) fn new(connection: &Arc<ConnectionState>, awaits_body: bool) -> Self {
        if awaits_body {
            connection.enter_phase(Phase::Body);
            connection.awaiting_body.fetch_add(1, Ordering::Relaxed);
        } else {
            connection.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        Self { connection: Arc::clone(connection), has_started: AtomicBool::new(!awaits_body) }
    }

    /// Records that the whole request has arrived.
    pub(super) fn start_work(&self) {
        if !self.has_started.swap(true, Ordering::Relaxed) {
            self.connection.in_flight.fetch_add(1, Ordering::Relaxed);
            self.connection.awaiting_body.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.connection.answered.fetch_add(1, Ordering::Relaxed);
        self.connection.enter_phase(Phase::Idle);
        let whole = *self.has_started.get_mut();
        let counter = if whole { &self.connection.in_flight } else { &self.connection.awaiting_body };
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A live stream on a connection; it ends when this is dropped.
pub(super) struct StreamGuard(Arc<ConnectionState>);

impl StreamGuard {
    pub(super) fn new(connection: &Arc<ConnectionState>) -> Self {
        connection.streams.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connection))
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.enter_phase(Phase::Idle);
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn millis(clock: &Clock) -> u64 {
    saturating::millis(clock.ticks())
}
