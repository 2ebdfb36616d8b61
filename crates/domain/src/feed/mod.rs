//! The feed: what the bot sends, and what happens to it.
//!
//! `event`, `line`, `heartbeat` and `roster` parse what it sends: bytes in, changes or reasons out. `numbering`, `ownership`
//! and `instance` decide whose data counts. `batch` decides about events, `commit` about snapshots, `carried` about what a
//! snapshot does not mention, `sweep` about what is removed afterwards, and `totals` about how many guilds there are in the
//! meantime. The stores look things up and write what these decide.

mod batch;
mod carried;
mod commit;
mod event;
mod heartbeat;
mod instance;
mod json;
mod line;
mod numbering;
mod ownership;
mod roster;
mod sweep;
#[cfg(test)]
mod tests;
mod totals;

use super::{Change, Guild, Snowflake, Subscription, Time};

pub use batch::{BatchOutcome, EventBatch, Question, UnownedEvents};
pub use carried::{Carried, CarriedParts, latest_commit, merge_basis};
pub use commit::{Commits, Committed, Replacement, StagedSnapshot, is_resharding};
pub use event::{event_line, feedback_line};
pub use heartbeat::heartbeat;
pub use instance::{InstanceId, InstanceName, Life, counted_start};
pub use json::Reason;
pub use line::{guild_line, subscription_line};
pub use numbering::FIRST_EVENT;
pub use ownership::{CommittedShard, LOST_SHARDS, LostShards, OwnShards, Owner, SenderState};
pub use roster::roster;
pub use sweep::{Sweep, SweepBudget, UNCOVERED};
pub use totals::{GuildTotals, hidden_after_commit, hidden_after_sweep, shown_totals};

/// A line of a snapshot: an item, or the end with the number of items before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotLine<T> {
    /// An item, and why some of it was ignored.
    One(T, Vec<String>),
    /// `{"end": n}`
    End(u64),
}

/// The most shards a bot can have.
pub const MAX_SHARDS: u32 = 100_000;

/// A shard under one way of splitting the guilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardKey {
    /// How many shards the guilds are split into; at least 1.
    pub count: u32,
    /// Which of them; below the count.
    pub id: u32,
}

impl ShardKey {
    /// The shard with these numbers, if they are valid.
    pub fn new(count: u32, id: u32) -> Option<Self> {
        (id < count && count <= MAX_SHARDS).then_some(Self { count, id })
    }

    /// The shard of a guild under this count.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a `u32`")]
    pub fn of(guild: Snowflake, count: u32) -> Self {
        let count = count.max(1);
        Self { count, id: ((guild.get() >> 22) % u64::from(count)) as u32 }
    }

    pub fn covers(self, guild: Snowflake) -> bool {
        Self::of(guild, self.count) == self
    }
}

/// Shards of two counts have guilds in common if their IDs are the same modulo this divisor of the counts.
pub fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a.max(1) } else { common_divisor(b, a % b) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuildLine {
    Guild(Guild),
    /// An outage: the guild stays as stored.
    Unavailable(Snowflake),
}

impl GuildLine {
    pub fn id(&self) -> Snowflake {
        match self {
            Self::Guild(guild) => guild.id,
            Self::Unavailable(guild) => *guild,
        }
    }

    /// What it leaves as stored, for a visible guild.
    pub fn carried(&self) -> Carried {
        match self {
            Self::Guild(guild) => guild.carried(),
            Self::Unavailable(_) => Carried::default(),
        }
    }
}

/// What a snapshot describes completely, and replaces in one visible step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The guilds of one shard.
    Shard(ShardKey),
    Subscriptions,
}

/// Some lines of a snapshot, of the kind that its scope requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lines {
    Guilds(Vec<GuildLine>),
    Subscriptions(Vec<Subscription>),
}

impl Scope {
    pub fn shard(self) -> Option<ShardKey> {
        match self {
            Self::Shard(shard) => Some(shard),
            Self::Subscriptions => None,
        }
    }
}

/// Keeps only the last of the lines with the same key, in key order. Returns the keys of the others.
pub fn keep_last<T, K: Ord>(lines: &mut Vec<T>, key: impl Fn(&T) -> K) -> Vec<K> {
    let mut replaced = Vec::new();
    // Stable, so that the last line of a key stays its last.
    lines.sort_by_key(&key);
    lines.dedup_by(|later, earlier| {
        let is_same = key(later) == key(earlier);
        if is_same {
            replaced.push(key(earlier));
            std::mem::swap(later, earlier);
        }
        is_same
    });
    replaced
}

/// Lines about guilds as they are staged: only the last line about each guild, in order of guild ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastGuildLines<'a> {
    /// The guilds described.
    pub guilds: Vec<&'a Guild>,
    /// Those with parts that are not mentioned. If there are any, the snapshot depends on the commit that the parts come from.
    pub carrying: Vec<Snowflake>,
    /// Those that stay as stored.
    pub unavailable: Vec<Snowflake>,
}

impl<'a> LastGuildLines<'a> {
    pub fn of(lines: &'a [GuildLine]) -> Self {
        let mut last: Vec<&GuildLine> = lines.iter().collect();
        keep_last(&mut last, |line| line.id());
        let (mut guilds, mut carrying, mut unavailable) = (Vec::with_capacity(last.len()), Vec::new(), Vec::new());
        for line in last {
            if line.carried().any() {
                carrying.push(line.id());
            }
            match line {
                GuildLine::Guild(guild) => guilds.push(guild),
                GuildLine::Unavailable(guild) => unavailable.push(*guild),
            }
        }
        Self { guilds, carrying, unavailable }
    }
}

impl Lines {
    /// Whether any of them leaves something as stored, for a visible guild. It may be a line that does not count, because a
    /// later one is about the same guild: see [`LastGuildLines`].
    pub fn has_carried_parts(&self) -> bool {
        matches!(self, Self::Guilds(lines) if lines.iter().any(|line| line.carried().any()))
    }
}

/// An event line: a change, or an event that this version does not know and ignores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Change(Change),
    /// Counted, with the reason.
    Ignored(String),
}

/// What the service knows about an instance, and which event it expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceState {
    pub instance: InstanceId,
    /// The number that its next event must not exceed.
    pub next: u64,
    /// When it counts as started, going by its heartbeats.
    pub started_at: Option<Time>,
    pub last_heartbeat: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardState {
    pub shard: ShardKey,
    pub instance: InstanceId,
    pub snapshot_at: Time,
    pub guilds: u64,
}

/// Everything stored that the bot has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    pub instances: Vec<InstanceState>,
    /// Every shard with a snapshot that still counts.
    pub shards: Vec<ShardState>,
    pub guilds: u64,
    pub subscriptions: u64,
    pub feedback: u64,
    pub team: u64,
}
