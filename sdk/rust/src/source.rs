//! What the feed asks the bot for. It does so when it sends, so it never sends an old state after a new one.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// A guild as the bot sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guild {
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The hash of its icon.
    pub icon: Option<String>,
    /// The ID of its owner.
    pub owner: u64,
    /// How many members it has.
    pub members: u64,
}

impl Guild {
    /// A guild without an icon.
    pub fn new(id: u64, name: impl Into<String>, owner: u64, members: u64) -> Self {
        Self { id, name: name.into(), icon: None, owner, members }
    }

    /// The same with this icon.
    #[must_use]
    pub fn with_icon(mut self, icon: Option<String>) -> Self {
        self.icon = icon;
        self
    }
}

/// The current state of a guild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuildState {
    /// The bot can see it.
    Available(Guild),
    /// The platform has an outage: the bot is in it, but cannot see it.
    Unavailable,
    /// The bot is not in it.
    Gone,
}

/// A member with all their roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The user's ID.
    pub user: u64,
    /// The IDs of all of this member's roles.
    pub roles: Vec<u64>,
}

/// The state of one of the process's own shards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ShardHealth {
    /// Its id.
    pub id: u32,
    /// Milliseconds since it last sent a heartbeat to the platform.
    pub sent_ms_ago: Option<f64>,
    /// Milliseconds since one was acknowledged.
    pub acknowledged_ms_ago: Option<f64>,
    /// Milliseconds between the two.
    pub latency: Option<f64>,
}

impl ShardHealth {
    /// A shard that is only known to exist.
    pub fn new(id: u32) -> Self {
        Self { id, ..Self::default() }
    }
}

/// Why members cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListingError {
    /// The platform refuses it (401 or 403): the privileged intent is not enabled.
    Forbidden,
    /// The platform rate limits the bot (429): this page is requested again after this time, and the listing continues.
    Limited(Duration),
    /// Anything else; the listing is retried.
    Failed(String),
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden => f.write_str("the platform refuses it"),
            Self::Limited(time) => write!(f, "the platform rate limits the bot for {time:?}"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ListingError {}

/// A page of members, in ascending order of their IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The members.
    pub members: Vec<Member>,
    /// Whether this is the last page.
    pub is_last: bool,
}

/// The bot library, as the feed sees it.
pub trait Source: Send + Sync + 'static {
    /// The bot's name, if it is known.
    fn name(&self) -> Option<String>;
    /// The library and its version, like `serenity 0.12`.
    fn library(&self) -> Option<String>;
    /// The total number of shards.
    fn shard_count(&self) -> u32;
    /// The process's own shards, as far as the library knows them.
    fn shards(&self) -> Vec<ShardHealth>;
    /// Whether more of the process's shards are about to start. Libraries start them one after another.
    fn expects_shards(&self) -> bool {
        false
    }
    /// The guilds of a shard, including those with an outage.
    fn guild_ids(&self, shard: u32) -> Vec<u64>;
    /// A guild's current state.
    fn guild(&self, id: u64) -> GuildState;
    /// Whether the client receives member events.
    fn has_members_intent(&self) -> bool;
    /// The members with one of these roles, if the library's cache has every member of the guild.
    fn cached_holders(&self, guild: u64, roles: &[u64]) -> Option<Vec<Member>>;
    /// The page of the guild's members with IDs above `after`, from the platform.
    fn list_members(&self, guild: u64, after: u64) -> BoxFuture<'static, Result<Page, ListingError>>;
}

/// The shard of a guild.
pub(crate) fn shard_of(guild: u64, shard_count: u32) -> u32 {
    u32::try_from((guild >> 22) % u64::from(shard_count.max(1))).unwrap_or_default()
}
