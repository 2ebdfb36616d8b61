//! Which keys of bots are good. Known ones are kept in memory; unknown ones never are.

use quick_cache::sync::Cache;

use super::Sources;
use crate::domain::TokenHash;
use crate::store::freshness::{Dependencies, Mark};
use crate::store::{Result, Topic};

/// How many keys are kept in memory.
const KEPT: usize = 1_000;

/// The view.
pub struct Keys {
    sources: Sources,
    dependencies: Dependencies,
    kept: Cache<TokenHash, Mark>,
}

impl Keys {
    pub(super) fn new(sources: &Sources) -> Self {
        let dependencies = [Topic::Keys].into_iter().collect();
        Self { sources: sources.clone(), dependencies, kept: Cache::new(KEPT) }
    }

    /// Whether the key is at hand, and good.
    pub fn ready(&self, key: &TokenHash) -> bool {
        self.kept.get(key).is_some_and(|mark| self.sources.freshness.holds(&self.dependencies, mark))
    }

    /// Whether the key is good.
    pub async fn find(&self, key: TokenHash) -> Result<bool> {
        let mark = self.sources.freshness.mark(&self.dependencies);
        let good = self.sources.store.key(key).await?.is_some_and(|found| found.revoked.is_none());
        if good {
            self.kept.insert(key, mark);
        } else {
            self.kept.remove(&key);
        }
        Ok(good)
    }
}
