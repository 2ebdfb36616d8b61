//! The store that several replicas share: a PostgreSQL database. Every write is one transaction that tells the other replicas
//! what it changed. The work itself is plain functions over a connection, one file per topic, here or in `sql`.

mod address;
mod advice;
pub(super) mod backup;
mod bulk_insert;
mod circuit_breaker;
mod clean_up;
mod database;
mod errors;
mod invalidation;
mod listener;
mod locks;
mod look;
pub(super) mod migrations;
mod pool;
mod reachability;
mod read_only;
mod staging;
mod subscriptions;
mod tls;
mod watch;
mod work;

use std::collections::HashSet;
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
use runtime::random::Random;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use self::address::Address;
use self::invalidation::Origin;
use self::listener::Listener;
pub(super) use self::look::{look, look_at_server};
use self::work::{Executor, Pace, Read};
use super::history::Recorded;
use super::sql::store::{history_store, store, upkeep_store};
use super::sql::{
    accounts, announcements, audit, changes, feed, feed_state, feedback, forget, guilds, health, history, keys,
    revocations, sessions, sign_in, snapshots, team, totals, upkeep,
};
use super::starting::{StoreLocation, keep_trying};
use super::upkeep::{AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Holdings, PersonTraces, Resealed};
use super::{
    Account, Admission, BatchOutcome, BlockedUser, BotKey, Claim, CodeHash, Committed, Freshness, GrantSaved, Lease,
    Result, Revocation, Sample, SealedGrant, SnapshotId, StoreError, StoreOptions, StoredList, Swept, not_staged,
};

pub(super) struct Postgres {
    executor: Executor,
    stop: CancellationToken,
}

/// What is wrong with a URL, if anything.
pub(super) fn check(url: &SecretString) -> std::result::Result<(), String> {
    Address::parse(url).map(drop)
}

/// The database and its hosts, for people.
pub(super) fn location(url: &SecretString) -> String {
    Address::parse(url).map_or_else(|_| "PostgreSQL".to_owned(), |address| address.location())
}

/// Connections over the network that someone in between could read or answer.
pub(super) fn cautions(url: &SecretString) -> Vec<String> {
    let Ok(address) = Address::parse(url) else { return Vec::new() };
    let open = address.unverified_hosts();
    let caution = format!(
        "the connection to PostgreSQL at {} is not verified, so someone on the network could read and change everything; add \
         `sslmode=verify-full` to store.url, and `sslrootcert=FILE` if the authority is your own (docs/scaling.md)",
        open.join(", ")
    );
    if open.is_empty() { Vec::new() } else { vec![caution] }
}

impl Postgres {
    /// Connects, migrates the database as needed, and starts listening to the other replicas. Waits for a database that is not
    /// ready yet.
    pub(super) async fn open(options: &StoreOptions, freshness: Arc<Freshness>) -> Result<Self> {
        let address = Address::parse(&options.url).map_err(StoreError::Failed)?;
        let location = address.location();
        let open = async || {
            let opened = Self::open_now(&address, options, Arc::clone(&freshness)).await;
            opened.map_err(|error| error.at(&location))
        };
        keep_trying(options.start_wait, StoreLocation::Server(&address.hosts()), open).await
    }

    async fn open_now(address: &Address, options: &StoreOptions, freshness: Arc<Freshness>) -> Result<Self> {
        migrate(address).await?;
        let (origin, stop) = (Origin::new(&Random::from_system()), CancellationToken::new());
        let listener = Listener::new(address.clone(), Arc::clone(&freshness), origin.clone(), stop.clone());
        let listening = listener.start().await.map_err(StoreError::Unavailable)?;
        let executor = Executor::new(address, options.connections, options.wait, freshness, origin)?;
        // So that the first request finds a connection; opening one may take longer than a request may wait.
        if let Err(error) = executor.warm().await {
            listening.abort();
            return Err(error);
        }
        Ok(Self { executor, stop })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How long a database that has accepted a connection may take for the first questions.
const SILENCE: Duration = Duration::from_mins(1);

async fn migrate(address: &Address) -> Result<()> {
    let (mut client, connection) = address.open().await?;
    let begin = async {
        // A replica that vanishes in the middle must not keep the lock for hours, and nobody should wait for it in silence.
        let bounds = "SET lock_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'";
        let bounded = client.batch_execute(bounds).await;
        bounded.map_err(|error| StoreError::Unavailable(errors::SqlError::from(error).to_string()))
    };
    let silent =
        |_| Err(StoreError::Unavailable("the database accepted the connection but does not respond".to_owned()));
    let migrated = match tokio::time::timeout(SILENCE, begin).await.unwrap_or_else(silent) {
        Ok(()) => migrations::run(&mut client, crate::migrations::STEPS).await,
        Err(refused) => Err(refused),
    };
    connection.abort();
    if migrated? {
        super::schema_version::log_new_store(&address.location());
    }
    Ok(())
}

/// Runs work that changes something, at this [`Pace`].
macro_rules! transact {
    ($self:ident, $pace:ident, $arguments:expr, |$db:ident, $topics:ident, $names:pat_param| $work:expr) => {
        $self.executor.write(Pace::$pace, $arguments, |$db, $topics, $names| Box::pin($work)).await
    };
}

macro_rules! read {
    ($self:ident, $arguments:expr, |$db:ident, $names:pat_param| $work:expr) => {
        $self.executor.read($arguments, Read::Statement(|$db, $names| Box::pin($work))).await
    };
}

/// The same with several statements, which all see one state.
macro_rules! read_snapshot {
    ($self:ident, $arguments:expr, |$db:ident, $names:pat_param| $work:expr) => {
        $self.executor.read($arguments, Read::Snapshot(|$db, $names| Box::pin($work))).await
    };
}

history_store!(Postgres);

upkeep_store!(Postgres);

store!(Postgres {
    async fn begin_snapshot(&self, scope: Scope, instance: InstanceId, sequence: u64, now: Time) -> Result<SnapshotId> {
        transact!(self, Quick, (scope, instance, sequence, now), |db, _topics, (scope, instance, sequence, now)| {
            snapshots::begin(db, *scope, instance, *sequence, *now)
        })
    }

    async fn stage(&self, snapshot: SnapshotId, lines: Lines) -> Result<Vec<Snowflake>> {
        // Lines that carry something over take turns with everything that changes stored data.
        let pace = if lines.has_carried_parts() { Pace::Feed } else { Pace::Long };
        let work = self.executor.write(pace, (snapshot, lines), |db, _topics, (snapshot, lines)| {
            Box::pin(staging::stage(db, *snapshot, lines))
        });
        let staged: Option<Vec<Snowflake>> = work.await?;
        staged.ok_or_else(not_staged)
    }

    async fn commit_snapshot(&self, snapshot: SnapshotId, after: Option<u64>, now: Time) -> Result<Committed> {
        let committed: Result<Option<_>> =
            transact!(self, Feed, (snapshot, after, now), |db, topics, (snapshot, after, now)| {
                snapshots::commit(db, topics, *snapshot, *after, *now)
            });
        committed?.ok_or_else(not_staged)
    }

    async fn abandon_snapshot(&self, snapshot: SnapshotId) -> Result<()> {
        transact!(self, Feed, snapshot, |db, _topics, snapshot| snapshots::abandon(db, *snapshot))
    }

    async fn clean_up(&self, batch: usize) -> Result<usize> {
        transact!(self, Feed, batch, |db, topics, batch| clean_up::clean_up(db, topics, *batch))
    }

    async fn close(&self) {
        self.stop.cancel();
        self.executor.close();
    }
});
