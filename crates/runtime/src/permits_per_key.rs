//! A concurrency limit for bots: each key has its own semaphore with a quarter of the permits. So three keys that never finish
//! their work leave the fourth its share.

use std::collections::HashMap;
use std::sync::Arc;

use domain::TokenHash;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One key gets one in this many permits.
const SHARES: usize = 4;

#[derive(Debug)]
pub struct PermitsPerKey {
    size: usize,
    all: Arc<Semaphore>,
    /// Of the keys that have permits.
    keys: Mutex<HashMap<TokenHash, Arc<Semaphore>>>,
}

/// Permission for one piece of a key's work; returned when it is dropped.
#[derive(Debug)]
pub struct KeyPermit {
    _of_key: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl PermitsPerKey {
    /// For this many pieces of work in total.
    pub fn new(size: usize) -> Self {
        Self { size, all: Arc::new(Semaphore::new(size)), keys: Mutex::default() }
    }

    /// A permit for a piece of this key's work, unless the key has used up its share, or all permits are acquired.
    pub fn try_acquire(&self, key: TokenHash) -> Option<KeyPermit> {
        let mut keys = self.keys.lock();
        // A permit holds its semaphore too.
        keys.retain(|_, of_key| Arc::strong_count(of_key) > 1);
        let of_key = Arc::clone(keys.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.size / SHARES))));
        let of_key = of_key.try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(KeyPermit { _of_key: of_key, _of_all: of_all })
    }

    pub fn in_use(&self) -> usize {
        self.size - self.all.available_permits()
    }

    pub fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gets_a_quarter_and_all_together_no_more_than_there_are() {
        let permits = PermitsPerKey::new(8);
        let enter = |number| permits.try_acquire(TokenHash([number; 32]));
        let mut acquired = vec![enter(1).unwrap(), enter(1).unwrap()];
        assert!(enter(1).is_none(), "that is its share");
        acquired.extend([2, 2, 3, 3, 4].map(|number| enter(number).unwrap()));
        let last = enter(5).unwrap();
        assert!(enter(4).is_none() && enter(6).is_none(), "it is full");
        assert_eq!(permits.in_use(), 8);
        drop(last);
        assert!(enter(4).is_some());
        drop(acquired);
        assert_eq!(permits.in_use(), 0);
        assert!(enter(6).is_some());
        assert_eq!(permits.keys.lock().len(), 1, "keys without a permit are forgotten");
    }
}
