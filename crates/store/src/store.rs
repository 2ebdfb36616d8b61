//! The store: what it does, in terms of the domain. Each method runs shared work (`sql`) on the database that was opened.

use std::collections::HashSet;

use domain::feed::{Event, FeedState, InstanceId, Lines, Scope};
use domain::{
    Change, Health, Heartbeat, PersonFacts, RevocationEnd, Roster, Session, SessionId, Snowflake, Stats, Time,
    TokenHash, User,
};

use super::postgres::Pace::{Feed, Long, Quick};
use super::postgres::Postgres;
use super::sql::{
    accounts, changes, clean_up, feed, feed_state, feedback, guilds, health, keys, revocations, sessions, sign_in,
    snapshots, team, totals,
};
use super::sqlite::Sqlite;
use super::{
    Account, Admission, BatchOutcome, BlockedUser, BotKey, Claim, CodeHash, Committed, GrantSaved, Lease, Result,
    Revocation, Sample, SealedGrant, SnapshotId, StoreError, StoredList, Swept,
};

/// Everything that lasts. Reads see every write that was acknowledged before they began. Before a write is acknowledged, the
/// store tells the [`crate::Freshness`] it was opened with what has changed, even if nobody waits for the write any more.
pub struct Store(pub(crate) Backend);

pub(crate) enum Backend {
    Sqlite(Box<Sqlite>),
    Postgres(Postgres),
}

/// Runs shared work that changes something, in a transaction. It gets references to these variables. The [`Pace`] only matters on
/// PostgreSQL. Running it is boxed, so that the futures of callers stay small.
///
/// [`Pace`]: crate::postgres::Pace
macro_rules! transact {
    ($self:ident, $pace:expr, ($($argument:ident),*), |$db:ident, $topics:ident| $work:expr) => {{
        let arguments = ($($argument,)*);
        match &$self.0 {
            $crate::store::Backend::Sqlite(sqlite) => {
                let work = move |$db: &rusqlite::Connection, $topics: &mut $crate::sql::ChangedTopics| {
                    let ($($argument,)*) = &arguments;
                    $crate::sqlite::run($work)
                };
                Box::pin(sqlite.writer.write(work)).await
            }
            $crate::store::Backend::Postgres(postgres) => {
                let work = postgres.executor.write($pace, arguments, |$db, $topics, ($($argument,)*)| Box::pin($work));
                Box::pin(work).await
            }
        }
    }};
}
pub(crate) use transact;

/// Runs shared work that reads: one `Statement`, or several that see the same `Snapshot`. On SQLite every read sees one.
macro_rules! read {
    ($self:ident, $what:ident, ($($argument:ident),*), |$db:ident| $work:expr) => {{
        let arguments = ($($argument,)*);
        match &$self.0 {
            $crate::store::Backend::Sqlite(sqlite) => {
                let work = move |$db: &rusqlite::Connection| {
                    let ($($argument,)*) = &arguments;
                    $crate::sqlite::run($work)
                };
                Box::pin(sqlite.readers.read(work)).await
            }
            $crate::store::Backend::Postgres(postgres) => {
                let what = $crate::postgres::Read::$what;
                let work = postgres.executor.read(what, arguments, |$db, ($($argument,)*)| Box::pin($work));
                Box::pin(work).await
            }
        }
    }};
}
pub(crate) use read;

impl From<Sqlite> for Store {
    fn from(sqlite: Sqlite) -> Self {
        Self(Backend::Sqlite(Box::new(sqlite)))
    }
}

impl From<Postgres> for Store {
    fn from(postgres: Postgres) -> Self {
        Self(Backend::Postgres(postgres))
    }
}

/// The snapshot was discarded, and must be sent again.
fn not_staged() -> StoreError {
    StoreError::Unavailable("the snapshot is no longer staged".to_owned())
}

impl Store {
    // Sign-in: one exchange per code, then a grant, then sessions.

    /// Claims a code for one exchange. A claim that is never settled counts as settled without a user after `until`; a settled
    /// one is remembered until then.
    pub async fn claim_code(&self, code: CodeHash, now: Time, until: Time) -> Result<Claim> {
        transact!(self, Quick, (code, now, until), |db, _topics| sign_in::claim(db, *code, *now, *until))
    }

    /// Settles a claim: the code is used up, and this user (or nobody) signed in with it.
    pub async fn settle_code(&self, code: CodeHash, user: Option<User>, until: Time) -> Result<()> {
        transact!(self, Quick, (code, user, until), |db, _topics| sign_in::settle(db, *code, user.as_ref(), *until))
    }

