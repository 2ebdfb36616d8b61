//! `/bot/…`: the feed that bots send their data to. Every call needs the bot's key.

mod bad_lines;
mod body;
#[cfg(test)]
mod fuzz;
mod snapshot;

use std::sync::Arc;

use api::envelope::Nothing;
use api::error::ErrorCode;
use api::error_responses::{BotRefusals, EventsRefusals, SnapshotRefusals, UploadRefusals};
use api::feed::{FeedResult, HeartbeatReport, StateData};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use bad_lines::BadLines;
use body::{KeyCheck, Upload};
use domain::feed::{self, Event, InstanceId, ShardKey};
use http::HeaderMap;
use runtime::permits_per_key::PermitsPerKey;
use store::{BatchOutcome, UnownedEvents};
use telemetry::untrusted::Untrusted;
use tracing::warn;

use super::credentials::{Bot, Sender, feed_overloaded};
use super::error::ApiError;
use super::respond::Success;
use crate::app::App;

/// The size limit of a heartbeat, decompressed.
const HEARTBEAT_BYTES: u64 = 1 << 20;
/// The size limit of a batch of events, decompressed.
const EVENTS_BYTES: u64 = 16 << 20;
/// The most events in a batch.
const EVENTS: usize = 10_000;

/// Send a heartbeat
///
/// Reports the health of a bot process and its own shards. Send one every 15 seconds.
#[utoipa::path(put, path = "/bot/heartbeat", operation_id = "sendHeartbeat", tag = "bot", security(("bot" = [])),
    request_body(content = HeartbeatReport, description = "The heartbeat", content_type = "application/json"),
    responses((status = 200, description = "Recorded", body = Nothing), BotRefusals, UploadRefusals))]
