//! The embedded store: one `SQLite` file. One thread writes and commits in groups, and a few connections read at the same time.
//! The work itself is plain functions over a connection, one file per topic, here or in `sql`.

pub(super) mod backup;
mod clean_up;
mod database;
mod errors;
mod file;
mod look;
pub(super) mod migrations;
mod place;
mod read_only;
mod readers;
mod staging;
mod subscriptions;
#[cfg(test)]
mod tests;
mod vacuum;
mod watch;
mod writer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::audit::AuditEntry;
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
use self::staging::LocalStaging;
pub use self::vacuum::VacuumNeeds;
pub(super) use self::vacuum::{vacuum, vacuum_needs};
use self::writer::{ChangedTopics, Writer};
use super::history::Recorded;
use super::schema_version;
use super::sql::store::{history_store, store, upkeep_store};
use super::sql::{
    accounts, announcements, audit, changes, feed, feed_state, feedback, forget, guilds, health, history, keys,
    revocations, sessions, sign_in, snapshots, team, totals, upkeep,
};
use super::upkeep::{AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Holdings, PersonTraces, Resealed};
use super::{
    Account, Admission, BatchOutcome, BlockedUser, BotKey, Claim, CodeHash, Committed, Freshness, GrantSaved, Lease,
    Result, Revocation, Sample, SealedGrant, SnapshotId, StoreError, StoredList, Swept, not_staged,
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
        if migrations::run(&mut connection, crate::migrations::STEPS)? {
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

upkeep_store!(Sqlite);

store!(Sqlite {
    async fn begin_snapshot(&self, scope: Scope, instance: InstanceId, sequence: u64, now: Time) -> Result<SnapshotId> {
        let staging = self.staging.clone();
        self.writer
            .write(move |connection, _| {
                let snapshot = run(snapshots::begin(connection, scope, &instance, sequence, now))?;
                staging.add(snapshot);
                Ok(snapshot)
            })
            .await
    }

    async fn stage(&self, snapshot: SnapshotId, lines: Lines) -> Result<Vec<Snowflake>> {
        let staged = self.writer.write(move |connection, _| staging::stage(connection, snapshot, &lines)).await?;
        staged.ok_or_else(not_staged)
    }

    async fn commit_snapshot(&self, snapshot: SnapshotId, after: Option<u64>, now: Time) -> Result<Committed> {
        let staging = self.staging.clone();
        let committed = self
            .writer
            .write(move |connection, topics| {
                staging.remove(snapshot);
                run(snapshots::commit(connection, topics, snapshot, after, now))
            })
            .await?;
        committed.ok_or_else(not_staged)
    }

    async fn abandon_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        let staging = self.staging.clone();
        self.writer
            .write(move |connection, _| {
                staging.remove(snapshot);
                run(snapshots::abandon(connection, snapshot))
            })
            .await
    }

    async fn clean_up(&self, batch: usize) -> Result<usize> {
        let staging = self.staging.clone();
        self.writer.write(move |connection, topics| clean_up::clean_up(connection, topics, &staging, batch)).await
    }

    async fn close(&self) {
        // Readers first, because the last checkpoint cannot pass a running read.
        self.readers.close().await;
        self.writer.close().await;
    }
});
