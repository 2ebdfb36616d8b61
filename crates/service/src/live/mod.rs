//! Live updates: streams that tell clients which parts of the API to reload. They carry no data, so nothing can be missed. One
//! task compares marks for all streams (cache invalidation, `store::freshness`), so a stream needs no timer.
//!
//! A change costs each stream a look at its marks, not a read of the store: it reports that a guild has changed without asking
//! what it is now. Only when the user's own list has changed is it read again. Sessions have their own loop, so that the end of
//! one does not wait for any list.

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

use domain::live::LiveTopics;
use domain::{SessionId, Snowflake, TokenHash};
use runtime::client_key::ClientKey;
use runtime::concurrency::{ConcurrencyLimit, LimitReached};
use store::{StoreError, Topic};
use stream::Stream;
use telemetry::metrics::LimitName;
use watch::Watch;

use crate::config::LimitsConfig;
use crate::sources::Sources;
use crate::views::Views;
use crate::views::cached::Marked;

/// How often to check for changes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// While changes from other replicas do not arrive, the sessions of all streams are looked up every fourth round: once per
/// second.
const ROUNDS_PER_LOOKUP: u32 = 4;
/// How many users' lists, or sessions that may have expired, are read from the store at the same time.
const READS_AT_ONCE: usize = 4;
/// A lost stream is reopened after a time in this range, so that clients do not all come back at the same time.
const RETRY_MILLIS: (u64, u64) = (1000, 4000);

pub struct Live {
    streams: Mutex<HashMap<u64, Arc<Stream>>>,
    permits: ConcurrencyLimit,
    next_id: AtomicU64,
    closed: AtomicBool,
    views: Arc<Views>,
    sources: Sources,
}

#[derive(Clone, Debug)]
pub struct StreamOwner {
    pub id: SessionId,
    pub token: TokenHash,
    pub user: Snowflake,
}

#[derive(Debug)]
pub enum LiveError {
    Limit(LimitReached),
    Stopping,
    SessionEnded,
    Store(StoreError),
}

impl Live {
    pub fn new(sources: &Sources, views: Arc<Views>, limits: &LimitsConfig) -> Self {
        Self {
            streams: Mutex::default(),
            permits: ConcurrencyLimit::new(limits.live, limits.live_per_address),
            next_id: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            views,
            sources: sources.clone(),
        }
    }

    /// Changes how many streams there may be; open ones stay open.
    pub fn set_limits(&self, limits: &LimitsConfig) {
        self.permits.set(limits.live, limits.live_per_address);
    }

    /// Opens a stream. `client` is who it counts against; without one, it only counts towards the total, `chance` a random number.
    pub async fn open(
        self: &Arc<Self>,
        client: Option<ClientKey>,
        session: Option<StreamOwner>,
        chance: u64,
    ) -> Result<LiveBody, LiveError> {
        let permit = self.permits.enter(client).map_err(|reached| {
            self.sources.metrics.limits.count(match reached {
                LimitReached::InAll => LimitName::Live,
                LimitReached::PerClient => LimitName::LivePerAddress,
            });
            LiveError::Limit(reached)
        })?;
        let watch = match session {
            None => None,
            Some(owner) => {
                let now = self.sources.clock.ticks();
                let watch = Watch::begin(&self.views, &self.sources.freshness, owner, now).await;
                Some(watch.map_err(LiveError::Store)?.ok_or(LiveError::SessionEnded)?)
            }
        };
        let (shortest, longest) = RETRY_MILLIS;
        let retry_millis = shortest + chance % (longest - shortest);
        let stream = Arc::new(Stream::new(watch, self.sources.clock.ticks(), retry_millis));
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.streams.lock().insert(id, Arc::clone(&stream));
        let body = LiveBody { stream, hub: Arc::downgrade(self), id, _permit: permit };
        // Checked last, so that a stream added after `close` went through all of them is not left open.
        if self.closed.load(Ordering::SeqCst) { Err(LiveError::Stopping) } else { Ok(body) }
    }

