//! Sessions: looked up, ended and swept.

use std::collections::{BTreeMap, HashSet};

use deadpool_postgres::{GenericClient, Transaction};
use domain::session::{SessionTimes, surplus};
use domain::{Session, SessionId, Snowflake, Time, TokenHash, retention};
use tokio_postgres::Row;

use super::columns::{Column as _, ReadColumn as _, changed, integer, readable};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::ChangedTopics;
use super::{accounts, revocations, sign_in};
use crate::{BlockedUser, Swept, Topic};

pub(super) async fn session(db: &impl GenericClient, token: TokenHash) -> Sql<Option<Session>> {
    let sql = "SELECT id, user_id, created, last_seen, agent FROM sessions WHERE token_hash = $1";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&token.0.as_slice()]).await?.as_ref().map(read).transpose()
}

pub(super) async fn sessions_of(db: &impl GenericClient, user: Snowflake) -> Sql<Vec<Session>> {
    let sql = "SELECT id, user_id, created, last_seen, agent FROM sessions WHERE user_id = $1
        ORDER BY created DESC, ordinal DESC";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("session", &db.query(&statement, &[&user.stored()]).await?, read))
}

pub(super) async fn among(db: &impl GenericClient, sessions: &[SessionId]) -> Sql<HashSet<SessionId>> {
    let statement = db.prepare_cached("SELECT id FROM sessions WHERE id = ANY ($1)").await?;
    let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
    Ok(readable("session", &db.query(&statement, &[&ids]).await?, |row| Ok(row.column(0)?)).into_iter().collect())
}

fn read(row: &Row) -> Sql<Session> {
    Ok(Session {
        id: row.column(0)?,
        user: row.column(1)?,
        created: row.column(2)?,
        last_seen: row.column(3)?,
        agent: row.try_get(4)?,
    })
}

pub(super) async fn end_one(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    session: &SessionId,
    now: Time,
) -> Sql<bool> {
    lock(db, Lock::User(user)).await?;
    // Even if it is already gone: whoever ended it may not have got an answer, in which case nobody here knows about it yet.
    note_changed(topics, user);
    let statement = db.prepare_cached("DELETE FROM sessions WHERE id = $1 AND user_id = $2").await?;
    let ended = db.execute(&statement, &[&session.stored(), &user.stored()]).await? > 0;
    if ended {
        accounts::drop_if_unused(db, user, now).await?;
    }
    Ok(ended)
}

pub(super) async fn end_all(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> Sql<usize> {
    lock(db, Lock::User(user)).await?;
    let sessions = delete_all(db, topics, user).await?;
    accounts::drop_if_unused(db, user, now).await?;
    Ok(sessions)
}

/// Ends the sessions by which a user exceeds the limit after opening a new one. The caller has the user's lock.
pub(super) async fn end_surplus(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    new: TokenHash,
    most: usize,
) -> Sql<()> {
    let sql =
        "SELECT token_hash, created, last_seen FROM sessions WHERE user_id = $1 AND token_hash <> $2 ORDER BY ordinal";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&user.stored(), &new.0.as_slice()]).await?;
    let others = readable("session", &rows, |row| {
        let (token, created, last_seen) = (row.try_get::<_, &[u8]>(0)?, row.column(1)?, row.column(2)?);
        Ok((token, SessionTimes { created, last_seen }))
    });
    let surplus = surplus(others, most);
    if !surplus.is_empty() {
        let statement = db.prepare_cached("DELETE FROM sessions WHERE token_hash = ANY ($1)").await?;
        db.execute(&statement, &[&surplus]).await?;
        note_changed(topics, user);
    }
    Ok(())
}

pub(super) async fn end_all_of_grant(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    grant_version: u64,
) -> Sql<bool> {
    lock(db, Lock::User(user)).await?;
    // A refresh does not take the user's lock, so the row itself is locked.
    let statement = db.prepare_cached("SELECT 1 FROM users WHERE id = $1 AND grant_version = $2 FOR UPDATE").await?;
    let current = db.query_opt(&statement, &[&user.stored(), &integer(grant_version)]).await?.is_some();
    if current {
        delete_all(db, topics, user).await?;
        accounts::drop_row(db, user).await?;
    }
    Ok(current)
}

/// Blocks a user and ends their sessions, including one that is about to be opened.
pub(super) async fn block(db: &Transaction<'_>, topics: &mut ChangedTopics, blocked: &BlockedUser) -> Sql<usize> {
    lock(db, Lock::User(blocked.user)).await?;
    sign_in::block(db, blocked).await?;
    end_all_and_drop(db, topics, blocked.user, blocked.since).await
}

