//! Which session a token belongs to. Known sessions are cached; unknown tokens never are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::{Session, SessionId, SessionLimits, Snowflake, Time, TokenHash};
use parking_lot::Mutex;
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheMap, CacheRead, Cached, Weigh};
use crate::sources::Sources;

const CACHED_SESSIONS: usize = 50_000;
/// How many times of use may wait for the next flush. If a flush cannot keep up, times of use are lost, never sessions.
const MOST_UNSAVED: usize = 100_000;
/// How many times of use one write saves; more would delay other writes.
const FLUSH_BATCH: usize = 2_000;
/// How often the use of a session is saved at most.
const SAVE_EVERY: Duration = Duration::from_mins(1);

pub struct SessionsView {
    sources: Sources,
    limits: SessionLimits,
    cache: CacheMap<TokenHash, LiveSession>,
    unsaved_uses: Mutex<HashMap<SessionId, Time>>,
}

/// A session that has not ended.
#[derive(Debug)]
pub struct LiveSession {
    pub id: SessionId,
    pub user: Snowflake,
    pub created: Time,
    last_seen: AtomicU64,
    /// The latest use that was queued for the next flush.
    queued: AtomicU64,
}

impl Weigh for LiveSession {}

impl LiveSession {
    pub fn last_seen(&self) -> Time {
        Time::from_millis(self.last_seen.load(Ordering::Relaxed))
    }
}

impl SessionsView {
    pub(super) fn new(sources: &Sources, limits: SessionLimits) -> Self {
        Self {
            sources: sources.clone(),
            limits,
            cache: CacheMap::new(CacheName::Sessions, sources, CACHED_SESSIONS, CACHED_SESSIONS as u64),
            unsaved_uses: Mutex::default(),
        }
    }

    pub(super) fn entries(&self) -> usize {
        self.cache.len()
    }

    /// The session of a token, if it is cached, fresh and has not ended. Counts as a use.
    pub fn cached(&self, token: &TokenHash, now: Time) -> Option<Arc<Cached<LiveSession>>> {
        let session = self.cache.get_fresh(token)?;
        self.record_use(&session, now).then_some(session)
    }

    /// The session of a token, if it has not ended. Counts as a use. Stale if the store cannot be reached.
    pub async fn find(&self, token: TokenHash) -> Result<Option<Arc<Cached<LiveSession>>>> {
        let now = self.sources.clock.now();
        if let Some(cached) = self.cached(&token, now) {
            return Ok(Some(cached));
        }
        match self.read(token, |live| self.record_use(live, now)).await {
            Err(error) => {
                let use_stale = |stale: Arc<Cached<LiveSession>>| self.record_use(&stale, now).then_some(stale);
                self.cache.or_stale(error, &token, use_stale).map(Some)
            }
            found => found,
        }
    }

    /// When the session of a token ends if it is not used; `None` if it has ended. Does not count as a use.
    pub async fn end_of(&self, token: TokenHash) -> Result<Option<Time>> {
        let now = self.sources.clock.now();
        let end = |live: &LiveSession| self.limits.end(live.created, live.last_seen());
        let session = match self.cache.get_fresh(&token) {
            Some(cached) => Some(cached),
            None => self.read(token, |live| now < end(live)).await?,
        };
        Ok(session.map(|live| end(&live)).filter(|end| now < *end))
    }

    async fn read(
        &self,
        token: TokenHash,
        is_alive: impl FnOnce(&LiveSession) -> bool,
    ) -> Result<Option<Arc<Cached<LiveSession>>>> {
        self.cache.count_miss();
        let mut read = CacheRead::begin(&self.sources);
        // Only a first read tells which user's sessions it depends on, so it is read again under the mark.
        let found = match read.look_up().session(token).await? {
            Some(first) => read.depend_on([Topic::SessionsOf(first.user)]).session(token).await?,
            None => None,
        };
        let live = found.map(|session| self.live(session, &token)).filter(is_alive);
        if live.is_none() {
            self.cache.remove(&token);
        }
        Ok(live.map(|live| self.cache.insert(token, read, live)))
    }

    /// All sessions of a user that have not ended, newest first, with the latest known times of use.
    pub async fn of(&self, user: Snowflake) -> Result<Vec<Session>> {
        let now = self.sources.clock.now();
        let mut sessions = self.sources.store.sessions_of(user).await?;
        {
            let unsaved = self.unsaved_uses.lock();
            for session in &mut sessions {
                let latest = unsaved.get(&session.id).copied().unwrap_or_default();
                session.last_seen = session.last_seen.max(latest);
            }
        }
        sessions.retain(|session| now < self.limits.end(session.created, session.last_seen));
        Ok(sessions)
    }

    /// When a user's cached sessions were last used in this process.
    pub fn last_uses(&self, user: Snowflake) -> Vec<(SessionId, Time)> {
        let own = self.cache.values().filter(|live| live.user == user);
        own.map(|live| (live.id.clone(), live.last_seen())).collect()
    }

    /// Saves when sessions were last used.
    pub async fn flush(&self) -> Result<()> {
        let mut uses: Vec<_> = std::mem::take(&mut *self.unsaved_uses.lock()).into_iter().collect();
        while !uses.is_empty() {
            let batch = uses.split_off(uses.len().saturating_sub(FLUSH_BATCH));
            if let Err(error) = self.sources.store.note_seen(batch.clone()).await {
                let mut unsaved = self.unsaved_uses.lock();
                for (session, seen) in uses.into_iter().chain(batch) {
                    // A use recorded since then is later.
                    unsaved.entry(session).or_insert(seen);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn live(&self, session: Session, token: &TokenHash) -> LiveSession {
        // The store may not know the latest use yet.
        let cached = self.cache.peek(token).map_or(0, |cached| cached.last_seen.load(Ordering::Relaxed));
        LiveSession {
            id: session.id,
            user: session.user,
            created: session.created,
            last_seen: AtomicU64::new(session.last_seen.millis().max(cached)),
            queued: AtomicU64::new(session.last_seen.millis()),
        }
    }

    /// Records the use of a session; `false` if it has expired.
    fn record_use(&self, session: &LiveSession, now: Time) -> bool {
        if now >= self.limits.end(session.created, session.last_seen()) {
            return false;
        }
        session.last_seen.fetch_max(now.millis(), Ordering::Relaxed);
        let queued = session.queued.load(Ordering::Relaxed);
        let is_due = now.since(Time::from_millis(queued)) >= SAVE_EVERY.min(self.limits.idle / 4);
        // Only one of several concurrent requests queues the use.
        if is_due && session.queued.compare_exchange(queued, now.millis(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let mut unsaved = self.unsaved_uses.lock();
            if unsaved.len() < MOST_UNSAVED {
                unsaved.insert(session.id.clone(), now);
            }
        }
        true
    }
}
