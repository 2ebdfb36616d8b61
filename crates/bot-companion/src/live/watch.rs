//! What a user's live stream watches: the session, the user, and everything that the guild list is made of.

use parking_lot::Mutex;

use crate::accounts::ListError;
use crate::domain::live::LiveTopics;
use crate::domain::{SessionId, Snowflake, Time, TokenHash};
use crate::store::freshness::{Dependencies, Mark};
use crate::store::{Freshness, Result, Topic};
use crate::views::Views;

/// A stream's user and session, and the marks under which the client was last told about them.
pub(super) struct Watch {
    pub(super) session: SessionId,
    token: TokenHash,
    user: Snowflake,
    marks: Mutex<Marks>,
}

/// What was marked, and when it expires by itself.
struct Marks {
    session: Marked,
    user: Marked,
    guilds: Marked,
}

struct Marked {
    dependencies: Dependencies,
    mark: Mark,
    expires: Option<Time>,
}

impl Marked {
    fn of(freshness: &Freshness, topic: Topic) -> Self {
        let mut marking = freshness.marking();
        marking.depend_on([topic]);
        let (dependencies, mark, _) = marking.finish();
        Self { dependencies, mark, expires: None }
    }

    fn has_changed(&self, freshness: &Freshness, now: Time) -> bool {
        !freshness.is_current(&self.dependencies, self.mark) || self.expires.is_some_and(|expires| now >= expires)
    }
}

/// What a check has found.
pub(super) enum Checked {
    /// The session goes on, and these have changed.
    Changed(LiveTopics),
    /// The session has ended.
    Ended,
}

impl Watch {
    /// Begins to watch; `None` if the session has ended meanwhile. Everything is marked before this returns, so a change that
    /// comes after the client's next read is noticed.
    pub(super) async fn begin(
        views: &Views,
        freshness: &Freshness,
        session: SessionId,
        token: TokenHash,
        user: Snowflake,
    ) -> Result<Option<Self>> {
        let Some(of_session) = mark_session(views, freshness, token, user).await? else { return Ok(None) };
        let marks = Marks {
            session: of_session,
            user: Marked::of(freshness, Topic::Id(user)),
            guilds: mark_guilds(views, freshness, user).await?,
        };
        Ok(Some(Self { session, token, user, marks: Mutex::new(marks) }))
    }

    /// Whether anything that it watches may have changed.
    pub(super) fn has_changed(&self, freshness: &Freshness, now: Time) -> bool {
        let marks = self.marks.lock();
        [&marks.session, &marks.user, &marks.guilds].into_iter().any(|marked| marked.has_changed(freshness, now))
    }

    /// Finds out what has changed, and marks it anew. If the store cannot be asked, the rest is found out next time.
    pub(super) async fn check(&self, views: &Views, freshness: &Freshness, now: Time) -> Result<Checked> {
        let (of_session, of_user, of_guilds) = {
            let marks = self.marks.lock();
            let has_changed = |marked: &Marked| marked.has_changed(freshness, now);
            (has_changed(&marks.session), has_changed(&marks.user), has_changed(&marks.guilds))
        };
        let mut changed = LiveTopics::NONE;
        if of_session {
            let Some(marked) = mark_session(views, freshness, self.token, self.user).await? else {
                return Ok(Checked::Ended);
            };
            // A session whose end has moved on is no news.
            let is_current = freshness.is_current(&marked.dependencies, self.marks.lock().session.mark);
            self.marks.lock().session = marked;
            if !is_current {
                changed = changed.with(LiveTopics::SESSIONS);
            }
        }
        if of_user {
            self.marks.lock().user = Marked::of(freshness, Topic::Id(self.user));
            changed = changed.with(LiveTopics::ME);
        }
        if of_guilds {
            let marked = mark_guilds(views, freshness, self.user).await?;
            self.marks.lock().guilds = marked;
            changed = changed.with(LiveTopics::GUILDS);
        }
        Ok(Checked::Changed(changed))
    }
}

/// Marks the user's sessions, then looks whether this one is alive.
async fn mark_session(
    views: &Views,
    freshness: &Freshness,
    token: TokenHash,
    user: Snowflake,
) -> Result<Option<Marked>> {
    let marked = Marked::of(freshness, Topic::SessionsOf(user));
    let end = views.sessions.end_of(token).await?;
    Ok(end.map(|end| Marked { expires: Some(end), ..marked }))
}

/// Marks what the guild list is made of. The list as the client will read it is cached with that.
async fn mark_guilds(views: &Views, freshness: &Freshness, user: Snowflake) -> Result<Marked> {
    match views.guilds.watch(user).await {
        Ok((dependencies, mark, expires)) => Ok(Marked { dependencies, mark, expires }),
        Err(ListError::Store(error)) => Err(error),
        // There is no list yet. When there is one, the user has changed.
        Err(ListError::SignedOut | ListError::Idp(_)) => Ok(Marked::of(freshness, Topic::Id(user))),
    }
}