    /// Releases a claim: the code cannot have been used, and may be tried again.
    pub async fn release_code(&self, code: CodeHash) -> Result<()> {
        transact!(self, Quick, (code), |db, _topics| sign_in::release(db, *code))
    }

    /// Stores a user's profile and replaces their grant. A session must be opened right after it: until then the grant stays,
    /// even if the user's last other session ends, and a sweep finds it if the session is never opened. It cancels a waiting
    /// revocation. If one was sent, the caller must have `verified` that the new grant works after that many tries.
    pub async fn save_grant(
        &self,
        user: User,
        grant: SealedGrant,
        now: Time,
        verified: Option<u32>,
    ) -> Result<GrantSaved> {
        transact!(self, Quick, (user, grant, now, verified), |db, topics| {
            sign_in::save_grant(db, topics, user, grant, *now, *verified)
        })
    }

    /// Opens a session for a user. If they have no grant, it reclaims one of theirs that is waiting to be revoked. If they then
    /// have more than `most` sessions, the least recently used ones end.
    pub async fn open_session(&self, user: User, token: TokenHash, session: Session, most: usize) -> Result<Admission> {
        transact!(self, Quick, (user, token, session, most), |db, topics| {
            sign_in::open_session(db, topics, user, *token, session, *most)
        })
    }

    // Sessions. A user's grant is dropped with their last session and, after a while, revoked at the provider.

    /// The session of a token, expired or not.
    pub async fn session(&self, token: TokenHash) -> Result<Option<Session>> {
        read!(self, Statement, (token), |db| sessions::session(db, *token))
    }

    /// All sessions of a user, newest first.
    pub async fn sessions_of(&self, user: Snowflake) -> Result<Vec<Session>> {
        read!(self, Statement, (user), |db| sessions::sessions_of(db, *user))
    }

    /// Which of these sessions exist, expired or not.
    pub async fn sessions_among(&self, sessions: Vec<SessionId>) -> Result<HashSet<SessionId>> {
        read!(self, Statement, (sessions), |db| sessions::among(db, sessions))
    }

    /// Ends one session of a user; `false` if they have no such session.
    pub async fn end_session(&self, user: Snowflake, session: SessionId, now: Time) -> Result<bool> {
        transact!(self, Quick, (user, session, now), |db, topics| {
            sessions::end_one(db, topics, *user, session, *now)
        })
    }

    /// Ends all sessions of a user, and returns how many.
    pub async fn end_sessions(&self, user: Snowflake, now: Time) -> Result<usize> {
        transact!(self, Quick, (user, now), |db, topics| sessions::end_all(db, topics, *user, *now))
    }

    /// Ends all sessions of a user and drops their grant, if it still has this version. The provider no longer knows it, so
    /// there is nothing to revoke.
    pub async fn end_sessions_of_grant(&self, user: Snowflake, grant_version: u64) -> Result<bool> {
        transact!(self, Quick, (user, grant_version), |db, topics| {
            sessions::end_all_of_grant(db, topics, *user, *grant_version)
        })
    }

    /// Records when sessions were last used; the later time wins.
    pub async fn note_seen(&self, seen: Vec<(SessionId, Time)>) -> Result<()> {
        transact!(self, Quick, (seen), |db, _topics| sessions::note_seen(db, seen))
    }

    /// Ends up to `batch` sessions that were last used or created before these times, and removes as many old code claims,
    /// grants whose session was never opened, and revocations that were sent.
    pub async fn sweep(&self, now: Time, last_seen_before: Time, created_before: Time, batch: usize) -> Result<Swept> {
        transact!(self, Long, (now, last_seen_before, created_before, batch), |db, topics| {
            sessions::sweep(db, topics, *now, *last_seen_before, *created_before, *batch)
        })
    }

    // Grants to revoke at the provider.

    /// Takes a revocation that is due and not being sent. Nobody else takes it until `until`.
    pub async fn take_revocation(&self, now: Time, until: Time) -> Result<Option<Revocation>> {
        transact!(self, Quick, (now, until), |db, _topics| revocations::take(db, *now, *until))
    }

    /// Ends an attempt at the revocation that was taken with this `until`.
    pub async fn finish_revocation(&self, user: Snowflake, until: Time, end: RevocationEnd) -> Result<()> {
        transact!(self, Quick, (user, until, end), |db, _topics| revocations::finish(db, *user, *until, *end))
    }

    // The provider's grant and list of a user.

    /// What is stored about a user with a session.
    pub async fn account(&self, user: Snowflake) -> Result<Option<Account>> {
        read!(self, Statement, (user), |db| accounts::account(db, *user))
    }

