//! The one writer: a thread that owns the only connection that changes anything. Writes that wait at the same time share one
//! commit, because its flush to disk costs more than all the rest; each of them still succeeds or fails on its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use runtime::clock::Clock;
use rusqlite::Connection;
use telemetry::metrics::{GaugeGuard, StoreAccess, StoreMetrics};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{debug, error, info, warn};

use super::file::FileIdentity;
use crate::{Freshness, Result, StoreError, watch};

/// How many writes may wait.
pub(super) const QUEUE: usize = 1024;
/// How many writes share a commit at most.
const GROUP: usize = 256;
/// How often an idle writer checks whether another process has written.
const WATCH: Duration = Duration::from_millis(250);

pub(super) use crate::sql::ChangedTopics;

/// The connection to the writer's thread.
pub(crate) struct Writer {
    /// One permit per write that may wait.
    permits: Arc<Semaphore>,
    /// The path, which each error names.
    location: String,
    wait: Duration,
    metrics: Arc<StoreMetrics>,
    clock: Clock,
    queue: Mutex<Option<Sender<QueuedWrite>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread. The connection must be the only one of this process that writes.
    pub(super) fn start(
        connection: Connection,
        mut file: FileIdentity,
        location: String,
        wait: Duration,
        freshness: Arc<Freshness>,
        metrics: Arc<StoreMetrics>,
    ) -> Result<Self> {
        let (sender, queue) = channel();
        let seen = data_version(&connection)?;
        // Reading the version has opened the log. A read-only connection may have none, and others may create and remove it.
        if !connection.is_readonly(rusqlite::MAIN_DB)? {
            file.remember_log(&connection)?;
        }
        let clock = freshness.clock().clone();
        let thread = WriterThread { connection, file, queue, freshness, metrics: Arc::clone(&metrics), seen };
        let handle = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || thread.run())
            .map_err(|error| StoreError::Unavailable(format!("the writer's thread does not start: {error}")))?;
        Ok(Self {
            permits: Arc::new(Semaphore::new(QUEUE)),
            location,
            wait,
            metrics,
            clock,
            queue: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(handle)),
        })
    }

    /// Runs the work in a transaction, and returns when it is on disk and the cache is invalidated. Once queued, it runs to its
    /// end even if this future is dropped.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &mut ChangedTopics) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run(work).await.map_err(|error| error.at(&self.location))
    }

    async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &mut ChangedTopics) -> rusqlite::Result<T> + Send + 'static,
    {
        let (began, queued) = (self.clock.ticks(), self.metrics.queue.hold());
        let permit = tokio::time::timeout(self.wait, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(permit) = permit else {
            let busy = Err(StoreError::Busy("too many writes are waiting".to_owned()));
            let waited = self.clock.ticks().saturating_sub(began);
            self.metrics.waits(StoreAccess::Write).observe(waited);
            watch::count(&self.metrics, StoreAccess::Write, &busy, waited);
            return busy;
        };
        let permit = permit.map_err(|_| closing())?;
        let (reply, answer) = oneshot::channel();
        let job = Box::new(WriteTask { work: Some(work), outcome: None, reply, began });
        let waiting = Waiting { _permit: permit, _queued: queued, began, clock: self.clock.clone() };
        match self.queue.lock().as_ref() {
            Some(queue) => queue.send(QueuedWrite { job, waiting }).map_err(|_| closing())?,
            None => return Err(closing()),
        }
        answer.await.map_err(|_| closing())?
    }

    /// Accepts nothing more, finishes what is waiting, and returns when the connection is closed.
    pub(super) async fn close(&self) {
        self.permits.close();
        drop(self.queue.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && !matches!(tokio::task::spawn_blocking(|| thread.join()).await, Ok(Ok(())))
        {
            warn!("the store's writer did not stop cleanly");
        }
    }
}

fn closing() -> StoreError {
    StoreError::Unavailable("it is closing".to_owned())
}

/// A job with its permit to wait, which is returned as soon as the job leaves the queue.
struct QueuedWrite {
    job: Box<dyn Job>,
    waiting: Waiting,
}

/// A waiting write.
struct Waiting {
    _permit: OwnedSemaphorePermit,
    _queued: GaugeGuard,
    /// In the clock's ticks.
    began: Duration,
    clock: Clock,
}

impl QueuedWrite {
    fn take(self, metrics: &StoreMetrics) -> Box<dyn Job> {
        let Waiting { began, clock, .. } = &self.waiting;
        metrics.waits(StoreAccess::Write).observe(clock.ticks().saturating_sub(*began));
        self.job
    }
}

trait Job: Send {
    /// Does the work, and returns whether it succeeded.
    fn run(&mut self, connection: &Connection, topics: &mut ChangedTopics) -> bool;
    /// Gives the caller its result, now that the outcome of the group's commit is known, at this tick of the clock.
    fn answer(self: Box<Self>, commit: &Result<()>, metrics: &StoreMetrics, now: Duration);
}

struct WriteTask<F, T> {
    work: Option<F>,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    /// When the caller began to wait, in the clock's ticks.
    began: Duration,
}

impl<F, T> Job for WriteTask<F, T>
where
    T: Send,
    F: FnOnce(&Connection, &mut ChangedTopics) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, connection: &Connection, topics: &mut ChangedTopics) -> bool {
        let Some(work) = self.work.take() else { return false };
        // The savepoint undoes what the work did to the database, and nothing else of it is seen again.
        let outcome = match catch_unwind(AssertUnwindSafe(|| work(connection, topics))) {
            Ok(outcome) => outcome.map_err(StoreError::from),
            Err(_) => Err(StoreError::Failed("a write panicked".to_owned())),
        };
        self.outcome.insert(outcome).is_ok()
    }

    fn answer(self: Box<Self>, commit: &Result<()>, metrics: &StoreMetrics, now: Duration) {
        let answer = match (self.outcome, commit) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(group)) => Err(group.clone()),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Failed("a write did not run".to_owned())),
        };
        watch::count(metrics, StoreAccess::Write, &answer, now.saturating_sub(self.began));
        if self.reply.send(answer).is_err() {
            debug!("nobody waited for a write");
        }
    }
}

