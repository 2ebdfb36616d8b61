//! Sessions: looked up, ended and swept.

use std::collections::{BTreeSet, HashSet};

use domain::session::{SessionTimes, surplus};
use domain::{Session, SessionId, Snowflake, Time, TokenHash, retention};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Column as _, ReadColumn as _, integer, json, readable};
use super::writer::ChangedTopics;
use super::{accounts, revocations, sign_in};
use crate::{BlockedUser, Swept, Topic};

pub(super) const OF_USER: &str = "SELECT id, user_id, created, last_seen, agent FROM sessions WHERE user_id = ?1
    ORDER BY created DESC, rowid DESC";
pub(super) const OVERDUE_BY_LAST_SEEN: &str = "DELETE FROM sessions WHERE token_hash IN
    (SELECT token_hash FROM sessions WHERE last_seen < ?1 LIMIT ?2) RETURNING user_id";
pub(super) const OVERDUE_BY_CREATED: &str = "DELETE FROM sessions WHERE token_hash IN
    (SELECT token_hash FROM sessions WHERE created < ?1 LIMIT ?2) RETURNING user_id";
pub(super) const INTERRUPTED: &str = "SELECT id FROM users WHERE signing_in > 0 AND signing_in < ?1 LIMIT ?2";

pub(super) fn session(connection: &Connection, token: TokenHash) -> rusqlite::Result<Option<Session>> {
    connection
        .prepare_cached("SELECT id, user_id, created, last_seen, agent FROM sessions WHERE token_hash = ?1")?
        .query_row([token.0], read)
        .optional()
}

pub(super) fn sessions_of(connection: &Connection, user: Snowflake) -> rusqlite::Result<Vec<Session>> {
    let mut statement = connection.prepare_cached(OF_USER)?;
    readable("session", statement.query_map([user.stored()], read)?)
}

pub(super) fn among(connection: &Connection, sessions: &[SessionId]) -> rusqlite::Result<HashSet<SessionId>> {
    let mut statement =
        connection.prepare_cached("SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(?1))")?;
    let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
    Ok(readable("session", statement.query_map([json(&ids)], |row| row.column(0))?)?.into_iter().collect())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        id: row.column(0)?,
        user: row.column(1)?,
        created: row.column(2)?,
        last_seen: row.column(3)?,
        agent: row.get(4)?,
    })
}

pub(super) fn end_one(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    session: &SessionId,
    now: Time,
) -> rusqlite::Result<bool> {
    // Even if it is already gone: whoever ended it may not have got an answer.
    note_changed(topics, user);
    let deleted = connection
        .prepare_cached("DELETE FROM sessions WHERE id = ?1 AND user_id = ?2")?
        .execute(params![session.stored(), user.stored()])?;
    if deleted > 0 {
        accounts::drop_if_unused(connection, user, now)?;
    }
    Ok(deleted > 0)
}

pub(super) fn end_all(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> rusqlite::Result<usize> {
    let sessions = delete_all(connection, topics, user)?;
    accounts::drop_if_unused(connection, user, now)?;
    Ok(sessions)
}

/// Ends the sessions by which a user exceeds the limit after opening a new one.
pub(super) fn end_surplus(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    new: TokenHash,
    most: usize,
) -> rusqlite::Result<()> {
    let sql =
        "SELECT token_hash, created, last_seen FROM sessions WHERE user_id = ?1 AND token_hash <> ?2 ORDER BY rowid";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![user.stored(), new.0], |row| {
        Ok((row.get(0)?, SessionTimes { created: row.column(1)?, last_seen: row.column(2)? }))
    })?;
    let others: Vec<(Vec<u8>, SessionTimes)> = readable("session", rows)?;
    let mut end = connection.prepare_cached("DELETE FROM sessions WHERE token_hash = ?1")?;
    for token in surplus(others, most) {
        end.execute([token])?;
        note_changed(topics, user);
    }
    Ok(())
}

