//! Who a token stands for. Known sessions are kept in memory; unknown tokens never are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;

use super::Sources;
use crate::domain::{Session, SessionId, SessionLimits, Snowflake, Time, TokenHash};
use crate::store::freshness::{Dependencies, Mark};
use crate::store::{Result, StoreError, Topic};

/// How many sessions are kept in memory.
const KEPT: usize = 50_000;
/// How many notes of use may wait for the next flush; a flush that cannot keep up loses notes, never sessions.
const WAITING_NOTES: usize = 100_000;
/// How many notes are written in one step: it must not hold up others.
const FLUSHED_AT_ONCE: usize = 2_000;
/// The use of a session is written at most once in this span.
const NOTE_EVERY: Duration = Duration::from_mins(1);

/// The view.
pub struct Sessions {
    sources: Sources,
    limits: SessionLimits,
    kept: Cache<TokenHash, Arc<LiveSession>>,
    notes: Mutex<HashMap<SessionId, Time>>,
}

/// A session that was found alive.
#[derive(Debug)]
pub struct LiveSession {
    /// Its public name.
    pub id: SessionId,
    /// Whose it is.
    pub user: Snowflake,
    created: Time,
    last_seen: AtomicU64,
    noted: AtomicU64,
    dependencies: Dependencies,
    mark: Mark,
}

impl Sessions {
    pub(super) fn new(sources: &Sources, limits: SessionLimits) -> Self {
        Self { sources: sources.clone(), limits, kept: Cache::new(KEPT), notes: Mutex::default() }
    }

    /// The session of a token, if it is at hand and alive; counts as a use.
    pub fn ready(&self, token: &TokenHash, now: Time) -> Option<Arc<LiveSession>> {
        let live = self.kept.get(token)?;
        if !self.sources.freshness.is_fresh(&live.dependencies, live.mark) {
            return None;
        }
        self.used(live, now)
    }

    /// The session of a token, if it is alive; counts as a use. If the store is away, a session that was alive stays so for a
    /// while, unless its own time is over.
    pub async fn find(&self, token: TokenHash) -> Result<Option<Arc<LiveSession>>> {
        let now = self.sources.clock.now();
        if let Some(ready) = self.ready(&token, now) {
            return Ok(Some(ready));
        }
        match self.read(token, now).await {
            // A store that is only busy knows of revocations that memory does not.
            Err(error @ StoreError::Unavailable(_)) => {
                self.sources.in_place_of(error, || self.standing_in(&token, now)).map(Some)
            }
            found => found,
        }
    }

    async fn read(&self, token: TokenHash, now: Time) -> Result<Option<Arc<LiveSession>>> {
        // What a session depends on is known only once it was read: so it is read again under the mark.
        let Some(first) = self.sources.store.session(token).await? else {
            self.kept.remove(&token);
            return Ok(None);
        };
        let dependencies: Dependencies = [Topic::SessionsOf(first.user)].into_iter().collect();
        let mark = self.sources.freshness.mark(&dependencies);
        let Some(session) = self.sources.store.session(token).await? else {
            self.kept.remove(&token);
            return Ok(None);
        };
        let live = Arc::new(self.live(session, &token, dependencies, mark));
        let used = self.used(Arc::clone(&live), now);
        if used.is_some() {
            self.kept.insert(token, live);
        } else {
            self.kept.remove(&token);
        }
        Ok(used)
    }

    fn standing_in(&self, token: &TokenHash, now: Time) -> Option<Arc<LiveSession>> {
        let live = self.kept.get(token)?;
        let may = self.sources.freshness.may_serve_stale(&live.dependencies, live.mark);
        if may { self.used(live, now) } else { None }
    }

    /// All living sessions of a user, newest first, with the latest known times of use.
    pub async fn of(&self, user: Snowflake) -> Result<Vec<Session>> {
        let now = self.sources.clock.now();
        let mut sessions = self.sources.store.sessions_of(user).await?;
        {
            let notes = self.notes.lock();
            for session in &mut sessions {
                let latest = notes.get(&session.id).copied().unwrap_or_default();
                session.last_seen = session.last_seen.max(latest);
            }
        }
        sessions.retain(|session| now < self.limits.end(session.created, session.last_seen));
        Ok(sessions)
    }

    /// When this process saw the sessions of a user used last, as far as they are in memory.
    pub fn last_uses(&self, user: Snowflake) -> Vec<(SessionId, Time)> {
        let own = self.kept.iter().map(|(_, live)| live).filter(|live| live.user == user);
        own.map(|live| (live.id.clone(), Time::from_millis(live.last_seen.load(Ordering::Relaxed)))).collect()
    }

    /// Writes down when sessions were last used.
    pub async fn flush(&self) -> Result<()> {
        let mut notes: Vec<_> = std::mem::take(&mut *self.notes.lock()).into_iter().collect();
        while !notes.is_empty() {
            let some = notes.split_off(notes.len().saturating_sub(FLUSHED_AT_ONCE));
            if let Err(error) = self.sources.store.note_seen(some.clone()).await {
                let mut waiting = self.notes.lock();
                for (session, seen) in notes.into_iter().chain(some) {
                    // What was noted since then is later.
                    waiting.entry(session).or_insert(seen);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn live(&self, session: Session, token: &TokenHash, dependencies: Dependencies, mark: Mark) -> LiveSession {
        // The store lags behind what was kept in memory so far.
        let kept = self.kept.peek(token).map_or(0, |kept| kept.last_seen.load(Ordering::Relaxed));
        LiveSession {
            id: session.id,
            user: session.user,
            created: session.created,
            last_seen: AtomicU64::new(session.last_seen.millis().max(kept)),
            noted: AtomicU64::new(session.last_seen.millis()),
            dependencies,
            mark,
        }
    }

    /// Notes the use of a session, if it has not ended by itself.
    fn used(&self, live: Arc<LiveSession>, now: Time) -> Option<Arc<LiveSession>> {
        let last_seen = Time::from_millis(live.last_seen.load(Ordering::Relaxed));
        if now >= self.limits.end(live.created, last_seen) {
            return None;
        }
        live.last_seen.fetch_max(now.millis(), Ordering::Relaxed);
        let noted = live.noted.load(Ordering::Relaxed);
        let due = now.since(Time::from_millis(noted)) >= NOTE_EVERY.min(self.limits.idle / 4);
        let mine =
            due && live.noted.compare_exchange(noted, now.millis(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if mine {
            let mut waiting = self.notes.lock();
            if waiting.len() < WAITING_NOTES {
                waiting.insert(live.id.clone(), now);
            }
        }
        Some(live)
    }
}