struct WriterThread {
    connection: Connection,
    file: FileIdentity,
    queue: Receiver<QueuedWrite>,
    freshness: Arc<Freshness>,
    metrics: Arc<StoreMetrics>,
    /// The database's version when this connection last checked; its own commits do not change it.
    seen: i64,
}

impl WriterThread {
    fn run(mut self) {
        loop {
            match self.queue.recv_timeout(WATCH) {
                Ok(first) => self.group(first.take(&self.metrics)),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.expect_file();
                    self.watch();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // A read-only connection has nothing to tidy up, and may not.
        if self.connection.is_readonly(rusqlite::MAIN_DB).unwrap_or(false) {
            return;
        }
        // It would move the log into a file that nobody can open any more, and empty the log, which may be all that is left.
        if self.expect_file().is_err() {
            return;
        }
        // Leaves one tidy file; the next start would cope without it.
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
            warn!(%error, "the last checkpoint failed");
        }
    }

    /// Runs this job and those queued after it, and commits them together.
    fn group(&mut self, first: Box<dyn Job>) {
        let begun = self.expect_file().and_then(|()| self.execute("BEGIN IMMEDIATE").map_err(StoreError::from));
        if let Err(error) = begun {
            // Another process holds the lock for too long, or the file is gone. The others have waited as long, so let none
            // wait twice.
            let refused = Err(error);
            // Collected before the first answer: a write that comes after it gets its own try.
            let waiting = std::iter::from_fn(|| self.next()).take(GROUP);
            let jobs: Vec<_> = std::iter::once(first).chain(waiting).collect();
            // A steady stream of writes must not keep it from checking.
            self.watch();
            return self.answer(jobs, &refused);
        }
        self.watch();
        let mut jobs = Vec::new();
        let mut topics = ChangedTopics::new();
        let mut outcome = Ok(());
        let mut next = Some(first);
        while let Some(mut job) = next {
            outcome = self.step(job.as_mut(), &mut topics);
            jobs.push(job);
            next = if outcome.is_ok() && jobs.len() < GROUP { self.next() } else { None };
        }
        let commit = outcome.and_then(|()| self.execute("COMMIT")).map_err(StoreError::from);
        if commit.is_ok() {
            for topic in topics {
                self.freshness.invalidate(topic);
            }
        } else if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            warn!(%error, "a rollback failed");
        }
        // If the file was lost in the meantime, what was committed is lost with it.
        let outcome = commit.and_then(|()| self.expect_file());
        self.answer(jobs, &outcome);
    }

    fn answer(&self, jobs: Vec<Box<dyn Job>>, commit: &Result<()>) {
        let now = self.freshness.clock().ticks();
        for job in jobs {
            job.answer(commit, &self.metrics, now);
        }
    }

    /// Runs one job inside the group. An error here is the transaction's, not the job's.
    fn step(&self, job: &mut dyn Job, topics: &mut ChangedTopics) -> rusqlite::Result<()> {
        let before = topics.len();
        self.execute("SAVEPOINT job")?;
        if !job.run(&self.connection, topics) {
            topics.truncate(before);
            self.execute("ROLLBACK TO job")?;
        }
        self.execute("RELEASE job")
    }

    fn next(&self) -> Option<Box<dyn Job>> {
        self.queue.try_recv().ok().map(|queued| queued.take(&self.metrics))
    }

    /// Refuses to write to a file that nobody can open any more: the data would be lost when this process ends.
    fn expect_file(&mut self) -> Result<()> {
        let Some(why) = self.file.lost().or_else(|| self.file.was_cut(&self.connection)) else {
            if self.metrics.file_lost.get() > 0 {
                self.metrics.file_lost.set(0);
                info!("the database file is at its path again; writes are accepted");
            }
            return Ok(());
        };
        if self.metrics.file_lost.raise() {
            error!(
                why,
                "store_file_lost: the database file or its log is no longer at its path, or was truncated, and writes are \
                 refused. This \
                 process may be the only one that still has all the data: do not restart it; see CompanionStoreFileLost in the documentation, under Alerts"
            );
        }
        Err(StoreError::Unavailable(format!(
            "the database file is no longer at its path, or is incomplete ({why}); writes are refused"
        )))
    }

    /// Notices writes by other processes. They cannot say what they changed, so everything cached is invalidated. While the
    /// file cannot be checked, the cache is suspended.
    fn watch(&mut self) {
        let was_suspended = self.freshness.is_suspended();
        match data_version(&self.connection) {
            Ok(version) => {
                let changed = std::mem::replace(&mut self.seen, version) != version;
                if was_suspended {
                    info!("the store's file can be read again");
                    self.freshness.resume_invalidated();
                } else if changed {
                    self.freshness.invalidate_all();
                }
            }
            Err(error) => {
                if !was_suspended {
                    warn!(%error, "cannot tell whether another process has written");
                }
                self.freshness.suspend();
            }
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
