//! The embedded store: one `SQLite` file. One thread writes and commits in groups, and a few connections read at the same time.
//! The work itself is plain functions over a connection, one file per topic.

mod accounts;
pub(super) mod backup;
mod changes;
mod clean_up;
mod columns;
mod coverage;
mod database;
mod errors;
mod feed;
mod feedback;
mod file;
mod forget;
mod guilds;
mod health;
mod instances;
mod look;
pub(super) mod migrations;
mod place;
mod read_only;
mod readers;
mod revocations;
mod sessions;
mod sign_in;
mod snapshots;
mod subscriptions;
#[cfg(test)]
mod tests;
mod totals;
mod upkeep;
mod vacuum;
mod watch;
mod writer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::feed::{Event, FeedState, InstanceId, Lines, Scope};
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, UpdateOutcome};
use domain::history::{History, Minute, Observation};
use domain::{
    Change, Health, Heartbeat, PersonFacts, RevocationEnd, Roster, Session, SessionId, Snowflake, Stats, Time,
    TokenHash, User,
};
use rusqlite::Connection;
use telemetry::metrics::StoreMetrics;

use self::database::run;
use self::file::{FileIdentity, configure_writer, connect, create};
pub(super) use self::file::{cautions, location};
pub(super) use self::look::{grants_in_file, is_unreleased, look};
pub(super) use self::place::look_at_place;
use self::readers::Readers;
use self::snapshots::LocalStaging;
pub use self::vacuum::VacuumNeeds;
pub(super) use self::vacuum::{vacuum, vacuum_needs};
use self::writer::{ChangedTopics, Writer};
use super::history::Recorded;
use super::schema_version;
use super::sql::store::history_store;
use super::sql::{announcements, history, keys, team};
use super::{
    Account, Admission, BatchOutcome, BlockedUser, BotKey, Claim, CodeHash, Committed, Freshness, GrantSaved, Lease,
    Result, Revocation, Sample, SealedGrant, SnapshotId, Store, StoreError, StoredList, Swept, not_staged,
};

const READERS: usize = 4;

pub(super) struct Sqlite {
    writer: Writer,
    readers: Readers,
    /// The snapshots that this process is staging; others were left by one that is gone.
    staging: LocalStaging,
    metrics: Arc<StoreMetrics>,
    path: PathBuf,
}

impl Sqlite {
    /// Opens the file, creating and migrating it as needed.
    pub(super) async fn open(path: PathBuf, wait: Duration, freshness: Arc<Freshness>) -> Result<Self> {
        let opened = tokio::task::spawn_blocking(move || {
            Self::open_now(&path, wait, freshness).map_err(|error| error.at(&location(&path)))
        });
        opened.await.map_err(|_| StoreError::Failed("opening it panicked".to_owned()))?
    }

    fn open_now(path: &Path, wait: Duration, freshness: Arc<Freshness>) -> Result<Self> {
        create(path)?;
        let mut connection = connect(path)?;
        // Nothing in a file that turns out not to be ours is changed before this.
        if migrations::run(&mut connection, migrations::STEPS)? {
            schema_version::log_new_store(&location(path));
        }
        configure_writer(&connection)?;
        let reader = || {
            let connection = connect(path)?;
            connection.pragma_update(None, "query_only", true)?;
            Ok(connection)
        };
        let readers = (0..READERS).map(|_| reader()).collect::<Result<_>>()?;
        let (metrics, clock) = (Arc::<StoreMetrics>::default(), freshness.clock().clone());
        Ok(Self {
            writer: Writer::start(
                connection,
                FileIdentity::of(path)?,
                location(path),
                wait,
                freshness,
                Arc::clone(&metrics),
            )?,
            readers: Readers::new(readers, location(path), wait, Arc::clone(&metrics), clock),
            staging: LocalStaging::default(),
            metrics,
            path: path.to_owned(),
        })
    }
}

/// Runs shared work that changes something. How long it may take matters only on PostgreSQL.
macro_rules! transact {
    ($self:ident, $pace:ident, $arguments:expr, |$db:ident, $topics:ident, $names:pat_param| $work:expr) => {{
        let arguments = $arguments;
        let work = move |$db: &Connection, $topics: &mut ChangedTopics| {
            let $names = &arguments;
            run($work)
        };
        $self.writer.write(work).await
    }};
}

