//! The team, as ready bytes with their `ETag`.

use std::fmt::Write;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::digest;
use bytes::Bytes;

use super::Sources;
use super::fill::Fill;
use crate::api;
use crate::store::freshness::{Dependencies, LastValid, Mark};
use crate::store::{Result, Topic};

/// The view.
pub struct Team {
    sources: Sources,
    dependencies: Dependencies,
    held: ArcSwapOption<Answer>,
}

/// A ready answer.
#[derive(Debug)]
pub struct Answer {
    /// The whole body.
    pub body: Bytes,
    /// Changes with the body, quotes included.
    pub etag: String,
    mark: Mark,
    right: LastValid,
}

impl Team {
    pub(super) fn new(sources: &Sources) -> Self {
        Self {
            sources: sources.clone(),
            dependencies: [Topic::Team].into_iter().collect(),
            held: ArcSwapOption::empty(),
        }
    }

    /// The answer, if it is at hand.
    pub fn ready(&self) -> Option<Arc<Answer>> {
        let held = self.held.load_full()?;
        self.sources.freshness.is_fresh(&self.dependencies, held.mark).then_some(held)
    }

    /// The answer, from the store if it must be; if that is away, the last one for a while.
    pub async fn answer(&self) -> Result<Arc<Answer>> {
        if let Some(ready) = self.ready() {
            return Ok(ready);
        }
        match self.read().await {
            Ok(answer) => Ok(answer),
            Err(error) => self.sources.in_place_of(error, || self.standing_in()),
        }
    }

    async fn read(&self) -> Result<Arc<Answer>> {
        let (mark, right) = (self.sources.freshness.mark(&self.dependencies), self.sources.freshness.valid_now());
        let body = api::team::list(self.sources.store.team().await?);
        let answer = Arc::new(Answer { etag: etag(&body), body, mark, right });
        self.held.store(Some(Arc::clone(&answer)));
        Ok(answer)
    }

    fn standing_in(&self) -> Option<Arc<Answer>> {
        let held = self.held.load_full()?;
        let freshness = &self.sources.freshness;
        (freshness.may_serve_stale(&self.dependencies, held.mark) || freshness.was_valid_recently(&held.right))
            .then_some(held)
    }
}

impl Fill for Team {
    fn is_right(&self) -> bool {
        let (freshness, held) = (&self.sources.freshness, self.held.load());
        held.as_ref().is_some_and(|held| freshness.renew_if_fresh(&self.dependencies, held.mark, &held.right))
    }

    fn was_valid_recently(&self) -> bool {
        self.held.load().as_ref().is_some_and(|held| self.sources.freshness.was_valid_recently(&held.right))
    }

    async fn fill(&self) -> Result<()> {
        self.read().await.map(drop)
    }
}

fn etag(body: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, body);
    let mut etag = String::from("\"");
    for byte in &digest.as_ref()[..16] {
        // Writing to a string cannot fail.
        let _ = write!(etag, "{byte:02x}");
    }
    etag.push('"');
    etag
}
