//! The time, handed to the parts that need it. A lint bans asking the system anywhere else, so that tests control the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::domain::Time;

/// A clock with two faces: the time of day, which can jump, and ticks, which only ever go forward.
#[derive(Clone, Debug)]
pub struct Clock(Face);

#[derive(Clone, Debug)]
enum Face {
    System { start: Instant },
    Manual { millis: Arc<AtomicU64>, start: u64 },
}

impl Clock {
    /// The system's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
    pub fn system() -> Self {
        Self(Face::System { start: Instant::now() })
    }

    /// A clock that stands at `start` until it is advanced.
    pub fn manual(start: Time) -> Self {
        Self(Face::Manual { millis: Arc::new(AtomicU64::new(start.millis())), start: start.millis() })
    }

    /// Advances a manual clock; has no effect on the system's clock.
    pub fn advance(&self, span: Duration) {
        if let Face::Manual { millis, .. } = &self.0 {
            millis.fetch_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }

    /// The time of day.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
    pub fn now(&self) -> Time {
        match &self.0 {
            Face::System { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Time::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
            Face::Manual { millis, .. } => Time::from_millis(millis.load(Ordering::SeqCst)),
        }
    }

    /// How long this clock has run: for spans, limits and latencies.
    pub fn ticks(&self) -> Duration {
        match &self.0 {
            Face::System { start } => start.elapsed(),
            Face::Manual { millis, start } => Duration::from_millis(millis.load(Ordering::SeqCst) - start),
        }
    }
}
