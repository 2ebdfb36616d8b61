//! Which bot keys are valid. Valid ones are cached; unknown ones never are.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use domain::TokenHash;
use runtime::shared_check::SharedCheck;
use store::{Result, StoreError, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheMap, CacheRead, Weigh};
use crate::sources::Sources;

/// How many keys are cached.
const CACHED_KEYS: usize = 1_000;
/// How old the list of all valid keys may be.
const LIST_AGE: Duration = Duration::from_secs(1);

pub struct KeysView {
    sources: Sources,
    cache: CacheMap<TokenHash, KeyId>,
    /// Reads the hashes of all valid keys into `known`.
    list: SharedCheck<Result<()>>,
    known: Arc<ArcSwapOption<HashSet<TokenHash>>>,
}

/// The id of a valid key.
struct KeyId(Arc<str>);

impl Weigh for KeyId {}

impl KeysView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self {
            sources: sources.clone(),
            cache: CacheMap::new(CacheName::Keys, sources, CACHED_KEYS, CACHED_KEYS as u64),
            list: SharedCheck::new(LIST_AGE, sources.clock.clone()),
            known: Arc::default(),
        }
    }

    /// How many entries are cached.
    pub(super) fn entries(&self) -> usize {
        self.cache.len()
    }

    /// The id of the key, if it is cached and valid.
    pub fn cached(&self, key: &TokenHash) -> Option<Arc<str>> {
        self.cache.get_fresh(key).map(|id| Arc::clone(&id.0))
    }

    /// The id of the key, if it is valid.
    pub async fn find(&self, key: TokenHash) -> Result<Option<Arc<str>>> {
        self.cache.count_miss();
        let mut read = CacheRead::begin(&self.sources);
        let found = read.depend_on([Topic::Keys]).key(key).await?.filter(|found| found.revoked.is_none());
        let id: Option<Arc<str>> = found.map(|found| found.id.into());
        if let Some(id) = &id {
            self.cache.insert(key, read, KeyId(Arc::clone(id)));
        } else {
            self.cache.remove(&key);
        }
        Ok(id)
    }

    /// Whether the key is still valid.
    pub async fn is_valid(&self, key: TokenHash) -> Result<bool> {
        Ok(self.cached(&key).is_some() || self.find(key).await?.is_some())
    }

    /// Whether the key was valid about a second ago. Reads the store at most once per second, however many clients ask. This is
    /// for clients that have guessed so often that their keys may not be looked up any more.
    pub async fn was_valid(&self, key: &TokenHash) -> Result<bool> {
        let list = self.list.get(|| {
            let (store, known) = (Arc::clone(&self.sources.store), Arc::clone(&self.known));
            async move {
                known.store(Some(Arc::new(store.good_keys().await?.into_iter().collect())));
                Ok(())
            }
        });
        let read = list.await.unwrap_or_else(|| Err(StoreError::Failed("reading the bots' keys crashed".to_owned())));
        match &*self.known.load() {
            // A slightly old list is better than none.
            Some(known) => Ok(known.contains(key)),
            None => read.map(|()| false),
        }
    }
}
