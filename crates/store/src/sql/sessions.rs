//! Sessions: looked up, ended and swept.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use domain::session::{SessionTimes, surplus};
use domain::{Session, SessionId, Snowflake, Time, TokenHash, retention};
use tracing::warn;

use super::{
    ChangedTopics, Database, Lock, Read, Result, Row, Words, accounts, clock, readable, revocations, sign_in, values,
};
use crate::columns::json;
use crate::{BlockedUser, Swept, Topic};

pub(crate) const OVERDUE_BY_LAST_SEEN: &str = "SELECT user_id FROM sessions WHERE last_seen < ?1 LIMIT ?2";
pub(crate) const OVERDUE_BY_CREATED: &str = "SELECT user_id FROM sessions WHERE created < ?1 LIMIT ?2";
pub(crate) const INTERRUPTED: &str = "SELECT id FROM users WHERE signing_in > 0 AND signing_in < ?1 LIMIT ?2";

pub(crate) fn of_user(words: &Words) -> String {
    format!(
        "SELECT id, user_id, created, last_seen, agent FROM sessions WHERE user_id = ?1
        ORDER BY created DESC, {} DESC",
        words.ordinal
    )
}

pub(crate) async fn session<D: Database>(db: &D, token: TokenHash) -> Result<Option<Session>, D> {
    let sql = "SELECT id, user_id, created, last_seen, agent FROM sessions WHERE token_hash = ?1";
    Ok(db.query_first(sql, &values![token.0]).await?.as_ref().map(read).transpose()?)
}

pub(crate) async fn sessions_of<D: Database>(db: &D, user: Snowflake) -> Result<Vec<Session>, D> {
    Ok(readable!("session", db.query(&of_user(&D::WORDS), &values![user]).await?, read))
}

pub(crate) async fn count<D: Database>(db: &D) -> Result<u64, D> {
    Ok(db.query_one("SELECT count(*) FROM sessions", &[]).await?.get(0)?)
}

pub(crate) async fn among<D: Database>(db: &D, sessions: &[SessionId]) -> Result<HashSet<SessionId>, D> {
    let sql = format!("SELECT id FROM sessions WHERE id {}", D::WORDS.among.put("?1"));
    let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
    let rows = db.query(&sql, &values![ids]).await?;
    Ok(readable!("session", rows, |row| row.get(0)).into_iter().collect())
}

fn read(row: &Row) -> Read<Session> {
    Ok(Session { id: row.get(0)?, user: row.get(1)?, created: row.get(2)?, last_seen: row.get(3)?, agent: row.get(4)? })
}

pub(crate) async fn end_one<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: Snowflake,
    session: &SessionId,
    now: Time,
) -> Result<bool, D> {
    db.lock(Lock::User(user)).await?;
    // Even if it is already gone: whoever ended it may not have got an answer, in which case nobody here knows about it yet.
    note_changed(topics, user);
    let sql = "DELETE FROM sessions WHERE id = ?1 AND user_id = ?2";
    let ended = db.execute(sql, &values![session, user]).await? > 0;
    if ended {
        accounts::drop_if_unused(db, user, now).await?;
    }
    Ok(ended)
}

pub(crate) async fn end_all<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> Result<usize, D> {
    db.lock(Lock::User(user)).await?;
    let sessions = delete_all(db, topics, user).await?;
    accounts::drop_if_unused(db, user, now).await?;
    Ok(sessions)
}

/// Ends the sessions by which a user exceeds the limit after opening a new one. The caller has the user's lock.
pub(crate) async fn end_surplus<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: Snowflake,
    new: TokenHash,
    most: usize,
) -> Result<(), D> {
    let sql = format!(
        "SELECT token_hash, created, last_seen FROM sessions WHERE user_id = ?1 AND token_hash <> ?2 ORDER BY {}",
        D::WORDS.ordinal
    );
    let rows = db.query(&sql, &values![user, new.0]).await?;
    let others = readable!("session", rows, |row| {
        let (token, created, last_seen) = (row.get::<Vec<u8>>(0)?, row.get(1)?, row.get(2)?);
        Ok((token, SessionTimes { created, last_seen }))
    });
    for token in surplus(others, most) {
        db.execute("DELETE FROM sessions WHERE token_hash = ?1", &values![token]).await?;
        note_changed(topics, user);
    }
    Ok(())
}

pub(crate) async fn end_all_of_grant<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: Snowflake,
    grant_version: u64,
) -> Result<bool, D> {
    db.lock(Lock::User(user)).await?;
    // A refresh does not take the user's lock, so the row itself is locked.
    let sql = format!("SELECT 1 FROM users WHERE id = ?1 AND grant_version = ?2{}", D::WORDS.for_update);
    let current = db.query_first(&sql, &values![user, grant_version]).await?.is_some();
    if current {
        delete_all(db, topics, user).await?;
        accounts::drop_row(db, user).await?;
    }
    Ok(current)
}

/// Blocks a user and ends their sessions, including one that is about to be opened.
pub(crate) async fn block<D: Database>(db: &D, topics: &mut ChangedTopics, blocked: &BlockedUser) -> Result<usize, D> {
    db.lock(Lock::User(blocked.user)).await?;
    sign_in::block(db, blocked).await?;
    end_all_and_drop(db, topics, blocked.user, blocked.since).await
}

