//! The values that the store takes and gives, beside those of the domain.

use std::fmt;

use domain::feedback::Feedback;
use domain::{ListedGuild, Snowflake, Time, User};

/// SHA-256 over a code and what it was sent with: the name under which one exchange is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeHash(pub [u8; 32]);

/// The provider's tokens of a user, encrypted. The store can neither read nor make them.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedGrant(pub Vec<u8>);

impl fmt::Debug for SealedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedGrant({} bytes)", self.0.len())
    }
}

/// The provider's list of a user's guilds, as it was last fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredList {
    /// When the fetch began.
    pub fetched: Time,
    /// The guilds, less those that the user has left since.
    pub guilds: Vec<ListedGuild>,
}

/// What is stored of a user who has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Their profile, as of the last sign-in.
    pub user: User,
    pub grant: Option<SealedGrant>,
    /// Grows with every new grant, so that nobody replaces or blames one that they did not use.
    pub grant_version: u64,
    /// The provider's list, if it was ever fetched.
    pub list: Option<StoredList>,
    /// Grows with every departure and every stored list: a list whose fetch began before one of these is not stored after it.
    pub list_version: u64,
}

/// A grant whose user has no session any more, taken from the store to be revoked at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub user: Snowflake,
    pub grant: SealedGrant,
    /// How often it was tried, this time included.
    pub tries: u32,
    /// Its sender has time until then; it names this try.
    pub until: Time,
}

/// What one step of sweeping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many sessions ended.
    pub sessions: usize,
    /// Whether a batch was full: there may be more to do.
    pub more: bool,
}

/// A user whom the operator has blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedUser {
    pub user: Snowflake,
    /// Why, in the operator's words.
    pub reason: String,
    pub since: Time,
}

/// A snapshot that is being staged; invisible until it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotId(pub u64);

/// A bot's key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotKey {
    /// Its public name, by which it is revoked.
    pub id: String,
    /// What the operator calls it.
    pub label: String,
    pub created: Time,
    pub revoked: Option<Time>,
}

/// A random draw of positive feedback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// How many positive entries there are.
    pub count: u64,
    /// The drawn ones with their slots (`0..count`), in the order drawn.
    pub entries: Vec<(u64, Feedback)>,
}
