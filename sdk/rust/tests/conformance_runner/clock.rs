//! A clock that is moved by the test.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bot_companion_feed::Clock;
use futures_util::future::BoxFuture;

/// When it starts, in epoch seconds.
const EPOCH: f64 = 1_700_000_000.0;

#[derive(Default)]
struct Inner {
    now: Duration,
    sleepers: Vec<(Duration, Waker)>,
    fails: bool,
}

#[derive(Clone, Default)]
pub struct SimulatedClock(Arc<Mutex<Inner>>);

impl SimulatedClock {
    /// Whoever asks for the time next panics.
    pub fn fail_once(&self) {
        self.0.lock().unwrap().fails = true;
    }

    /// When the next sleeper wakes, if that is not after `latest`.
    pub fn next_before(&self, latest: Duration) -> Option<Duration> {
        let inner = self.0.lock().unwrap();
        inner.sleepers.iter().map(|(at, _)| *at).filter(|at| *at <= latest).min()
    }

    pub fn turn_to(&self, now: Duration) {
        let mut inner = self.0.lock().unwrap();
        inner.now = now;
        let (due, later) = std::mem::take(&mut inner.sleepers).into_iter().partition(|(at, _)| *at <= now);
        inner.sleepers = later;
        let due: Vec<(Duration, Waker)> = due;
        drop(inner);
        for (_, waker) in due {
            waker.wake();
        }
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        let mut inner = self.0.lock().unwrap();
        let (now, fails) = (inner.now, std::mem::take(&mut inner.fails));
        drop(inner);
        if fails {
            // Without a report: the bug is on purpose, and it would look like a failed test.
            std::panic::resume_unwind(Box::new("the clock fails"));
        }
        now
    }

    fn epoch(&self) -> f64 {
        EPOCH + self.now().as_secs_f64()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { until: self.now() + time, clock: self.clone() })
    }

    fn random(&self) -> f64 {
        0.5
    }
}

struct Sleep {
    until: Duration,
    clock: SimulatedClock,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.clock.0.lock().unwrap();
        if self.until <= inner.now {
            return Poll::Ready(());
        }
        // One that was dropped stays until its time comes; waking it once more is harmless.
        inner.sleepers.push((self.until, context.waker().clone()));
        Poll::Pending
    }
}
