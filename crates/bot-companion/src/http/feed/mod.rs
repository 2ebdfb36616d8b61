//! `/bot/…`: what the bot says. Every call needs the bot's key.

mod body;
mod snapshot;

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use http::HeaderMap;
use serde::Serialize;
use utoipa::ToSchema;

use super::envelope::{Envelope, Nothing, Success};
use super::error::ApiError;
use super::extract::{Bot, Sender};
use super::openapi::{BotRefusals, FeedRefusals, Refusals, ShardNotFound, UploadRefusals};
use crate::app::App;
use crate::domain::Time;
use crate::domain::feed::{self, Event, InstanceState, ShardKey};
use crate::store::Fed;
use body::Upload;

/// Of a heartbeat, and of a batch of events.
const BODY: u64 = 16 << 20;
const EVENTS: usize = 10_000;
/// How many reasons an answer tells.
const REASONS: usize = 20;

/// What became of what was sent.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct Taken {
    /// How much was applied.
    applied: u64,
    /// How much was not: repeats, what this version does not know, what may not be granted, what a later-started process has
    /// taken over.
    ignored: u64,
    /// The number of the next event.
    next: u64,
    /// Why something was ignored; the first 20 reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    reasons: Vec<String>,
}

impl Taken {
    fn ignore(&mut self, reasons: Vec<String>) {
        self.ignored += reasons.len() as u64;
        self.reasons.extend(reasons);
        self.reasons.truncate(REASONS);
    }

    fn with(self, applied: u64, ignored: u64, next: u64) -> Self {
        Self { applied, ignored: self.ignored + ignored, next, ..self }
    }
}

/// Heartbeat
///
/// A process of the bot says how it and its own shards are, every 15 seconds: `instance`, `started_at` (epoch seconds), `memory`
/// (bytes), `shard_count`, and `shards` of `id`, `sent_ms_ago`, `acknowledged_ms_ago` and `latency` (milliseconds or null).
#[utoipa::path(put, path = "/bot/heartbeat", operation_id = "botHeartbeat", tag = "bot", security(("bot" = [])),
    request_body(content = serde_json::Value, description = "The report", content_type = "application/json"),
    responses((status = 200, description = "Noted", body = Envelope<Nothing>), BotRefusals, UploadRefusals, Refusals))]