pub(super) fn end_all_of_grant(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    grant_version: u64,
) -> rusqlite::Result<bool> {
    let current = connection
        .prepare_cached("SELECT 1 FROM users WHERE id = ?1 AND grant_version = ?2")?
        .exists(params![user.stored(), integer(grant_version)])?;
    if current {
        delete_all(connection, topics, user)?;
        accounts::drop_row(connection, user)?;
    }
    Ok(current)
}

/// Blocks a user and ends their sessions, including one that is about to be opened.
pub(super) fn block(
    connection: &Connection,
    topics: &mut ChangedTopics,
    blocked: &BlockedUser,
) -> rusqlite::Result<usize> {
    sign_in::block(connection, blocked)?;
    end_all_and_drop(connection, topics, blocked.user, blocked.since)
}

/// Ends a user's sessions, including one that is about to be opened, and drops their account.
pub(super) fn end_all_and_drop(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> rusqlite::Result<usize> {
    let sessions = delete_all(connection, topics, user)?;
    accounts::drop_and_revoke(connection, user, now)?;
    Ok(sessions)
}

fn delete_all(connection: &Connection, topics: &mut ChangedTopics, user: Snowflake) -> rusqlite::Result<usize> {
    note_changed(topics, user);
    connection.prepare_cached("DELETE FROM sessions WHERE user_id = ?1")?.execute([user.stored()])
}

/// Invalidates everything that depends on a user's sessions.
fn note_changed(topics: &mut ChangedTopics, user: Snowflake) {
    topics.extend([Topic::SessionsOf(user), Topic::Id(user)]);
}

pub(super) fn note_seen(connection: &Connection, seen: &[(SessionId, Time)]) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("UPDATE sessions SET last_seen = ?2 WHERE id = ?1 AND last_seen < ?2")?;
    seen.iter().try_for_each(|(session, time)| statement.execute(params![session.stored(), time.stored()]).map(drop))
}

pub(super) fn sweep(
    connection: &Connection,
    topics: &mut ChangedTopics,
    now: Time,
    last_seen_before: Time,
    created_before: Time,
    batch: usize,
) -> rusqlite::Result<Swept> {
    let claims = sign_in::forget_claims(connection, now, batch)?;
    let revocations = revocations::forget(connection, now, batch)?;
    let mut sessions = 0;
    let mut users = BTreeSet::new();
    for (sql, before) in [(OVERDUE_BY_LAST_SEEN, last_seen_before), (OVERDUE_BY_CREATED, created_before)] {
        let mut statement = connection.prepare_cached(sql)?;
        let limit = integer((batch - sessions) as u64);
        let overdue: Vec<Snowflake> =
            readable("session", statement.query_map(params![before.stored(), limit], |row| row.column(0))?)?;
        sessions += overdue.len();
        users.extend(overdue);
    }
    for user in users {
        note_changed(topics, user);
        accounts::drop_if_unused(connection, user, now)?;
    }
    let interrupted = stop_interrupted(connection, now, batch)?;
    for user in &interrupted {
        accounts::drop_if_unused(connection, *user, now)?;
    }
    let more = retention::may_be_more(&[sessions, claims, revocations, interrupted.len()], batch);
    Ok(Swept { sessions, more })
}

/// Ends sign-ins that stopped between the grant and the session, and returns whose they were.
fn stop_interrupted(connection: &Connection, now: Time, batch: usize) -> rusqlite::Result<Vec<Snowflake>> {
    let mut statement = connection.prepare_cached(INTERRUPTED)?;
    let before = retention::sign_ins_interrupted_before(now);
    let rows = statement.query_map(params![before.stored(), integer(batch as u64)], |row| row.column(0))?;
    let users: Vec<Snowflake> = readable("user", rows)?;
    let mut stop = connection.prepare_cached("UPDATE users SET signing_in = NULL WHERE id = ?1")?;
    users.iter().try_for_each(|user| stop.execute([user.stored()]).map(drop))?;
    // A grant is saved without a time, so its age counts from the first sweep that sees it.
    connection.prepare_cached("UPDATE users SET signing_in = ?1 WHERE signing_in = 0")?.execute([now.stored()])?;
    Ok(users)
}
