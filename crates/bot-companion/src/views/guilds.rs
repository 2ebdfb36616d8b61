//! The guilds of a user, as ready bytes a user.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::Sources;
use super::lists::{ListError, Lists};
use crate::api;
use crate::config::Config;
use crate::domain::{Snowflake, Time, guild};
use crate::store::freshness::{Dependencies, Mark};
use crate::store::{StoreError, Topic};

/// How many bytes of answers are kept.
const KEPT_BYTES: u64 = 64 << 20;
const ESTIMATED_ANSWERS: usize = 16_384;

/// The view.
pub struct Guilds {
    sources: Sources,
    lists: Lists,
    kept: Cache<Snowflake, Arc<Answer>, ByBytes>,
    fresh: Duration,
    max_stale: Duration,
}

/// A user's answer.
#[derive(Debug)]
pub struct Answer {
    /// The whole body.
    pub body: Bytes,
    /// When the provider's list was fetched.
    fetched: Time,
    /// Which of the stored lists it is.
    list_version: u64,
    /// When a subscription that it shows as active ends.
    expires: Option<Time>,
    dependencies: Dependencies,
    mark: Mark,
}

impl Answer {
    /// How old the provider's list in it is. One from the future is as old as it is far away: the clock has been set back since.
    pub fn age(&self, now: Time) -> Duration {
        now.apart(self.fetched)
    }

    /// Whether a subscription that it shows as active has ended.
    fn is_over(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Snowflake, Arc<Answer>> for ByBytes {
    fn weight(&self, _: &Snowflake, answer: &Arc<Answer>) -> u64 {
        (answer.body.len() + 2 * answer.dependencies.len() + 128) as u64
    }
}

impl Guilds {
    pub(super) fn new(sources: &Sources, config: &Config) -> Self {
        Self {
            sources: sources.clone(),
            lists: Lists::new(sources, config),
            kept: Cache::with_weighter(ESTIMATED_ANSWERS, KEPT_BYTES, ByBytes),
            fresh: config.guilds.fresh,
            max_stale: config.guilds.max_stale,
        }
    }

    /// A user's answer, if it is at hand and needs no refresh.
    pub fn ready(&self, user: Snowflake, now: Time) -> Option<Arc<Answer>> {
        let kept = self.holding(user, now)?;
        (kept.age(now) <= self.fresh).then_some(kept)
    }

    /// A user's answer; `forced` asks the provider first. If the store is away, the last answer stands in for a while.
    pub async fn answer(&self, user: Snowflake, forced: bool) -> Result<Arc<Answer>, ListError> {
        if !forced && let Some(ready) = self.ready(user, self.sources.clock.now()) {
            return Ok(ready);
        }
        match self.current(user, forced).await {
            Err(ListError::Store(error @ StoreError::Unavailable(_))) => {
                Ok(self.sources.in_place_of(error, || self.standing_in(user))?)
            }
            outcome => outcome,
        }
    }

    async fn current(&self, user: Snowflake, forced: bool) -> Result<Arc<Answer>, ListError> {
        let version = self.lists.ensure(user, forced).await?;
        // That another replica has stored a list may not have been heard yet: the kept answer must be made of the stored one.
        if let Some(kept) = self.holding(user, self.sources.clock.now())
            && version == Some(kept.list_version)
        {
            return Ok(kept);
        }
        self.made(user).await
    }

    /// Fetches the provider's list behind, for a user who has just signed in.
    pub fn prefetch(&self, user: Snowflake) {
        self.lists.start(user, Some(self.sources.clock.now()));
    }

    fn holding(&self, user: Snowflake, now: Time) -> Option<Arc<Answer>> {
        let kept = self.kept.get(&user)?;
        let holds = self.sources.freshness.is_fresh(&kept.dependencies, kept.mark) && !kept.is_over(now);
        holds.then_some(kept)
    }

    fn standing_in(&self, user: Snowflake) -> Option<Arc<Answer>> {
        let (kept, now) = (self.kept.get(&user)?, self.sources.clock.now());
        let may = self.sources.freshness.may_serve_stale(&kept.dependencies, kept.mark)
            && !kept.is_over(now)
            && kept.age(now) <= self.max_stale;
        may.then_some(kept)
    }

    async fn made(&self, user: Snowflake) -> Result<Arc<Answer>, ListError> {
        let Sources { store, freshness, clock, .. } = &self.sources;
        let own: Dependencies = [Topic::Id(user)].into_iter().collect();
        let before = freshness.mark(&own);
        let account = store.account(user).await?.ok_or(ListError::SignedOut)?;
        let (list, list_version) = (account.list.ok_or(ListError::SignedOut)?, account.list_version);

        let ids: Vec<Snowflake> = list.guilds.iter().map(|guild| guild.id).collect();
        let dependencies: Dependencies = ids.iter().copied().chain([user]).map(Topic::Id).collect();
        let mark = freshness.mark(&dependencies);
        let facts = store.person(user, ids).await?;
        let now = clock.now();
        let expires = guild::expiry(&facts, now);
        let body = api::guilds::list(guild::entries(user, &list.guilds, facts, now));
        let answer = Arc::new(Answer { body, fetched: list.fetched, list_version, expires, dependencies, mark });
        // The list was read before the mark was taken: kept only if nothing of the user's has changed since then.
        if freshness.mark(&own) == before {
            self.kept.insert(user, Arc::clone(&answer));
        }
        Ok(answer)
    }
}