    /// Leases a grant to whoever refreshes it, if it still has this version and no lease ends after `now`: a refresh token
    /// works once, and another replica may be using it. The lease ends at `until`, or with the next grant.
    pub async fn lease_grant(&self, user: Snowflake, grant_version: u64, now: Time, until: Time) -> Result<Lease> {
        transact!(self, Quick, (user, grant_version, now, until), |db, _topics| {
            accounts::lease_grant(db, *user, *grant_version, *now, *until)
        })
    }

    /// Replaces a refreshed grant, if it still has this version. Returns the new one's version, which differs so that a slow
    /// request with the old tokens does not blame the new ones.
    pub async fn replace_grant(&self, user: Snowflake, grant_version: u64, grant: SealedGrant) -> Result<Option<u64>> {
        transact!(self, Quick, (user, grant_version, grant), |db, _topics| {
            accounts::replace_grant(db, *user, *grant_version, grant)
        })
    }

    /// Stores a fetched list, unless the user has left a guild since `list_version` or another list was stored since: when two
    /// fetches overlap, the slower one may have started first. The list gets a new version.
    pub async fn save_list(&self, user: Snowflake, list_version: u64, list: StoredList) -> Result<bool> {
        transact!(self, Quick, (user, list_version, list), |db, topics| {
            accounts::save_list(db, topics, *user, *list_version, list)
        })
    }

    // Blocked users.

    /// Blocks a user and ends their sessions, and returns how many.
    pub async fn block(&self, blocked: BlockedUser) -> Result<usize> {
        transact!(self, Quick, (blocked), |db, topics| sessions::block(db, topics, blocked))
    }

    /// Unblocks a user; `false` if they were not blocked.
    pub async fn unblock(&self, user: Snowflake) -> Result<bool> {
        transact!(self, Quick, (user), |db, _topics| sign_in::unblock(db, *user))
    }

    /// All blocked users, most recent first.
    pub async fn blocked(&self) -> Result<Vec<BlockedUser>> {
        read!(self, Statement, (), |db| sign_in::blocked(db))
    }

    // What the API shows.

    /// What is known about a user, and about the guilds on their list that have the bot.
    pub async fn person(&self, user: Snowflake, guilds: Vec<Snowflake>) -> Result<PersonFacts> {
        read!(self, Snapshot, (user, guilds), |db| guilds::person(db, *user, guilds))
    }

    /// Which of these guilds are known not to have the bot: a snapshot covers them but does not contain them.
    pub async fn without_bot(&self, guilds: Vec<Snowflake>) -> Result<Vec<Snowflake>> {
        read!(self, Statement, (guilds), |db| guilds::without_bot(db, guilds))
    }

    /// Some guilds of the bot, for `dev`, whose people join them.
    pub async fn some_guilds(&self, most: u32) -> Result<Vec<Snowflake>> {
        read!(self, Statement, (most), |db| guilds::some(db, *most))
    }

    /// Some of a guild's staff, for `dev`.
    pub async fn some_staff(&self, guild: Snowflake, most: u32) -> Result<Vec<Snowflake>> {
        read!(self, Statement, (guild, most), |db| guilds::some_staff(db, *guild, *most))
    }

    /// Draws feedback with the numbers that `seed` produces.
    pub async fn sample_feedback(&self, seed: u64) -> Result<Sample> {
        read!(self, Statement, (seed), |db| feedback::sample(db, *seed))
    }

    /// The positive feedback by slot, without the entries from this slot on.
    pub async fn feedback_before(&self, slot: u64) -> Result<Sample> {
        read!(self, Statement, (slot), |db| feedback::before(db, *slot))
    }

    pub async fn team(&self) -> Result<Roster> {
        read!(self, Statement, (), |db| team::roster(db))
    }

    pub async fn health(&self) -> Result<Health> {
        read!(self, Snapshot, (), |db| health::load(db))
    }

    /// Totals. While a sweep looks for guilds that a resharding has hidden, guilds and members are the totals from before it
    /// plus what events have changed since; see `domain/feed/totals.rs`.
    pub async fn stats(&self) -> Result<Stats> {
        read!(self, Statement, (), |db| totals::stats(db))
    }

    // What the bot sends: changes, numbered events, snapshots, heartbeats.

    /// Applies changes in order, all or nothing.
    pub async fn apply(&self, changes: Vec<Change>) -> Result<()> {
        transact!(self, Feed, (changes), |db, topics| changes::apply(db, topics, changes))
    }

