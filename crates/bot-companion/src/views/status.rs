//! The status: all of it is kept as ready bytes but the two latencies, which are spliced in.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use super::fill::Fill;
use super::{OPENING, Sources};
use crate::domain::health::{HealthSummary, ShardRecord, Uptime};
use crate::domain::{Health, Time};
use crate::store::freshness::{Dependencies, LastValid, Mark};
use crate::store::{Result, Topic};
use crate::version::Version;

/// The view.
pub struct Status {
    sources: Sources,
    dependencies: Dependencies,
    held: ArcSwapOption<Held>,
}

/// The status (2.9); the type is for the documentation, the bytes are made below.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub struct StatusData {
    /// The running service's own build.
    version: Version,
    /// What the bot uses.
    resources: Resources,
    /// Health of the API and of the bot.
    health: HealthData,
}

/// What the bot uses.
#[derive(Debug, Serialize, ToSchema)]
pub struct Resources {
    /// Megabytes (10^6) resident, summed over the bot's living processes.
    memory: f64,
}

/// Health of the API and of the bot.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
pub struct HealthData {
    /// The API's part.
    api: ApiHealth,
    /// The bot's part.
    bot: BotHealth,
}

/// The API's part of the health.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApiHealth {
    /// How long things took.
    latency: Latency,
}

/// Milliseconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct Latency {
    /// From the client's `Sent-Epoch` to the request's arrival; `null` without a usable one.
    response: Option<f64>,
    /// From the request's arrival to its answer.
    process: f64,
}

/// The bot's part of the health.
#[derive(Debug, Serialize, ToSchema)]
pub struct BotHealth {
    /// Shards by their number.
    #[schema(value_type = BTreeMap<String, ShardRecord>)]
    shards: BTreeMap<u32, ShardRecord>,
    /// Since when the bot runs.
    uptime: Uptime,
}

/// The bytes around the two latencies, and what they were made of.
struct Held {
    mark: Mark,
    right: LastValid,
    health: Health,
    holds_until: Time,
    before_response: Vec<u8>,
    after_process: Vec<u8>,
}

const BETWEEN: &[u8] = br#","process":"#;

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
        let HealthSummary { memory, shards, uptime } = health.summary(now);
        let data = StatusData {
            version: Version::running(),
            resources: Resources { memory },
            health: HealthData {
                api: ApiHealth { latency: Latency { response: None, process: 0.0 } },
                bot: BotHealth { shards, uptime },
            },
        };
        // The shape is written once, by the types; then it is cut at its one `"latency":{"response":null,"process":0.0}`.
        let whole = serde_json::to_string(&data).unwrap_or_default();
        let (before, after) = whole.split_once(r#"null,"process":0.0"#).unwrap_or(("", ""));
        Self {
            mark,
            right,
            holds_until: health.summary_holds_until(now),
            health,
            before_response: [OPENING, before].concat().into_bytes(),
            after_process: [after, "}"].concat().into_bytes(),
        }
    }

    fn body(&self, (response, process): (Option<f64>, f64)) -> Bytes {
        let mut body = Vec::with_capacity(self.before_response.len() + self.after_process.len() + 64);
        body.extend_from_slice(&self.before_response);
        // Writing to a vector cannot fail.
        let _ = match response {
            Some(response) => write!(body, "{response:.3}"),
            None => write!(body, "null"),
        };
        body.extend_from_slice(BETWEEN);
        let _ = write!(body, "{process:.3}");
        body.extend_from_slice(&self.after_process);
        body.into()
    }
}
