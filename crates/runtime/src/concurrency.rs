//! A concurrency limit: how many tasks may run at the same time, in total and per client. Its table has an entry per
//! client with a running task, so the total limits its size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client_key::{ClientKey, CountPerClient};

#[derive(Debug)]
pub struct ConcurrencyLimit {
    most: AtomicUsize,
    most_per_client: AtomicUsize,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    all: usize,
    by_client: CountPerClient,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The limit on all work.
    InAll,
    /// The client's own limit.
    PerClient,
}

/// Permission for one piece of work; returned when it is dropped.
#[derive(Debug)]
pub struct Permit {
    running: Arc<Mutex<Running>>,
    client: Option<ClientKey>,
}

impl ConcurrencyLimit {
    /// `most` in total, `most_per_client` for each client address; 0 means no limit per client.
    pub fn new(most: usize, most_per_client: usize) -> Self {
        Self { most: most.into(), most_per_client: most_per_client.into(), running: Arc::default() }
    }

    /// Changes the limits; running work continues.
    pub fn set(&self, most: usize, most_per_client: usize) {
        self.most.store(most, Ordering::Relaxed);
        self.most_per_client.store(most_per_client, Ordering::Relaxed);
    }

    /// Which limit would refuse work for this client now.
    pub fn check(&self, client: Option<ClientKey>) -> Result<(), LimitReached> {
        self.check_in(&self.running.lock(), client)
    }

    fn check_in(&self, running: &Running, client: Option<ClientKey>) -> Result<(), LimitReached> {
        if !running.by_client.has_room(client, self.most_per_client.load(Ordering::Relaxed)) {
            return Err(LimitReached::PerClient);
        }
        if running.all >= self.most.load(Ordering::Relaxed) {
            return Err(LimitReached::InAll);
        }
        Ok(())
    }

    /// Starts a piece of work for this client; without one, it only counts towards the total.
    pub fn enter(&self, client: Option<ClientKey>) -> Result<Permit, LimitReached> {
        let mut running = self.running.lock();
        self.check_in(&running, client)?;
        running.all += 1;
        running.by_client.add(client);
        Ok(Permit { running: Arc::clone(&self.running), client })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        running.all -= 1;
        running.by_client.remove(self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as the limit takes it")]
    fn client(number: u8) -> Option<ClientKey> {
        Some(ClientKey::of([192, 0, 2, number].into()))
    }

    #[test]
    fn each_client_has_its_share_and_all_have_a_limit() {
        let work = ConcurrencyLimit::new(3, 2);
        let first = work.enter(client(1)).unwrap();
        let second = work.enter(client(1)).unwrap();
        assert_eq!(work.enter(client(1)).unwrap_err(), LimitReached::PerClient);
        let other = work.enter(client(2)).unwrap();
        assert_eq!(work.enter(client(2)).unwrap_err(), LimitReached::InAll);
        assert_eq!(work.enter(None).unwrap_err(), LimitReached::InAll);
        assert_eq!(work.check(client(1)), Err(LimitReached::PerClient));
        assert_eq!(work.check(client(2)), Err(LimitReached::InAll));
        drop(first);
        assert_eq!(work.check(client(2)), Ok(()));
        let third = work.enter(None).unwrap();
        assert_eq!(work.enter(client(2)).unwrap_err(), LimitReached::InAll);
        drop((second, other, third));
        let running = work.running.lock();
        assert!(running.all == 0 && running.by_client.is_empty(), "nothing stays behind");
    }

    #[test]
    fn the_numbers_change_and_what_runs_goes_on() {
        let work = ConcurrencyLimit::new(2, 2);
        let running = (work.enter(client(1)).unwrap(), work.enter(client(1)).unwrap());
        work.set(3, 1);
        assert_eq!(work.enter(client(1)).unwrap_err(), LimitReached::PerClient);
        let other = work.enter(client(2)).unwrap();
        work.set(1, 0);
        assert_eq!(work.enter(client(2)).unwrap_err(), LimitReached::InAll);
        drop((running, other));
        assert!(work.enter(client(1)).is_ok());
    }

    #[test]
    fn zero_per_client_is_no_limit() {
        let work = ConcurrencyLimit::new(5, 0);
        let permits: Vec<_> = (0..5).map(|_| work.enter(client(1)).unwrap()).collect();
        assert_eq!(work.enter(client(1)).unwrap_err(), LimitReached::InAll);
        drop(permits);
    }
}
