//! What must survive a restart. [`Store`] says what a store does, in the words of the domain; `values` are what it takes and
//! gives beside the domain's own. `sqlite` and `postgres` execute it: they look things up, ask the domain to decide, and write what
//! it says, in one transaction. `columns` is what they share. Which of them runs is decided in [`open`] and nowhere else.
//! [`freshness`] invalidates caches. [`backup`] is the one way in which data leaves a store and enters another.

pub mod backup;
mod columns;
pub mod freshness;
mod history;
mod look;
mod person_places;
mod postgres;
mod schema_version;
mod sqlite;
mod starting;
#[cfg(test)]
mod tests;
mod totals_change;
mod upkeep;
mod values;
mod watch;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
// `freshness` takes its atomics from here; the concurrency model (`tests/model`) has shuttle's in their place.
use std::sync::atomic;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};

pub use domain::feed::{Committed, Fed, Foreign};
use domain::feed::{Event, FeedState, InstanceId, Lines, Scope};
pub use domain::sign_in::{Admission, Claim, GrantSaved, Lease};
use domain::{
    Change, Health, Heartbeat, PersonFacts, RevocationEnd, Roster, Session, SessionId, Snowflake, Stats, Time,
    TokenHash, User,
};
pub use freshness::{Freshness, Topic};
pub use history::{HistoryStore, Recorded};
pub use look::{FileLook, Integrity, ServerLook, StoreContent, StoreLook, grants_in_file, look, look_at_server};
pub use sqlite::VacuumNeeds;
use starting::StoreLocation;
pub use upkeep::{AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Holdings, PersonTraces, Resealed, Upkeep};
pub use values::{
    Account, BlockedUser, BotKey, CodeHash, Revocation, Sample, SealedGrant, SnapshotId, StoredList, Swept,
};
pub use watch::{StoreBytes, StoreLoad, StoreWatch};

/// Why the store could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or is closing: trying again later may help.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// It can be reached and has too much to do: trying again later may help.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// It failed in a way that trying again does not mend.
    #[error("the store failed: {0}")]
    Failed(String),
    /// What is stored cannot be read as it was written: an operator has to salvage or restore it.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// The same, with the place in front: a path, or a database and its hosts.
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

/// The snapshot was given up, and the sender must send it again.
fn not_staged() -> StoreError {
    StoreError::Unavailable("the snapshot is no longer staged".to_owned())
}

/// Everything that lasts. Reads see every write that was acknowledged before they began. Before a write is acknowledged, the
/// store tells the [`Freshness`] it was opened with what the write has changed, even if nobody waits for the write any more.
#[async_trait]
pub trait Store: Upkeep + HistoryStore + StoreWatch {
    // Sign-in: one exchange per code, then a grant, then sessions.

    /// Claims a code for one exchange. A claim that nobody settles counts as settled without a user after `until`; a settled
    /// one is remembered until then.
    async fn claim_code(&self, code: CodeHash, now: Time, until: Time) -> Result<Claim>;
    /// Ends a claim: the code is used up, and this user (or nobody) signed in with it.
    async fn settle_code(&self, code: CodeHash, user: Option<User>, until: Time) -> Result<()>;
    /// Forgets a claim: the code cannot have been used, and may be tried again.
    async fn release_code(&self, code: CodeHash) -> Result<()>;
    /// Stores a user's profile and replaces their grant. A session is to be opened right after it: until then the grant stays,
    /// even if the user's last other session ends meanwhile, and a sweep finds it if the session is never opened. It cancels a
    /// revocation that waits. If one was sent, the caller must have `verified` that the new grant works after that many tries.
    async fn save_grant(&self, user: User, grant: SealedGrant, now: Time, verified: Option<u32>) -> Result<GrantSaved>;
    /// Opens a session for a user. If they have no grant, it takes back one of theirs that waits to be revoked. If they have more
    /// than `most` sessions then, those least recently used end.
    async fn open_session(&self, user: User, token: TokenHash, session: Session, most: usize) -> Result<Admission>;

    // Sessions. With a user's last session their grant is dropped and, after a while, to be revoked at the provider.

