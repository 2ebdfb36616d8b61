//! Runs work on the database: a connection from the pool, a transaction if it writes, a limit on all of it, and one way to
//! handle everything that can go wrong. Work runs to its end even if nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{HookError, Object, Pool, PoolError, TimeoutType};
use futures_util::future::BoxFuture;
use telemetry::metrics::{StoreAccess, StoreMetrics};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};
use tokio_postgres::IsolationLevel;
use tracing::debug;

use super::address::Address;
use super::circuit_breaker::ClosedSince;
use super::database::Connection;
use super::errors::{Remedy, Sql, SqlError, WorkError, text_of};
use super::invalidation::{self, Origin};
use super::pool;
use super::reachability::{LOOK_EVERY, Reachability, SPREAD};
use crate::sql::ChangedTopics;
use crate::watch::{self, StoreLoad};
use crate::{Freshness, Result, StoreError};

/// How often a transaction that lost to another one is tried.
const TRIES: usize = 5;
/// How much longer than the database itself we wait for its answer before it counts as unreachable.
const GRACE: Duration = Duration::from_millis(500);
/// How long work that moves many rows may take.
const LONG: Duration = Duration::from_mins(1);

/// What a piece of work reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// One statement, or several that need not agree: each sees its own state.
    Statement,
    /// Several statements that see the same state: none sees a commit that another one does not.
    Snapshot,
}

type ReadWork<A, T> = for<'a> fn(&'a Connection<'a>, &'a A) -> BoxFuture<'a, Sql<T>>;
/// Work that changes something, all or nothing. It may run more than once, and only the last time counts.
type WriteWork<A, T> = for<'a> fn(&'a Connection<'a>, &'a mut ChangedTopics, &'a A) -> BoxFuture<'a, Sql<T>>;

/// How long a piece of work may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A few rows.
    Quick,
    /// Many rows.
    Long,
    /// Many rows, under a lock that all replicas share. In this process they run one after the other, so that those waiting for
    /// the lock do not hold all connections.
    Feed,
}

#[derive(Clone)]
pub(crate) struct Executor(Arc<ExecutorState>);

struct ExecutorState {
    address: Address,
    /// The database and its hosts, which each error names.
    location: String,
    pool: Pool,
    /// Half of the connections: writes that hang, because a standby does not confirm them, leave the rest to reads.
    writers: Semaphore,
    feed: Semaphore,
    reachability: Arc<Reachability>,
    wait: Duration,
    runtime: Handle,
    freshness: Arc<Freshness>,
    origin: Origin,
    metrics: Arc<StoreMetrics>,
}

impl Read {
    async fn run<A, T>(
        self,
        client: &mut Object,
        arguments: &A,
        work: ReadWork<A, T>,
    ) -> std::result::Result<T, WorkError> {
        if self == Self::Statement {
            return Ok(work(&Connection::from(&**client), arguments).await?);
        }
        let isolated = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let transaction = isolated.read_only(true).start().await?;
        let value = work(&Connection::from(&transaction), arguments).await?;
        transaction.commit().await?;
        Ok(value)
    }
}

impl Executor {
    pub(super) fn new(
        address: &Address,
        connections: usize,
        wait: Duration,
        freshness: Arc<Freshness>,
        origin: Origin,
    ) -> Result<Self> {
        let pool = pool::build(address, connections, wait, wait + GRACE)?;
        let spread = Duration::from_millis(origin.spread(SPREAD));
        let reachability = Reachability::new(address.clone(), pool.clone(), Arc::clone(&freshness), wait, spread);
        Ok(Self(Arc::new(ExecutorState {
            address: address.clone(),
            location: address.location(),
            pool,
            writers: Semaphore::new((connections / 2).max(1)),
            feed: Semaphore::new(1),
            reachability: Arc::new(reachability),
            wait,
            runtime: Handle::current(),
            freshness,
            origin,
            metrics: Arc::default(),
        })))
    }

    /// Runs work that reads. It sees everything acknowledged before it began.
    pub(crate) async fn read<A, T>(&self, what: Read, arguments: A, work: ReadWork<A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let state = Arc::clone(&self.0);
        let reading = async move {
            let mut failed = None;
            for _ in 0..TRIES {
                let client = state.connection(StoreAccess::Read, state.now()).await?;
                let never = AtomicBool::new(false);
                let outcome =
                    state.limited(client, &never, async |client| what.run(client, &arguments, work).await).await;
                match outcome {
                    Err(WorkError::Sql(error)) if error.remedy() == Remedy::Again => failed = Some(error),
                    // The connection broke, perhaps while it was idle in the pool; a read can be tried on another.
                    Err(WorkError::Sql(error)) if error.remedy() == Remedy::Elsewhere && failed.is_none() => {
                        failed = Some(error);
                    }
                    outcome => return outcome.map_err(StoreError::from),
                }
            }
            Err(gave_up(failed))
        };
        self.0.to_its_end(StoreAccess::Read, Pace::Quick, reading).await.map_err(|error| error.at(&self.0.location))
    }

