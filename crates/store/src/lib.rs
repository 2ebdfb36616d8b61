//! What must survive a restart. [`Store`] defines what a store does in terms of the domain; `values` are its parameters and
//! results besides the domain's own. `sqlite` and `postgres` implement it: they look things up, let the domain decide, and
//! write the result, in one transaction. `sql` is the work that both do alike, and `columns` are the values that they share.
//! [`open`] alone decides which of them to use. [`freshness`] invalidates caches. [`backup`] is the only way that data leaves or
//! enters a store.

pub mod backup;
mod columns;
pub mod freshness;
mod history;
mod look;
mod migrations;
mod person_places;
mod postgres;
mod schema_version;
mod sql;
mod sqlite;
mod starting;
#[cfg(test)]
mod tests;
mod totals_change;
mod upkeep;
mod values;
mod watch;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
// `freshness` takes its atomics from here; the concurrency model (`tests/faults/shuttle`) replaces them with shuttle's.
use std::sync::atomic;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};

pub use domain::feed::{BatchOutcome, Committed, UnownedEvents};
use domain::feed::{Event, FeedState, InstanceId, Lines, Scope};
pub use domain::sign_in::{Admission, Claim, GrantSaved, Lease};
use domain::{
    Change, Health, Heartbeat, PersonFacts, RevocationEnd, Roster, Session, SessionId, Snowflake, Stats, Time,
    TokenHash, User,
};
pub use freshness::{Freshness, Topic};
pub use history::{HistoryStore, Recorded};
pub use look::{Integrity, ServerLook, StoreContent, StoreLook, grants_in_file, look, look_at_server};
pub use sqlite::VacuumNeeds;
use starting::StoreLocation;
pub use upkeep::{AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Holdings, PersonTraces, Resealed, Upkeep};
pub use values::{
    Account, BlockedUser, BotKey, CodeHash, Revocation, Sample, SealedGrant, SnapshotId, StoredList, Swept,
};
pub use watch::{StoreBytes, StoreLoad, StoreWatch};

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or is closing; trying again later may help.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// It is reachable but has too much to do; trying again later may help.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// It failed in a way that trying again cannot fix.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Stored data cannot be read the way it was written; an operator has to salvage or restore it.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// The same with its location in front: a path, or a database and its hosts.
    #[must_use]
    pub(crate) fn at(self, place: &str) -> Self {
        let placed = |why: String| if why.starts_with(place) { why } else { format!("{place}: {why}") };
        match self {
            Self::Unavailable(why) => Self::Unavailable(placed(why)),
            Self::Busy(why) => Self::Busy(placed(why)),
            Self::Failed(why) => Self::Failed(placed(why)),
            Self::Damaged(why) => Self::Damaged(placed(why)),
        }
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// The snapshot was discarded, and must be sent again.
fn not_staged() -> StoreError {
    StoreError::Unavailable("the snapshot is no longer staged".to_owned())
}

/// Everything that lasts. Reads see every write that was acknowledged before they began. Before a write is acknowledged, the
/// store tells the [`Freshness`] it was opened with what has changed, even if nobody waits for the write any more.
#[async_trait]
pub trait Store: Upkeep + HistoryStore + StoreWatch {
    // Sign-in: one exchange per code, then a grant, then sessions.

    /// Claims a code for one exchange. A claim that is never settled counts as settled without a user after `until`; a settled
    /// one is remembered until then.
    async fn claim_code(&self, code: CodeHash, now: Time, until: Time) -> Result<Claim>;
    /// Settles a claim: the code is used up, and this user (or nobody) signed in with it.
    async fn settle_code(&self, code: CodeHash, user: Option<User>, until: Time) -> Result<()>;
    /// Releases a claim: the code cannot have been used, and may be tried again.
    async fn release_code(&self, code: CodeHash) -> Result<()>;
    /// Stores a user's profile and replaces their grant. A session must be opened right after it: until then the grant stays,
    /// even if the user's last other session ends, and a sweep finds it if the session is never opened. It cancels a waiting
    /// revocation. If one was sent, the caller must have `verified` that the new grant works after that many tries.
    async fn save_grant(&self, user: User, grant: SealedGrant, now: Time, verified: Option<u32>) -> Result<GrantSaved>;
    /// Opens a session for a user. If they have no grant, it reclaims one of theirs that is waiting to be revoked. If they then
    /// have more than `most` sessions, the least recently used ones end.
    async fn open_session(&self, user: User, token: TokenHash, session: Session, most: usize) -> Result<Admission>;

    // Sessions. A user's grant is dropped with their last session and, after a while, revoked at the provider.

    /// The session of a token, expired or not.
    async fn session(&self, token: TokenHash) -> Result<Option<Session>>;
    /// All sessions of a user, newest first.
    async fn sessions_of(&self, user: Snowflake) -> Result<Vec<Session>>;
    /// Which of these sessions exist, expired or not.
    async fn sessions_among(&self, sessions: Vec<SessionId>) -> Result<HashSet<SessionId>>;
    /// Ends one session of a user; `false` if they have no such session.
    async fn end_session(&self, user: Snowflake, session: SessionId, now: Time) -> Result<bool>;
    /// Ends all sessions of a user, and returns how many.
    async fn end_sessions(&self, user: Snowflake, now: Time) -> Result<usize>;
    /// Ends all sessions of a user and drops their grant, if it still has this version. The provider no longer knows it, so
    /// there is nothing to revoke.
    async fn end_sessions_of_grant(&self, user: Snowflake, grant_version: u64) -> Result<bool>;
    /// Records when sessions were last used; the later time wins.
    async fn note_seen(&self, seen: Vec<(SessionId, Time)>) -> Result<()>;
    /// Ends up to `batch` sessions that were last used or created before these times, and removes as many old code claims,
    /// grants whose session was never opened, and revocations that were sent.
    async fn sweep(&self, now: Time, last_seen_before: Time, created_before: Time, batch: usize) -> Result<Swept>;

    // Grants to revoke at the provider.

    /// Takes a revocation that is due and not being sent. Nobody else takes it until `until`.
    async fn take_revocation(&self, now: Time, until: Time) -> Result<Option<Revocation>>;
    /// Ends an attempt at the revocation that was taken with this `until`.
    async fn finish_revocation(&self, user: Snowflake, until: Time, end: RevocationEnd) -> Result<()>;

    // The provider's grant and list of a user.

    /// What is stored about a user with a session.
    async fn account(&self, user: Snowflake) -> Result<Option<Account>>;
    /// Leases a grant to whoever refreshes it, if it still has this version and no lease ends after `now`: a refresh token
    /// works once, and another replica may be using it. The lease ends at `until`, or with the next grant.
    async fn lease_grant(&self, user: Snowflake, grant_version: u64, now: Time, until: Time) -> Result<Lease>;
    /// Replaces a refreshed grant, if it still has this version. Returns the new one's version, which differs so that a slow
    /// request with the old tokens does not blame the new ones.
    async fn replace_grant(&self, user: Snowflake, grant_version: u64, grant: SealedGrant) -> Result<Option<u64>>;
    /// Stores a fetched list, unless the user has left a guild since `list_version` or another list was stored since: when two
    /// fetches overlap, the slower one may have started first. The list gets a new version.
    async fn save_list(&self, user: Snowflake, list_version: u64, list: StoredList) -> Result<bool>;

    // Blocked users.

    /// Blocks a user and ends their sessions, and returns how many.
    async fn block(&self, blocked: BlockedUser) -> Result<usize>;
    /// Unblocks a user; `false` if they were not blocked.
    async fn unblock(&self, user: Snowflake) -> Result<bool>;
    /// All blocked users, most recent first.
    async fn blocked(&self) -> Result<Vec<BlockedUser>>;

    // What the API shows.

    /// What is known about a user, and about the guilds on their list that have the bot.
    async fn person(&self, user: Snowflake, guilds: Vec<Snowflake>) -> Result<PersonFacts>;
    /// Which of these guilds are known not to have the bot: a snapshot covers them but does not contain them.
    async fn without_bot(&self, guilds: Vec<Snowflake>) -> Result<Vec<Snowflake>>;
    /// Draws feedback with the numbers that `seed` produces.
    async fn sample_feedback(&self, seed: u64) -> Result<Sample>;
    /// The positive feedback by slot, without the entries from this slot on.
    async fn feedback_before(&self, slot: u64) -> Result<Sample>;
    async fn team(&self) -> Result<Roster>;
    async fn health(&self) -> Result<Health>;
    /// Totals. While a sweep looks for guilds that a resharding has hidden, guilds and members are the totals from before it
    /// plus what events have changed since; see `domain/feed/totals.rs`.
    async fn stats(&self) -> Result<Stats>;

    // What the bot sends: changes, numbered events, snapshots, heartbeats.

    /// Applies changes in order, all or nothing.
    async fn apply(&self, changes: Vec<Change>) -> Result<()>;
    /// Applies a batch of an instance's numbered events, starting at number `first`: all or nothing, together with the
    /// instance's `next` (feed.md, "Order, repeats, gaps"). Its key is checked in the same transaction.
    async fn feed(&self, instance: InstanceId, first: u64, events: Vec<Event>, now: Time) -> Result<BatchOutcome>;
    /// Begins a snapshot. Anything that an earlier one left staged in a crash is left to [`Store::clean_up`].
    async fn begin_snapshot(&self, scope: Scope, instance: InstanceId, sequence: u64, now: Time) -> Result<SnapshotId>;
    /// Stages some lines of a snapshot in one short transaction; none of it is visible. Grants and staff that a guild does not
    /// mention are carried over from the stored ones, here rather than at the commit. Returns the users of the subscriptions that
    /// these lines replaced, because an earlier line of the snapshot was about the same user.
    async fn stage(&self, snapshot: SnapshotId, lines: Lines) -> Result<Vec<Snowflake>>;
    /// Makes a staged snapshot current, in one visible step that does not depend on its size. The sender's key is checked in
    /// the same transaction. `after` is the number that the sender thinks is expected from it: if a lower one is, something was
    /// lost, and nothing is applied.
    async fn commit_snapshot(&self, snapshot: SnapshotId, after: Option<u64>, now: Time) -> Result<Committed>;
    async fn abandon_snapshot(&self, snapshot: SnapshotId) -> Result<()>;
    /// Checks about `batch` rows and removes those that no read can see any more. Returns how many it checked, 0 when nothing
    /// is left to do. Snapshots that a process left staged when it ended are discarded, and numberings that have not been
    /// used for a long time are forgotten. Only the service calls it, never a command that runs at the same time.
    async fn clean_up(&self, batch: usize) -> Result<usize>;
    async fn feed_state(&self) -> Result<FeedState>;
    /// Merges a heartbeat that arrived `now`.
    async fn record_heartbeat(&self, heartbeat: Heartbeat, now: Time) -> Result<()>;

    // Bot keys.

    /// Stores a key by its hash.
    async fn add_key(&self, key: BotKey, hash: TokenHash) -> Result<()>;
    /// The key with this hash, revoked or not.
    async fn key(&self, hash: TokenHash) -> Result<Option<BotKey>>;
    /// All keys, oldest first.
    async fn keys(&self) -> Result<Vec<BotKey>>;
    async fn good_keys(&self) -> Result<Vec<TokenHash>>;
    /// Revokes a key; `false` if there is no active one. What was sent with it and is not committed by then never will be.
    async fn revoke_key(&self, id: String, now: Time) -> Result<bool>;

    // Shutdown.

    /// Waits until everything acknowledged is safe, then closes files and connections.
    async fn close(&self);
}

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// `sqlite:PATH` or `postgres://…`; it may contain a password.
    pub url: SecretString,
    /// How long a read or write may wait for its turn.
    pub wait: Duration,
    /// The most connections to a database server.
    pub connections: usize,
    /// How long to keep trying to open it.
    pub start_wait: Duration,
}