    /// The session of a token, expired or not.
    async fn session(&self, token: TokenHash) -> Result<Option<Session>>;
    /// All sessions of a user, newest first.
    async fn sessions_of(&self, user: Snowflake) -> Result<Vec<Session>>;
    /// Those of these sessions that there are, expired or not.
    async fn sessions_among(&self, sessions: Vec<SessionId>) -> Result<HashSet<SessionId>>;
    /// Ends one session of a user; `false` if they have no such session.
    async fn end_session(&self, user: Snowflake, session: SessionId, now: Time) -> Result<bool>;
    /// Ends all sessions of a user; gives how many.
    async fn end_sessions(&self, user: Snowflake, now: Time) -> Result<usize>;
    /// Ends all sessions of a user and drops their grant, if it still is the one with this version. The provider has
    /// forgotten it already, so there is nothing to revoke.
    async fn end_sessions_of_grant(&self, user: Snowflake, grant_version: u64) -> Result<bool>;
    /// Notes when sessions were last used; the later time wins.
    async fn note_seen(&self, seen: Vec<(SessionId, Time)>) -> Result<()>;
    /// Ends up to `batch` sessions that were last used or created before these times, and forgets as many old code claims,
    /// grants whose session was never opened, and revocations that were sent.
    async fn sweep(&self, now: Time, last_seen_before: Time, created_before: Time, batch: usize) -> Result<Swept>;

    // Grants to revoke at the provider.

    /// Takes a revocation that is due and that nobody is sending; nobody else takes it until `until`.
    async fn take_revocation(&self, now: Time, until: Time) -> Result<Option<Revocation>>;
    /// Ends a try of the revocation that was taken with this `until`.
    async fn finish_revocation(&self, user: Snowflake, until: Time, end: RevocationEnd) -> Result<()>;

    // The provider's grant and list of a user.

    /// What is stored of a user who has a session.
    async fn account(&self, user: Snowflake) -> Result<Option<Account>>;
    /// Leases a grant to the one who refreshes it, if it still is the one with this version and no lease ends after `now`: a
    /// refresh token is good for one use, and another replica may be using it. The lease ends at `until`, or with the next grant.
    async fn lease_grant(&self, user: Snowflake, grant_version: u64, now: Time, until: Time) -> Result<Lease>;
    /// Replaces a grant that was refreshed, if it still is the one with this version. Gives the version of the new one, which
    /// differs: a slow user of the old tokens must not blame the new ones.
    async fn replace_grant(&self, user: Snowflake, grant_version: u64, grant: SealedGrant) -> Result<Option<u64>>;
    /// Stores a fetched list, unless the user has left a guild since `list_version`, or another list was stored since: of two
    /// fetches that overlapped, the slower one may have begun first. The list gets a new version.
    async fn save_list(&self, user: Snowflake, list_version: u64, list: StoredList) -> Result<bool>;

    // Blocked users.

    /// Blocks a user and ends their sessions; gives how many.
    async fn block(&self, blocked: BlockedUser) -> Result<usize>;
    /// Unblocks a user; `false` if they were not blocked.
    async fn unblock(&self, user: Snowflake) -> Result<bool>;
    /// All blocked users, the latest first.
    async fn blocked(&self) -> Result<Vec<BlockedUser>>;

    // What the API shows.

    /// What is known of a user, and of those guilds on their list that have the bot.
    async fn person(&self, user: Snowflake, guilds: Vec<Snowflake>) -> Result<PersonFacts>;
    /// Those of these guilds that are known not to have the bot: a snapshot covers them and does not name them.
    async fn without_bot(&self, guilds: Vec<Snowflake>) -> Result<Vec<Snowflake>>;
    /// Draws feedback with the numbers that `seed` gives.
    async fn sample_feedback(&self, seed: u64) -> Result<Sample>;
    async fn team(&self) -> Result<Roster>;
    async fn health(&self) -> Result<Health>;
    /// How much there is of everything. While a sweep looks for guilds that a resharding has hidden, guilds and members are those
    /// from before it with what events have changed since; see `domain/feed/totals.rs`.
    async fn stats(&self) -> Result<Stats>;

    // What the bot says: changes, numbered events, snapshots, heartbeats.