    /// Runs work that writes, and returns when it is durable, the cache here is invalidated and the other replicas are told.
    pub(crate) async fn write<A, T>(&self, pace: Pace, arguments: A, work: WriteWork<A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let state = Arc::clone(&self.0);
        let writing = async move {
            let (mut began, queued) = (state.now(), state.metrics.queue.hold());
            let _turn = match pace {
                Pace::Feed => Some(turn(&state.feed, LONG).await?),
                Pace::Quick | Pace::Long => None,
            };
            let _writer = turn(&state.writers, state.wait).await?;
            drop(queued);
            let mut failed = None;
            for _ in 0..TRIES {
                let waits_since = std::mem::replace(&mut began, state.now());
                match state.transact(pace, waits_since, &arguments, work).await {
                    Err(WorkError::Sql(error)) if error.remedy() == Remedy::Again => failed = Some(error),
                    Err(WorkError::NotDone(error)) if failed.is_none() => failed = Some(error),
                    outcome => return outcome.map_err(StoreError::from),
                }
            }
            Err(gave_up(failed))
        };
        self.0.to_its_end(StoreAccess::Write, pace, writing).await.map_err(|error| error.at(&self.0.location))
    }

    /// Opens one connection, for the first work that needs one.
    pub(super) async fn warm(&self) -> Result<()> {
        // The pool's own limit does not include the setup of a new connection.
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

    pub(crate) fn metrics(&self) -> &StoreMetrics {
        &self.0.metrics
    }

    pub(crate) fn load(&self) -> StoreLoad {
        let pool = self.0.pool.status();
        StoreLoad {
            in_use: pool.size.saturating_sub(pool.available),
            idle: pool.available,
            queued_writes: self.0.metrics.queue.get(),
            circuit_open: self.0.reachability.closed_since().is_none(),
        }
    }
}

fn reason(error: &PoolError) -> String {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => text_of(error),
        PoolError::Timeout(_) => "it did not answer in time".to_owned(),
        other => other.to_string(),
    }
}

async fn turn(turns: &Semaphore, limit: Duration) -> Result<SemaphorePermit<'_>> {
    let turn = timeout(limit, turns.acquire()).await;
    turn.ok()
        .and_then(std::result::Result::ok)
        .ok_or_else(|| StoreError::Busy("too many writes are waiting".to_owned()))
}

/// The error for work that failed on every try.
fn gave_up(failed: Option<SqlError>) -> StoreError {
    let why = failed.map_or_else(|| "it kept failing".to_owned(), |error| error.to_string());
    StoreError::Busy(why)
}

