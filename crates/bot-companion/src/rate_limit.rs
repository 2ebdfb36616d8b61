//! Rate limits per client address, per user and per bot key, by the generic cell rate algorithm. Each limit is a table of a fixed
//! size, like a set-associative cache: a keyed hash gives a subject its set of eight buckets, and in a full set the subject that has
//! asked least is evicted. So no number of addresses makes it grow.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::config::{FeedConfig, LimitsConfig, Network};
use crate::domain::{Snowflake, TokenHash};

const SETS: usize = 8192;
const WAYS: usize = 8;

/// The limits of client addresses and keys.
pub struct RateLimits {
    requests: Option<RateLimit>,
    refused_sign_ins: Option<RateLimit>,
    exchanges_per_user: Option<RateLimit>,
    feed: Option<RateLimit>,
    refused_keys: Option<RateLimit>,
    exempt: Vec<Network>,
    clock: Clock,
}

/// A sign-in that counts as refused for now.
#[derive(Debug)]
#[must_use = "what is not refused is given back"]
pub struct Reservation(Option<u64>);

impl RateLimits {
    /// As configured; a rate of 0 is no limit.
    pub fn new(limits: &LimitsConfig, feed: &FeedConfig, clock: Clock) -> Self {
        let minute = Duration::from_mins(1);
        Self {
            requests: RateLimit::new(limits.requests_per_second, Duration::from_secs(1), limits.requests_burst),
            refused_sign_ins: RateLimit::new(
                limits.refused_sign_ins_per_minute,
                minute,
                limits.refused_sign_ins_per_minute,
            ),
            exchanges_per_user: RateLimit::new(
                limits.sign_ins_per_user,
                Duration::from_mins(10),
                limits.sign_ins_per_user,
            ),
            feed: RateLimit::new(
                feed.requests_per_second,
                Duration::from_secs(1),
                feed.requests_per_second.saturating_mul(2),
            ),
            refused_keys: RateLimit::new(feed.refused_keys_per_minute, minute, feed.refused_keys_per_minute),
            exempt: limits.exempt.clone(),
            clock,
        }
    }

    /// Counts a request; if it is one too many, when the next one may come.
    pub fn request(&self, client: IpAddr) -> Result<(), Duration> {
        self.limit(self.requests.as_ref(), client, RateLimit::take)
    }

    /// Counts a request with a bot's key; if it is one too many, when the next one may come.
    pub fn feed(&self, key: &TokenHash) -> Result<(), Duration> {
        let Some(limit) = &self.feed else { return Ok(()) };
        limit.take(limit.subject(key), self.clock.ticks())
    }

    /// Counts a bot's key that is not known to be good; if it is one too many, when the next one may come.
    pub fn unknown_key(&self, client: IpAddr) -> Result<(), Duration> {
        self.limit(self.refused_keys.as_ref(), client, RateLimit::take)
    }

    /// Counts a sign-in as refused before it is tried; if it is one too many, when the next one may come. What is not refused
    /// after all is given back with [`RateLimits::refund_sign_in`].
    pub fn reserve_sign_in(&self, client: IpAddr) -> Result<Reservation, Duration> {
        let Some((limit, subject)) = self.refused_sign_ins.as_ref().zip(self.counted_as(client)) else {
            return Ok(Reservation(None));
        };
        limit.reserve(limit.subject(&subject), self.clock.ticks()).map(|paid_at| Reservation(Some(paid_at)))
    }

    /// Gives back a reservation: the sign-in was not refused.
    #[expect(clippy::needless_pass_by_value, reason = "what is given back cannot be given back again")]
    pub fn refund_sign_in(&self, client: IpAddr, reservation: Reservation) {
        let Reservation(paid_at) = reservation;
        let subject = self.refused_sign_ins.as_ref().zip(self.counted_as(client));
        if let (Some((limit, subject)), Some(paid_at)) = (subject, paid_at) {
            limit.refund(limit.subject(&subject), paid_at, self.clock.ticks());
        }
    }

    /// Counts a code that was exchanged for this user; if it is one too many, when the next one may come.
    pub fn exchange_of(&self, user: Snowflake) -> Result<(), Duration> {
        let Some(limit) = &self.exchanges_per_user else { return Ok(()) };
        limit.take(limit.subject(&user), self.clock.ticks())
    }

    /// Refuses an address's requests for this span, as if it had sent far too many; `false` if it has no limit.
    pub fn exhaust(&self, client: IpAddr, span: Duration) -> bool {
        let limited = self.requests.as_ref().zip(self.counted_as(client));
        limited.is_some_and(|(limit, subject)| {
            limit.exhaust(limit.subject(&subject), self.clock.ticks(), span);
            true
        })
    }

    /// Forgets what everybody has sent.
    pub fn reset(&self) {
        let all = [&self.requests, &self.refused_sign_ins, &self.exchanges_per_user, &self.feed, &self.refused_keys];
        all.into_iter().flatten().for_each(RateLimit::reset);
    }

