//! A check that many ask for but that runs rarely: at most once per span, and everyone who asks in the meantime shares its
//! outcome.

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::single_flight::Flight;

pub struct SharedCheck<T> {
    every: Duration,
    clock: Clock,
    /// The latest run, and when it began, in the clock's ticks.
    latest: Mutex<Option<(Duration, Flight<T>)>>,
}

impl<T: Clone + Send + Sync + 'static> SharedCheck<T> {
    pub fn new(every: Duration, clock: Clock) -> Self {
        Self { every, clock, latest: Mutex::default() }
    }

    /// The outcome of the check that is running or just ran, or else of a new one, which `start` begins. It runs to its end
    /// even if nobody waits for it. `None` if it panicked.
    pub async fn get<F>(&self, start: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.join_or_start(start).outcome().await
    }

    fn join_or_start<F>(&self, start: impl FnOnce() -> F) -> Flight<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let now = self.clock.ticks();
        let mut latest = self.latest.lock();
        if let Some((began, run)) = &*latest
            && (run.is_running() || now.saturating_sub(*began) < self.every)
        {
            return run.clone();
        }
        let (sender, run) = Flight::new();
        let work = start();
        tokio::spawn(async move { sender.send_replace(Some(work.await)) });
        *latest = Some((now, run.clone()));
        run
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use domain::Time;

    use super::*;

    #[tokio::test]
    async fn all_who_ask_in_the_same_span_share_one_check() {
        let clock = Clock::manual(Time::from_seconds(1));
        let check = SharedCheck::new(Duration::from_secs(1), clock.clone());
        let runs = Arc::new(AtomicUsize::new(0));
        let ask = || {
            check.get(|| {
                let runs = Arc::clone(&runs);
                async move {
                    tokio::task::yield_now().await;
                    runs.fetch_add(1, Ordering::SeqCst)
                }
            })
        };
        assert_eq!(tokio::join!(ask(), ask(), ask()), (Some(0), Some(0), Some(0)));
        clock.advance(Duration::from_millis(999));
        assert_eq!(ask().await, Some(0));
        clock.advance(Duration::from_millis(1));
        assert_eq!(tokio::join!(ask(), ask()), (Some(1), Some(1)));
    }

    #[tokio::test]
    async fn a_slow_check_is_joined_however_long_it_takes_and_a_panic_is_no_outcome() {
        let clock = Clock::manual(Time::from_seconds(1));
        let check = SharedCheck::<u8>::new(Duration::from_secs(1), clock.clone());
        let (go, waits) = tokio::sync::oneshot::channel();
        let first = check.join_or_start(|| async { waits.await.unwrap() });
        clock.advance(Duration::from_secs(10));
        let second = check.join_or_start(|| async { 2 });
        go.send(1).unwrap();
        for run in [first, second] {
            assert_eq!(run.outcome().await, Some(1));
        }
        assert_eq!(check.get(|| async { 3 }).await, Some(3), "the first began long ago");
        clock.advance(Duration::from_secs(1));
        assert_eq!(check.get(|| async { panic!("a bug") }).await, None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(check.get(|| async { 4 }).await, Some(4));
    }
}