impl ExecutorState {
    /// Runs work on the store's own runtime, so that a caller who leaves or runs out of time cancels nothing. The cache is
    /// invalidated when it is done, even if nobody waits for the outcome.
    async fn to_its_end<T: Send + 'static>(
        &self,
        access: StoreAccess,
        pace: Pace,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (metrics, clock, began) = (Arc::clone(&self.metrics), self.freshness.clock().clone(), self.now());
        let work = async move {
            let outcome = work.await;
            watch::count(&metrics, access, &outcome, clock.ticks().saturating_sub(began));
            outcome
        };
        let limit = if pace == Pace::Quick { self.wait } else { LONG };
        match timeout(limit + GRACE, self.runtime.spawn(work)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                let what = if error.is_panic() { "it panicked" } else { "it is closing" };
                Err(StoreError::Unavailable(what.to_owned()))
            }
            Err(_) => {
                let why = "the database did not answer in time".to_owned();
                Err(if self.reachability.is_gone() { StoreError::Unavailable(why) } else { StoreError::Busy(why) })
            }
        }
    }

    /// Opens the circuit: all work is refused until the database answers again.
    fn unreachable(&self, since: ClosedSince, why: String) -> WorkError {
        self.reachability.open_circuit(since, &why);
        WorkError::Unreachable(why)
    }

    /// Ticks of the clock, to measure how long work waits.
    fn now(&self) -> Duration {
        self.freshness.clock().ticks()
    }

    /// A connection for work that has been waiting since `began`.
    async fn connection(
        &self,
        access: StoreAccess,
        began: Duration,
    ) -> std::result::Result<(ClosedSince, Object), WorkError> {
        let connection = self.any_connection().await;
        self.metrics.waits(access).observe(self.now().saturating_sub(began));
        connection
    }

    async fn any_connection(&self) -> std::result::Result<(ClosedSince, Object), WorkError> {
        let Some(since) = self.reachability.closed_since() else {
            return Err(WorkError::Unreachable("the database could not be reached a moment ago".to_owned()));
        };
        let connected = tokio::select! {
            connected = self.pool.get() => connected,
            () = self.reachability.lost() => {
                return Err(self.unreachable(since, "the database does not answer".to_owned()));
            }
        };
        let error = match connected {
            Ok(client) => {
                self.reachability.note_answer();
                return Ok((since, client));
            }
            Err(error) => error,
        };
        let why = match error {
            PoolError::Timeout(TimeoutType::Wait) => {
                let why = "all connections to the database are busy".to_owned();
                // By now it may be clear that they wait for nothing.
                let is_gone = self.reachability.closed_since() != Some(since) || self.reachability.is_gone();
                return Err(if is_gone { WorkError::Unreachable(why) } else { WorkError::Busy(why) });
            }
            PoolError::Closed => return Err(WorkError::Unreachable("it is closing".to_owned())),
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                let error = SqlError::from(error);
                if error.is_for_want_of_room() {
                    return Err(WorkError::Sql(error));
                }
                error.to_string()
            }
            other => reason(&other),
        };
        Err(self.unreachable(since, format!("no connection to the database: {why}")))
    }

    async fn transact<A, T>(
        &self,
        pace: Pace,
        began: Duration,
        arguments: &A,
        work: WriteWork<A, T>,
    ) -> std::result::Result<T, WorkError> {
        let client = self.connection(StoreAccess::Write, began).await?;
        let (mut topics, committing) = (ChangedTopics::new(), AtomicBool::new(false));
        let outcome = self
            .limited(client, &committing, async |client| {
                let transaction = client.transaction().await?;
                if pace != Pace::Quick {
                    let limit = format!("SET LOCAL statement_timeout = {}", LONG.as_millis());
                    transaction.batch_execute(&limit).await?;
                }
                let value = work(&Connection::from(&transaction), &mut topics, arguments).await?;
                if let Some(message) = invalidation::message(&self.origin, &topics) {
                    let statement = transaction.prepare_cached("SELECT pg_notify($1, $2)").await?;
                    transaction.execute(&statement, &[&invalidation::CHANNEL, &message]).await?;
                }
                committing.store(true, Ordering::Relaxed);
                transaction.commit().await?;
                Ok(value)
            })
            .await;
        if committing.load(Ordering::Relaxed) {
            if outcome.is_err() {
                // It may still have happened, or be about to.
                self.origin.handle_own();
            }
            for topic in topics {
                self.freshness.invalidate(topic);
            }
            return outcome;
        }
        outcome.map_err(|error| match error {
            WorkError::Sql(error) if error.remedy() == Remedy::Elsewhere => WorkError::NotDone(error),
            error => error,
        })
    }

    /// Runs work on a connection until the database is out of reach and, unless it is `committing`, no longer than work may
    /// take. A commit may hang for as long as a standby does not confirm it: abandoning it would cost a server connection for
    /// each one tried after it. A connection that fails does not go back to the pool.
    async fn limited<T>(
        &self,
        (since, mut client): (ClosedSince, Object),
        committing: &AtomicBool,
        work: impl AsyncFnOnce(&mut Object) -> std::result::Result<T, WorkError>,
    ) -> std::result::Result<T, WorkError> {
        let too_long = async {
            sleep(LONG).await;
            while committing.load(Ordering::Relaxed) {
                sleep(LOOK_EVERY).await;
            }
        };
        let outcome = tokio::select! {
            outcome = work(&mut client) => outcome,
            () = self.reachability.lost() => Err(self.unreachable(since, "the database does not answer".to_owned())),
            () = too_long => Err(WorkError::Busy("it took too long".to_owned())),
        };
        if matches!(outcome, Ok(_) | Err(WorkError::Sql(_) | WorkError::NotDone(_))) {
            self.reachability.note_answer();
        }
        match &outcome {
            Err(WorkError::Sql(error) | WorkError::NotDone(error)) if error.remedy() != Remedy::Elsewhere => {}
            Ok(_) => {}
            Err(error) => {
                debug!("a connection to the database is given up");
                drop(Object::take(client));
                if !matches!(error, WorkError::Busy(_)) {
                    // The idle ones lead to the same server.
                    drop(self.pool.retain(|_, _| false));
                }
            }
        }
        outcome
    }
}
