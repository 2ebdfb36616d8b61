//! What a developer sees: log lines, counters, the status, and notices.

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::core::{Core, Phase, has_work};

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For information.
    Info,
    /// Something is missing or was refused.
    Warn,
    /// Someone has to do something.
    Error,
}

/// A notice for the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Everything has been sent.
    Synced,
    /// The text of a logged warning or error.
    Error(String),
}

/// What the feed is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No shard is ready.
    Starting,
    /// Some shards have not been sent yet.
    Syncing,
    /// Every one of the process's shards has been sent.
    Synced,
    /// A process that started later owns some of the shards, so nothing is sent about them until it leaves.
    Replaced,
    /// The service does not respond, or does not accept the key.
    Unreachable,
    /// Nothing is sent any more.
    Closed,
}

impl State {
    /// The name, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Syncing => "syncing",
            Self::Synced => "synced",
            Self::Replaced => "replaced",
            Self::Unreachable => "unreachable",
            Self::Closed => "closed",
        }
    }
}

/// What is waiting to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Changes.
    pub changes: usize,
    /// Feedback entries.
    pub feedback: usize,
    /// Lines that were sent but not acknowledged yet.
    pub batch: usize,
}

/// Counters for the bot's own metrics. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it, and they are the same in every SDK")]
pub struct Counters {
    pub requests: u64,
    pub failures: u64,
    pub heartbeats: u64,
    pub snapshots: u64,
    pub lines_sent: u64,
    pub lines_refused: u64,
    pub lines_ignored: u64,
    pub resyncs: u64,
    pub feedback_delivered: u64,
    pub feedback_dropped: u64,
    pub callback_failures: u64,
    pub listings: u64,
    pub listing_failures: u64,
}

/// The state of the feed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// The name of this run of the process.
    pub instance: String,
    /// How many guilds the ready shards have.
    pub guilds: usize,
    /// How many shards are ready.
    pub shards: usize,
    /// How many staff are known, across all guilds.
    pub staff: usize,
    /// What is waiting.
    pub waiting: Waiting,
    /// The last warning or error.
    pub last_error: Option<String>,
    /// The counters.
    pub counters: Counters,
}

/// Where log lines go. It must return immediately and must not call the companion.
pub type LogSink = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// How many unread notices are kept; the oldest are dropped first.
const NOTICES: usize = 64;
/// How many one-time lines are remembered.
const REMEMBERED: usize = 10_000;

/// Writes log lines, each kind once, and keeps the counters.
pub(crate) struct Reporter {
    sink: LogSink,
    notices: broadcast::Sender<Notice>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    said: HashSet<String>,
    counters: Counters,
    last_error: Option<String>,
}

impl Reporter {
    pub(crate) fn new(sink: LogSink) -> Self {
        Self { sink, notices: broadcast::channel(NOTICES).0, inner: Mutex::default() }
    }

    pub(crate) fn info(&self, text: &str) {
        (self.sink)(Level::Info, text);
    }

    pub(crate) fn warn(&self, text: &str) {
        self.problem(Level::Warn, text);
    }

    pub(crate) fn error(&self, text: &str) {
        self.problem(Level::Error, text);
    }

    /// Logs a warning once per `about`.
    pub(crate) fn warn_once(&self, about: &str, text: &str) {
        if self.is_news(about) {
            self.warn(text);
        }
    }

    /// Whether this is the first call for `about`.
    pub(crate) fn is_news(&self, about: &str) -> bool {
        let mut inner = self.lock();
        if inner.said.len() >= REMEMBERED {
            inner.said.clear();
        }
        inner.said.insert(about.to_owned())
    }

    /// Allows `about` to be logged again.
    pub(crate) fn forget(&self, about: &str) {
        self.lock().said.remove(about);
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.lock().counters);
    }

    pub(crate) fn counters(&self) -> Counters {
        self.lock().counters
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.lock().last_error.clone()
    }

    pub(crate) fn synced(&self) {
        let _ = self.notices.send(Notice::Synced);
    }

    pub(crate) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    fn problem(&self, level: Level, text: &str) {
        self.lock().last_error = Some(text.to_owned());
        (self.sink)(level, text);
        let _ = self.notices.send(Notice::Error(text.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes log lines as `tracing` events with the target `bot_companion_feed`.
pub(crate) fn to_tracing() -> LogSink {
    Arc::new(|level, text| match level {
        Level::Info => tracing::info!(target: "bot_companion_feed", "{text}"),
        Level::Warn => tracing::warn!(target: "bot_companion_feed", "{text}"),
        Level::Error => tracing::error!(target: "bot_companion_feed", "{text}"),
    })
}

impl Core {
    /// A bug in this package.
    pub(crate) fn say_fault(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let text = format!("a bug in this package: {}", text.unwrap_or("it panicked"));
        if self.reporter.is_news(&text) {
            self.reporter.error(&text);
        }
    }

    pub(crate) fn status(&self) -> Status {
        let state = self.lock();
        let guilds = state.snapshots.ready().map(|shard| self.source.guild_ids(shard).len()).sum();
        let shards = state.snapshots.ready().count();
        let name = match *self.phase.borrow() {
            Phase::Closed => State::Closed,
            _ if state.outage.is_on() => State::Unreachable,
            _ if !state.snapshots.was_ready => State::Starting,
            _ if state.snapshots.any_replaced() => State::Replaced,
            _ if self.are_own_shards_sent(&state) && !has_work(&state) => State::Synced,
            _ => State::Syncing,
        };
        Status {
            state: name,
            instance: self.instance.clone(),
            guilds,
            shards,
            staff: state.staff.len(),
            waiting: Waiting {
                changes: state.marks.len(),
                feedback: state.feedback.len(),
                batch: state.batch.as_ref().map_or(0, |batch| batch.lines.len()),
            },
            last_error: self.reporter.last_error(),
            counters: self.reporter.counters(),
        }
    }
}
