//! `GET /me`: the cached data of a user with a session.

use std::sync::Arc;

use api::user::UserData;
use domain::{PermissionSet, Snowflake, permissions};
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheMap, CacheRead, Cached, Weigh};
use crate::sources::Sources;

const CACHED_USERS: usize = 10_000;

pub struct MeView {
    sources: Sources,
    cache: CacheMap<Snowflake, SignedInUser>,
}

#[derive(Debug)]
pub struct SignedInUser {
    /// Their profile, as of their last sign-in.
    pub user: UserData,
    /// The permissions that the team's roster grants them.
    pub team: PermissionSet,
}

impl Weigh for SignedInUser {}

impl MeView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self {
            sources: sources.clone(),
            cache: CacheMap::new(CacheName::Me, sources, CACHED_USERS, CACHED_USERS as u64),
        }
    }

    pub(super) fn entries(&self) -> usize {
        self.cache.len()
    }

    /// The user; `None` if they have no session any more. Stale if the store cannot be reached.
    pub async fn get(&self, user: Snowflake) -> Result<Option<Arc<Cached<SignedInUser>>>> {
        if let Some(cached) = self.cache.get_fresh(&user) {
            return Ok(Some(cached));
        }
        match self.read(user).await {
            Err(error) => self.cache.or_stale(error, &user, Some).map(Some),
            found => found,
        }
    }

    async fn read(&self, user: Snowflake) -> Result<Option<Arc<Cached<SignedInUser>>>> {
        self.cache.count_miss();
        let mut read = CacheRead::begin(&self.sources);
        let store = read.depend_on([Topic::Id(user)]);
        let Some(account) = store.account(user).await? else {
            self.cache.remove(&user);
            return Ok(None);
        };
        let team = permissions::of_team(store.person(user, Vec::new()).await?.team);
        let data = UserData::new(account.user, &self.sources.pictures);
        Ok(Some(self.cache.insert(user, read, SignedInUser { user: data, team })))
    }
}
