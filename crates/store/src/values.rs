//! The store's parameters and results besides the domain's own values.

use std::fmt;

use domain::feedback::Feedback;
use domain::{ListedGuild, Snowflake, Time, User};

/// SHA-256 over a code and what it was sent with, which identifies one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeHash(pub [u8; 32]);

/// The provider's tokens of a user, encrypted. The store can neither read nor create them.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedGrant(pub Vec<u8>);

impl fmt::Debug for SealedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedGrant({} bytes)", self.0.len())
    }
}

/// The provider's list of a user's guilds, as last fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredList {
    /// When the fetch began.
    pub fetched: Time,
    /// The guilds, without those that the user has left since.
    pub guilds: Vec<ListedGuild>,
}

/// What is stored about a user with a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Their profile, as of the last sign-in.
    pub user: User,
    pub grant: Option<SealedGrant>,
    /// Grows with every new grant, so that nobody replaces or blames one they did not use.
    pub grant_version: u64,
    /// The provider's list, if it was ever fetched.
    pub list: Option<StoredList>,
    /// Grows whenever the user leaves a guild and whenever a list is stored: a list whose fetch began earlier is not stored any
    /// more.
    pub list_version: u64,
}

/// A grant whose user has no session any more, taken from the store to be revoked at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub user: Snowflake,
    pub grant: SealedGrant,
    /// How often it was tried, including this time.
    pub tries: u32,
    /// The sender's deadline, which also identifies this try.
    pub until: Time,
}

/// The result of one step of sweeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub sessions: usize,
    /// Whether a batch was full, so that there may be more to do.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedUser {
    pub user: Snowflake,
    /// The operator's reason.
    pub reason: String,
    pub since: Time,
}

/// A snapshot being staged; invisible until it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotId(pub u64);

/// A bot key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotKey {
    /// Its public name, used to revoke it.
    pub id: String,
    /// The operator's name for it.
    pub label: String,
    pub created: Time,
    pub revoked: Option<Time>,
}

/// Some of the positive feedback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// How many positive entries there are.
    pub count: u64,
    /// The entries with their slots (`0..count`): in the order drawn, or by slot.
    pub entries: Vec<(u64, Feedback)>,
}
