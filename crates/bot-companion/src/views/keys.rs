//! Which keys of bots are good. Good ones are cached; unknown ones never are.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::Mutex;

use super::Sources;
use crate::domain::{TokenHash, token};
use crate::store::freshness::{Dependencies, Mark};
use crate::store::{Result, StoreError, Topic};

/// How many keys are cached.
const KEPT: usize = 1_000;
/// How old the list of all good keys may be.
const LIST_AGE: Duration = Duration::from_secs(1);

/// The view.
pub struct Keys {
    sources: Sources,
    dependencies: Dependencies,
    /// The ids of good keys.
    kept: Cache<TokenHash, (Mark, Arc<str>)>,
    list: Mutex<List>,
    /// Whether this process is a `dev`.
    demo_admitted: AtomicBool,
}

/// The hashes of all good keys.
#[derive(Default)]
struct List {
    /// When they were last asked for, whether or not there was an answer.
    asked: Option<Duration>,
    known: Option<HashSet<TokenHash>>,
}

impl Keys {
    pub(super) fn new(sources: &Sources) -> Self {
        let dependencies = [Topic::Keys].into_iter().collect();
        Self {
            sources: sources.clone(),
            dependencies,
            kept: Cache::new(KEPT),
            list: Mutex::default(),
            demo_admitted: AtomicBool::new(false),
        }
    }

    /// Lets the demonstration key in; only `dev` does.
    pub fn admit_demo_key(&self) {
        self.demo_admitted.store(true, Ordering::SeqCst);
    }

    /// The id of the key, if it is cached and good.
    pub fn ready(&self, key: &TokenHash) -> Option<Arc<str>> {
        let (mark, id) = self.kept.get(key)?;
        self.sources.freshness.is_fresh(&self.dependencies, mark).then_some(id)
    }

    /// The id of the key, if it is good.
    pub async fn find(&self, key: TokenHash) -> Result<Option<Arc<str>>> {
        if key == token::demo_key_hash() && !self.demo_admitted.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let mark = self.sources.freshness.mark(&self.dependencies);
        let found = self.sources.store.key(key).await?.filter(|found| found.revoked.is_none());
        let id: Option<Arc<str>> = found.map(|found| found.id.into());
        if let Some(id) = &id {
            self.kept.insert(key, (mark, Arc::clone(id)));
        } else {
            self.kept.remove(&key);
        }
        Ok(id)
    }

    /// Whether the key is still good.
    pub async fn is_good(&self, key: TokenHash) -> Result<bool> {
        Ok(self.ready(&key).is_some() || self.find(key).await?.is_some())
    }

    /// Whether the key was good about a second ago. However often and by however many this is asked, the store is asked once per
    /// second: this is for clients that have guessed so often that they may not ask the store any more.
    pub async fn was_good(&self, key: &TokenHash) -> Result<bool> {
        let Sources { store, clock, background, .. } = &self.sources;
        let mut list = self.list.lock().await;
        if list.asked.is_none_or(|asked| clock.ticks().saturating_sub(asked) >= LIST_AGE) {
            // Noted before the answer, and read in the background: whoever hangs up must not make the next one ask again.
            list.asked = Some(clock.ticks());
            let store = Arc::clone(store);
            let read = background.spawn(async move { store.good_keys().await }).await;
            list.asked = Some(clock.ticks());
            match read {
                Ok(Ok(keys)) => list.known = Some(keys.into_iter().collect()),
                Ok(Err(error)) if list.known.is_none() => return Err(error),
                // The list of a moment ago is better than none.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        match &list.known {
            Some(known) => Ok(known.contains(key)),
            None => Err(StoreError::Unavailable("the bots' keys could not be read a moment ago".to_owned())),
        }
    }
}
