//! One piece of work on the database: a connection of the pool, a transaction if it writes, a limit on all of it, and one answer
//! to everything that can go wrong. It runs to its end whether or not anybody still waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{HookError, Object, Pool, PoolError, TimeoutType, Transaction};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tracing::{debug, info, warn};

use super::address::{Address, ConnectError, Line, goodbye};
use super::errors::{Remedy, Sql, SqlError, text_of};
use super::gate::{Gate, Knock, Pass};
use super::notice::{self, Origin};
use super::pool;
use crate::store::{Freshness, Result, StoreError, Topic};

/// How often a transaction that lost against another is tried.
const TRIES: usize = 5;
/// How much longer than the database itself we wait for its answer, before it counts as unreachable.
const GRACE: Duration = Duration::from_millis(500);
/// How much later a replica may knock than another.
const SPREAD: u64 = 50;
/// How long work may take that moves many rows.
const LONG: Duration = Duration::from_mins(1);
/// How often work looks whether the database can still be reached.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long the listener may be out of touch, and nothing else heard, before work tries for itself.
const DOUBTFUL: Duration = Duration::from_millis(250);
/// How long a new connection may take at least before a database that is silent on all others counts as unreachable, and while the
/// gate is shut.
const PROBE: Duration = Duration::from_secs(1);

/// What a write has changed. It counts only if the write succeeds.
pub(super) type Touched = Vec<Topic>;
/// Work that reads.
pub(super) type Read<A, T> = for<'a> fn(&'a Object, &'a A) -> BoxFuture<'a, Sql<T>>;
/// Work that changes something, all or nothing. It may run more than once, and only the last time counts.
pub(super) type Write<A, T> = for<'a> fn(&'a Transaction<'a>, &'a mut Touched, &'a A) -> BoxFuture<'a, Sql<T>>;

/// How long a piece of work may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// A few rows.
    Quick,
    /// Many rows.
    Long,
    /// Many rows, under a lock that all replicas share: in this process one such piece of work after the other, so that those who
    /// wait for the lock do not hold all connections.
    Feed,
}

/// The way to the database.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    address: Address,
    pool: Pool,
    /// Half of the connections: writes that hang, because a standby does not confirm them, leave the rest to the reads.
    writers: Semaphore,
    feed: Semaphore,
    gate: Gate,
    /// How often the database has answered work or taken a connection: while this grows, it is slow at most.
    heard: AtomicU64,
    /// Who tries whether it is still there: one at a time, for all who wait. It holds what `heard` was when it was not.
    probe: tokio::sync::Mutex<Option<u64>>,
    wait: Duration,
    runtime: Handle,
    freshness: Arc<Freshness>,
    origin: Origin,
}

impl Link {
    pub(super) fn new(
        address: &Address,
        connections: usize,
        wait: Duration,
        freshness: Arc<Freshness>,
        origin: Origin,
    ) -> Result<Self> {
        let pool = pool::build(address, connections, wait, wait + GRACE)?;
        Ok(Self(Arc::new(Inner {
            address: address.clone(),
            pool,
            writers: Semaphore::new((connections / 2).max(1)),
            feed: Semaphore::new(1),
            gate: Gate::default(),
            heard: AtomicU64::new(0),
            probe: tokio::sync::Mutex::default(),
            wait,
            runtime: Handle::current(),
            freshness,
            origin,
        })))
    }

    /// Runs work that reads; every statement of it sees all that was acknowledged before it began.
    pub(super) async fn read<A, T>(&self, arguments: A, work: Read<A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let reading = async move {
            let mut failed = None;
            for _ in 0..TRIES {
                let client = inner.connection().await?;
                let never = AtomicBool::new(false);
                let outcome = inner
                    .limited(client, &never, async |client| work(client, &arguments).await.map_err(Failure::from))
                    .await;
                match outcome {
                    Err(Failure::Sql(error)) if error.remedy() == Remedy::Again => failed = Some(error),
                    // Whatever the connection had before, it died in the pool: a read can be asked of another.
                    Err(Failure::Sql(error)) if error.remedy() == Remedy::Elsewhere && failed.is_none() => {
                        failed = Some(error);
                    }
                    outcome => return outcome.map_err(Failure::into_store_error),
                }
            }
            Err(gave_up(failed))
        };
        self.0.to_its_end(Pace::Quick, reading).await
    }

    /// Runs work that writes, and answers when it is durable and the freshness knows, here and on the other replicas' way.
    pub(super) async fn write<A, T>(&self, pace: Pace, arguments: A, work: Write<A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let writing = async move {
            let _turn = match pace {
                Pace::Feed => Some(turn(&inner.feed, LONG).await?),
                Pace::Quick | Pace::Long => None,
            };
            let _place = turn(&inner.writers, inner.wait).await?;
            let mut failed = None;
            for _ in 0..TRIES {
                match inner.transact(pace, &arguments, work).await {
                    Err(Failure::Sql(error)) if error.remedy() == Remedy::Again => failed = Some(error),
                    Err(Failure::NotDone(error)) if failed.is_none() => failed = Some(error),
                    outcome => return outcome.map_err(Failure::into_store_error),
                }
            }
            Err(gave_up(failed))
        };
        self.0.to_its_end(pace, writing).await
    }