    /// Ends all streams, and allows no new ones.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for stream in self.all() {
            stream.close();
        }
    }

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

    /// Tells the streams about changes. Never ends.
    pub async fn run(&self) {
        tokio::join!(self.tell(), self.read_lists(), self.watch_sessions());
    }

    /// Records what has changed, and passes on what is due to every stream. Only waits for time to pass.
    async fn tell(&self) {
        let freshness = &self.sources.freshness;
        let mut public = [
            (LiveTopics::STATUS, Topic::Health),
            // The pages' announcements and incidents.
            (LiveTopics::STATUS, Topic::History),
            (LiveTopics::TEAM, Topic::Team),
            (LiveTopics::FEEDBACK, Topic::Feedback),
            (LiveTopics::STATS, Topic::Stats),
        ]
        .map(|(told, topic)| (told, Marked::of(freshness, topic)));
        let mut was_online = None;
        let mut pace = interval(LOOK_EVERY);
        loop {
            pace.tick().await;
            // Read first: anything that changes later waits for the next round, together with related changes.
            let now = self.sources.clock.ticks();
            let streams = self.all();
            let online = self.views.status.bot_is_online();
            let flipped = was_online.is_some() && online.is_some() && was_online != online;
            was_online = online.or(was_online);
            let mut changed = if flipped { LiveTopics::STATUS } else { LiveTopics::NONE };
            for (told, marked) in &mut public {
                if marked.renew(freshness) {
                    changed = changed.with(*told);
                }
            }
            for stream in streams {
                let of_user = stream.watch.as_ref().map(|watch| watch.look(freshness, self.sources.clock.now()));
                let changed = changed.with(of_user.unwrap_or_default());
                if !changed.is_empty() {
                    stream.note(changed, flipped);
                }
                stream.advance(now);
            }
        }
    }

    /// Reloads users' lists that may have other guilds now, and tells their streams.
    async fn read_lists(&self) {
        let mut pace = interval(LOOK_EVERY);
        loop {
            pace.tick().await;
            let now = self.sources.clock.ticks();
            let mut due = self.all();
            due.retain(|stream| stream.watch.as_ref().is_some_and(|watch| watch.is_list_due(now)));
            let reads = due.into_iter().map(|stream| self.read_list(stream, now));
            futures_util::stream::iter(reads).buffer_unordered(READS_AT_ONCE).collect::<()>().await;
        }
    }

    async fn read_list(&self, stream: Arc<Stream>, now: Duration) {
        let Some(watch) = &stream.watch else { return };
        match watch.read_list(&self.views, &self.sources.freshness, now).await {
            Ok(()) => stream.note(LiveTopics::GUILDS, false),
            Err(error) => debug!(%error, "the list of a live stream could not be read; retrying"),
        }
    }

    /// Ends streams whose session has ended, and tells the user's other streams.
    async fn watch_sessions(&self) {
        let mut pace = interval(LOOK_EVERY);
        let mut suspended_rounds = 0_u32;
        loop {
            pace.tick().await;
            let is_suspended = self.sources.freshness.is_suspended();
            let all = is_suspended && suspended_rounds.is_multiple_of(ROUNDS_PER_LOOKUP);
            suspended_rounds = if is_suspended { suspended_rounds.wrapping_add(1) } else { 0 };
            self.look_up_sessions(all).await;
            self.end_expired_sessions().await;
        }
    }

    /// Looks up, in one query, the sessions of users whose sessions have changed; with `all`, those of all streams, because
    /// changes by other replicas do not arrive while the cache is suspended.
    async fn look_up_sessions(&self, all: bool) {
        let freshness = &self.sources.freshness;
        let mut sessions = Vec::new();
        let mut looked_up = Vec::new();
        for stream in self.all() {
            let Some(watch) = &stream.watch else { continue };
            let marked = if all { Some(watch.mark_sessions(freshness)) } else { watch.moved_sessions(freshness) };
            if let Some(marked) = marked {
                sessions.push(watch.owner.id.clone());
                looked_up.push((stream, marked));
            }
        }
        if sessions.is_empty() {
            return;
        }
        let alive = match self.sources.store.sessions_among(sessions).await {
            Ok(alive) => alive,
            Err(error) => {
                debug!(%error, "the sessions of live streams could not be looked up; retrying");
                return;
            }
        };
        for (stream, marked) in looked_up {
            let Some(watch) = &stream.watch else { continue };
            if !alive.contains(&watch.owner.id) {
                stream.end_with_session();
            } else if watch.sessions_looked_up(marked) {
                stream.note(LiveTopics::SESSIONS, false);
            }
        }
    }

    /// Ends streams whose session has been unused for too long, or is too old.
    async fn end_expired_sessions(&self) {
        let now = self.sources.clock.now();
        let mut expired = self.all();
        expired.retain(|stream| stream.watch.as_ref().is_some_and(|watch| watch.may_have_expired(now)));
        let checks = expired.into_iter().map(|stream| async move {
            let Some(watch) = &stream.watch else { return };
            match watch.is_still_used(&self.views).await {
                Ok(true) => {}
                Ok(false) => stream.end_with_session(),
                Err(error) => debug!(%error, "the session of a live stream could not be checked; retrying"),
            }
        });
        futures_util::stream::iter(checks).buffer_unordered(READS_AT_ONCE).collect::<()>().await;
    }
}

fn interval(every: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}
