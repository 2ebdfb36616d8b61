//! The time, passed to the parts that need it. A lint bans asking the system anywhere else, so that tests control the clock. A
//! clock that was set is not trusted immediately: `domain/trusted_time.rs` decides, and `clock_watch.rs` checks every few seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::trusted_time::{ClockEvent, TrustedTime, trusted_time};
use domain::{Time, saturating};
use parking_lot::Mutex;

/// A clock with two faces: the time of day, which can jump, and ticks, which only move forward.
#[derive(Clone, Debug)]
pub struct Clock {
    face: Face,
    trust: Arc<ClockTrust>,
}

#[derive(Clone, Debug)]
enum Face {
    System { start: Instant },
    Manual(Arc<ManualFace>),
}

#[derive(Debug)]
struct ManualFace {
    start: i64,
    ticks: AtomicU64,
    /// How far the time of day was set.
    set: AtomicI64,
}

/// Which time is trusted. Every request reads it, so readers take no lock.
#[derive(Debug)]
struct ClockTrust {
    watch: Mutex<TrustedTime>,
    distance: AtomicI64,
}

impl Clock {
    /// The system's clock. For the first five minutes nothing may be deleted by it.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
    pub fn system() -> Self {
        Self::new(Face::System { start: Instant::now() }, TrustedTime::at_start)
    }

    /// A clock that stays at `start` until it is advanced, and whose time has stood for long.
    pub fn manual(start: Time) -> Self {
        let start = saturating::to_i64(start.millis());
        let face = ManualFace { start, ticks: AtomicU64::new(0), set: AtomicI64::new(0) };
        Self::new(Face::Manual(Arc::new(face)), TrustedTime::settled)
    }

    fn new(face: Face, watch: fn(Time, Duration) -> TrustedTime) -> Self {
        let watch = watch(face.shown(), face.ticks());
        let distance = watch.distance().into();
        Self { face, trust: Arc::new(ClockTrust { watch: Mutex::new(watch), distance }) }
    }

    /// Advances a manual clock; has no effect on the system's clock.
    pub fn advance(&self, span: Duration) {
        if let Face::Manual(face) = &self.face {
            face.ticks.fetch_add(saturating::millis(span), Ordering::SeqCst);
        }
    }

    /// Moves the time of day of a manual clock by this many seconds; the ticks are unaffected.
    pub fn set(&self, seconds: i64) {
        if let Face::Manual(face) = &self.face {
            face.set.fetch_add(seconds.saturating_mul(1_000), Ordering::SeqCst);
        }
    }

    /// The time of day. If the clock was set, this is the old time until the new one is trusted.
    pub fn now(&self) -> Time {
        self.read().0
    }

    /// How long this clock has run; for durations, limits and latencies.
    pub fn ticks(&self) -> Duration {
        self.face.ticks()
    }

    /// The time of day and the ticks.
    pub fn read(&self) -> (Time, Duration) {
        let (shown, ticks) = (self.face.shown(), self.face.ticks());
        (trusted_time(shown, ticks, self.trust.distance.load(Ordering::Relaxed)), ticks)
    }

    /// Whether what is over by this clock may be deleted. Not right after startup, and not while its time may be wrong.
    pub fn may_delete(&self) -> bool {
        self.trust.watch.lock().may_delete(self.ticks())
    }

    /// Whether time only passes when a test says so.
    pub fn is_manual(&self) -> bool {
        matches!(self.face, Face::Manual(_))
    }

    /// Checks whether the clock was set, and decides which time to trust. Returns what was noticed.
    pub fn look(&self) -> Option<ClockEvent> {
        let mut watch = self.trust.watch.lock();
        let event = watch.look(self.face.shown(), self.face.ticks());
        self.trust.distance.store(watch.distance(), Ordering::Relaxed);
        event
    }
}

impl Face {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
    fn shown(&self) -> Time {
        match self {
            Self::System { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Time::from_millis(saturating::millis(since))
            }
            Self::Manual(face) => {
                let ticks = saturating::to_i64(face.ticks.load(Ordering::SeqCst));
                let shown = face.start.saturating_add(ticks).saturating_add(face.set.load(Ordering::SeqCst));
                Time::from_millis(u64::try_from(shown).unwrap_or_default())
            }
        }
    }

    fn ticks(&self) -> Duration {
        match self {
            Self::System { start } => start.elapsed(),
            Self::Manual(face) => Duration::from_millis(face.ticks.load(Ordering::SeqCst)),
        }
    }
}