    /// Makes one connection, for the first who needs one.
    pub(super) async fn warm(&self) -> Result<()> {
        // The pool's own limit leaves out what is said to a new connection.
        let why = match timeout(self.0.address.patience() + self.0.wait, self.0.pool.get()).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => reason(&error),
            Err(_) => "it does not answer".to_owned(),
        };
        self.close();
        Err(StoreError::Unavailable(format!("no connection to the database: {why}")))
    }

    pub(super) fn close(&self) {
        self.0.pool.close();
    }
}

/// Whether a database has answered a try to connect: one without room for another connection is there, too.
fn is_there(tried: std::result::Result<std::result::Result<(Client, Line), ConnectError>, Elapsed>) -> bool {
    match tried {
        Ok(Ok(connected)) => {
            goodbye(connected);
            true
        }
        Ok(Err(error)) => error.is_for_want_of_room(),
        Err(_) => false,
    }
}

/// Why the pool has no connection, in words.
fn reason(error: &PoolError) -> String {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => text_of(error),
        PoolError::Timeout(_) => "it did not answer in time".to_owned(),
        other => other.to_string(),
    }
}

/// Waits for its turn.
async fn turn(turns: &Semaphore, limit: Duration) -> Result<SemaphorePermit<'_>> {
    let turn = timeout(limit, turns.acquire()).await;
    turn.ok()
        .and_then(std::result::Result::ok)
        .ok_or_else(|| StoreError::Busy("too many writes are waiting".to_owned()))
}

/// Why a piece of work came to nothing.
enum Failure {
    /// The database could not be reached.
    Unreachable(String),
    /// It has too much to do.
    Busy(String),
    /// The connection led nowhere, and certainly nothing was committed on it.
    NotDone(SqlError),
    Sql(SqlError),
}

impl Failure {
    fn into_store_error(self) -> StoreError {
        match self {
            Self::Unreachable(why) => StoreError::Unavailable(why),
            Self::Busy(why) => StoreError::Busy(why),
            Self::NotDone(error) | Self::Sql(error) => error.into_store_error(),
        }
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error.into())
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.into_store_error()
    }
}

fn gave_up(failed: Option<SqlError>) -> StoreError {
    let why = failed.map_or_else(|| "it kept failing".to_owned(), |error| error.to_string());
    StoreError::Busy(why)
}