    /// Applies a batch of an instance's numbered events, starting at number `first`: all or nothing, together with the
    /// instance's `next` (feed.md, "Order, repeats, gaps"). Its key is checked in the same transaction.
    pub async fn feed(&self, instance: InstanceId, first: u64, events: Vec<Event>, now: Time) -> Result<BatchOutcome> {
        transact!(self, Feed, (instance, first, events, now), |db, topics| {
            feed::feed(db, topics, instance, *first, events, *now)
        })
    }

    /// Begins a snapshot. Anything that an earlier one left staged in a crash is left to [`Store::clean_up`].
    pub async fn begin_snapshot(
        &self,
        scope: Scope,
        instance: InstanceId,
        sequence: u64,
        now: Time,
    ) -> Result<SnapshotId> {
        transact!(self, Quick, (scope, instance, sequence, now), |db, _topics| {
            snapshots::begin(db, *scope, instance, *sequence, *now)
        })
    }

    /// Stages some lines of a snapshot in one short transaction; none of it is visible. Grants and staff that a guild does not
    /// mention are carried over from the stored ones, here rather than at the commit. Returns the users of the subscriptions that
    /// these lines replaced, because an earlier line of the snapshot was about the same user.
    pub async fn stage(&self, snapshot: SnapshotId, lines: Lines) -> Result<Vec<Snowflake>> {
        // Lines that carry something over take turns with everything that changes stored data.
        let pace = if lines.has_carried_parts() { Feed } else { Long };
        let staged: Result<Option<_>> =
            transact!(self, pace, (snapshot, lines), |db, _topics| snapshots::stage(db, *snapshot, lines));
        staged?.ok_or_else(not_staged)
    }

    /// Makes a staged snapshot current, in one visible step that does not depend on its size. The sender's key is checked in
    /// the same transaction. `after` is the number that the sender thinks is expected from it: if a lower one is, something was
    /// lost, and nothing is applied.
    pub async fn commit_snapshot(&self, snapshot: SnapshotId, after: Option<u64>, now: Time) -> Result<Committed> {
        let committed: Result<Option<_>> = transact!(self, Feed, (snapshot, after, now), |db, topics| {
            snapshots::commit(db, topics, *snapshot, *after, *now)
        });
        committed?.ok_or_else(not_staged)
    }

    pub async fn abandon_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        transact!(self, Feed, (snapshot), |db, _topics| snapshots::abandon(db, *snapshot))
    }

    /// Checks about `batch` rows and removes those that no read can see any more. Returns how many it checked, 0 when nothing
    /// is left to do. Snapshots that a process left staged when it ended are discarded, and numberings that have not been
    /// used for a long time are forgotten. Only the service calls it, never a command that runs at the same time.
    pub async fn clean_up(&self, batch: usize) -> Result<usize> {
        transact!(self, Feed, (batch), |db, topics| clean_up::clean_up(db, topics, *batch))
    }

    pub async fn feed_state(&self) -> Result<FeedState> {
        read!(self, Snapshot, (), |db| feed_state::load(db))
    }

    /// Merges a heartbeat that arrived `now`.
    pub async fn record_heartbeat(&self, heartbeat: Heartbeat, now: Time) -> Result<()> {
        transact!(self, Quick, (heartbeat, now), |db, topics| health::record_heartbeat(db, topics, heartbeat, *now))
    }

    // Bot keys.

    /// Stores a key by its hash.
    pub async fn add_key(&self, key: BotKey, hash: TokenHash) -> Result<()> {
        transact!(self, Quick, (key, hash), |db, topics| keys::add(db, topics, key, *hash))
    }

    /// The key with this hash, revoked or not.
    pub async fn key(&self, hash: TokenHash) -> Result<Option<BotKey>> {
        read!(self, Statement, (hash), |db| keys::by_hash(db, *hash))
    }

    /// All keys, oldest first.
    pub async fn keys(&self) -> Result<Vec<BotKey>> {
        read!(self, Statement, (), |db| keys::all(db))
    }

    pub async fn good_keys(&self) -> Result<Vec<TokenHash>> {
        read!(self, Statement, (), |db| keys::good(db))
    }

    /// Revokes a key; `false` if there is no active one. What was sent with it and is not committed by then never will be.
    pub async fn revoke_key(&self, id: String, now: Time) -> Result<bool> {
        transact!(self, Quick, (id, now), |db, topics| keys::revoke(db, topics, id, *now))
    }

    // Shutdown.

    /// Waits until everything acknowledged is safe, then closes files and connections.
    pub async fn close(&self) {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::Postgres(postgres) => postgres.close(),
        }
    }
}
