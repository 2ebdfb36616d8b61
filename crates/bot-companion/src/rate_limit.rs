//! Rate limits per client address, per user and per bot key, by the generic cell rate algorithm. Each limit is a table of a fixed
//! size, like a set-associative cache: a keyed hash gives a subject its set of eight buckets, and in a full set the subject that has
//! asked least is evicted. So no number of addresses makes it grow.

mod limit;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::clock::Clock;
use crate::config::{FeedConfig, LimitsConfig, Network};
use crate::domain::{Snowflake, TokenHash};
use limit::Rate;
pub(crate) use limit::RateLimit;

/// The limits of client addresses and keys.
pub struct RateLimits {
    requests: RateLimit,
    refused_sign_ins: RateLimit,
    exchanges_per_user: RateLimit,
    feed: RateLimit,
    refused_keys: RateLimit,
    exempt: ArcSwap<Vec<Network>>,
    clock: Clock,
}

/// A sign-in that counts as refused for now.
#[derive(Debug)]
#[must_use = "what is not refused is given back"]
pub struct Reservation(Option<u64>);

impl RateLimits {
    /// As configured; a rate of 0 is no limit.
    pub fn new(limits: &LimitsConfig, feed: &FeedConfig, clock: Clock) -> Self {
        let [requests, refused_sign_ins, exchanges_per_user, feed, refused_keys] =
            rates(limits, feed).map(RateLimit::new);
        let exempt = ArcSwap::from_pointee(limits.exempt.clone());
        Self { requests, refused_sign_ins, exchanges_per_user, feed, refused_keys, exempt, clock }
    }

    /// Changes the numbers. What everybody has used up of the old ones is used up of the new ones.
    pub fn set(&self, limits: &LimitsConfig, feed: &FeedConfig) {
        self.exempt.store(Arc::new(limits.exempt.clone()));
        for (limit, rate) in self.all().into_iter().zip(rates(limits, feed)) {
            limit.set_rate(rate, self.clock.ticks());
        }
    }

    fn all(&self) -> [&RateLimit; 5] {
        [&self.requests, &self.refused_sign_ins, &self.exchanges_per_user, &self.feed, &self.refused_keys]
    }

    /// Counts a request; if it is one too many, when the next one may come.
    pub fn request(&self, client: IpAddr) -> Result<(), Duration> {
        self.limit(&self.requests, client, RateLimit::take)
    }

    /// Counts a request with a bot's key; if it is one too many, when the next one may come.
    pub fn feed(&self, key: &TokenHash) -> Result<(), Duration> {
        self.feed.take(self.feed.subject(key), self.clock.ticks())
    }

    /// Counts a bot's key that is not known to be good; if it is one too many, when the next one may come.
    pub fn unknown_key(&self, client: IpAddr) -> Result<(), Duration> {
        self.limit(&self.refused_keys, client, RateLimit::take)
    }

    /// Counts a sign-in as refused before it is tried; if it is one too many, when the next one may come. What is not refused
    /// after all is given back with [`RateLimits::refund_sign_in`].
    pub fn reserve_sign_in(&self, client: IpAddr) -> Result<Reservation, Duration> {
        let limit = &self.refused_sign_ins;
        let Some(subject) = self.counted_as(client) else { return Ok(Reservation(None)) };
        limit.reserve(limit.subject(&subject), self.clock.ticks()).map(|paid_at| Reservation(Some(paid_at)))
    }

    /// Gives back a reservation: the sign-in was not refused.
    #[expect(clippy::needless_pass_by_value, reason = "what is given back cannot be given back again")]
    pub fn refund_sign_in(&self, client: IpAddr, reservation: Reservation) {
        let Reservation(paid_at) = reservation;
        let limit = &self.refused_sign_ins;
        if let (Some(subject), Some(paid_at)) = (self.counted_as(client), paid_at) {
            limit.refund(limit.subject(&subject), paid_at, self.clock.ticks());
        }
    }

    /// Counts a code that was exchanged for this user; if it is one too many, when the next one may come.
    pub fn exchange_of(&self, user: Snowflake) -> Result<(), Duration> {
        self.exchanges_per_user.take(self.exchanges_per_user.subject(&user), self.clock.ticks())
    }

    /// Refuses an address's requests for this span, as if it had sent far too many; `false` if it has no limit.
    pub fn exhaust(&self, client: IpAddr, span: Duration) -> bool {
        let limit = &self.requests;
        let limited = self.counted_as(client).filter(|_| !limit.is_off());
        limited.is_some_and(|subject| {
            limit.exhaust(limit.subject(&subject), self.clock.ticks(), span);
            true
        })
    }

    /// Forgets what everybody has sent.
    pub fn reset(&self) {
        self.all().into_iter().for_each(RateLimit::reset);
    }

    /// Whom an address counts as, unless it is free of limits: an IPv4 address, or an IPv6 network.
    pub fn counted_as(&self, client: IpAddr) -> Option<u64> {
        (!self.exempt.load().iter().any(|network| network.contains(client))).then(|| subject(client))
    }

    fn limit(
        &self,
        limit: &RateLimit,
        client: IpAddr,
        count: impl FnOnce(&RateLimit, u64, Duration) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        match self.counted_as(client).filter(|_| !limit.is_off()) {
            Some(subject) => count(limit, limit.subject(&subject), self.clock.ticks()),
            None => Ok(()),
        }
    }
}

/// The rates of requests, refused sign-ins, exchanges of a user, the feed and refused keys.
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

/// Whom an address stands for: an IPv6 client has a whole /64 to choose from.
pub(crate) fn subject(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or(0) | 1 << 63,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn ipv6_counts_by_its_64_and_mapped_ipv4_as_ipv4() {
        let v6 = |text: &str| subject(text.parse::<Ipv6Addr>().unwrap().into());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_eq!(v6("::ffff:192.0.2.1"), subject(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
