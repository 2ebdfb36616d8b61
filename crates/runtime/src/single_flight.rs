//! Single flight: at most one task per key. Everyone who asks while it runs gets its outcome. The task runs in the background,
//! so it finishes even if everyone who asked has left.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::background::Background;

#[derive(Debug)]
pub struct SingleFlight<K, T> {
    running: Arc<Mutex<HashMap<K, Flight<T>>>>,
    background: Background,
}

/// The outcome of a task that many can wait for.
#[derive(Clone, Debug)]
pub struct Flight<T>(watch::Receiver<Option<T>>);

impl<K, T> SingleFlight<K, T>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub fn new(background: Background) -> Self {
        Self { running: Arc::default(), background }
    }

    /// Joins the task of this key, or starts it.
    pub fn join<F>(&self, key: K, start: impl FnOnce() -> F) -> Flight<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(flight) = running.get(&key) {
            return flight.clone();
        }
        let (sender, flight) = Flight::new();
        running.insert(key.clone(), flight.clone());
        // If `start` panics, or the runtime is gone and drops the work immediately, the key is removed again.
        drop(running);
        let free_key = FreeKey { running: Arc::clone(&self.running), key };
        let work = start();
        self.background.spawn(async move {
            // Dropped at the end, or when the work panics, so that a key never stays taken.
            let free_key = free_key;
            let outcome = work.await;
            drop(free_key);
            sender.send_replace(Some(outcome));
        });
        flight
    }
}

struct FreeKey<K: Eq + Hash, T> {
    running: Arc<Mutex<HashMap<K, Flight<T>>>>,
    key: K,
}

impl<K: Eq + Hash, T> Drop for FreeKey<K, T> {
    fn drop(&mut self) {
        self.running.lock().remove(&self.key);
    }
}

impl<T: Clone> Flight<T> {
    /// With the sender of its outcome, which the task drops at its end.
    pub(crate) fn new() -> (watch::Sender<Option<T>>, Self) {
        let (sender, outcome) = watch::channel(None);
        (sender, Self(outcome))
    }

    pub(crate) fn is_running(&self) -> bool {
        // An error means that the sender is gone: it has sent the outcome, or panicked.
        self.0.has_changed().is_ok()
    }

    /// The task's outcome; `None` if it panicked.
    pub async fn outcome(mut self) -> Option<T> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn all_who_ask_meanwhile_share_one_flight() {
        let flights: SingleFlight<u8, usize> = SingleFlight::new(Background::here());
        let (gate, runs) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let start = || {
            let (gate, runs) = (Arc::clone(&gate), Arc::clone(&runs));
            move || async move {
                gate.notified().await;
                runs.fetch_add(1, Ordering::SeqCst) + 1
            }
        };
        let (first, second, other) = (flights.join(1, start()), flights.join(1, start()), flights.join(2, start()));
        gate.notify_one();
        gate.notify_one();
        tokio::task::yield_now().await;
        gate.notify_waiters();
        assert_eq!(first.outcome().await, second.outcome().await);
        assert!(other.outcome().await.is_some());
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        assert!(flights.running.lock().is_empty());
    }

    #[tokio::test]
    async fn a_crash_reaches_the_waiters_and_frees_the_key() {
        let flights: SingleFlight<u8, u8> = SingleFlight::new(Background::here());
        let crashed = flights.join(1, || async { panic!("on purpose") });
        assert_eq!(crashed.outcome().await, None);
        assert_eq!(flights.join(1, || async { 7 }).outcome().await, Some(7));
    }

    #[tokio::test]
    async fn a_start_finds_the_table_free() {
        let flights: SingleFlight<u8, u8> = SingleFlight::new(Background::here());
        let landing = flights.join(1, || {
            let free = flights.running.try_lock().is_some();
            async move { u8::from(free) }
        });
        assert_eq!(landing.outcome().await, Some(1));
    }

    #[tokio::test]
    async fn a_flight_goes_on_when_nobody_waits() {
        let background = Background::here();
        let flights: SingleFlight<u8, u8> = SingleFlight::new(background.clone());
        let done = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&done);
        drop(flights.join(1, || async move {
            tokio::task::yield_now().await;
            seen.store(1, Ordering::SeqCst);
            0
        }));
        assert!(background.drain(std::time::Duration::from_secs(5)).await);
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}
