//! What a user's live stream watches: the session, the user, and everything that makes up the guild list.

use std::time::Duration;

use domain::live::LiveTopics;
use domain::{Snowflake, Time};
use parking_lot::Mutex;
use store::{Freshness, Result, Topic};

use super::StreamOwner;
use crate::accounts::ListError;
use crate::views::Views;
use crate::views::cached::Marked;
use crate::views::guilds::WatchedList;

/// The shortest time between two reads of one stream's list.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// A stream's user and session, and their marks when the client was last told about them.
pub(super) struct Watch {
    pub(super) owner: StreamOwner,
    sessions: Mutex<SessionMarks>,
    marks: Mutex<Marks>,
}

/// The user's sessions, and when this one ends on its own.
struct SessionMarks {
    marked: Marked,
    expires: Time,
}

struct Marks {
    user: Marked,
    /// The guild list as last read.
    list: WatchedList,
    /// The list must be read again before more can be said about it.
    must_read: bool,
    /// A guild changed a moment ago. The counters of one change are incremented one by one, so the outline is checked once
    /// more.
    look_again: bool,
    /// When the list was last read, in ticks of the clock.
    read_at: Duration,
}

impl Watch {
    /// Starts to watch at `now`, in ticks of the clock; `None` if the session has ended in the meantime. Everything is marked
    /// before this returns, so a change after the client's next read is noticed.
    pub(super) async fn begin(
        views: &Views,
        freshness: &Freshness,
        owner: StreamOwner,
        now: Duration,
    ) -> Result<Option<Self>> {
        let marked = Marked::of(freshness, Topic::SessionsOf(owner.user));
        let Some(expires) = views.sessions.end_of(owner.token).await? else { return Ok(None) };
        let user = Marked::of(freshness, Topic::Id(owner.user));
        let list = mark_list(views, freshness, owner.user).await?;
        let marks = Marks { user, list, must_read: false, look_again: false, read_at: now };
        let sessions = Mutex::new(SessionMarks { marked, expires });
        Ok(Some(Self { owner, sessions, marks: Mutex::new(marks) }))
    }

    /// Checks what has changed about the user and their guilds, without asking the store. What only a read of the list can tell
    /// is left to [`Watch::read_list`].
    pub(super) fn look(&self, freshness: &Freshness, now: Time) -> LiveTopics {
        let mut marks = self.marks.lock();
        let marks = &mut *marks;
        let mut changed = LiveTopics::NONE;
        if marks.user.renew(freshness) {
            changed = changed.with(LiveTopics::ME);
        }
        if marks.must_read {
            return changed;
        }
        // Marked before the outline is checked, so that a change in between is noticed next time.
        let has_moved = marks.list.all.renew(freshness);
        let has_expired = marks.list.expires.is_some_and(|expires| now >= expires);
        let moved_before = std::mem::replace(&mut marks.look_again, has_moved);
        if has_expired || (has_moved || moved_before) && marks.list.outline.has_moved(freshness) {
            marks.must_read = true;
        } else if has_moved {
            changed = changed.with(LiveTopics::GUILDS);
        }
        changed
    }

    /// Whether the list must be read again, and may be at `now`, in ticks of the clock.
    pub(super) fn is_list_due(&self, now: Duration) -> bool {
        let marks = self.marks.lock();
        marks.must_read && now.saturating_sub(marks.read_at) >= READ_INTERVAL
    }

    /// Reads and marks the list again. The client is told afterwards, so that nothing is missed between the two.
    pub(super) async fn read_list(&self, views: &Views, freshness: &Freshness, now: Duration) -> Result<()> {
        self.marks.lock().read_at = now;
        let list = mark_list(views, freshness, self.owner.user).await?;
        let mut marks = self.marks.lock();
        (marks.list, marks.must_read, marks.look_again) = (list, false, false);
        Ok(())
    }

    /// The user's sessions, marked now, if they have changed since they were last looked up. Look them up after this call.
    pub(super) fn moved_sessions(&self, freshness: &Freshness) -> Option<Marked> {
        let has_moved = self.sessions.lock().marked.has_moved(freshness);
        has_moved.then(|| self.mark_sessions(freshness))
    }

    pub(super) fn mark_sessions(&self, freshness: &Freshness) -> Marked {
        Marked::of(freshness, Topic::SessionsOf(self.owner.user))
    }

    /// Records that the session was looked up after this was marked, and continues. Returns whether that is news about the
    /// user's sessions.
    pub(super) fn sessions_looked_up(&self, marked: Marked) -> bool {
        let mut sessions = self.sessions.lock();
        let is_news = !sessions.marked.is_same(&marked);
        sessions.marked = marked;
        is_news
    }

    /// Whether the session ends now, judging by its last known use.
    pub(super) fn may_have_expired(&self, now: Time) -> bool {
        now >= self.sessions.lock().expires
    }

    /// Whether the session continues, because it may have been used in the meantime.
    pub(super) async fn is_still_used(&self, views: &Views) -> Result<bool> {
        let Some(expires) = views.sessions.end_of(self.owner.token).await? else { return Ok(false) };
        self.sessions.lock().expires = expires;
        Ok(true)
    }
}

/// Marks what makes up the guild list. This also caches the list as the client will read it.
async fn mark_list(views: &Views, freshness: &Freshness, user: Snowflake) -> Result<WatchedList> {
    // There may be no list yet. Once there is one, the user has changed.
    let all = Marked::of(freshness, Topic::Id(user));
    match views.guilds.watch(user).await {
        Ok(watched) => Ok(watched),
        Err(ListError::Store(error)) => Err(error),
        Err(ListError::SignedOut | ListError::Idp(_)) => Ok(WatchedList { outline: all.clone(), all, expires: None }),
    }
}