pub(super) async fn heartbeat(
    State(app): State<Arc<App>>,
    bot: Bot,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<Nothing>, ApiError> {
    let mut upload = upload(&app, &bot, &app.uploads.heartbeats, &headers, body, HEARTBEAT_BYTES)?;
    let report = upload.read_all().await?;
    if !app.views.keys.is_valid(bot.hash).await? {
        return Err(ErrorCode::BotKeyInvalid.into());
    }
    let now = app.sources.clock.now();
    let heartbeat = feed::heartbeat(&bot.key, &report, now).map_err(|reason| ApiError::line(1, &reason))?;
    app.sources.store.record_heartbeat(heartbeat, now).await?;
    Ok(Success(Nothing {}))
}

/// Replace a shard's guilds
///
/// A snapshot of one shard: one guild per line, then `{"end": N}` with the number of guilds. It atomically replaces every guild for
/// which `(id >> 22) % shard_count` is the shard. `{"id": …, "unavailable": true}` keeps a guild as it is.
#[utoipa::path(put, path = "/bot/shards/{shard_count}/{shard_id}/guilds", operation_id = "replaceShardGuilds", tag = "bot",
    security(("bot" = [])),
    params(("shard_count" = u32, Path, minimum = 1, maximum = 100_000, description = "How many shards there are."),
        ("shard_id" = u32, Path, maximum = 99_999, description = "The shard's number, from 0."),
        ("Feed-Instance" = String, Header, pattern = "^[A-Za-z0-9_-]{1,64}$", description = "The name of this run of the process."),
        ("Feed-Sequence" = u64, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number of the first event after this snapshot."),
        ("Feed-After" = Option<u64>, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number that the process thinks the service expects next. If the service expects a lower one, it has lost something: 409 `resync_required`, and nothing is applied.")),
    request_body(content = String, description = "The guilds, one JSON object per line", content_type = "application/x-ndjson"),
    responses((status = 200, description = "Replaced", body = FeedResult),
        BotRefusals, UploadRefusals, SnapshotRefusals))]
pub(super) async fn guilds(
    State(app): State<Arc<App>>,
    bot: Bot,
    shard: Result<Path<(String, String)>, PathRejection>,
    sender: Sender,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<FeedResult>, ApiError> {
    let shard = shard.ok().and_then(|Path((count, id))| parse_shard(&count, &id)).ok_or(ErrorCode::NotFound)?;
    let bound = app.current.get().feed.snapshot_bytes;
    let upload = upload(&app, &bot, &app.uploads.permits, &headers, body, bound)?;
    snapshot::receive(&app, shard, &bot, &sender, upload).await.map(Success)
}

/// Replace all subscriptions
///
/// A snapshot of all premium subscriptions: one per line, then `{"end": N}` with the number of subscriptions.
#[utoipa::path(put, path = "/bot/subscriptions", operation_id = "replaceSubscriptions", tag = "bot", security(("bot" = [])),
    params(("Feed-Instance" = String, Header, pattern = "^[A-Za-z0-9_-]{1,64}$", description = "The name of this run of the process."),
        ("Feed-Sequence" = u64, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number of the first event after this snapshot."),
        ("Feed-After" = Option<u64>, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number that the process thinks the service expects next. If the service expects a lower one, it has lost something: 409 `resync_required`, and nothing is applied.")),
    request_body(content = String, description = "The subscriptions, one JSON object per line", content_type = "application/x-ndjson"),
    responses((status = 200, description = "Replaced", body = FeedResult),
        BotRefusals, UploadRefusals, SnapshotRefusals))]
pub(super) async fn subscriptions(
    State(app): State<Arc<App>>,
    bot: Bot,
    sender: Sender,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<FeedResult>, ApiError> {
    let bound = app.current.get().feed.snapshot_bytes;
    let upload = upload(&app, &bot, &app.uploads.permits, &headers, body, bound)?;
    snapshot::receive(&app, snapshot::Subscriptions, &bot, &sender, upload).await.map(Success)
}

/// Send events
///
/// What changed, in order: one event per line, numbered from `Feed-Sequence`. Either all of them are applied or none.
#[utoipa::path(post, path = "/bot/events", operation_id = "sendEvents", tag = "bot", security(("bot" = [])),
    params(("Feed-Instance" = String, Header, pattern = "^[A-Za-z0-9_-]{1,64}$", description = "The name of this run of the process."),
        ("Feed-Sequence" = u64, Header, minimum = 1, maximum = 4_611_686_018_427_387_904_u64, description = "The number of the first of these events.")),
    request_body(content = Option<String>, description = "The events, one JSON object per line; send none to check the sequence number", content_type = "application/x-ndjson"),
    responses((status = 200, description = "Applied, now or before", body = FeedResult),
        BotRefusals, UploadRefusals, EventsRefusals))]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    bot: Bot,
    sender: Sender,
    headers: HeaderMap,
    body: Body,
) -> Result<Success<FeedResult>, ApiError> {
    let mut upload = upload(&app, &bot, &app.uploads.permits, &headers, body, EVENTS_BYTES)?;
    let (events, mut result) = match read_events(&mut upload).await {
        Ok(read) => read,
        Err(refusal) => {
            upload.discard().await;
            return Err(refusal);
        }
    };
    // A batch that has arrived completely is applied even if the client leaves.
    let (now, instance, first) = (app.sources.clock.now(), sender.instance(&bot), sender.sequence);
    let store = Arc::clone(&app.sources.store);
    let by = instance.clone();
    let fed = app.sources.background.spawn(async move { store.feed(by, first, events, now).await });
    match fed.await.map_err(|error| ApiError::new(ErrorCode::Internal).because(&error))?? {
        BatchOutcome::Applied { applied, ignored, next, unowned, lost } => {
            explain(&mut result, &app, &instance, &unowned);
            result.note_lost(&lost);
            Ok(Success(result.with(applied, ignored, next)))
        }
        BatchOutcome::Resync { next } => Err(ApiError::new(ErrorCode::ResyncRequired).with_next(next)),
        BatchOutcome::KeyRefused => Err(ErrorCode::BotKeyInvalid.into()),
    }
}

/// Explains why events about guilds were ignored, before all other reasons.
fn explain(result: &mut FeedResult, app: &App, instance: &InstanceId, unowned: &UnownedEvents) {
    if unowned.unclaimed > 0 {
        result.explain_first(format!(
            "{} ignored: this process has neither sent a snapshot of the shard nor named it in a heartbeat. Send its snapshot \
             first.",
            unowned.unclaimed
        ));
    }
    if let Some(owner) = &unowned.owner {
        warn_operator(app, instance, owner, unowned.overruled);
        result.explain_first(overruled_reason(unowned.overruled, owner));
    }
}

/// Tells the sender why its data is ignored.
fn overruled_reason(count: u64, owner: &InstanceId) -> String {
    format!(
        "{count} ignored: the shard belongs to the process `{}`, which started later. If that one is gone, it loses the shard after \
         90 seconds without a heartbeat or a call.",
        owner.name.as_str()
    )
}

/// Logs, once per minute and instance, that data of the bot is ignored, and what to do about it.
fn warn_operator(app: &App, instance: &InstanceId, owner: &InstanceId, ignored: u64) {
    if app.uploads.ignored.count(instance, app.sources.clock.ticks()).is_none() {
        return;
    }
    let (key, name) = (Untrusted(&instance.key), instance.name.as_str());
    let (owner_key, owner) = (Untrusted(&owner.key), owner.name.as_str());
    warn!(
        %key, instance = name, %owner_key, owner, ignored,
        "the bot's data is ignored: a process that started later owns its shards; if both are running, stop one of them; if \
         the owner is gone, its shards are free after 90 seconds of silence"
    );
}

async fn read_events(upload: &mut Upload) -> Result<(Vec<Event>, FeedResult), ApiError> {
    let (mut events, mut result, mut bad) = (Vec::new(), FeedResult::default(), BadLines::default());
    while let Some(line) = upload.next_line().await? {
        let (event, reasons) = match feed::event_line(line, &provider::RULES) {
            Ok(read) => read,
            Err(reason) => {
                bad.add(upload.number(), &reason);
                continue;
            }
        };
        result.ignore(reasons);
        if let Event::Ignored(reason) = &event {
            // The store counts it, because it may be a repeat.
            result.explain(reason);
        }
        if events.len() == EVENTS {
            return Err(ErrorCode::FeedBodyTooLarge.into());
        }
        events.push(event);
    }
    bad.refuse()?;
    Ok((events, result))
}

/// Get the feed's state
///
/// The bot's processes with their next event numbers, its shards with the ages of their snapshots and heartbeats, and how much data
/// there is of each kind.
#[utoipa::path(get, path = "/bot/state", operation_id = "getBotState", tag = "bot", security(("bot" = [])),
    responses((status = 200, description = "The state", body = StateData), BotRefusals))]
pub(super) async fn state(State(app): State<Arc<App>>, bot: Bot) -> Result<Success<StateData>, ApiError> {
    let _permit = app.uploads.permits.try_acquire(bot.hash).ok_or_else(|| feed_overloaded(&app))?;
    let (state, health) = (app.sources.store.feed_state().await?, app.sources.store.health().await?);
    Ok(Success(StateData::new(state, &health, &bot.key, app.sources.clock.now())))
}

/// The body of a request that has one of these permits.
fn upload(
    app: &Arc<App>,
    bot: &Bot,
    permits: &PermitsPerKey,
    headers: &HeaderMap,
    body: Body,
    bound: u64,
) -> Result<Upload, ApiError> {
    let permit = permits.try_acquire(bot.hash).ok_or_else(|| feed_overloaded(app))?;
    let upload = Upload::new(headers, body, bound, app.current.get().feed.idle_timeout)?;
    Ok(upload.of_bot(KeyCheck::new(app, bot), permit))
}

/// The shard with these numbers, if they are plain decimal digits.
fn parse_shard(count: &str, id: &str) -> Option<ShardKey> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    ShardKey::new(number(count)?, number(id)?)
}
