//! Whether the worker threads still run their tasks. A thread that hangs accepts connections and never answers them, which
//! looks like a slow one from outside the process.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Clock;

/// How long a thread may take to answer. Only checks count: nothing wakes up between two of them.
const LIMIT: Duration = Duration::from_secs(10);

pub struct Liveness {
    clock: Clock,
    threads: Mutex<Vec<Arc<WatchedThread>>>,
}

struct WatchedThread {
    name: &'static str,
    asked: Notify,
    state: Mutex<ThreadState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    Answered,
    /// Since then, in the clock's ticks.
    Asked(Duration),
    /// It panicked, and nothing replaces it.
    Crashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAlive {
    #[error("a thread has not answered for {} seconds: {name}", silent.as_secs())]
    Silent { name: &'static str, silent: Duration },
    #[error("a thread has crashed: {0}")]
    Crashed(&'static str),
}

impl Liveness {
    pub fn new(clock: Clock) -> Self {
        Self { clock, threads: Mutex::default() }
    }

    /// Watches a thread from now on, until the pulse is dropped. The thread's runtime must run [`Pulse::answer`].
    pub fn watch(self: &Arc<Self>, name: &'static str) -> Pulse {
        let state = Mutex::new(ThreadState::Answered);
        let thread = Arc::new(WatchedThread { name, asked: Notify::new(), state });
        self.threads.lock().push(Arc::clone(&thread));
        Pulse { liveness: Arc::clone(self), thread }
    }

    /// Returns what earlier checks have found out, and asks every thread again. It never waits: a hanging thread is noticed by
    /// the first check that comes more than ten seconds after another one.
    pub fn check(&self) -> Result<(), NotAlive> {
        let now = self.clock.ticks();
        let mut outcome = Ok(());
        for thread in self.threads.lock().iter() {
            outcome = outcome.and(thread.check(now));
        }
        outcome
    }
}

impl WatchedThread {
    fn check(&self, now: Duration) -> Result<(), NotAlive> {
        let mut state = self.state.lock();
        match *state {
            ThreadState::Answered => {
                *state = ThreadState::Asked(now);
                self.asked.notify_one();
                Ok(())
            }
            ThreadState::Asked(since) => {
                let silent = now.saturating_sub(since);
                if silent > LIMIT { Err(NotAlive::Silent { name: self.name, silent }) } else { Ok(()) }
            }
            ThreadState::Crashed => Err(NotAlive::Crashed(self.name)),
        }
    }
}

/// Answers for a thread.
#[must_use = "the thread is watched until this is dropped"]
pub struct Pulse {
    liveness: Arc<Liveness>,
    thread: Arc<WatchedThread>,
}

impl Pulse {
    /// Answers every check. Never ends.
    pub async fn answer(&self) {
        loop {
            self.thread.asked.notified().await;
            *self.thread.state.lock() = ThreadState::Answered;
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.thread.state.lock() = ThreadState::Crashed;
        } else {
            self.liveness.threads.lock().retain(|thread| !Arc::ptr_eq(thread, &self.thread));
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Time;
    use futures_util::FutureExt as _;

    use super::*;

    fn liveness() -> (Arc<Liveness>, Clock) {
        let clock = Clock::manual(Time::from_seconds(1));
        (Arc::new(Liveness::new(clock.clone())), clock)
    }

    #[test]
    fn a_thread_that_stops_answering_is_named_until_it_answers_again() {
        let (liveness, clock) = liveness();
        let (well, hanging) = (liveness.watch("well"), liveness.watch("hanging"));
        for _ in 0..2 {
            assert_eq!(liveness.check(), Ok(()));
            clock.advance(LIMIT / 2);
            assert!(well.answer().now_or_never().is_none());
        }
        assert_eq!(liveness.check(), Ok(()), "ten seconds are not too long");
        clock.advance(Duration::from_millis(1));
        let silent = LIMIT + Duration::from_millis(1);
        assert_eq!(liveness.check(), Err(NotAlive::Silent { name: "hanging", silent }));
        assert!(hanging.answer().now_or_never().is_none());
        assert_eq!(liveness.check(), Ok(()));
    }

    #[test]
    fn a_thread_that_nobody_asked_is_not_late() {
        let (liveness, clock) = liveness();
        let _pulse = liveness.watch("idle");
        clock.advance(Duration::from_hours(1));
        assert_eq!(liveness.check(), Ok(()));
    }

    #[test]
    fn a_thread_that_ends_is_no_longer_watched_and_one_that_crashed_is() {
        let (liveness, clock) = liveness();
        drop(liveness.watch("ended"));
        assert_eq!(liveness.check(), Ok(()));
        let pulse = liveness.watch("crashed");
        let crashed = std::thread::spawn(move || {
            let _pulse = pulse;
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(crashed.join().is_err());
        assert_eq!(liveness.check(), Err(NotAlive::Crashed("crashed")));
        clock.advance(LIMIT * 2);
        assert_eq!(liveness.check(), Err(NotAlive::Crashed("crashed")));
    }
}
