//! Time and randomness, passed in so that a test can replay an hour in an instant.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

/// The source of time and randomness.
pub trait Clock: Send + Sync + 'static {
    /// The time since some fixed moment. It never goes backwards.
    fn now(&self) -> Duration;
    /// Epoch seconds.
    fn epoch(&self) -> f64;
    /// Completes after this time.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// From 0 up to, but not including, 1.
    fn random(&self) -> f64;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn epoch(&self) -> f64 {
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn random(&self) -> f64 {
        f64::from(u32::try_from(random_bits() >> 32).unwrap_or_default()) / 2f64.powi(32)
    }
}

/// Each `RandomState` has different keys, which come from the operating system.
fn random_bits() -> u64 {
    RandomState::new().hash_one(0)
}

/// A unique name for this run of the process.
pub(crate) fn random_name() -> String {
    format!("rust-{:016x}{:016x}", random_bits(), random_bits())
}