    /// Whom an address counts as, unless it is free of limits: an IPv4 address, or an IPv6 network.
    pub fn counted_as(&self, client: IpAddr) -> Option<u64> {
        (!self.exempt.iter().any(|network| network.contains(client))).then(|| subject(client))
    }

    fn limit(
        &self,
        limit: Option<&RateLimit>,
        client: IpAddr,
        count: impl FnOnce(&RateLimit, u64, Duration) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        match limit.zip(self.counted_as(client)) {
            Some((limit, subject)) => count(limit, limit.subject(&subject), self.clock.ticks()),
            None => Ok(()),
        }
    }
}

/// Whom an address stands for: an IPv6 client has a whole /64 to choose from.
pub(crate) fn subject(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or(0) | 1 << 63,
    }
}

/// One limit for many subjects, by the generic cell rate algorithm: for each, only the time at which its debt is paid.
pub(crate) struct RateLimit {
    interval: u64,
    tolerance: u64,
    hasher: RandomState,
    sets: Box<[Mutex<[Bucket; WAYS]>]>,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    subject: u64,
    /// Nanoseconds of the clock's ticks.
    paid_at: u64,
}

impl std::fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimit").field("interval", &self.interval).finish_non_exhaustive()
    }
}

impl RateLimit {
    /// `count` per span over time, `burst` at once; a count of 0 is no limit.
    fn new(count: u32, span: Duration, burst: u32) -> Option<Self> {
        (count > 0).then(|| Self::per_span(count, span).with_burst(burst))
    }

    /// `count` per span over time, and as many at once.
    pub(crate) fn per_span(count: u32, span: Duration) -> Self {
        let interval = nanos(span) / u64::from(count.max(1));
        let sets = (0..SETS).map(|_| Mutex::default()).collect();
        Self { interval, tolerance: 0, hasher: RandomState::new(), sets }.with_burst(count)
    }

    fn with_burst(self, burst: u32) -> Self {
        Self { tolerance: self.interval * u64::from(burst.max(1)), ..self }
    }

