//! One rate limit: a fixed-size table with a bucket per key, which stands for a client, a user or a bot key.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::saturating::{self, nanos};
use parking_lot::Mutex;

const SETS: usize = 8192;
const WAYS: usize = 8;

#[derive(Clone, Copy)]
pub struct Rate {
    /// Per span, on average; 0 means no limit.
    pub count: u32,
    pub span: Duration,
    /// In a burst.
    pub burst: u32,
}

/// One limit for many keys, using the generic cell rate algorithm: for each, only the time when its debt is paid.
pub struct RateLimit {
    /// How many nanoseconds one costs; 0 means no limit.
    interval: AtomicU64,
    /// How many nanoseconds may be owed.
    tolerance: AtomicU64,
    hasher: RandomState,
    /// Created when first needed, because a limit that is off needs none.
    sets: OnceLock<Box<[BucketSet]>>,
}

type BucketSet = Mutex<[Bucket; WAYS]>;

#[derive(Clone, Copy, Default)]
struct Bucket {
    key: u64,
    /// Nanoseconds of the clock's ticks.
    paid_at: u64,
}

impl RateLimit {
    pub fn new(rate: Rate) -> Self {
        let limit = Self {
            interval: AtomicU64::new(0),
            tolerance: AtomicU64::new(0),
            hasher: RandomState::new(),
            sets: OnceLock::new(),
        };
        limit.set_rate(rate, Duration::ZERO);
        limit
    }

    /// Changes the rate. What a key has used up of the old rate counts as used up of the new one, but at most all of it.
    pub fn set_rate(&self, rate: Rate, now: Duration) {
        let interval = if rate.count == 0 { 0 } else { (nanos(rate.span) / u64::from(rate.count)).max(1) };
        let tolerance = interval * u64::from(rate.burst.max(1));
        let before = self.interval.swap(interval, Ordering::Relaxed);
        self.tolerance.store(tolerance, Ordering::Relaxed);
        if before == 0 || interval == 0 {
            return;
        }
        let now = nanos(now);
        for set in self.sets.get().into_iter().flatten() {
            for bucket in set.lock().iter_mut() {
                let owed = u128::from(bucket.paid_at.saturating_sub(now)) * u128::from(interval) / u128::from(before);
                let owed = saturating::to_u64(owed).min(tolerance);
                if owed > 0 {
                    bucket.paid_at = now.saturating_add(owed);
                }
            }
        }
    }

    pub fn is_off(&self) -> bool {
        self.interval() == 0
    }

    fn interval(&self) -> u64 {
        self.interval.load(Ordering::Relaxed)
    }

    /// How many nanoseconds one costs a key with this multiple of the rate. It may owe as much as any other, so it also
    /// gets this multiple of the burst.
    fn cost(&self, allowance: u32) -> u64 {
        let interval = self.interval();
        if interval == 0 { 0 } else { (interval / u64::from(allowance.max(1))).max(1) }
    }

    fn tolerance(&self) -> u64 {
        self.tolerance.load(Ordering::Relaxed)
    }