/// Ends a user's sessions, including one that is about to be opened, and drops their account.
pub(super) async fn end_all_and_drop(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> Sql<usize> {
    lock(db, Lock::User(user)).await?;
    let sessions = delete_all(db, topics, user).await?;
    accounts::drop_and_revoke(db, user, now).await?;
    Ok(sessions)
}

async fn delete_all(db: &Transaction<'_>, topics: &mut ChangedTopics, user: Snowflake) -> Sql<usize> {
    note_changed(topics, user);
    let statement = db.prepare_cached("DELETE FROM sessions WHERE user_id = $1").await?;
    Ok(changed(db.execute(&statement, &[&user.stored()]).await?))
}

/// Invalidates everything that depends on a user's sessions.
fn note_changed(topics: &mut ChangedTopics, user: Snowflake) {
    topics.extend([Topic::SessionsOf(user), Topic::Id(user)]);
}

pub(super) async fn note_seen(db: &Transaction<'_>, seen: &[(SessionId, Time)]) -> Sql<()> {
    // In the same order on all replicas, so that two of them do not wait for each other; for each session, the latest use.
    let mut latest: BTreeMap<&str, Time> = BTreeMap::new();
    for (session, time) in seen {
        let known = latest.entry(session.as_str()).or_default();
        *known = (*known).max(*time);
    }
    let (sessions, times): (Vec<&str>, Vec<Time>) = latest.into_iter().unzip();
    let sql = "WITH seen AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS seen (id, time)),
            locked AS (SELECT sessions.id, time FROM sessions JOIN seen USING (id) WHERE last_seen < time
                ORDER BY sessions.id FOR UPDATE OF sessions)
        UPDATE sessions SET last_seen = time FROM locked WHERE sessions.id = locked.id";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&sessions, &times.stored()]).await?;
    Ok(())
}

pub(super) async fn sweep(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    now: Time,
    last_seen_before: Time,
    created_before: Time,
    batch: usize,
) -> Sql<Swept> {
    // Users come first: everywhere, a user's lock is taken before any lock on their rows.
    let sql = "(SELECT user_id FROM sessions WHERE last_seen < $1 LIMIT $3)
        UNION (SELECT user_id FROM sessions WHERE created < $2 LIMIT $3) ORDER BY user_id LIMIT $3";
    let statement = db.prepare_cached(sql).await?;
    let limit = integer(batch as u64);
    let rows = db.query(&statement, &[&last_seen_before.stored(), &created_before.stored(), &limit]).await?;
    let mut sessions = 0;
    for user in readable("session", &rows, user_of) {
        if sessions >= batch {
            break;
        }
        lock(db, Lock::User(user)).await?;
        // An array is built once; a plain subquery may run again for every row, and then its limit limits nothing. The
        // condition appears twice, so that a session that is used in the meantime is checked again.
        let sql =
            "DELETE FROM sessions WHERE user_id = $1 AND (last_seen < $2 OR created < $3) AND token_hash = ANY (ARRAY
            (SELECT token_hash FROM sessions WHERE user_id = $1 AND (last_seen < $2 OR created < $3) LIMIT $4))";
        let statement = db.prepare_cached(sql).await?;
        let left = integer(batch.saturating_sub(sessions) as u64);
        let deleted = db
            .execute(&statement, &[&user.stored(), &last_seen_before.stored(), &created_before.stored(), &left])
            .await?;
        if deleted > 0 {
            sessions += changed(deleted);
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

fn user_of(row: &Row) -> Sql<Snowflake> {
    Ok(row.column(0)?)
}

/// Ends sign-ins that stopped between the grant and the session, and returns whose they were.
async fn stop_interrupted(db: &Transaction<'_>, now: Time, batch: usize) -> Sql<Vec<Snowflake>> {
    let sql = "SELECT id FROM users WHERE signing_in > 0 AND signing_in < $1 ORDER BY id LIMIT $2";
    let statement = db.prepare_cached(sql).await?;
    let before = retention::sign_ins_interrupted_before(now);
    let found = readable("user", &db.query(&statement, &[&before.stored(), &integer(batch as u64)]).await?, user_of);
    let mut users = Vec::new();
    for user in found {
        lock(db, Lock::User(user)).await?;
        let sql = "UPDATE users SET signing_in = NULL WHERE id = $1 AND signing_in > 0 AND signing_in < $2";
        let statement = db.prepare_cached(sql).await?;
        if db.execute(&statement, &[&user.stored(), &before.stored()]).await? > 0 {
            users.push(user);
        }
    }
    // A grant is saved without a time, so its age counts from the first sweep that sees it.
    let sql = "UPDATE users SET signing_in = $1 WHERE id IN
        (SELECT id FROM users WHERE signing_in = 0 FOR UPDATE SKIP LOCKED)";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&now.stored()]).await?;
    Ok(users)
}
