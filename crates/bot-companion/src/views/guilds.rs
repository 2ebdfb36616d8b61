//! `GET /guilds`: the cached response per user.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::cached::{CacheMap, CacheRead, Cached, Weigh};
use crate::accounts::{GuildLists, ListError};
use crate::api::guilds;
use crate::config::Config;
use crate::domain::{Snowflake, Time, guild};
use crate::sources::Sources;
use crate::store::Topic;

/// How many bytes of responses are cached.
const CACHED_BYTES: u64 = 64 << 20;
const ESTIMATED_RESPONSES: usize = 16_384;

/// The view.
pub struct GuildsView {
    sources: Sources,
    lists: Arc<GuildLists>,
    cache: CacheMap<Snowflake, GuildsResponse>,
    fresh: Duration,
    max_stale: Duration,
}

/// A user's response that is ready to send.
#[derive(Debug)]
pub struct GuildsResponse {
    /// The whole body.
    pub body: Bytes,
    /// When the provider's list was fetched.
    fetched: Time,
    /// Which of the stored lists it is made of.
    list_version: u64,
    listed: usize,
    /// When a subscription that it shows as active ends.
    expires: Option<Time>,
}

impl GuildsResponse {
    /// How old the provider's list in it is. A list from the future is as old as it is far away: the clock was set back.
    pub fn age(&self, now: Time) -> Duration {
        now.apart(self.fetched)
    }

    /// Whether a subscription that it shows as active has ended.
    fn has_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

impl Weigh for GuildsResponse {
    fn weight(&self) -> usize {
        self.body.len() + 2 * self.listed + 128
    }
}

impl GuildsView {
    pub(super) fn new(sources: &Sources, lists: Arc<GuildLists>, config: &Config) -> Self {
        Self {
            sources: sources.clone(),
            lists,
            cache: CacheMap::new(sources, ESTIMATED_RESPONSES, CACHED_BYTES),
            fresh: config.guilds.fresh,
            max_stale: config.guilds.max_stale,
        }
    }

    /// A user's response, if it is cached and fresh and the provider's list in it needs no refresh.
    pub fn cached(&self, user: Snowflake, now: Time) -> Option<Arc<Cached<GuildsResponse>>> {
        self.cached_of_any_age(user, now).filter(|response| response.age(now) <= self.fresh)
    }

    /// A user's response; `forced` asks the provider first. Stale if the store cannot be asked.
    pub async fn get(&self, user: Snowflake, forced: bool) -> Result<Arc<Cached<GuildsResponse>>, ListError> {
        if !forced && let Some(cached) = self.cached(user, self.sources.clock.now()) {
            return Ok(cached);
        }
        match self.get_current(user, forced).await {
            Err(ListError::Store(error)) => Ok(self.cache.or_stale(error, &user, |stale| {
                let now = self.sources.clock.now();
                (!stale.has_expired(now) && stale.age(now) <= self.max_stale).then_some(stale)
            })?),
            outcome => outcome,
        }
    }

    async fn get_current(&self, user: Snowflake, forced: bool) -> Result<Arc<Cached<GuildsResponse>>, ListError> {
        let version = self.lists.ensure_usable(user, forced).await?;
        // Another replica may have stored a list without this one knowing yet: the response must be made of the stored one.
        match self.cached_of_any_age(user, self.sources.clock.now()) {
            Some(cached) if version == Some(cached.list_version) => Ok(cached),
            _ => self.read(user).await,
        }
    }

    fn cached_of_any_age(&self, user: Snowflake, now: Time) -> Option<Arc<Cached<GuildsResponse>>> {
        self.cache.get_fresh(&user).filter(|response| !response.has_expired(now))
    }

    async fn read(&self, user: Snowflake) -> Result<Arc<Cached<GuildsResponse>>, ListError> {
        let mut read = CacheRead::begin(&self.sources);
        let account = read.depend_on([Topic::Id(user)]).account(user).await?.ok_or(ListError::SignedOut)?;
        let (list, list_version) = (account.list.ok_or(ListError::SignedOut)?, account.list_version);

        let ids: Vec<Snowflake> = list.guilds.iter().map(|guild| guild.id).collect();
        let listed = ids.len();
        let facts = read.depend_on(ids.iter().copied().map(Topic::Id)).person(user, ids).await?;
        let now = self.sources.clock.now();
        let expires = guild::expiry(&facts, now);
        let body = guilds::list(guild::entries(user, &list.guilds, facts, now));
        let response = GuildsResponse { body, fetched: list.fetched, list_version, listed, expires };
        Ok(self.cache.insert(user, read, response))
    }
}