    /// The name of a subject in this table.
    pub(crate) fn subject(&self, of: &impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// Counts one if it is allowed.
    fn take(&self, subject: u64, now: Duration) -> Result<(), Duration> {
        self.count(subject, now, false).map(drop)
    }

    /// Counts one that has happened already, allowed or not: what was too much has to be paid off first.
    pub(crate) fn owe(&self, subject: u64, now: Duration) -> Result<(), Duration> {
        self.count(subject, now, true).map(drop)
    }

    /// Counts one if it is allowed, and gives when it will be paid for, which [`RateLimit::refund`] asks for.
    fn reserve(&self, subject: u64, now: Duration) -> Result<u64, Duration> {
        self.count(subject, now, false)
    }

    /// Takes back one that was counted, as far as time has not paid for it yet.
    fn refund(&self, subject: u64, paid_at: u64, now: Duration) {
        let unpaid = paid_at.saturating_sub(nanos(now)).min(self.interval);
        let mut buckets = self.set(subject).lock();
        if let Some(bucket) = buckets.iter_mut().find(|bucket| bucket.subject == subject) {
            bucket.paid_at = bucket.paid_at.saturating_sub(unpaid);
        }
    }

    /// Allows nothing for this span.
    fn exhaust(&self, subject: u64, now: Duration, span: Duration) {
        let mut buckets = self.set(subject).lock();
        let index = index_of(&mut buckets, subject);
        let until = nanos(now).saturating_add(nanos(span)).saturating_add(self.tolerance);
        buckets[index].paid_at = until.saturating_sub(self.interval);
    }

    /// Forgets everybody.
    pub(crate) fn reset(&self) {
        self.sets.iter().for_each(|set| *set.lock() = Default::default());
    }

    fn count(&self, subject: u64, now: Duration, happened: bool) -> Result<u64, Duration> {
        let now = nanos(now);
        let mut buckets = self.set(subject).lock();
        let index = index_of(&mut buckets, subject);
        let paid_at = buckets[index].paid_at.max(now).saturating_add(self.interval);
        let allowed = self.judge(paid_at, now);
        if happened || allowed.is_ok() {
            buckets[index].paid_at = paid_at;
        }
        allowed.map(|()| paid_at)
    }

    /// Whether one more would be allowed; if not, when.
    pub(crate) fn look(&self, subject: u64, now: Duration) -> Result<(), Duration> {
        let now = nanos(now);
        let buckets = self.set(subject).lock();
        let paid_at = buckets.iter().find(|bucket| bucket.subject == subject).map_or(0, |bucket| bucket.paid_at);
        self.judge(paid_at.max(now).saturating_add(self.interval), now)
    }

    fn judge(&self, paid_at: u64, now: u64) -> Result<(), Duration> {
        match (paid_at - now).checked_sub(self.tolerance) {
            None | Some(0) => Ok(()),
            Some(excess) => Err(Duration::from_nanos(excess)),
        }
    }

    fn set(&self, subject: u64) -> &Mutex<[Bucket; WAYS]> {
        &self.sets[usize::try_from(subject >> 32).unwrap_or(0) % SETS]
    }
}

/// The bucket of a subject; a new one is that of the subject that has asked least.
fn index_of(buckets: &mut [Bucket; WAYS], subject: u64) -> usize {
    buckets.iter().position(|bucket| bucket.subject == subject).unwrap_or_else(|| {
        let least = (0..WAYS).min_by_key(|index| buckets[*index].paid_at).unwrap_or(0);
        buckets[least] = Bucket { subject, paid_at: 0 };
        least
    })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn limit(count: u32, burst: u32) -> RateLimit {
        RateLimit::new(count, Duration::from_secs(1), burst).unwrap()
    }

    #[test]
    fn a_burst_then_the_rate_then_a_hint_when_to_come_back() {
        let limit = limit(10, 3);
        let at = Duration::from_millis;
        for _ in 0..3 {
            assert_eq!(limit.take(1, at(0)), Ok(()));
        }
        assert_eq!(limit.take(1, at(0)), Err(at(100)));
        assert_eq!(limit.look(1, at(50)), Err(at(50)));
        assert_eq!(limit.take(2, at(50)), Ok(()), "another subject has its own");
        assert_eq!(limit.take(1, at(100)), Ok(()));
        assert_eq!(limit.take(1, at(100)), Err(at(100)));
        assert_eq!(limit.look(1, at(100_000)), Ok(()));
    }

    #[test]
    fn an_exhausted_subject_waits_its_span_or_until_all_is_forgotten() {
        let limit = limit(10, 3);
        let at = Duration::from_secs;
        limit.exhaust(1, at(100), at(30));
        assert_eq!(limit.take(1, at(100)), Err(at(30)));
        assert_eq!((limit.take(1, at(129)), limit.take(1, at(130))), (Err(at(1)), Ok(())));
        limit.exhaust(1, at(130), at(30));
        limit.reset();
        assert_eq!(limit.take(1, at(130)), Ok(()));
    }

    #[test]
    fn asking_whether_costs_nothing() {
        let limit = limit(1, 1);
        for _ in 0..100 {
            assert_eq!(limit.look(1, Duration::ZERO), Ok(()));
        }
        assert_eq!(limit.take(1, Duration::ZERO), Ok(()));
        assert!(limit.look(1, Duration::ZERO).is_err());
    }

    #[test]
    fn what_was_let_in_side_by_side_is_paid_off_afterwards() {
        let limit = limit(1, 2);
        let at = Duration::from_secs;
        // Ten looked before the first had happened.
        for _ in 0..10 {
            let _ = limit.owe(1, at(0));
        }
        assert_eq!(limit.look(1, at(1)), Err(at(8)));
        assert_eq!(limit.look(1, at(9)), Ok(()));
    }

    #[test]
    fn what_is_given_back_was_never_counted() {
        let limit = limit(1, 3);
        let at = Duration::from_secs;
        let reserved: Vec<_> = (0..3).map(|_| limit.reserve(1, at(0)).unwrap()).collect();
        assert_eq!(limit.take(1, at(0)), Err(at(1)));
        // Slow ones, too: time has paid for the first of them meanwhile.
        for paid_at in reserved {
            limit.refund(1, paid_at, at(2));
        }
        for _ in 0..3 {
            assert_eq!(limit.take(1, at(2)), Ok(()));
        }
        assert_eq!(limit.take(1, at(2)), Err(at(1)));
    }

    #[test]
    fn a_late_refund_does_not_pay_for_another() {
        let limit = limit(1, 1);
        let at = Duration::from_secs;
        let slow = limit.reserve(1, at(0)).unwrap();
        limit.take(1, at(10)).unwrap();
        limit.refund(1, slow, at(10));
        assert_eq!(limit.take(1, at(10)), Err(at(1)));
        limit.refund(2, slow, at(10));
        assert_eq!((limit.take(2, at(10)), limit.take(2, at(10))), (Ok(()), Err(at(1))), "nothing is saved up");
    }

    #[test]
    fn a_flood_of_addresses_does_not_free_the_one_that_asks_most() {
        let limit = limit(1, 10);
        for _ in 0..10 {
            limit.take(7, Duration::ZERO).unwrap();
        }
        for other in 0..1000_u64 {
            let _ = limit.take(other << 32 | 7 << 50, Duration::ZERO);
            let _ = limit.take(other, Duration::ZERO);
        }
        assert!(limit.take(7, Duration::ZERO).is_err());
    }

    #[test]
    fn ipv6_counts_by_its_64_and_mapped_ipv4_as_ipv4() {
        let v6 = |text: &str| subject(text.parse::<Ipv6Addr>().unwrap().into());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_eq!(v6("::ffff:192.0.2.1"), subject(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
