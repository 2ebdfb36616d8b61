//! Which bot keys are valid. Valid ones are cached; unknown ones never are.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use domain::TokenHash;
use store::{Result, StoreError, Topic};
use telemetry::metrics::CacheName;
use tokio::sync::Mutex;

use super::cached::{CacheMap, CacheRead, Weigh};
use crate::sources::Sources;

/// How many keys are cached.
const CACHED_KEYS: usize = 1_000;
/// How old the list of all valid keys may be.
const LIST_AGE: Duration = Duration::from_secs(1);

pub struct KeysView {
    sources: Sources,
    cache: CacheMap<TokenHash, KeyId>,
    list: Mutex<KeyList>,
}

/// The id of a valid key.
struct KeyId(Arc<str>);

impl Weigh for KeyId {}

/// The hashes of all valid keys.
#[derive(Default)]
struct KeyList {
    /// When they were last requested, with or without an answer.
    asked: Option<Duration>,
    known: Option<HashSet<TokenHash>>,
}

impl KeysView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self {
            sources: sources.clone(),
            cache: CacheMap::new(CacheName::Keys, sources, CACHED_KEYS, CACHED_KEYS as u64),
            list: Mutex::default(),
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
        let Sources { store, clock, background, .. } = &self.sources;
        let mut list = self.list.lock().await;
        if list.asked.is_none_or(|asked| clock.ticks().saturating_sub(asked) >= LIST_AGE) {
            // Set before the read, which is a background task: a client that hangs up must not make the next one read again.
            list.asked = Some(clock.ticks());
            let store = Arc::clone(store);
            let read = background.spawn(async move { store.good_keys().await }).await;
            list.asked = Some(clock.ticks());
            match read {
                Ok(Ok(keys)) => list.known = Some(keys.into_iter().collect()),
                Ok(Err(error)) if list.known.is_none() => return Err(error),
                // A slightly old list is better than none.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        match &list.known {
            Some(known) => Ok(known.contains(key)),
            None => Err(StoreError::Unavailable("the bots' keys could not be read a moment ago".to_owned())),
        }
    }
}
