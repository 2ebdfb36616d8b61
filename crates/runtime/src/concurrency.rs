//! A concurrency limit: how many tasks may run at the same time, in total and per subject (a client's address and networks).
//! Its table has an entry per subject with a running task, so the total limits its size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::subjects::{Subjects, Tally};

#[derive(Debug)]
pub struct ConcurrencyLimit {
    most: AtomicUsize,
    most_per_subject: AtomicUsize,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    all: usize,
    by_subject: Tally,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The limit on all work.
    InAll,
    /// The subject's own limit.
    PerSubject,
}

/// Permission for one piece of work; returned when it is dropped.
#[derive(Debug)]
pub struct Permit {
    running: Arc<Mutex<Running>>,
    subjects: Subjects,
}

impl ConcurrencyLimit {
    /// `most` in total, `most_per_subject` for each client address; 0 means no limit for addresses.
    pub fn new(most: usize, most_per_subject: usize) -> Self {
        Self { most: most.into(), most_per_subject: most_per_subject.into(), running: Arc::default() }
    }

    /// Changes the limits; running work continues.
    pub fn set(&self, most: usize, most_per_subject: usize) {
        self.most.store(most, Ordering::Relaxed);
        self.most_per_subject.store(most_per_subject, Ordering::Relaxed);
    }

    /// Which limit would refuse work for these subjects now.
    pub fn check(&self, subjects: &Subjects) -> Result<(), LimitReached> {
        self.check_in(&self.running.lock(), subjects)
    }

    fn check_in(&self, running: &Running, subjects: &Subjects) -> Result<(), LimitReached> {
        if !running.by_subject.has_room(subjects, self.most_per_subject.load(Ordering::Relaxed)) {
            return Err(LimitReached::PerSubject);
        }
        if running.all >= self.most.load(Ordering::Relaxed) {
            return Err(LimitReached::InAll);
        }
        Ok(())
    }

    /// Starts a piece of work for these subjects; without a subject, it only counts towards the total.
    pub fn enter(&self, subjects: Subjects) -> Result<Permit, LimitReached> {
        let mut running = self.running.lock();
        self.check_in(&running, &subjects)?;
        running.all += 1;
        running.by_subject.add(&subjects);
        Ok(Permit { running: Arc::clone(&self.running), subjects })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        running.all -= 1;
        running.by_subject.remove(&self.subjects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> Subjects {
        Subjects::of([192, 0, 2, number].into())
    }

    #[test]
    fn each_subject_has_its_share_and_all_have_a_limit() {
        let work = ConcurrencyLimit::new(3, 2);
        let first = work.enter(client(1)).unwrap();
        let second = work.enter(client(1)).unwrap();
        assert_eq!(work.enter(client(1)).unwrap_err(), LimitReached::PerSubject);
        let other = work.enter(client(2)).unwrap();
        assert_eq!(work.enter(client(2)).unwrap_err(), LimitReached::InAll);
        assert_eq!(work.enter(Subjects::default()).unwrap_err(), LimitReached::InAll);
        assert_eq!(work.check(&client(1)), Err(LimitReached::PerSubject));
        assert_eq!(work.check(&client(2)), Err(LimitReached::InAll));
        drop(first);
        assert_eq!(work.check(&client(2)), Ok(()));
        let third = work.enter(Subjects::default()).unwrap();
        assert_eq!(work.enter(client(2)).unwrap_err(), LimitReached::InAll);
        drop((second, other, third));
        let running = work.running.lock();
        assert!(running.all == 0 && running.by_subject.is_empty(), "nothing stays behind");
    }

    #[test]
    fn the_numbers_change_and_what_runs_goes_on() {
        let work = ConcurrencyLimit::new(2, 2);
        let running = (work.enter(client(1)).unwrap(), work.enter(client(1)).unwrap());
        work.set(3, 1);
        assert_eq!(work.enter(client(1)).unwrap_err(), LimitReached::PerSubject);
        let other = work.enter(client(2)).unwrap();
        work.set(1, 0);
        assert_eq!(work.enter(client(2)).unwrap_err(), LimitReached::InAll);
        drop((running, other));
        assert!(work.enter(client(1)).is_ok());
    }

    #[test]
    fn zero_per_subject_is_no_limit() {
        let work = ConcurrencyLimit::new(5, 0);
        let permits: Vec<_> = (0..5).map(|_| work.enter(client(1)).unwrap()).collect();
        assert_eq!(work.enter(client(1)).unwrap_err(), LimitReached::InAll);
        drop(permits);
    }
}