/// The file of the store, if it is one.
pub fn local_file(url: &SecretString) -> Option<PathBuf> {
    url.expose_secret().strip_prefix("sqlite:").map(PathBuf::from)
}

/// Whether replicas can share the store. If so, they must also share the keys that encrypt its contents.
pub fn needs_shared_keys(url: &SecretString) -> bool {
    local_file(url).is_none()
}

pub fn kind(url: &SecretString) -> &'static str {
    if local_file(url).is_some() { "SQLite" } else { "PostgreSQL" }
}

/// Where the store is, for people: the path of its file, or the database and its hosts. Nothing else from the URL.
pub fn location(url: &SecretString) -> String {
    match local_file(url) {
        Some(path) => sqlite::location(&path),
        None => postgres::location(url),
    }
}

/// Where the data, or the connection to it, is not as safe as it should be, and how to fix that.
pub fn cautions(url: &SecretString) -> Vec<String> {
    match local_file(url) {
        Some(path) => sqlite::cautions(&path),
        None => postgres::cautions(url),
    }
}

/// Whether an SQLite file can be written where it is; the text warns of low disk space. Changes nothing.
pub fn look_at_place(url: &SecretString) -> Result<Option<String>> {
    local_file(url).map_or(Ok(None), |path| sqlite::look_at_place(&path))
}