impl Inner {
    /// Runs on the store's own runtime: a caller who leaves, or whose time is over, breaks nothing off. Nobody knows then what
    /// becomes of it, but the freshness hears of it when it is done.
    async fn to_its_end<T: Send + 'static>(
        &self,
        pace: Pace,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let limit = if pace == Pace::Quick { self.wait } else { LONG };
        match timeout(limit + GRACE, self.runtime.spawn(work)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                let what = if error.is_panic() { "it panicked" } else { "it is closing" };
                Err(StoreError::Unavailable(what.to_owned()))
            }
            Err(_) => {
                let why = "the database did not answer in time".to_owned();
                let shut = self.gate.lets_in().is_none();
                Err(if shut { StoreError::Unavailable(why) } else { StoreError::Busy(why) })
            }
        }
    }

    /// Keeps all work away until the database answers again.
    fn unreachable(self: &Arc<Self>, pass: Pass, why: String) -> Failure {
        if self.gate.shut(pass) {
            warn!(why, "the database cannot be reached; nothing is asked of it until it answers");
            let inner = Arc::clone(self);
            self.runtime.spawn(async move {
                let spread = Duration::from_millis(inner.origin.spread(SPREAD));
                let answers = |knock| {
                    let inner = Arc::clone(&inner);
                    async move {
                        let limit = if knock == Knock::Quick { PROBE } else { inner.address.patience() };
                        inner.pool.is_closed() || is_there(timeout(limit, inner.address.connect()).await)
                    }
                };
                inner.gate.knock(spread, answers).await;
                inner.note_heard();
                info!("the database answers again");
            });
        }
        Failure::Unreachable(why)
    }

    /// Whether the server of the last connection takes another one, in this time.
    async fn takes_another(&self, limit: Duration) -> bool {
        is_there(timeout(limit, self.address.connect_to_latest()).await)
    }

    fn note_heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    async fn connection(self: &Arc<Self>) -> std::result::Result<(Pass, Object), Failure> {
        let Some(pass) = self.gate.lets_in() else {
            return Err(Failure::Unreachable("the database could not be reached a moment ago".to_owned()));
        };
        let connected = tokio::select! {
            connected = self.pool.get() => connected,
            () = self.out_of_reach() => return Err(self.unreachable(pass, "the database does not answer".to_owned())),
        };
        let error = match connected {
            Ok(client) => {
                self.note_heard();
                return Ok((pass, client));
            }
            Err(error) => error,
        };
        let why = match error {
            PoolError::Timeout(TimeoutType::Wait) => {
                let why = "all connections to the database are busy".to_owned();
                // It may have turned out meanwhile that they wait for nothing.
                let shut = self.gate.lets_in() != Some(pass);
                return Err(if shut { Failure::Unreachable(why) } else { Failure::Busy(why) });
            }
            PoolError::Closed => return Err(Failure::Unreachable("it is closing".to_owned())),
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                let error = SqlError(error);
                if error.is_for_want_of_room() {
                    return Err(Failure::Sql(error));
                }
                error.to_string()
            }
            other => reason(&other),
        };
        Err(self.unreachable(pass, format!("no connection to the database: {why}")))
    }

    async fn transact<A, T>(
        self: &Arc<Self>,
        pace: Pace,
        arguments: &A,
        work: Write<A, T>,
    ) -> std::result::Result<T, Failure> {
        let client = self.connection().await?;
        let (mut touched, committing) = (Touched::new(), AtomicBool::new(false));
        let outcome = self
            .limited(client, &committing, async |client| {
                let transaction = client.transaction().await?;
                if pace != Pace::Quick {
                    let limit = format!("SET LOCAL statement_timeout = {}", LONG.as_millis());
                    transaction.batch_execute(&limit).await?;
                }
                let value = work(&transaction, &mut touched, arguments).await?;
                if let Some(notice) = notice::of(&self.origin, &touched) {
                    let statement = transaction.prepare_cached("SELECT pg_notify($1, $2)").await?;
                    transaction.execute(&statement, &[&notice::CHANNEL, &notice]).await?;
                }
                committing.store(true, Ordering::Relaxed);
                transaction.commit().await?;
                Ok(value)
            })
            .await;
        if committing.load(Ordering::Relaxed) {
            if outcome.is_err() {
                // It may have happened all the same, or be about to.
                self.origin.lost_track();
            }
            for topic in touched {
                self.freshness.invalidate(topic);
            }
            return outcome;
        }
        outcome.map_err(|failure| match failure {
            Failure::Sql(error) if error.remedy() == Remedy::Elsewhere => Failure::NotDone(error),
            failure => failure,
        })
    }

    /// Runs work on a connection until the database is out of reach; and, unless it is `committing`, no longer than work may take.
    /// A commit may hang for as long as a standby does not confirm it: to leave it alone would cost a connection of the server
    /// for each that is tried after it. A connection that fails as such does not go back to the pool.
    async fn limited<T>(
        self: &Arc<Self>,
        (pass, mut client): (Pass, Object),
        committing: &AtomicBool,
        work: impl AsyncFnOnce(&mut Object) -> std::result::Result<T, Failure>,
    ) -> std::result::Result<T, Failure> {
        let too_long = async {
            sleep(LONG).await;
            while committing.load(Ordering::Relaxed) {
                sleep(LOOK_EVERY).await;
            }
        };
        let outcome = tokio::select! {
            outcome = work(&mut client) => outcome,
            () = self.out_of_reach() => Err(self.unreachable(pass, "the database does not answer".to_owned())),
            () = too_long => Err(Failure::Busy("it took too long".to_owned())),
        };
        if matches!(outcome, Ok(_) | Err(Failure::Sql(_) | Failure::NotDone(_))) {
            self.note_heard();
        }
        match &outcome {
            Err(Failure::Sql(error) | Failure::NotDone(error)) if error.remedy() != Remedy::Elsewhere => {}
            Ok(_) => {}
            Err(failure) => {
                debug!("a connection to the database is given up");
                drop(Object::take(client));
                if !matches!(failure, Failure::Busy(_)) {
                    // Those that lie idle lead to the same place.
                    drop(self.pool.retain(|_, _| false));
                }
            }
        }
        outcome
    }

    /// Comes back when the database is out of reach: for a while neither the listener nor any work has heard from it, and it takes
    /// no new connection either. One that is slow, but says something now and then, is not. The new connection gets a part of
    /// `store.wait`: with the default, and the time in which the listener notices, all of it stays below three seconds.
    async fn out_of_reach(&self) {
        let (mut doubt, mut heard) = (Duration::ZERO, self.heard.load(Ordering::Relaxed));
        let is_silent = |heard| self.freshness.is_suspended() && self.heard.load(Ordering::Relaxed) == heard;
        loop {
            sleep(LOOK_EVERY).await;
            doubt = if is_silent(heard) { doubt + LOOK_EVERY } else { Duration::ZERO };
            heard = self.heard.load(Ordering::Relaxed);
            if doubt < DOUBTFUL {
                continue;
            }
            let mut silent_at = self.probe.lock().await;
            if !is_silent(heard) {
                continue;
            }
            if *silent_at == Some(heard) {
                return;
            }
            if self.takes_another(PROBE.max(self.wait * 3 / 4)).await {
                self.note_heard();
            } else if is_silent(heard) {
                *silent_at = Some(heard);
                return;
            }
        }
    }
}
