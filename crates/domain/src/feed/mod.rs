//! The feed: what the bot sends, and what becomes of it.
//!
//! `event`, `line`, `heartbeat` and `roster` read what it sends: bytes in, changes or reasons out. `numbering`, `ownership` and
//! `instance` say whose word counts. `batch` decides about events, `commit` about snapshots, `carried` what a snapshot leaves
//! unsaid, `sweep` what is removed afterwards, and `totals` how many guilds there are meanwhile. The stores look things up and write down what these decide.

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

pub use batch::{EventBatch, Fed, Foreign, Question};
pub use carried::{Carried, CarriedParts, latest_commit, merge_basis};
pub use commit::{Commits, Committed, Replacement, StagedSnapshot, is_resharding};
pub use event::{event_line, feedback_line};
pub use heartbeat::heartbeat;
pub use instance::{InstanceId, InstanceName, Life, counted_start};
pub use json::Reason;
pub use line::{guild_line, subscription_line};
pub use numbering::FIRST_EVENT;
pub use ownership::{CommittedShard, OwnShards, Owner, SenderState};
pub use roster::roster;
pub use sweep::{Sweep, SweepBudget, UNCOVERED};
pub use totals::{GuildTotals, hidden_after_commit, hidden_after_sweep, shown_totals};

/// A line of a snapshot: one thing, or the end with the number of things before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotLine<T> {
    /// A thing, and why some of it was ignored.
    One(T, Vec<String>),
    /// `{"end": n}`
    End(u64),
}

/// The most shards that a bot can have.
pub const MAX_SHARDS: u32 = 100_000;

/// A shard under one way of splitting the guilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardKey {
    /// Into how many the guilds are split; at least 1.
    pub count: u32,
    /// Which of them; below the count.
    pub id: u32,
}

impl ShardKey {
    /// The shard with these numbers, if there can be one.
    pub fn new(count: u32, id: u32) -> Option<Self> {
        (id < count && count <= MAX_SHARDS).then_some(Self { count, id })
    }

    /// The shard that a guild belongs to under this count.
    pub fn of(guild: Snowflake, count: u32) -> Self {
        let count = count.max(1);
        // A remainder below a `u32` fits.
        Self { count, id: u32::try_from((guild.get() >> 22) % u64::from(count)).unwrap_or(0) }
    }

    pub fn covers(self, guild: Snowflake) -> bool {
        Self::of(guild, self.count) == self
    }
}

/// Shards of two counts have guilds in common if their ids are the same modulo this divisor of the counts.
pub fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a.max(1) } else { common_divisor(b, a % b) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuildLine {
    Guild(Guild),
    /// An outage: the guild stays as it is stored.
    Unavailable(Snowflake),
}

impl GuildLine {
    pub fn id(&self) -> Snowflake {
        match self {
            Self::Guild(guild) => guild.id,
            Self::Unavailable(guild) => *guild,
        }
    }

    /// What it leaves as it is stored, of a guild that can be seen.
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

/// Some lines of a snapshot, of the kind that its scope asks for.
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

/// Of the lines about the same thing, leaves only the last one; in the order of their keys.
pub fn keep_last<T, K: Ord>(lines: &mut Vec<T>, key: impl Fn(&T) -> K) {
    // Stable, so that the last line of a key stays its last.
    lines.sort_by_key(&key);
    lines.dedup_by(|later, earlier| {
        let is_same = key(later) == key(earlier);
        if is_same {
            std::mem::swap(later, earlier);
        }
        is_same
    });
}

/// Lines about guilds as they are staged: of the lines about one guild only the last, in the order of the guilds' ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastGuildLines<'a> {
    /// The guilds that are told.
    pub guilds: Vec<&'a Guild>,
    /// Those of which some part is left unsaid. If there are any, the snapshot depends on the commit that the parts come from.
    pub carrying: Vec<Snowflake>,
    /// Those that stay as they are stored.
    pub unavailable: Vec<Snowflake>,
}

impl<'a> LastGuildLines<'a> {
    /// What counts of these lines.
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
    /// Whether any of them leaves something as it is stored, of a guild that can be seen. It may be a line that does not count,
    /// because a later one is about the same guild: see [`LastGuildLines`].
    pub fn has_carried_parts(&self) -> bool {
        matches!(self, Self::Guilds(lines) if lines.iter().any(|line| line.carried().any()))
    }
}

/// An event line: a change, or one that this version does not know and counts as ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// To apply.
    Change(Change),
    /// Counted, with the reason.
    Ignored(String),
}

/// What the service knows of an instance, and which event it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceState {
    pub instance: InstanceId,
    /// The number that its next event must not exceed.
    pub next: u64,
    /// When it counts as started, as far as its heartbeats told.
    pub started_at: Option<Time>,
    pub last_heartbeat: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardState {
    pub shard: ShardKey,
    /// Who sent its snapshot.
    pub instance: InstanceId,
    /// When the snapshot was acknowledged.
    pub snapshot_at: Time,
    pub guilds: u64,
}

/// What is stored of all that the bot has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// Every instance that the numbering knows.
    pub instances: Vec<InstanceState>,
    /// Every shard that a snapshot has described and that still counts.
    pub shards: Vec<ShardState>,
    pub guilds: u64,
    pub subscriptions: u64,
    pub feedback: u64,
    pub team: u64,
}