/// Runs shared work that reads. All its statements see one state.
macro_rules! read {
    ($self:ident, $arguments:expr, |$db:ident, $names:pat_param| $work:expr) => {{
        let arguments = $arguments;
        let work = move |$db: &Connection| {
            let $names = &arguments;
            run($work)
        };
        $self.readers.read(work).await
    }};
}

macro_rules! read_snapshot {
    ($($read:tt)*) => {
        read!($($read)*)
    };
}

history_store!(Sqlite);

#[async_trait]
impl Store for Sqlite {
    async fn claim_code(&self, code: CodeHash, now: Time, until: Time) -> Result<Claim> {
        self.writer.write(move |connection, _| sign_in::claim(connection, code, now, until)).await
    }

    async fn settle_code(&self, code: CodeHash, user: Option<User>, until: Time) -> Result<()> {
        self.writer.write(move |connection, _| sign_in::settle(connection, code, user.as_ref(), until)).await
    }

    async fn release_code(&self, code: CodeHash) -> Result<()> {
        self.writer.write(move |connection, _| sign_in::release(connection, code)).await
    }

    async fn save_grant(&self, user: User, grant: SealedGrant, now: Time, verified: Option<u32>) -> Result<GrantSaved> {
        self.writer
            .write(move |connection, topics| sign_in::save_grant(connection, topics, &user, &grant, now, verified))
            .await
    }

    async fn open_session(&self, user: User, token: TokenHash, session: Session, most: usize) -> Result<Admission> {
        self.writer
            .write(move |connection, topics| sign_in::open_session(connection, topics, &user, token, &session, most))
            .await
    }

    async fn session(&self, token: TokenHash) -> Result<Option<Session>> {
        self.readers.read(move |connection| sessions::session(connection, token)).await
    }

    async fn sessions_of(&self, user: Snowflake) -> Result<Vec<Session>> {
        self.readers.read(move |connection| sessions::sessions_of(connection, user)).await
    }

    async fn sessions_among(&self, sessions: Vec<SessionId>) -> Result<HashSet<SessionId>> {
        self.readers.read(move |connection| sessions::among(connection, &sessions)).await
    }

    async fn end_session(&self, user: Snowflake, session: SessionId, now: Time) -> Result<bool> {
        self.writer.write(move |connection, topics| sessions::end_one(connection, topics, user, &session, now)).await
    }

    async fn end_sessions(&self, user: Snowflake, now: Time) -> Result<usize> {
        self.writer.write(move |connection, topics| sessions::end_all(connection, topics, user, now)).await
    }

    async fn end_sessions_of_grant(&self, user: Snowflake, grant_version: u64) -> Result<bool> {
        self.writer
            .write(move |connection, topics| sessions::end_all_of_grant(connection, topics, user, grant_version))
            .await
    }

    async fn note_seen(&self, seen: Vec<(SessionId, Time)>) -> Result<()> {
        self.writer.write(move |connection, _| sessions::note_seen(connection, &seen)).await
    }

    async fn sweep(&self, now: Time, last_seen_before: Time, created_before: Time, batch: usize) -> Result<Swept> {
        self.writer
            .write(move |connection, topics| {
                sessions::sweep(connection, topics, now, last_seen_before, created_before, batch)
            })
            .await
    }

    async fn take_revocation(&self, now: Time, until: Time) -> Result<Option<Revocation>> {
        self.writer.write(move |connection, _| revocations::take(connection, now, until)).await
    }

    async fn finish_revocation(&self, user: Snowflake, until: Time, end: RevocationEnd) -> Result<()> {
        self.writer.write(move |connection, _| revocations::finish(connection, user, until, end)).await
    }

    async fn account(&self, user: Snowflake) -> Result<Option<Account>> {
        self.readers.read(move |connection| accounts::account(connection, user)).await
    }

    async fn lease_grant(&self, user: Snowflake, grant_version: u64, now: Time, until: Time) -> Result<Lease> {
        self.writer.write(move |connection, _| accounts::lease_grant(connection, user, grant_version, now, until)).await
    }

    async fn replace_grant(&self, user: Snowflake, grant_version: u64, grant: SealedGrant) -> Result<Option<u64>> {
        self.writer.write(move |connection, _| accounts::replace_grant(connection, user, grant_version, &grant)).await
    }

    async fn save_list(&self, user: Snowflake, list_version: u64, list: StoredList) -> Result<bool> {
        self.writer
            .write(move |connection, topics| accounts::save_list(connection, topics, user, list_version, &list))
            .await
    }

