//! Live updates: streams that say which parts of the API a client should read again. They carry no data, so nothing can be
//! missed. One task compares marks for all streams (cache invalidation, `store::freshness`); a stream has no timer of its own.

mod stream;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use tracing::debug;

pub use stream::LiveBody;

use crate::clock::Clock;
use crate::concurrency::{ConcurrencyLimit, LimitReached};
use crate::config::LimitsConfig;
use crate::domain::live::LiveTopics;
use crate::domain::{SessionId, Snowflake, TokenHash};
use crate::metrics::LimitName;
use crate::sources::Sources;
use crate::store::freshness::{Dependencies, Mark};
use crate::store::{StoreError, Topic};
use crate::subjects::Subjects;
use crate::views::Views;
use stream::Stream;
use watch::{Checked, Watch};

/// How often it is looked whether something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// While other replicas cannot be heard, how often the sessions of all streams are looked up.
const LOOK_UP_SESSIONS_EVERY: Duration = Duration::from_secs(1);
/// How many users' changes are read from the store at the same time.
const CHECKS_AT_ONCE: usize = 4;
/// A lost stream is opened again after a time in this span, so that clients do not come back all at once.
const RETRY_MILLIS: (u64, u64) = (1000, 4000);

/// All live streams of this process.
pub struct Live {
    streams: Mutex<HashMap<u64, Arc<Stream>>>,
    permits: ConcurrencyLimit,
    next_id: AtomicU64,
    closed: AtomicBool,
    views: Arc<Views>,
    sources: Sources,
    clock: Clock,
}

/// Whose stream it is.
#[derive(Clone, Debug)]
pub struct StreamOwner {
    /// The session.
    pub id: SessionId,
    /// Its token.
    pub token: TokenHash,
    /// Its user.
    pub user: Snowflake,
}

/// Why a stream cannot be opened.
#[derive(Debug)]
pub enum LiveError {
    /// There are too many.
    Limit(LimitReached),
    /// The process is stopping.
    Stopping,
    /// The session has ended.
    SessionEnded,
    /// The store failed.
    Store(StoreError),
}

/// A public topic, with the mark under which clients were last told about it.
struct PublicTopic {
    topic: LiveTopics,
    dependencies: Dependencies,
    mark: Mark,
}

impl Live {
    /// No streams yet.
    pub fn new(sources: &Sources, views: Arc<Views>, limits: &LimitsConfig) -> Self {
        Self {
            streams: Mutex::default(),
            permits: ConcurrencyLimit::new(limits.live, limits.live_per_address),
            next_id: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            views,
            sources: sources.clone(),
            clock: sources.clock.clone(),
        }
    }

    /// Changes how many streams there may be; those that are open stay so.
    pub fn set_limits(&self, limits: &LimitsConfig) {
        self.permits.set(limits.live, limits.live_per_address);
    }

    /// Opens a stream. `subjects` is whom it counts for, `chance` a random number.
    pub async fn open(
        self: &Arc<Self>,
        subjects: Subjects,
        session: Option<StreamOwner>,
        chance: u64,
    ) -> Result<LiveBody, LiveError> {
        let permit = self.permits.enter(subjects).map_err(|reached| {
            self.sources.metrics.limits.count(match reached {
                LimitReached::InAll => LimitName::Live,
                LimitReached::PerSubject => LimitName::LivePerAddress,
            });
            LiveError::Limit(reached)
        })?;
        let watch = match session {
            None => None,
            Some(StreamOwner { id, token, user }) => {
                let watch = Watch::begin(&self.views, &self.sources.freshness, id, token, user).await;
                Some(watch.map_err(LiveError::Store)?.ok_or(LiveError::SessionEnded)?)
            }
        };
        let (shortest, longest) = RETRY_MILLIS;
        let retry_millis = shortest + chance % (longest - shortest);
        let stream = Arc::new(Stream::new(watch, self.clock.ticks(), retry_millis));
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.streams.lock().insert(id, Arc::clone(&stream));
        let body = LiveBody { stream, hub: Arc::downgrade(self), id, _permit: permit };
        // Asked last: a stream that was added after `close` went over all of them is not left open.
        if self.closed.load(Ordering::SeqCst) { Err(LiveError::Stopping) } else { Ok(body) }
    }

    fn forget(&self, id: u64) {
        self.streams.lock().remove(&id);
    }