/// What is wrong with a store's URL, if anything.
pub fn check(url: &SecretString) -> std::result::Result<(), String> {
    match url.expose_secret().split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => Ok(()),
        Some(("postgres" | "postgresql", _)) => postgres::check(url),
        _ => Err("write `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`".to_owned()),
    }
}

/// Opens the store at the URL for a read-only command. Nothing is created or migrated, and the database itself refuses every
/// write.
pub async fn open_read_only(options: StoreOptions, freshness: Arc<Freshness>) -> Result<Arc<dyn Store>> {
    check(&options.url).map_err(StoreError::Failed)?;
    match local_file(&options.url) {
        Some(path) => {
            let name = location(&options.url);
            let open = || sqlite::Sqlite::open_read_only(path.clone(), options.wait, Arc::clone(&freshness));
            Ok(Arc::new(starting::keep_trying(options.start_wait, StoreLocation::File(&name), open).await?))
        }
        None => Ok(Arc::new(postgres::Postgres::open_read_only(&options, freshness).await?)),
    }
}

/// Whether this file is a store of an unreleased version, which no release can use.
pub fn is_unreleased(path: &Path) -> bool {
    sqlite::is_unreleased(path)
}

/// What a vacuum of the store's file needs; `None` if the store isn't a file, or not ours yet.
pub async fn vacuum_needs(url: &SecretString) -> Result<Option<VacuumNeeds>> {
    match local_file(url) {
        Some(path) => sqlite::vacuum_needs(path).await.map_err(|error| error.at(&location(url))),
        None => Ok(None),
    }
}

/// Rewrites the store's file, so that no deleted data is left in it. Writes have to wait.
pub async fn vacuum(url: &SecretString) -> Result<()> {
    match local_file(url) {
        Some(path) => sqlite::vacuum(path).await.map_err(|error| error.at(&location(url))),
        None => Ok(()),
    }
}

/// Opens the store at the URL, creating and migrating it as needed. Waits for one that is not ready yet.
pub async fn open(options: StoreOptions, freshness: Arc<Freshness>) -> Result<Arc<dyn Store>> {
    check(&options.url).map_err(StoreError::Failed)?;
    match local_file(&options.url) {
        Some(path) => {
            let name = location(&options.url);
            let open = || sqlite::Sqlite::open(path.clone(), options.wait, Arc::clone(&freshness));
            Ok(Arc::new(starting::keep_trying(options.start_wait, StoreLocation::File(&name), open).await?))
        }
        None => Ok(Arc::new(postgres::Postgres::open(&options, freshness).await?)),
    }
}
