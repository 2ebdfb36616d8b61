//! `/bot/…`.

use domain::feed::{FeedState, InstanceState, LostShards, ShardKey, ShardState};
use domain::saturating;
use domain::{Health, Time};
use serde::Serialize;
use utoipa::ToSchema;

/// The health of a bot process and its own shards.
#[derive(Debug, ToSchema)]
pub struct HeartbeatReport {
    /// The name of this run of the process, as in `Feed-Instance`.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    pub instance: String,
    /// When the process started, in epoch seconds; the same in every heartbeat.
    #[schema(minimum = 0)]
    pub started_at: f64,
    /// The process's memory usage in bytes.
    #[schema(minimum = 0, maximum = 1_125_899_906_842_624_u64)]
    pub memory: Option<u64>,
    /// How many shards the bot has in total.
    #[schema(minimum = 1, maximum = 100_000)]
    pub shard_count: u32,
    /// The shards of this process.
    #[schema(max_items = 100_000)]
    pub shards: Vec<ShardReport>,
    /// Whether this is the process's last heartbeat, because it stops. Its shards are free at once then, not after 90 seconds.
    pub leaving: Option<bool>,
}

/// A shard's health. A field that is `null` or left out keeps its last value.
#[derive(Debug, ToSchema)]
pub struct ShardReport {
    /// Its number, below `shard_count`.
    #[schema(maximum = 99_999)]
    pub id: u32,
    /// How many milliseconds ago it last sent a heartbeat to the platform.
    #[schema(minimum = 0)]
    pub sent_ms_ago: Option<f64>,
    /// How many milliseconds ago a heartbeat was last acknowledged.
    #[schema(minimum = 0)]
    pub acknowledged_ms_ago: Option<f64>,
    /// The latency in milliseconds; a negative value means unknown.
    pub latency: Option<f64>,
}

/// The result of an upload.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Taken)]
pub struct FeedResult {
    /// How many entries were applied.
    applied: u64,
    /// How many entries were ignored: repeats, entries this version does not know, permissions that cannot be granted, and
    /// entries that a process started later has taken over.
    ignored: u64,
    /// The number of the next event.
    next: u64,
    /// Why entries were ignored; the first 20 reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    reasons: Vec<String>,
    /// The shards of this process that a process started later owns, so that what this one sends about them is ignored. In the
    /// response to events, if some were ignored for this reason or none were sent; and to a snapshot, if it was. The first 1,000.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    replaced: Vec<ShardName>,
    /// The shards of this process that hold another process's data, or none, and that this one's snapshot would take: send it. The
    /// first 1,000.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    free: Vec<ShardName>,
}

/// A shard of the bot, by its numbers.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShardName {
    /// How many shards there are.
    shard_count: u32,
    /// The shard's number, from 0.
    shard_id: u32,
}

/// How many reasons a response has at most.
const REASONS: usize = 20;

impl FeedResult {
    /// Counts what these reasons are about as ignored.
    pub fn ignore(&mut self, reasons: Vec<String>) {
        self.ignored += reasons.len() as u64;
        self.reasons.extend(reasons);
        self.reasons.truncate(REASONS);
    }

    /// Adds a reason for something that is counted elsewhere, if there is room for it.
    pub fn explain(&mut self, reason: &str) {
        if self.reasons.len() < REASONS {
            self.reasons.push(reason.to_owned());
        }
    }

    /// Puts a reason before all others.
    pub fn explain_first(&mut self, reason: String) {
        self.reasons.insert(0, reason);
        self.reasons.truncate(REASONS);
    }

    /// Names the sender's shards that hold another process's data.
    pub fn note_lost(&mut self, LostShards { replaced, free }: &LostShards) {
        let names = |shards: &[ShardKey]| {
            shards.iter().map(|shard| ShardName { shard_count: shard.count, shard_id: shard.id }).collect()
        };
        (self.replaced, self.free) = (names(replaced), names(free));
    }

    /// With these counts, added to what was already ignored.
    #[must_use]
    pub fn with(self, applied: u64, ignored: u64, next: u64) -> Self {
        Self { applied, ignored: self.ignored + ignored, next, ..self }
    }
}

/// The bot's data in the service.
#[derive(Serialize, ToSchema)]
#[schema(as = BotState)]
pub struct StateData {
    /// Every process the service knows; those of the calling key come first.
    instances: Vec<InstanceData>,
    /// Every shard with a snapshot.
    shards: Vec<ShardStateData>,
    /// How many guilds have the bot.
    guilds: u64,
    /// How many subscriptions there are.
    subscriptions: u64,
    /// How many feedback entries there are.
    feedback: u64,
    /// How many members the team has.
    team: u64,
}

/// A bot process.
#[derive(Serialize, ToSchema)]
#[schema(as = BotInstance)]
pub struct InstanceData {
    /// Its name.
    instance: String,
    /// The ID of its key. The same name under another key is another process.
    key: String,
    /// The number of its next event.
    next: u64,
    /// When it started, in epoch seconds, and never later than it was first seen; null if it has not reported that.
    #[schema(required = true)]
    started_at: Option<f64>,
    /// Milliseconds since its last heartbeat; null if there was none, or none for a long time.
    #[schema(required = true)]
    heartbeat_age: Option<u64>,
}

/// A shard of the bot.
#[derive(Serialize, ToSchema)]
#[schema(as = BotShard)]
pub struct ShardStateData {
    /// How many shards there are.
    shard_count: u32,
    /// The shard's number, from 0.
    shard_id: u32,
    /// The process that sent its snapshot.
    instance: String,
    /// The ID of that process's key.
    key: String,
    /// Milliseconds since its snapshot.
    snapshot_age: u64,
    /// How many guilds it has.
    guilds: u64,
    /// Milliseconds since its last heartbeat; null if there was none, or none for a long time.
    #[schema(required = true)]
    heartbeat_age: Option<u64>,
}

impl StateData {
    /// `key`: the ID of the requesting key, whose processes come first.
    pub fn new(state: FeedState, health: &Health, key: &str, now: Time) -> Self {
        let FeedState { instances, shards, guilds, subscriptions, feedback, team } = state;
        let (mut known, others): (Vec<_>, Vec<_>) = instances.into_iter().partition(|known| known.instance.key == key);
        known.extend(others);
        Self {
            instances: known.into_iter().map(|instance| InstanceData::new(instance, now)).collect(),
            shards: shards.into_iter().map(|shard| ShardStateData::new(shard, health, now)).collect(),
            guilds,
            subscriptions,
            feedback,
            team,
        }
    }
}

impl InstanceData {
    fn new(InstanceState { instance, next, started_at, last_heartbeat }: InstanceState, now: Time) -> Self {
        Self {
            instance: instance.name.as_str().to_owned(),
            key: instance.key,
            next,
            started_at: started_at.map(Time::fractional_seconds),
            heartbeat_age: last_heartbeat.map(|time| age(time, now)),
        }
    }
}

impl ShardStateData {
    fn new(ShardState { shard, instance, snapshot_at, guilds }: ShardState, health: &Health, now: Time) -> Self {
        Self {
            shard_count: shard.count,
            shard_id: shard.id,
            instance: instance.name.as_str().to_owned(),
            key: instance.key,
            snapshot_age: age(snapshot_at, now),
            guilds,
            heartbeat_age: health.shards.get(&shard.id).map(|shard| age(shard.reported, now)),
        }
    }
}

/// In milliseconds.
fn age(time: Time, now: Time) -> u64 {
    saturating::millis(now.since(time))
}