/// Ends a user's sessions, including one that is about to be opened, and drops their account.
pub(crate) async fn end_all_and_drop<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> Result<usize, D> {
    db.lock(Lock::User(user)).await?;
    let sessions = delete_all(db, topics, user).await?;
    accounts::drop_and_revoke(db, user, now).await?;
    Ok(sessions)
}

async fn delete_all<D: Database>(db: &D, topics: &mut ChangedTopics, user: Snowflake) -> Result<usize, D> {
    note_changed(topics, user);
    db.execute("DELETE FROM sessions WHERE user_id = ?1", &values![user]).await
}

/// Invalidates everything that depends on a user's sessions.
fn note_changed(topics: &mut ChangedTopics, user: Snowflake) {
    topics.extend([Topic::SessionsOf(user), Topic::Id(user)]);
}

pub(crate) async fn note_seen<D: Database>(db: &D, seen: &[(SessionId, Time)]) -> Result<(), D> {
    // For each session, the latest use.
    let mut latest: BTreeMap<&str, u64> = BTreeMap::new();
    for (session, time) in seen {
        let known = latest.entry(session.as_str()).or_default();
        *known = (*known).max(time.millis());
    }
    let latest: Vec<_> = latest.into_iter().collect();
    let (words, seen) = (D::WORDS, D::WORDS.elements.put("?1"));
    // Locked in the same order on all replicas, so that two of them do not wait for each other.
    let sql = format!(
        "WITH seen AS (SELECT value ->> 0 AS id, CAST(value ->> 1 AS BIGINT) AS time FROM {seen}),
            locked AS (SELECT sessions.id, time FROM sessions JOIN seen ON seen.id = sessions.id
                WHERE last_seen < time ORDER BY sessions.id{})
        UPDATE sessions SET last_seen = time FROM locked WHERE sessions.id = locked.id",
        words.for_update
    );
    db.execute(&sql, &values![json(&latest)]).await.map(drop)
}

pub(crate) async fn sweep<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    now: Time,
    last_seen_before: Time,
    created_before: Time,
    batch: usize,
) -> Result<Swept, D> {
    if let Some(millis) = clock::ahead_by(db, now).await? {
        let seconds = millis / 1_000;
        warn!(
            seconds,
            "this machine's clock is ahead of the database's; nothing expires here until they agree: run NTP on both"
        );
        return Ok(Swept::default());
    }
    // Users come first: everywhere, a user's lock is taken before any lock on their rows.
    let mut users: BTreeSet<Snowflake> = BTreeSet::new();
    for (sql, before) in [(OVERDUE_BY_LAST_SEEN, last_seen_before), (OVERDUE_BY_CREATED, created_before)] {
        users
            .extend(readable!("session", db.query(sql, &values![before, batch]).await?, |row| row.get::<Snowflake>(0)));
    }
    // The condition appears twice, so that a session that is used in the meantime is checked again.
    let overdue = "user_id = ?1 AND (last_seen < ?2 OR created < ?3)";
    let some = D::WORDS.one_of.put(&format!("SELECT token_hash FROM sessions WHERE {overdue} LIMIT ?4"));
    let end = format!("DELETE FROM sessions WHERE {overdue} AND token_hash {some}");
    let mut sessions = 0;
    for user in users {
        let left = batch.saturating_sub(sessions);
        if left == 0 {
            break;
        }
        db.lock(Lock::User(user)).await?;
        let ended = db.execute(&end, &values![user, last_seen_before, created_before, left]).await?;
        if ended > 0 {
            sessions += ended;
            note_changed(topics, user);
            accounts::drop_if_unused(db, user, now).await?;
        }
    }
    let interrupted = stop_interrupted(db, now, batch).await?;
    for user in &interrupted {
        accounts::drop_if_unused(db, *user, now).await?;
    }
    // These rows are locked last, when no other lock is waited for, because someone with a user's lock may wait for them.
    let claims = sign_in::forget_claims(db, now, batch).await?;
    let revocations = revocations::forget(db, now, batch).await?;
    // Sessions are counted rather than users, because a user may have many.
    let more = retention::may_be_more(&[sessions, claims, revocations, interrupted.len()], batch);
    Ok(Swept { sessions, more })
}

/// Ends sign-ins that stopped between the grant and the session, and returns whose they were.
async fn stop_interrupted<D: Database>(db: &D, now: Time, batch: usize) -> Result<Vec<Snowflake>, D> {
    let before = retention::sign_ins_interrupted_before(now);
    let rows = db.query(INTERRUPTED, &values![before, batch]).await?;
    let found: BTreeSet<Snowflake> = readable!("user", rows, |row| row.get(0)).into_iter().collect();
    let mut users = Vec::new();
    for user in found {
        db.lock(Lock::User(user)).await?;
        let sql = "UPDATE users SET signing_in = NULL WHERE id = ?1 AND signing_in > 0 AND signing_in < ?2";
        if db.execute(sql, &values![user, before]).await? > 0 {
            users.push(user);
        }
    }
    // A grant is saved without a time, so its age counts from the first sweep that sees it.
    let sql = format!(
        "UPDATE users SET signing_in = ?1 WHERE id IN (SELECT id FROM users WHERE signing_in = 0{})",
        D::WORDS.skip_locked
    );
    db.execute(&sql, &values![now]).await?;
    Ok(users)
}
