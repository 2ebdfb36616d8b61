//! A pool whose places are shared fairly between keys. While there is room, a key takes as many as it likes. When the pool is
//! full, a key with fewer places takes one from the key with the most, until both have the same number. So a key alone may use
//! the whole pool, and no key holds more than half of it while another one waits, however slow its work is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::TokenHash;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// When no key has more than one place, how long a place is safe from keys without one: with more keys than places, they take turns.
/// It is longer than an honest upload takes.
const TURN: Duration = Duration::from_mins(10);

#[derive(Debug)]
pub struct FairPool {
    size: usize,
    places: Arc<Mutex<Places>>,
}

#[derive(Debug, Default)]
struct Places {
    next_id: u64,
    /// The taken ones, oldest first; at most `size`.
    taken: Vec<TakenPlace>,
}

#[derive(Debug)]
struct TakenPlace {
    id: u64,
    key: TokenHash,
    since: Duration,
    revoked: CancellationToken,
}

/// A place in the pool; returned when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Mutex<Places>>,
    id: u64,
}

impl FairPool {
    pub fn new(size: usize) -> Self {
        Self { size, places: Arc::default() }
    }

    /// Takes a place for a piece of this key's work; `None` if the key must wait. `revoked` is cancelled when another key takes
    /// over the place, and the work must end soon then. `now` is in ticks of the clock.
    pub fn enter(&self, key: TokenHash, now: Duration, revoked: &CancellationToken) -> Option<Place> {
        let mut places = self.places.lock();
        if places.taken.len() >= self.size {
            let index = yielding(&places.taken, key, now)?;
            places.taken.remove(index).revoked.cancel();
        }
        let id = places.next_id;
        places.next_id += 1;
        places.taken.push(TakenPlace { id, key, since: now, revoked: revoked.clone() });
        Some(Place { places: Arc::clone(&self.places), id })
    }

    pub fn in_use(&self) -> usize {
        self.places.lock().taken.len()
    }

    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.retain(|place| place.id != self.id);
    }
}

/// Which place of a full pool goes to this key. The newest place of the key with the most has the least work to lose.
fn yielding(taken: &[TakenPlace], key: TokenHash, now: Duration) -> Option<usize> {
    let mut counts: HashMap<TokenHash, usize> = HashMap::new();
    for place in taken {
        *counts.entry(place.key).or_default() += 1;
    }
    let count = |key: &TokenHash| counts.get(key).copied().unwrap_or(0);
    let own = count(&key);
    // The last of several is the newest.
    let (youngest, most) = taken.iter().map(|place| count(&place.key)).enumerate().max_by_key(|(_, count)| *count)?;
    if most >= own + 2 {
        return Some(youngest);
    }
    let oldest = taken.first().filter(|oldest| own == 0 && now.saturating_sub(oldest.since) >= TURN);
    oldest.map(|_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(number: u8) -> TokenHash {
        TokenHash([number; 32])
    }

    /// A pool with its places, by number.
    struct Trial {
        pool: FairPool,
        now: Duration,
        entered: Vec<(Place, CancellationToken)>,
    }

    impl Trial {
        fn new(size: usize) -> Self {
            Self { pool: FairPool::new(size), now: Duration::ZERO, entered: Vec::new() }
        }

        fn enter(&mut self, number: u8) -> bool {
            let revoked = CancellationToken::new();
            let place = self.pool.enter(key(number), self.now, &revoked);
            let entered = place.is_some();
            self.entered.extend(place.map(|place| (place, revoked)));
            entered
        }

        /// Which of those that entered, in that order, have lost their place.
        fn revoked(&self) -> Vec<usize> {
            let revoked = self.entered.iter().enumerate().filter(|(_, (_, revoked))| revoked.is_cancelled());
            revoked.map(|(index, _)| index).collect()
        }
    }

    #[test]
    fn a_key_alone_uses_the_whole_pool_and_yields_half_to_another() {
        let mut trial = Trial::new(4);
        for _ in 0..4 {
            assert!(trial.enter(1));
        }
        assert!(!trial.enter(1), "it is full");
        assert!(trial.enter(2) && trial.enter(2));
        assert_eq!(trial.revoked(), [2, 3], "the youngest go first");
        assert!(!trial.enter(2) && !trial.enter(1), "each has its half");
        assert_eq!(trial.pool.in_use(), 4);
    }

    #[test]
    fn a_key_that_has_nothing_goes_before_any_that_has_two() {
        let mut trial = Trial::new(4);
        assert!(trial.enter(1) && trial.enter(1) && trial.enter(2) && trial.enter(2));
        assert!(trial.enter(3) && trial.enter(4));
        assert_eq!(trial.revoked(), [1, 3]);
        assert!(!trial.enter(5), "each has one");
    }

    #[test]
    fn with_more_keys_than_places_they_take_turns() {
        let mut trial = Trial::new(2);
        assert!(trial.enter(1));
        trial.now += Duration::from_secs(1);
        assert!(trial.enter(2));
        trial.now = TURN.saturating_sub(Duration::from_millis(1));
        assert!(!trial.enter(3));
        trial.now = TURN;
        assert!(!trial.enter(1) && !trial.enter(2), "who has a place takes none from others");
        assert!(trial.enter(3));
        assert_eq!(trial.revoked(), [0], "the one that was held longest");
        assert!(!trial.enter(4), "the other has a second left");
    }

    #[test]
    fn a_place_is_given_back_once() {
        let mut trial = Trial::new(2);
        assert!(trial.enter(1) && trial.enter(1) && trial.enter(2));
        assert_eq!(trial.revoked(), [1]);
        drop(trial.entered.remove(1));
        assert_eq!(trial.pool.in_use(), 2, "it was another key's already");
        trial.entered.clear();
        assert_eq!(trial.pool.in_use(), 0);
    }
}