    /// Applies changes in order, all or nothing.
    async fn apply(&self, changes: Vec<Change>) -> Result<()>;
    /// Applies a batch of numbered events of an instance, of which the first has the number `first`: all or nothing, and the
    /// instance's `next` with them (feed.md, "Order, repeats, gaps"). Whether its key is good is asked in the same transaction.
    async fn feed(&self, instance: InstanceId, first: u64, events: Vec<Event>, now: Time) -> Result<Fed>;
    /// Begins a snapshot. What an earlier snapshot left staged by a crash is left to [`Store::clean_up`].
    async fn begin_snapshot(&self, scope: Scope, instance: InstanceId, sequence: u64, now: Time) -> Result<SnapshotId>;
    /// Stages some lines of a snapshot in one short transaction; nothing of it is visible. What a guild does not say of its
    /// grants and staff is carried over from what is stored, here and not at the commit.
    async fn stage(&self, snapshot: SnapshotId, lines: Lines) -> Result<()>;
    /// Makes a staged snapshot the truth, in one visible step that does not depend on its size. Whether the sender's key is good
    /// is asked in the same transaction.
    async fn commit_snapshot(&self, snapshot: SnapshotId, now: Time) -> Result<Committed>;
    async fn abandon_snapshot(&self, snapshot: SnapshotId) -> Result<()>;
    /// Looks at about `batch` rows and removes those that no read can see any more; gives how many it looked at, 0 when there is
    /// nothing left to do. Snapshots that a process which is gone left staged are given up, and numberings that nobody has used
    /// for long are forgotten. Only the service calls it, never a command that runs at the same time.
    async fn clean_up(&self, batch: usize) -> Result<usize>;
    async fn feed_state(&self) -> Result<FeedState>;
    /// Merges a heartbeat that arrived `now`.
    async fn beat(&self, beat: Heartbeat, now: Time) -> Result<()>;

    // Bot keys.

    /// Stores a key by its hash.
    async fn add_key(&self, key: BotKey, hash: TokenHash) -> Result<()>;
    /// The key with this hash, revoked or not.
    async fn key(&self, hash: TokenHash) -> Result<Option<BotKey>>;
    /// All keys, the oldest first.
    async fn keys(&self) -> Result<Vec<BotKey>>;
    async fn good_keys(&self) -> Result<Vec<TokenHash>>;
    /// Revokes a key; `false` if there is no such key that still works. What was sent with it and is not committed by then is
    /// never committed.
    async fn revoke_key(&self, id: String, now: Time) -> Result<bool>;

    // Shutdown.

    /// Waits until everything that was acknowledged is safe, and closes the files and connections.
    async fn close(&self);
}

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// `sqlite:PATH` or `postgres://…`; it may contain a password.
    pub url: SecretString,
    /// How long a read or write may wait for its turn.
    pub wait: Duration,
    /// How many connections to a database server there may be.
    pub connections: usize,
    /// How long to keep trying to open it.
    pub start_wait: Duration,
}

/// The file of a store that is one.
pub fn local_file(url: &SecretString) -> Option<PathBuf> {
    url.expose_secret().strip_prefix("sqlite:").map(PathBuf::from)
}

/// Whether replicas may share the store: then they must also share the keys that encrypt what is in it.
pub fn needs_shared_keys(url: &SecretString) -> bool {
    local_file(url).is_none()
}

/// Which kind of store a URL names.
pub fn kind(url: &SecretString) -> &'static str {
    if local_file(url).is_some() { "SQLite" } else { "PostgreSQL" }
}

/// Where the store is, for people: the path of its file, or the name of the database and its hosts. Nothing else of the URL.
pub fn location(url: &SecretString) -> String {
    match local_file(url) {
        Some(path) => sqlite::location(&path),
        None => postgres::location(url),
    }
}

/// What is not as safe as it should be about where the data lies or how it travels, each with its remedy.
pub fn cautions(url: &SecretString) -> Vec<String> {
    match local_file(url) {
        Some(path) => sqlite::cautions(&path),
        None => postgres::cautions(url),
    }
}

/// Whether a store that is a file can be written where it is; a text warns of little room. Nothing is changed.
pub fn look_at_place(url: &SecretString) -> Result<Option<String>> {
    local_file(url).map_or(Ok(None), |path| sqlite::look_at_place(&path))
}

/// Says what is wrong with a store's URL, if anything is.
pub fn check(url: &SecretString) -> std::result::Result<(), String> {
    match url.expose_secret().split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => Ok(()),
        Some(("postgres" | "postgresql", _)) => postgres::check(url),
        _ => Err("write `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`".to_owned()),
    }
}

/// Opens the store that the URL names for a command that only reads. Nothing is created or migrated, and the database itself refuses
/// every write.
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

/// What a vacuum of the store's file takes; `None` where the store is no file, or none of ours yet.
pub async fn vacuum_needs(url: &SecretString) -> Result<Option<VacuumNeeds>> {
    match local_file(url) {
        Some(path) => sqlite::vacuum_needs(path).await.map_err(|error| error.at(&location(url))),
        None => Ok(None),
    }
}

/// Rewrites the store's file, so that nothing deleted is left in it. Writes wait meanwhile.
pub async fn vacuum(url: &SecretString) -> Result<()> {
    match local_file(url) {
        Some(path) => sqlite::vacuum(path).await.map_err(|error| error.at(&location(url))),
        None => Ok(()),
    }
}

/// Opens the store that the URL names, creating and migrating it as needed. One that is not there yet is waited for.
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