    /// Ends all streams, and lets no other begin.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for stream in self.all() {
            stream.close();
        }
    }

    /// How many streams there are.
    pub fn count(&self) -> usize {
        self.streams.lock().len()
    }

    /// How many streams are public, and how many belong to users.
    pub fn counts(&self) -> (usize, usize) {
        let streams = self.streams.lock();
        let of_users = streams.values().filter(|stream| stream.watch.is_some()).count();
        (streams.len() - of_users, of_users)
    }

    fn all(&self) -> Vec<Arc<Stream>> {
        self.streams.lock().values().cloned().collect()
    }

    /// Tells the streams what changes; never ends.
    pub async fn run(&self) {
        tokio::join!(self.tell(), self.watch_users(), self.look_up_sessions_while_suspended());
    }

    /// Notes which public parts have changed, and hands every stream what is due. Waits for nothing but the time.
    async fn tell(&self) {
        let mut public = [
            self.mark(LiveTopics::STATUS, Topic::Health),
            self.mark(LiveTopics::TEAM, Topic::Team),
            self.mark(LiveTopics::FEEDBACK, Topic::Feedback),
            self.mark(LiveTopics::STATS, Topic::Stats),
        ];
        let mut was_online = None;
        let mut pace = interval(LOOK_EVERY);
        loop {
            pace.tick().await;
            // Read first: what changes after this moment waits for the next round, with whatever changes beside it.
            let now = self.clock.ticks();
            let streams = self.all();
            let online = self.views.status.bot_is_online();
            let flipped = was_online.is_some() && online.is_some() && was_online != online;
            was_online = online.or(was_online);
            let mut changed = if flipped { LiveTopics::STATUS } else { LiveTopics::NONE };
            for known in &mut public {
                if !self.sources.freshness.is_current(&known.dependencies, known.mark) {
                    changed = changed.with(known.topic);
                    *known = self.mark_again(known);
                }
            }
            for stream in streams {
                if !changed.is_empty() {
                    stream.note(changed, flipped);
                }
                stream.advance(now);
            }
        }
    }

    fn mark(&self, topic: LiveTopics, depends_on: Topic) -> PublicTopic {
        let mut marking = self.sources.freshness.marking();
        marking.depend_on([depends_on]);
        let (dependencies, mark, _) = marking.finish();
        PublicTopic { topic, dependencies, mark }
    }

    fn mark_again(&self, known: &PublicTopic) -> PublicTopic {
        let (dependencies, mark) = (known.dependencies.clone(), self.sources.freshness.mark(&known.dependencies));
        PublicTopic { topic: known.topic, dependencies, mark }
    }

    /// Notes what has changed for users, and ends streams whose session has ended.
    async fn watch_users(&self) {
        let mut pace = interval(LOOK_EVERY);
        loop {
            pace.tick().await;
            let now = self.clock.now();
            let freshness = &self.sources.freshness;
            let mut changed = self.all();
            changed.retain(|stream| stream.watch.as_ref().is_some_and(|watch| watch.has_changed(freshness, now)));
            let checks = changed.into_iter().map(|stream| self.check(stream));
            futures_util::stream::iter(checks).buffer_unordered(CHECKS_AT_ONCE).collect::<()>().await;
        }
    }

    async fn check(&self, stream: Arc<Stream>) {
        let Some(watch) = &stream.watch else { return };
        match watch.check(&self.views, &self.sources.freshness, self.clock.now()).await {
            Ok(Checked::Changed(topics)) => stream.note(topics, false),
            Ok(Checked::Ended) => stream.end_with_session(),
            Err(error) => debug!(%error, "a live stream could not be checked; trying again"),
        }
    }

    /// While the cache is suspended (changes by other replicas cannot be heard), looks up the sessions of all streams in one query.
    async fn look_up_sessions_while_suspended(&self) {
        let mut pace = interval(LOOK_UP_SESSIONS_EVERY);
        loop {
            pace.tick().await;
            if !self.sources.freshness.is_suspended() {
                continue;
            }
            let mut streams = self.all();
            streams.retain(|stream| stream.watch.is_some());
            let sessions = streams.iter().filter_map(|stream| stream.watch.as_ref()).map(|watch| watch.session.clone());
            let sessions: Vec<SessionId> = sessions.collect();
            if sessions.is_empty() {
                continue;
            }
            match self.sources.store.sessions_among(sessions).await {
                Ok(alive) => {
                    let has_ended = |stream: &&Arc<Stream>| {
                        stream.watch.as_ref().is_some_and(|watch| !alive.contains(&watch.session))
                    };
                    streams.iter().filter(has_ended).for_each(|stream| stream.end_with_session());
                }
                Err(error) => debug!(%error, "the sessions of live streams could not be looked up; trying again"),
            }
        }
    }
}

fn interval(every: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}
