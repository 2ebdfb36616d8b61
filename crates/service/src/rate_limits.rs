//! Rate limits per client, per user and per bot key, using the generic cell rate algorithm. Each limit is a table of fixed
//! size, like a set-associative cache: a keyed hash maps a client to its set of eight buckets, and a full set evicts the client
//! that has asked least. So no number of addresses makes it grow.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::{Snowflake, TokenHash};
use runtime::Network;
use runtime::client_key::ClientKey;
use runtime::clock::Clock;
use runtime::rate_limit::{Rate, RateLimit};

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
        self.take(&self.requests, client, now)
    }

    /// Whether another request may come now; if not, when.
    pub fn check_request(&self, client: IpAddr, now: Duration) -> Result<(), Duration> {
        let Some(client) = self.client_key(client) else { return Ok(()) };
        self.requests.look(self.requests.key(&client), client.allowance(), now)
    }

    /// Counts a request with a bot key. If it is one too many, returns when the next one may come.
    pub fn feed(&self, key: &TokenHash) -> Result<(), Duration> {
        self.feed.take(self.feed.key(key), 1, self.clock.ticks())
    }

    /// Counts a bot key that is not known to be valid. If it is one too many, returns when the next one may come.
    pub fn unknown_key(&self, client: IpAddr) -> Result<(), Duration> {
        self.take(&self.refused_keys, client, self.clock.ticks())
    }

    /// Whether another sign-in from this network may be tried; if not, when. Those that run at the same time do not know of each
    /// other, so the limit on them bounds by how many the network can exceed this one.
    pub fn check_sign_in(&self, client: IpAddr) -> Result<(), Duration> {
        let Some(network) = self.sign_in_key(client) else { return Ok(()) };
        let limit = &self.refused_sign_ins;
        limit.look(limit.key(&network), network.allowance(), self.clock.ticks())
    }

    /// Counts a sign-in that was refused. What exceeds the limit has to be paid off before the next one.
    pub fn refused_sign_in(&self, client: IpAddr) {
        if let Some(network) = self.sign_in_key(client) {
            let limit = &self.refused_sign_ins;
            limit.owe(limit.key(&network), network.allowance(), self.clock.ticks());
        }
    }

    /// Counts a code that was exchanged for this user. If it is one too many, returns when the next one may come.
    pub fn exchange_of(&self, user: Snowflake) -> Result<(), Duration> {
        self.exchanges_per_user.take(self.exchanges_per_user.key(&user), 1, self.clock.ticks())
    }

    /// What an address counts as; `None` if it is exempt.
    pub fn client_key(&self, client: IpAddr) -> Option<ClientKey> {
        (!self.is_exempt(client)).then(|| ClientKey::of(client))
    }

    /// The network an address belongs to; `None` if it is exempt.
    pub fn network_of(&self, client: IpAddr) -> Option<ClientKey> {
        (!self.is_exempt(client)).then(|| ClientKey::network_of(client))
    }

    fn sign_in_key(&self, client: IpAddr) -> Option<ClientKey> {
        (!self.is_exempt(client)).then(|| ClientKey::wide(client))
    }

    fn is_exempt(&self, client: IpAddr) -> bool {
        self.exempt.load().iter().any(|network| network.contains(client))
    }

    fn take(&self, limit: &RateLimit, client: IpAddr, now: Duration) -> Result<(), Duration> {
        if limit.is_off() {
            return Ok(());
        }
        let Some(client) = self.client_key(client) else { return Ok(()) };
        limit.take(limit.key(&client), client.allowance(), now)
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
