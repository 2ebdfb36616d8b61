//! `GET /`: the status. All of it is cached as ready bytes except the two latencies, which are spliced in per request.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use super::OPENING;
use super::cached::{CacheRead, CacheSlot, Cached};
use super::warm::Warm;
use crate::clock::Clock;
use crate::domain::health::{HealthSummary, ShardRecord, Uptime};
use crate::domain::{Health, Time};
use crate::sources::Sources;
use crate::store::{Result, Topic};
use crate::version::Version;

/// The view.
pub struct StatusView {
    sources: Sources,
    cache: CacheSlot<StatusResponse>,
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

/// The bot's health, and the response made of it.
pub(super) struct StatusResponse {
    health: Health,
    rendered: ArcSwap<Rendered>,
}

/// The bytes around the two latencies. The text of an uptime changes as time passes, so they expire.
struct Rendered {
    expires: Time,
    before_response: Vec<u8>,
    after_process: Vec<u8>,
}

const BETWEEN: &[u8] = br#","process":"#;

impl StatusView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(sources) }
    }

    /// The response, if it is cached and fresh. The latencies are measured last.
    pub fn cached(&self, latencies: impl FnOnce() -> (Option<f64>, f64)) -> Option<Bytes> {
        self.cache.with_fresh(|cached| cached.body(&self.sources.clock, latencies))
    }

    /// The response, from the store if need be; from the last known health if the store cannot be asked.
    pub async fn get(&self, latencies: impl Fn() -> (Option<f64>, f64)) -> Result<Bytes> {
        if let Some(body) = self.cached(&latencies) {
            return Ok(body);
        }
        let cached = self.read().await.or_else(|error| self.cache.or_stale(error))?;
        Ok(cached.body(&self.sources.clock, latencies))
    }

    async fn read(&self) -> Result<Arc<Cached<StatusResponse>>> {
        let mut read = CacheRead::begin(&self.sources);
        let health = read.depend_on([Topic::Health]).health().await?;
        let rendered = ArcSwap::from_pointee(Rendered::new(&health, self.sources.clock.now()));
        Ok(self.cache.insert(read, StatusResponse { health, rendered }))
    }
}

impl Warm for StatusView {
    type Value = StatusResponse;

    fn cache(&self) -> &CacheSlot<StatusResponse> {
        &self.cache
    }

    async fn refresh(&self) -> Result<()> {
        self.read().await.map(drop)
    }
}

impl StatusResponse {
    /// The whole body. Bytes that have expired are rendered again from the same health, also while the store is away: a bot that
    /// falls silent during an outage must not look alive.
    fn body(&self, clock: &Clock, latencies: impl FnOnce() -> (Option<f64>, f64)) -> Bytes {
        let now = clock.now();
        let rendered = self.rendered.load();
        if now < rendered.expires {
            return rendered.body(latencies());
        }
        let again = Arc::new(Rendered::new(&self.health, now));
        self.rendered.store(Arc::clone(&again));
        again.body(latencies())
    }
}

impl Rendered {
    fn new(health: &Health, now: Time) -> Self {
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
            expires: health.summary_holds_until(now),
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