    async fn block(&self, blocked: BlockedUser) -> Result<usize> {
        self.writer.write(move |connection, topics| sessions::block(connection, topics, &blocked)).await
    }

    async fn unblock(&self, user: Snowflake) -> Result<bool> {
        self.writer.write(move |connection, _| sign_in::unblock(connection, user)).await
    }

    async fn blocked(&self) -> Result<Vec<BlockedUser>> {
        self.readers.read(sign_in::blocked).await
    }

    async fn person(&self, user: Snowflake, guilds: Vec<Snowflake>) -> Result<PersonFacts> {
        self.readers.read(move |connection| guilds::person(connection, user, guilds)).await
    }

    async fn without_bot(&self, guilds: Vec<Snowflake>) -> Result<Vec<Snowflake>> {
        self.readers.read(move |connection| guilds::without_bot(connection, guilds)).await
    }

    async fn sample_feedback(&self, seed: u64) -> Result<Sample> {
        self.readers.read(move |connection| feedback::sample(connection, seed)).await
    }

    async fn feedback_before(&self, slot: u64) -> Result<Sample> {
        self.readers.read(move |connection| feedback::before(connection, slot)).await
    }

    async fn team(&self) -> Result<Roster> {
        self.readers.read(|connection| run(team::roster(connection))).await
    }

    async fn health(&self) -> Result<Health> {
        self.readers.read(health::load).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.readers.read(totals::stats).await
    }

    async fn apply(&self, changes: Vec<Change>) -> Result<()> {
        self.writer.write(move |connection, topics| changes::apply(connection, topics, &changes)).await
    }

    async fn feed(&self, instance: InstanceId, first: u64, events: Vec<Event>, now: Time) -> Result<BatchOutcome> {
        self.writer
            .write(move |connection, topics| feed::feed(connection, topics, &instance, first, &events, now))
            .await
    }

    async fn begin_snapshot(&self, scope: Scope, instance: InstanceId, sequence: u64, now: Time) -> Result<SnapshotId> {
        let staging = self.staging.clone();
        self.writer
            .write(move |connection, _| snapshots::begin(connection, &staging, scope, &instance, sequence, now))
            .await
    }

    async fn stage(&self, snapshot: SnapshotId, lines: Lines) -> Result<Vec<Snowflake>> {
        let staged = self.writer.write(move |connection, _| snapshots::stage(connection, snapshot, &lines)).await?;
        staged.ok_or_else(not_staged)
    }

    async fn commit_snapshot(&self, snapshot: SnapshotId, after: Option<u64>, now: Time) -> Result<Committed> {
        let staging = self.staging.clone();
        let committed = self
            .writer
            .write(move |connection, topics| snapshots::commit(connection, topics, &staging, snapshot, after, now))
            .await?;
        committed.ok_or_else(not_staged)
    }

    async fn abandon_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        let staging = self.staging.clone();
        self.writer.write(move |connection, _| snapshots::abandon(connection, &staging, snapshot)).await
    }

    async fn clean_up(&self, batch: usize) -> Result<usize> {
        let staging = self.staging.clone();
        self.writer.write(move |connection, topics| clean_up::clean_up(connection, topics, &staging, batch)).await
    }

    async fn feed_state(&self) -> Result<FeedState> {
        self.readers.read(feed::state).await
    }

    async fn add_key(&self, key: BotKey, hash: TokenHash) -> Result<()> {
        self.writer.write(move |connection, topics| run(keys::add(connection, topics, &key, hash))).await
    }

    async fn key(&self, hash: TokenHash) -> Result<Option<BotKey>> {
        self.readers.read(move |connection| run(keys::by_hash(connection, hash))).await
    }

    async fn keys(&self) -> Result<Vec<BotKey>> {
        self.readers.read(|connection| run(keys::all(connection))).await
    }

    async fn good_keys(&self) -> Result<Vec<TokenHash>> {
        self.readers.read(|connection| run(keys::good(connection))).await
    }

    async fn revoke_key(&self, id: String, now: Time) -> Result<bool> {
        self.writer.write(move |connection, topics| run(keys::revoke(connection, topics, &id, now))).await
    }

    async fn record_heartbeat(&self, heartbeat: Heartbeat, now: Time) -> Result<()> {
        self.writer.write(move |connection, topics| health::record_heartbeat(connection, topics, heartbeat, now)).await
    }

    async fn close(&self) {
        // Readers first, because the last checkpoint cannot pass a running read.
        self.readers.close().await;
        self.writer.close().await;
    }
}
