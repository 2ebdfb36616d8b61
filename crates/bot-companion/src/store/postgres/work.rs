//! One piece of work on the database: a connection of the pool, a transaction if it writes, a limit on all of it, and one answer
//! to everything that can go wrong. It runs to its end whether or not anybody still waits for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType, Timeouts,
    Transaction,
};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tracing::{debug, info, warn};

use super::address::Address;
use super::gate::{Gate, Pass};
use super::notice::{self, Origin};
use crate::store::{Freshness, Result, StoreError, Topic};

/// How often a transaction that lost against another is tried.
const TRIES: usize = 5;
/// How much longer than the database itself we wait for its answer, before it counts as unreachable.
const GRACE: Duration = Duration::from_millis(500);
/// How much later a replica may knock than another.
const SPREAD: u64 = 50;
/// How long work may take that moves many rows.
const LONG: Duration = Duration::from_mins(1);

/// What a write has changed. It counts only if the write succeeds.
pub(super) type Touched = Vec<Topic>;
/// What a statement gives.
pub(super) type Sql<T> = std::result::Result<T, SqlError>;
/// Work that reads.
pub(super) type Read<A, T> = for<'a> fn(&'a Object, &'a A) -> BoxFuture<'a, Sql<T>>;
/// Work that changes something, all or nothing. It may run more than once, and only the last time counts.
pub(super) type Write<A, T> = for<'a> fn(&'a Transaction<'a>, &'a mut Touched, &'a A) -> BoxFuture<'a, Sql<T>>;

/// Why a statement failed.
#[derive(Debug)]
pub(super) struct SqlError(tokio_postgres::Error);

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for SqlError {
    /// Names tables and columns, never values: those are in the details, which stay out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_db_error() {
            Some(error) => write!(f, "{} ({})", error.message(), error.code().code()),
            None => self.0.fmt(f),
        }
    }
}

/// What is to be done about a failed statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// Try again: the transaction lost against another.
    Again,
    /// Come back later: the database has too much to do.
    Later,
    /// Come back later, on another connection: this one leads nowhere.
    Elsewhere,
    /// Nothing: trying again will not mend it.
    Never,
}

impl SqlError {
    fn remedy(&self) -> Remedy {
        let Some(code) = self.0.code() else {
            // Not the database's word: the connection broke, or what we read is not what we expected.
            let cause = std::error::Error::source(&self.0);
            let broken = self.0.is_closed() || cause.is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            return if broken { Remedy::Elsewhere } else { Remedy::Never };
        };
        match code.code().get(..2).unwrap_or_default() {
            _ if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => Remedy::Again,
            // A primary that became a standby, one that is stopping or starting, a broken line.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Remedy::Elsewhere,
            _ if *code == SqlState::QUERY_CANCELED => Remedy::Later,
            "57" | "08" => Remedy::Elsewhere,
            // No room, or a lock that did not come in time.
            "53" | "55" | "58" => Remedy::Later,
            _ => Remedy::Never,
        }
    }

    /// Whether a row was there already.
    pub(super) fn is_duplicate(&self) -> bool {
        self.0.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    fn into_store_error(self) -> StoreError {
        match self.remedy() {
            Remedy::Never => StoreError::Failed(self.to_string()),
            _ => StoreError::Unavailable(self.to_string()),
        }
    }
}

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
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config.clone(), address.tls.clone(), recycling);
        // Compiling a statement is for those that run for seconds; it would make some of ours a hundred times slower.
        let limits = format!(
            "SET jit = off; SET statement_timeout = {millis}; SET idle_in_transaction_session_timeout = {idle}",
            millis = wait.as_millis(),
            idle = (LONG + GRACE).as_millis(),
        );
        let set_limits = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let limits = limits.clone();
            Box::pin(async move { client.batch_execute(&limits).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(manager)
            .max_size(connections)
            .timeouts(Timeouts { wait: Some(wait), create: Some(wait + GRACE), recycle: Some(wait) })
            .runtime(Runtime::Tokio1)
            .post_create(set_limits)
            .build()
            .map_err(|error| StoreError::Failed(format!("its pool cannot be made: {error}")))?;
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
                match inner.transact(pace, limits, &arguments, work).await {
                    Err(Failure::Sql(error)) if error.remedy() == Remedy::Again => failed = Some(error),
                    Err(Failure::NotBegun(error)) if failed.is_none() => failed = Some(error),
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
    connected: Instant,
    done: Instant,
}

/// Why a piece of work came to nothing.
enum Failure {
    /// The database could not be reached, or not in time.
    Unreachable(String),
    /// The connection led nowhere before anything was done on it.
    NotBegun(SqlError),
    Sql(SqlError),
}

impl Failure {
    fn into_store_error(self) -> StoreError {
        match self {
            Self::Unreachable(why) => StoreError::Unavailable(why),
            Self::NotBegun(error) | Self::Sql(error) => error.into_store_error(),
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
            Pace::Quick => Limits { connected, done: connected },
            Pace::Long => Limits { connected, done: now + LONG + GRACE },
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
        match self.address.config.connect(self.address.tls.clone()).await {
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
        pace: Pace,
        limits: Limits,
        arguments: &A,
        work: Write<A, T>,
    ) -> std::result::Result<T, Failure> {
        let client = self.connection(limits).await?;
        let (mut touched, mut committing) = (Touched::new(), false);
        let outcome = self
            .limited(limits, client, async |client| {
                let transaction = client.transaction().await.map_err(|error| Failure::NotBegun(error.into()))?;
                if pace == Pace::Long {
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
        }
        outcome
    }

    /// Runs work on a connection within its time. A connection that fails as such does not go back to the pool, and neither do
    /// those that lie idle in it: they lead to the same place.
    async fn limited<T>(
        self: &Arc<Self>,
        limits: Limits,
        (pass, mut client): (Pass, Object),
        work: impl AsyncFnOnce(&mut Object) -> std::result::Result<T, Failure>,
    ) -> std::result::Result<T, Failure> {
        let outcome = timeout_at(limits.done, work(&mut client)).await;
        let dead = match &outcome {
            Ok(Err(Failure::Sql(error) | Failure::NotBegun(error))) => error.remedy() == Remedy::Elsewhere,
            Ok(_) => false,
            Err(_) => true,
        };
        if dead {
            debug!("a connection to the database is given up");
            drop(Object::take(client));
            drop(self.pool.retain(|_, _| false));
        }
        outcome.unwrap_or_else(|_| Err(self.unreachable(pass, "the database did not answer in time".to_owned())))
    }
}