pub(super) async fn heartbeat(
    State(app): State<Arc<App>>,
    _: Bot,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<Nothing>, ApiError> {
    let report = upload(&app, &headers, body, BODY)?.whole().await?;
    let now = app.clock.now();
    let beat = feed::heartbeat(&report, now).map_err(|reason| ApiError::line(1, &reason))?;
    app.store.beat(beat, now).await?;
    Ok(Success(Nothing {}))
}

/// A shard's guilds
///
/// The whole truth of one shard: one guild a line, then `{"end": N}` with their number. It replaces, in one step, every guild for
/// which `(id >> 22) % shard_count` is the shard. `{"id": …, "unavailable": true}` keeps a guild as it is.
#[utoipa::path(put, path = "/bot/shards/{shard_count}/{shard_id}/guilds", operation_id = "botGuilds", tag = "bot",
    security(("bot" = [])),
    params(("shard_count" = u32, Path, minimum = 1, maximum = 100_000, description = "How many shards there are."),
        ("shard_id" = u32, Path, maximum = 99_999, description = "Which of them."),
        ("Feed-Instance" = String, Header, pattern = "^[A-Za-z0-9_-]{1,64}$", description = "Names this start of the process."),
        ("Feed-Sequence" = u64, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number of the first event after this snapshot.")),
    request_body(content = String, description = "The guilds, one JSON object a line", content_type = "application/x-ndjson"),
    responses((status = 200, description = "Replaced", body = Envelope<Taken>),
        BotRefusals, ShardNotFound, UploadRefusals, FeedRefusals, Refusals))]
pub(super) async fn guilds(
    State(app): State<Arc<App>>,
    _: Bot,
    shard: Result<Path<(String, String)>, PathRejection>,
    sender: Sender,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<Taken>, ApiError> {
    let shard = shard.ok().and_then(|Path((count, id))| shard_key(&count, &id)).ok_or_else(ApiError::not_found)?;
    let upload = upload(&app, &headers, body, app.config.feed.snapshot_bytes)?;
    snapshot::receive(&app, shard, sender, upload).await.map(Success)
}

/// All subscriptions
///
/// The whole truth of premium: one subscription a line, then `{"end": N}` with their number.
#[utoipa::path(put, path = "/bot/subscriptions", operation_id = "botSubscriptions", tag = "bot", security(("bot" = [])),
    params(("Feed-Instance" = String, Header, pattern = "^[A-Za-z0-9_-]{1,64}$", description = "Names this start of the process."),
        ("Feed-Sequence" = u64, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number of the first event after this snapshot.")),
    request_body(content = String, description = "The subscriptions, one JSON object a line", content_type = "application/x-ndjson"),
    responses((status = 200, description = "Replaced", body = Envelope<Taken>),
        BotRefusals, UploadRefusals, FeedRefusals, Refusals))]
pub(super) async fn subscriptions(
    State(app): State<Arc<App>>,
    _: Bot,
    sender: Sender,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<Taken>, ApiError> {
    let upload = upload(&app, &headers, body, app.config.feed.snapshot_bytes)?;
    snapshot::receive(&app, snapshot::Subscriptions, sender, upload).await.map(Success)
}

/// Events
///
/// What changed, in order: one event a line, numbered from `Feed-Sequence`. All of them count, or none.
#[utoipa::path(post, path = "/bot/events", operation_id = "botEvents", tag = "bot", security(("bot" = [])),
    params(("Feed-Instance" = String, Header, pattern = "^[A-Za-z0-9_-]{1,64}$", description = "Names this start of the process."),
        ("Feed-Sequence" = u64, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number of the first of these events.")),
    request_body(content = Option<String>, description = "The events, one JSON object a line; none asks whether the number is right", content_type = "application/x-ndjson"),
    responses((status = 200, description = "Applied, or known already", body = Envelope<Taken>),
        BotRefusals, UploadRefusals, FeedRefusals, Refusals))]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    _: Bot,
    sender: Sender,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<Taken>, ApiError> {
    let mut upload = upload(&app, &headers, body, BODY)?;
    let (events, taken) = match read_events(&mut upload).await {
        Ok(read) => read,
        Err(refusal) => {
            upload.forget().await;
            return Err(refusal);
        }
    };
    // Whole, it runs to its end even if the client leaves.
    let store = Arc::clone(&app.store);
    let now = app.clock.now();
    let fed = app.background.spawn(async move { store.feed(sender.instance, sender.sequence, events, now).await });
    match fed.await.map_err(|error| ApiError::internal().because(&error))?? {
        Fed::Applied { applied, ignored, next } => Ok(Success(taken.with(applied, ignored, next))),
        Fed::Gap { next } => Err(ApiError::resync_required().with_next(next)),
    }
}

async fn read_events(upload: &mut Upload) -> Result<(Vec<Event>, Taken), ApiError> {
    let (mut events, mut taken) = (Vec::new(), Taken::default());
    while let Some(line) = upload.line().await? {
        let read = feed::event_line(line);
        let (event, reasons) = read.map_err(|reason| ApiError::line(upload.number(), &reason))?;
        taken.ignore(reasons);
        if let Event::Ignored(reason) = &event
            && taken.reasons.len() < REASONS
        {
            // The store counts it: it may be a repeat.
            taken.reasons.push(reason.clone());
        }
        if events.len() == EVENTS {
            return Err(ApiError::feed_body_too_large());
        }
        events.push(event);
    }
    Ok((events, taken))
}

/// What the service holds of the bot's data.
#[derive(Serialize, ToSchema)]
#[schema(as = BotState)]
pub(super) struct StateData {
    /// Every process that the service knows.
    instances: Vec<InstanceEntry>,
    /// Every shard of which there is a snapshot.
    shards: Vec<ShardEntry>,
    /// How many guilds have the bot.
    guilds: u64,
    /// How many subscriptions there are.
    subscriptions: u64,
    /// How many feedback entries there are.
    feedback: u64,
    /// How many members the team has.
    team: u64,
}

/// A process of the bot.
#[derive(Serialize, ToSchema)]
#[schema(as = BotInstance)]
struct InstanceEntry {
    /// Its name.
    instance: String,
    /// The number of its next event.
    next: u64,
    /// When it started, epoch seconds; null if it has not said so.
    started_at: Option<f64>,
    /// Milliseconds since its last heartbeat; null if there was none, or none for a long time.
    heartbeat_age: Option<u64>,
}

/// A shard of the bot.
#[derive(Serialize, ToSchema)]
#[schema(as = BotShard)]
struct ShardEntry {
    /// How many shards there are.
    shard_count: u32,
    /// Which of them.
    shard_id: u32,
    /// Who sent its snapshot.
    instance: String,
    /// Milliseconds since its snapshot.
    snapshot_age: u64,
    /// How many guilds it holds.
    guilds: u64,
    /// Milliseconds since its last heartbeat; null if there was none, or none for a long time.
    heartbeat_age: Option<u64>,
}

/// What the service holds
///
/// The bot's processes with the numbers of their next events, its shards with the ages of their snapshots and heartbeats, and
/// how much there is of everything.
#[utoipa::path(get, path = "/bot/state", operation_id = "botState", tag = "bot", security(("bot" = [])),
    responses((status = 200, description = "The state", body = Envelope<StateData>), BotRefusals, Refusals))]
pub(super) async fn state(State(app): State<Arc<App>>, _: Bot) -> Result<Success<StateData>, ApiError> {
    let (held, health) = (app.store.feed_state().await?, app.store.health().await?);
    let now = app.clock.now();
    let age = |time: Time| u64::try_from(now.since(time).as_millis()).unwrap_or(u64::MAX);
    let numbered: HashSet<String> = held.instances.iter().map(|known| known.instance.clone()).collect();
    // One that beats and has sent nothing yet waits at the first number.
    let beating =
        health.instances.iter().filter(|(name, _)| !numbered.contains(*name)).map(|(name, beats)| InstanceState {
            instance: name.clone(),
            next: 1,
            started_at: Some(beats.started_at),
            last_heartbeat: Some(beats.reported),
        });
    let instances = held.instances.into_iter().chain(beating).map(|known| InstanceEntry {
        instance: known.instance,
        next: known.next,
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double exactly")]
        started_at: known.started_at.map(|time| time.millis() as f64 / 1000.0),
        heartbeat_age: known.last_heartbeat.map(age),
    });
    let shards = held.shards.into_iter().map(|known| ShardEntry {
        shard_count: known.shard.count,
        shard_id: known.shard.id,
        instance: known.instance,
        snapshot_age: age(known.snapshot_at),
        guilds: known.guilds,
        heartbeat_age: health.shards.get(&known.shard.id).map(|shard| age(shard.reported)),
    });
    Ok(Success(StateData {
        instances: instances.collect(),
        shards: shards.collect(),
        guilds: held.guilds,
        subscriptions: held.subscriptions,
        feedback: held.feedback,
        team: held.team,
    }))
}

fn upload(app: &App, headers: &HeaderMap, body: Body, bound: u64) -> Result<Upload, ApiError> {
    Upload::new(headers, body, bound, app.config.feed.idle_timeout)
}

/// The shard with these numbers; decimal digits and nothing else.
fn shard_key(count: &str, id: &str) -> Option<ShardKey> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    ShardKey::new(number(count)?, number(id)?)
}
