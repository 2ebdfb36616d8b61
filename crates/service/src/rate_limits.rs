//! Rate limits per client address, per user and per bot key, using the generic cell rate algorithm. Each limit is a table of
//! fixed size, like a set-associative cache: a keyed hash maps a subject to its set of eight buckets, and a full set evicts the
//! subject that has asked least. So no number of addresses makes it grow. An IPv6 client counts against its /64, its /56 and
//! its /48 ([`Subjects`]), or against none of them: what one of them refuses is refunded to the others, because a refusal costs
//! an IPv4 client nothing either.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::{Snowflake, TokenHash};
use runtime::Network;
use runtime::clock::Clock;
use runtime::rate_limit::{Rate, RateLimit};
use runtime::subjects::{LEVELS, Subject, Subjects};

use crate::config::{FeedConfig, LimitsConfig};

pub struct RateLimits {
    /// Per client address.
    pub requests: RateLimit,
    refused_sign_ins: RateLimit,
    exchanges_per_user: RateLimit,
    feed: RateLimit,
    refused_keys: RateLimit,
    exempt: ArcSwap<Vec<Network>>,
    clock: Clock,
}

/// A sign-in that counts as refused for now.
#[derive(Debug, Default)]
#[must_use = "what is not refused is given back"]
pub struct Reservation {
    subjects: Subjects,
    /// When each of them will have made up for it.
    paid_at: [u64; LEVELS],
}

impl RateLimits {
    /// As configured; a rate of 0 means no limit.
    pub fn new(limits: &LimitsConfig, feed: &FeedConfig, clock: Clock) -> Self {
        let [requests, refused_sign_ins, exchanges_per_user, feed, refused_keys] =
            rates(limits, feed).map(RateLimit::new);
        let exempt = ArcSwap::from_pointee(limits.exempt.clone());
        Self { requests, refused_sign_ins, exchanges_per_user, feed, refused_keys, exempt, clock }
    }

    /// Changes the limits. What was used up under the old ones stays used up.
    pub fn set(&self, limits: &LimitsConfig, feed: &FeedConfig) {
        self.exempt.store(Arc::new(limits.exempt.clone()));
        for (limit, rate) in self.all().into_iter().zip(rates(limits, feed)) {
            limit.set_rate(rate, self.clock.ticks());
        }
    }

    pub fn all(&self) -> [&RateLimit; 5] {
        [&self.requests, &self.refused_sign_ins, &self.exchanges_per_user, &self.feed, &self.refused_keys]
    }

    /// Counts a request. If it is one too many, returns when the next one may come.
    pub fn request(&self, client: IpAddr, now: Duration) -> Result<(), Duration> {
        self.reserve(&self.requests, client, now).map(drop)
    }

    /// Counts a request with a bot key. If it is one too many, returns when the next one may come.
    pub fn feed(&self, key: &TokenHash) -> Result<(), Duration> {
        self.feed.take(self.feed.subject(key), self.clock.ticks())
    }

    /// Counts a bot key that is not known to be valid. If it is one too many, returns when the next one may come.
    pub fn unknown_key(&self, client: IpAddr) -> Result<(), Duration> {
        self.reserve(&self.refused_keys, client, self.clock.ticks()).map(drop)
    }

    /// Counts a sign-in as refused before it is tried. If it is one too many, returns when the next one may come. If it is not
    /// refused after all, refund it with [`RateLimits::refund_sign_in`].
    pub fn reserve_sign_in(&self, client: IpAddr) -> Result<Reservation, Duration> {
        self.reserve(&self.refused_sign_ins, client, self.clock.ticks())
    }

    /// Refunds a reservation, because the sign-in was not refused.
    pub fn refund_sign_in(&self, reservation: Reservation) {
        self.refund(&self.refused_sign_ins, reservation);
    }

    /// Counts a code that was exchanged for this user. If it is one too many, returns when the next one may come.
    pub fn exchange_of(&self, user: Snowflake) -> Result<(), Duration> {
        self.exchanges_per_user.take(self.exchanges_per_user.subject(&user), self.clock.ticks())
    }

    /// The subjects an address counts as; none if it is exempt.
    pub fn counted_as(&self, client: IpAddr) -> Subjects {
        if self.is_exempt(client) { Subjects::default() } else { Subjects::of(client) }
    }

    /// The network an address counts as; `None` if it is exempt.
    pub fn network_of(&self, client: IpAddr) -> Option<Subject> {
        (!self.is_exempt(client)).then(|| Subject::network_of(client))
    }

    fn is_exempt(&self, client: IpAddr) -> bool {
        self.exempt.load().iter().any(|network| network.contains(client))
    }

    /// Takes one from each of the client's subjects, or from none.
    fn reserve(&self, limit: &RateLimit, client: IpAddr, now: Duration) -> Result<Reservation, Duration> {
        if limit.is_off() {
            return Ok(Reservation::default());
        }
        let subjects = self.counted_as(client);
        let mut taken = Reservation { subjects, ..Reservation::default() };
        for (level, subject) in subjects.iter().enumerate() {
            match limit.reserve(limit.subject(&subject), subject.allowance(), now) {
                Ok(paid_at) => taken.paid_at[level] = paid_at,
                Err(wait) => {
                    self.refund(limit, taken);
                    return Err(wait);
                }
            }
        }
        Ok(taken)
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is given back cannot be given back again")]
    fn refund(&self, limit: &RateLimit, taken: Reservation) {
        let now = self.clock.ticks();
        // 0 means that nothing was taken.
        for (subject, paid_at) in taken.subjects.iter().zip(taken.paid_at).filter(|(_, paid_at)| *paid_at > 0) {
            limit.refund(limit.subject(&subject), subject.allowance(), paid_at, now);
        }
    }
}

fn rates(limits: &LimitsConfig, feed: &FeedConfig) -> [Rate; 5] {
    let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
    let LimitsConfig { refused_sign_ins_per_minute: refused, sign_ins_per_user: per_user, .. } = *limits;
    let (uploads, keys) = (feed.requests_per_second, feed.refused_keys_per_minute);
    [
        Rate { count: limits.requests_per_second, span: second, burst: limits.requests_burst },
        Rate { count: refused, span: minute, burst: refused },
        Rate { count: per_user, span: 10 * minute, burst: per_user },
        Rate { count: uploads, span: second, burst: uploads.saturating_mul(2) },
        Rate { count: keys, span: minute, burst: keys },
    ]
}

#[cfg(test)]
mod tests;
