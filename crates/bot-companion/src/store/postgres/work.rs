//! One piece of work on the database: a connection of the pool, a transaction if it writes, a limit on all of it, and one answer
//! to everything that can go wrong. It runs to its end whether or not anybody still waits for it.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{HookError, Object, Pool, PoolError, TimeoutType, Transaction};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::address::Address;
use super::errors::{Remedy, Sql, SqlError};
use super::gate::{Gate, Pass};
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
/// How often long work looks whether the database can still be reached.
const LOOK_EVERY: Duration = Duration::from_millis(250);

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
}

/// The way to the database.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    address: Address,
    pool: Pool,
    gate: Gate,
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
        let gate = Gate::default();
        let address = address.clone();
        Ok(Self(Arc::new(Inner { address, pool, gate, wait, runtime: Handle::current(), freshness, origin })))
    }

    /// Runs work that reads; every statement of it sees all that was acknowledged before it began.
    pub(super) async fn read<A, T>(&self, arguments: A, work: Read<A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let reading = async move {
            let (limits, mut failed) = (inner.limits(Pace::Quick), None);
            for _ in 0..TRIES {
                let client = inner.connection(limits).await?;
                let outcome = inner
                    .limited(limits, client, async |client| work(client, &arguments).await.map_err(Failure::from))
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
        self.0.to_its_end(reading).await
    }

    /// Runs work that writes, and answers when it is durable and the freshness knows, here and on the other replicas' way.
    pub(super) async fn write<A, T>(&self, pace: Pace, arguments: A, work: Write<A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let writing = async move {
            let (limits, mut failed) = (inner.limits(pace), None);
            for _ in 0..TRIES {
                match inner.transact(limits, &arguments, work).await {
                    Err(Failure::Sql(error)) if error.remedy() == Remedy::Again => failed = Some(error),
                    Err(Failure::NotDone(error)) if failed.is_none() => failed = Some(error),
                    outcome => return outcome.map_err(Failure::into_store_error),
                }
            }
            Err(gave_up(failed))
        };
        self.0.to_its_end(writing).await
    }

    pub(super) fn close(&self) {
        self.0.pool.close();
    }
}

/// Until when a piece of work must have a connection, and until when it must be done: with all its waiting and all its tries.
#[derive(Clone, Copy)]
struct Limits {
    pace: Pace,
    connected: Instant,
    done: Instant,
}

/// Why a piece of work came to nothing.
enum Failure {
    /// The database could not be reached, or not in time.
    Unreachable(String),
    /// The connection led nowhere, and certainly nothing was committed on it.
    NotDone(SqlError),
    Sql(SqlError),
}

impl Failure {
    fn into_store_error(self) -> StoreError {
        match self {
            Self::Unreachable(why) => StoreError::Unavailable(why),
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
    StoreError::Unavailable(why)
}

impl Inner {
    /// Runs on the store's own runtime: a caller who leaves, or whose thread ends, breaks nothing off.
    async fn to_its_end<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.runtime.spawn(work).await.unwrap_or_else(|error| {
            let what = if error.is_panic() { "it panicked" } else { "it is closing" };
            Err(StoreError::Unavailable(what.to_owned()))
        })
    }

    fn limits(&self, pace: Pace) -> Limits {
        let now = Instant::now();
        let connected = now + self.wait + GRACE;
        match pace {
            Pace::Quick => Limits { pace, connected, done: connected },
            Pace::Long => Limits { pace, connected, done: now + LONG + GRACE },
        }
    }

    /// Keeps all work away until the database answers again.
    fn unreachable(self: &Arc<Self>, pass: Pass, why: String) -> Failure {
        if self.gate.shut(pass) {
            warn!(why, "the database cannot be reached; nothing is asked of it until it answers");
            let inner = Arc::clone(self);
            self.runtime.spawn(async move {
                let spread = Duration::from_millis(inner.origin.spread(SPREAD));
                let limit = inner.wait + GRACE;
                let answers = || {
                    let inner = Arc::clone(&inner);
                    async move { inner.pool.is_closed() || timeout(limit, inner.answers()).await.unwrap_or(false) }
                };
                inner.gate.knock(spread, answers).await;
                info!("the database answers again");
            });
        }
        Failure::Unreachable(why)
    }

    /// Whether a server that takes writes can be reached.
    async fn answers(&self) -> bool {
        match self.address.connect().await {
            Ok((client, connection)) => {
                // Lets the connection say goodbye.
                drop(client);
                drop(connection.await);
                true
            }
            Err(_) => false,
        }
    }

    async fn connection(self: &Arc<Self>, limits: Limits) -> std::result::Result<(Pass, Object), Failure> {
        let Some(pass) = self.gate.lets_in() else {
            return Err(Failure::Unreachable("the database could not be reached a moment ago".to_owned()));
        };
        let error = match timeout_at(limits.connected, self.pool.get()).await {
            Ok(Ok(client)) => return Ok((pass, client)),
            Ok(Err(error)) => error,
            Err(_) => return Err(self.unreachable(pass, "no connection to the database in time".to_owned())),
        };
        let why = match error {
            PoolError::Timeout(TimeoutType::Wait) => {
                return Err(Failure::Unreachable("all connections to the database are busy".to_owned()));
            }
            PoolError::Closed => return Err(Failure::Unreachable("it is closing".to_owned())),
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                let error = SqlError(error);
                if error.remedy() == Remedy::Later {
                    return Err(Failure::Sql(error));
                }
                error.to_string()
            }
            other => other.to_string(),
        };
        Err(self.unreachable(pass, format!("no connection to the database: {why}")))
    }

    async fn transact<A, T>(
        self: &Arc<Self>,
        limits: Limits,
        arguments: &A,
        work: Write<A, T>,
    ) -> std::result::Result<T, Failure> {
        let client = self.connection(limits).await?;
        let (mut touched, mut committing) = (Touched::new(), false);
        let outcome = self
            .limited(limits, client, async |client| {
                let transaction = client.transaction().await?;
                if limits.pace == Pace::Long {
                    let limit = format!("SET LOCAL statement_timeout = {}", LONG.as_millis());
                    transaction.batch_execute(&limit).await?;
                }
                let value = work(&transaction, &mut touched, arguments).await?;
                if let Some(notice) = notice::of(self.origin, &touched) {
                    let statement = transaction.prepare_cached("SELECT pg_notify($1, $2)").await?;
                    transaction.execute(&statement, &[&notice::CHANNEL, &notice]).await?;
                }
                committing = true;
                transaction.commit().await?;
                Ok(value)
            })
            .await;
        if committing {
            // A commit that failed may have happened all the same.
            for topic in touched {
                self.freshness.touch(topic);
            }
            return outcome;
        }
        outcome.map_err(|failure| match failure {
            Failure::Sql(error) if error.remedy() == Remedy::Elsewhere => Failure::NotDone(error),
            failure => failure,
        })
    }

    /// Runs work on a connection within its time. A connection that fails as such does not go back to the pool, and neither do
    /// those that lie idle in it: they lead to the same place.
    async fn limited<T>(
        self: &Arc<Self>,
        limits: Limits,
        (pass, mut client): (Pass, Object),
        work: impl AsyncFnOnce(&mut Object) -> std::result::Result<T, Failure>,
    ) -> std::result::Result<T, Failure> {
        let outcome = tokio::select! {
            outcome = work(&mut client) => Some(outcome),
            () = self.too_long(limits) => None,
        };
        let dead = match &outcome {
            Some(Err(Failure::Sql(error) | Failure::NotDone(error))) => error.remedy() == Remedy::Elsewhere,
            Some(_) => false,
            None => true,
        };
        if dead {
            debug!("a connection to the database is given up");
            drop(Object::take(client));
            drop(self.pool.retain(|_, _| false));
        }
        outcome.unwrap_or_else(|| Err(self.unreachable(pass, "the database did not answer in time".to_owned())))
    }

    /// Comes back when the work has taken too long. Work on many rows may take its time, but not while the listener, too, cannot
    /// reach the database.
    async fn too_long(&self, limits: Limits) {
        let mut out_of_touch = Duration::ZERO;
        while limits.pace == Pace::Long && out_of_touch < self.wait + GRACE && Instant::now() < limits.done {
            sleep(LOOK_EVERY).await;
            out_of_touch = if self.freshness.in_doubt() { out_of_touch + LOOK_EVERY } else { Duration::ZERO };
        }
        if limits.pace == Pace::Quick {
            sleep_until(limits.done).await;
        }
    }
}
