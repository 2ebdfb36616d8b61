//! A concurrency limit: how many tasks may run at the same time, in all and per subject (a client address). Its table has an entry
//! per subject with a running task, so the limit on all tasks bounds it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The limit.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    most: AtomicUsize,
    most_per_subject: AtomicUsize,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    all: usize,
    by_subject: HashMap<u64, usize>,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// That on all work.
    InAll,
    /// The subject's own.
    PerSubject,
}

/// The right to do one piece of work; given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    running: Arc<Mutex<Running>>,
    subject: Option<u64>,
}

impl ConcurrencyLimit {
    /// `most` in all, `most_per_subject` for each subject; 0 for a subject is no limit.
    pub fn new(most: usize, most_per_subject: usize) -> Self {
        Self { most: most.into(), most_per_subject: most_per_subject.into(), running: Arc::default() }
    }

    /// Changes the numbers; what runs goes on.
    pub fn set(&self, most: usize, most_per_subject: usize) {
        self.most.store(most, Ordering::Relaxed);
        self.most_per_subject.store(most_per_subject, Ordering::Relaxed);
    }

    /// Starts a piece of work of this subject's; one without a subject counts only towards all.
    pub fn enter(&self, subject: Option<u64>) -> Result<Permit, LimitReached> {
        let mut running = self.running.lock();
        if let Some(subject) = subject {
            let own = running.by_subject.get(&subject).copied().unwrap_or(0);
            let most = self.most_per_subject.load(Ordering::Relaxed);
            if most > 0 && own >= most {
                return Err(LimitReached::PerSubject);
            }
        }
        if running.all >= self.most.load(Ordering::Relaxed) {
            return Err(LimitReached::InAll);
        }
        running.all += 1;
        if let Some(subject) = subject {
            *running.by_subject.entry(subject).or_default() += 1;
        }
        Ok(Permit { running: Arc::clone(&self.running), subject })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        running.all -= 1;
        let Some(subject) = self.subject else { return };
        let left = running.by_subject.get_mut(&subject).map(|own| {
            *own -= 1;
            *own
        });
        if left == Some(0) {
            running.by_subject.remove(&subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_its_share_and_all_have_a_limit() {
        let work = ConcurrencyLimit::new(3, 2);
        let first = work.enter(Some(1)).unwrap();
        let second = work.enter(Some(1)).unwrap();
        assert_eq!(work.enter(Some(1)).unwrap_err(), LimitReached::PerSubject);
        let other = work.enter(Some(2)).unwrap();
        assert_eq!(work.enter(Some(2)).unwrap_err(), LimitReached::InAll);
        assert_eq!(work.enter(None).unwrap_err(), LimitReached::InAll);
        drop(first);
        let third = work.enter(None).unwrap();
        assert_eq!(work.enter(Some(2)).unwrap_err(), LimitReached::InAll);
        drop((second, other, third));
        let running = work.running.lock();
        assert!(running.all == 0 && running.by_subject.is_empty(), "nothing stays behind");
    }

    #[test]
    fn the_numbers_change_and_what_runs_goes_on() {
        let work = ConcurrencyLimit::new(2, 2);
        let running = (work.enter(Some(1)).unwrap(), work.enter(Some(1)).unwrap());
        work.set(3, 1);
        assert_eq!(work.enter(Some(1)).unwrap_err(), LimitReached::PerSubject);
        let other = work.enter(Some(2)).unwrap();
        work.set(1, 0);
        assert_eq!(work.enter(Some(2)).unwrap_err(), LimitReached::InAll);
        drop((running, other));
        assert!(work.enter(Some(1)).is_ok());
    }

    #[test]
    fn zero_per_subject_is_no_limit() {
        let work = ConcurrencyLimit::new(5, 0);
        let permits: Vec<_> = (0..5).map(|_| work.enter(Some(1)).unwrap()).collect();
        assert_eq!(work.enter(Some(1)).unwrap_err(), LimitReached::InAll);
        drop(permits);
    }
}