    /// The name of whoever this is in this table.
    pub fn key(&self, of: &impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// Counts one if it is allowed, for a key that may have `allowance` times the rate and the burst.
    pub fn take(&self, key: u64, allowance: u32, now: Duration) -> Result<(), Duration> {
        self.count(key, allowance, now, false)
    }

    /// Counts one that has already happened, allowed or not: any excess has to be paid off first.
    pub fn owe(&self, key: u64, allowance: u32, now: Duration) {
        let _ = self.count(key, allowance, now, true);
    }

    /// Allows nothing for this span.
    pub fn exhaust(&self, key: u64, now: Duration, span: Duration) {
        let mut buckets = self.set(key).lock();
        let until = nanos(now).saturating_add(nanos(span)).saturating_add(self.tolerance());
        find_or_evict(&mut buckets, key).paid_at = until.saturating_sub(self.interval());
    }

    pub fn reset(&self) {
        self.sets.get().into_iter().flatten().for_each(|set| *set.lock() = Default::default());
    }

    fn count(&self, key: u64, allowance: u32, now: Duration, happened: bool) -> Result<(), Duration> {
        let now = nanos(now);
        if self.is_off() {
            return Ok(());
        }
        let mut buckets = self.set(key).lock();
        let bucket = find_or_evict(&mut buckets, key);
        let paid_at = bucket.paid_at.max(now).saturating_add(self.cost(allowance));
        let allowed = self.judge(paid_at, now);
        if happened || allowed.is_ok() {
            bucket.paid_at = paid_at;
        }
        allowed
    }

    /// Whether one more would be allowed; if not, when.
    pub fn look(&self, key: u64, allowance: u32, now: Duration) -> Result<(), Duration> {
        let now = nanos(now);
        if self.is_off() {
            return Ok(());
        }
        let buckets = self.set(key).lock();
        let paid_at = buckets.iter().find(|bucket| bucket.key == key).map_or(0, |bucket| bucket.paid_at);
        self.judge(paid_at.max(now).saturating_add(self.cost(allowance)), now)
    }

    fn judge(&self, paid_at: u64, now: u64) -> Result<(), Duration> {
        match (paid_at - now).checked_sub(self.tolerance()) {
            None | Some(0) => Ok(()),
            Some(excess) => Err(Duration::from_nanos(excess)),
        }
    }

    fn set(&self, key: u64) -> &BucketSet {
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        &sets[saturating::to_usize(key >> 32) % SETS]
    }
}

/// The bucket of a key. A new key gets the bucket of the one that has asked least.
fn find_or_evict(buckets: &mut [Bucket; WAYS], key: u64) -> &mut Bucket {
    let index = buckets.iter().position(|bucket| bucket.key == key).unwrap_or_else(|| {
        let less = |a: usize, b: usize| if buckets[b].paid_at < buckets[a].paid_at { b } else { a };
        let least = (1..WAYS).fold(0, less);
        buckets[least] = Bucket { key, paid_at: 0 };
        least
    });
    &mut buckets[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_second(count: u32, burst: u32) -> Rate {
        Rate { count, span: Duration::from_secs(1), burst }
    }

    fn limit(count: u32, burst: u32) -> RateLimit {
        RateLimit::new(per_second(count, burst))
    }

    #[test]
    fn a_burst_then_the_rate_then_a_hint_when_to_come_back() {
        let limit = limit(10, 3);
        let at = Duration::from_millis;
        for _ in 0..3 {
            assert_eq!(limit.take(1, 1, at(0)), Ok(()));
        }
        assert_eq!(limit.take(1, 1, at(0)), Err(at(100)));
        assert_eq!(limit.look(1, 1, at(50)), Err(at(50)));
        assert_eq!(limit.take(2, 1, at(50)), Ok(()), "another key has its own");
        assert_eq!(limit.take(1, 1, at(100)), Ok(()));
        assert_eq!(limit.take(1, 1, at(100)), Err(at(100)));
        assert_eq!(limit.look(1, 1, at(100_000)), Ok(()));
    }

    #[test]
    fn an_exhausted_key_waits_its_span_or_until_all_is_forgotten() {
        let limit = limit(10, 3);
        let at = Duration::from_secs;
        limit.exhaust(1, at(100), at(30));
        assert_eq!(limit.take(1, 1, at(100)), Err(at(30)));
        assert_eq!((limit.take(1, 1, at(129)), limit.take(1, 1, at(130))), (Err(at(1)), Ok(())));
        limit.exhaust(1, at(130), at(30));
        limit.reset();
        assert_eq!(limit.take(1, 1, at(130)), Ok(()));
    }

    #[test]
    fn what_was_used_up_of_a_rate_is_used_up_of_the_next() {
        let limit = limit(10, 10);
        let at = Duration::from_secs;
        for _ in 0..4 {
            limit.take(1, 1, at(100)).unwrap();
        }
        limit.set_rate(per_second(1, 6), at(100));
        assert_eq!((limit.take(1, 1, at(100)), limit.take(1, 1, at(100))), (Ok(()), Ok(())), "four of six were used");
        assert_eq!(limit.take(1, 1, at(100)), Err(at(1)));
        limit.set_rate(per_second(1, 2), at(100));
        assert_eq!(limit.take(1, 1, at(100)), Err(at(1)), "nobody owes more than all");
        limit.set_rate(per_second(0, 1), at(100));
        assert_eq!(limit.take(1, 1, at(100)), Ok(()), "off");
        limit.set_rate(per_second(1, 2), at(100));
        assert_eq!(limit.take(1, 1, at(100)), Err(at(1)), "on again");
    }

    #[test]
    fn asking_whether_costs_nothing() {
        let limit = limit(1, 1);
        for _ in 0..100 {
            assert_eq!(limit.look(1, 1, Duration::ZERO), Ok(()));
        }
        assert_eq!(limit.take(1, 1, Duration::ZERO), Ok(()));
        assert!(limit.look(1, 1, Duration::ZERO).is_err());
    }

    #[test]
    fn what_was_let_in_side_by_side_is_paid_off_afterwards() {
        let limit = limit(1, 2);
        let at = Duration::from_secs;
        // Ten checked before the first had happened.
        for _ in 0..10 {
            limit.owe(1, 1, at(0));
        }
        assert_eq!(limit.look(1, 1, at(1)), Err(at(8)));
        assert_eq!(limit.look(1, 1, at(9)), Ok(()));
    }

    #[test]
    fn an_allowance_multiplies_the_rate_and_the_burst() {
        let limit = limit(1, 2);
        let allowed = |key: u64, allowance: u32, millis: u64| {
            (0..100).filter(|_| limit.take(key, allowance, Duration::from_millis(millis)).is_ok()).count()
        };
        for (key, allowance, burst) in [(1, 1, 2), (2, 4, 8)] {
            assert_eq!(limit.look(key, allowance, Duration::ZERO), Ok(()));
            assert_eq!(allowed(key, allowance, 0), burst);
            let wait = Duration::from_millis(1_000 / u64::from(allowance));
            assert_eq!(limit.look(key, allowance, Duration::ZERO), Err(wait));
            assert_eq!(limit.take(key, allowance, Duration::ZERO), Err(wait), "a refusal costs nothing");
        }
        assert_eq!((allowed(1, 1, 1_000), allowed(2, 4, 1_000)), (1, 4));
    }

    #[test]
    fn a_flood_of_addresses_does_not_free_the_one_that_asks_most() {
        let limit = limit(1, 10);
        for _ in 0..10 {
            limit.take(7, 1, Duration::ZERO).unwrap();
        }
        for other in 0..1000_u64 {
            let _ = limit.take(other << 32 | 7 << 50, 1, Duration::ZERO);
            let _ = limit.take(other, 1, Duration::ZERO);
        }
        assert!(limit.take(7, 1, Duration::ZERO).is_err());
    }
}
