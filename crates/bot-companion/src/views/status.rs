//! The status: all of it is kept as ready bytes but the two latencies, which are spliced in.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::Sources;
use super::fill::Fill;
use crate::api::status::StatusBody;
use crate::domain::{Health, Time};
use crate::store::freshness::{Dependencies, LastValid, Mark};
use crate::store::{Result, Topic};

/// The view.
pub struct Status {
    sources: Sources,
    dependencies: Dependencies,
    held: ArcSwapOption<Held>,
}

/// The bytes around the two latencies, and what they were made of.
struct Held {
    mark: Mark,
    right: LastValid,
    health: Health,
    holds_until: Time,
    body: StatusBody,
}

impl Status {
    pub(super) fn new(sources: &Sources) -> Self {
        Self {
            sources: sources.clone(),
            dependencies: [Topic::Health].into_iter().collect(),
            held: ArcSwapOption::empty(),
        }
    }

    /// The answer, if it is at hand; the latencies are asked for last.
    pub fn ready(&self, latencies: impl FnOnce() -> (Option<f64>, f64)) -> Option<Bytes> {
        let held = self.held.load();
        let held = held.as_ref()?;
        let holds = self.sources.freshness.is_fresh(&self.dependencies, held.mark)
            && self.sources.clock.now() < held.holds_until;
        holds.then(|| held.body(latencies()))
    }

    /// The answer, from the store if it must be; if that is away, from the last known health for a while.
    pub async fn answer(&self, latencies: impl Fn() -> (Option<f64>, f64)) -> Result<Bytes> {
        if let Some(ready) = self.ready(&latencies) {
            return Ok(ready);
        }
        let held = match self.read().await {
            Ok(held) => held,
            Err(error) => self.sources.in_place_of(error, || self.standing_in())?,
        };
        Ok(held.body(latencies()))
    }

    async fn read(&self) -> Result<Arc<Held>> {
        let (mark, right) = (self.sources.freshness.mark(&self.dependencies), self.sources.freshness.valid_now());
        Ok(self.kept(mark, right, self.sources.store.health().await?))
    }

    fn kept(&self, mark: Mark, right: LastValid, health: Health) -> Arc<Held> {
        let held = Arc::new(Held::new(mark, right, health, self.sources.clock.now()));
        self.held.store(Some(Arc::clone(&held)));
        held
    }

    /// A summary that has run out is made anew: a bot that falls silent during an outage must not look alive.
    fn standing_in(&self) -> Option<Arc<Held>> {
        let held = self.held.load_full()?;
        let freshness = &self.sources.freshness;
        if !freshness.may_serve_stale(&self.dependencies, held.mark) && !freshness.was_valid_recently(&held.right) {
            return None;
        }
        let holds = self.sources.clock.now() < held.holds_until;
        Some(if holds { held } else { self.kept(held.mark, held.right.clone(), held.health.clone()) })
    }
}

impl Fill for Status {
    fn is_right(&self) -> bool {
        // A summary that has run out is made anew from the same health, whenever somebody asks.
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

impl Held {
    fn new(mark: Mark, right: LastValid, health: Health, now: Time) -> Self {
        let body = StatusBody::new(health.summary(now));
        Self { mark, right, holds_until: health.summary_holds_until(now), health, body }
    }

    fn body(&self, (response, process): (Option<f64>, f64)) -> Bytes {
        self.body.with_latencies(response, process)
    }
}
