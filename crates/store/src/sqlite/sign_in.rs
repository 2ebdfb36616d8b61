//! Code claims, new grants and sessions, and blocked users.

use domain::sign_in::{Admission, Claim, GrantSaved, StoredClaim, takes_back_grant};
use domain::{Session, Snowflake, Time, TokenHash, User, retention};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{Column as _, ReadColumn as _, claim_user, integer, json, readable};
use super::database::run;
use super::writer::ChangedTopics;
use super::{accounts, revocations, sessions};
use crate::sql::forgotten;
use crate::{BlockedUser, CodeHash, SealedGrant, Topic};

pub(super) fn claim(connection: &Connection, code: CodeHash, now: Time, until: Time) -> rusqlite::Result<Claim> {
    let stored = connection
        .prepare_cached("SELECT settled, user, until FROM code_claims WHERE hash = ?1")?
        .query_row([code.0], |row| {
            let user = row.get::<_, Option<String>>(1)?.as_deref().and_then(claim_user);
            Ok(StoredClaim { is_settled: row.get(0)?, user, until: row.column(2)? })
        })
        .optional()?;
    let claim = Claim::decide(stored, now);
    if claim == Claim::Mine {
        let sql = "INSERT INTO code_claims (hash, settled, user, until) VALUES (?1, 0, NULL, ?2)
            ON CONFLICT (hash) DO UPDATE SET settled = 0, user = NULL, until = excluded.until";
        connection.prepare_cached(sql)?.execute(params![code.0, until.stored()])?;
    }
    Ok(claim)
}

pub(super) fn settle(
    connection: &Connection,
    code: CodeHash,
    user: Option<&User>,
    until: Time,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO code_claims (hash, settled, user, until) VALUES (?1, 1, ?2, ?3)
        ON CONFLICT (hash) DO UPDATE SET settled = 1, user = excluded.user, until = excluded.until";
    connection.prepare_cached(sql)?.execute(params![code.0, user.map(json), until.stored()]).map(drop)
}

pub(super) fn release(connection: &Connection, code: CodeHash) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM code_claims WHERE hash = ?1 AND settled = 0")?.execute([code.0]).map(drop)
}

/// Removes claims that ended long ago, and returns how many.
pub(super) fn forget_claims(connection: &Connection, now: Time, batch: usize) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM code_claims WHERE hash IN (SELECT hash FROM code_claims WHERE until < ?1 LIMIT ?2)";
    connection
        .prepare_cached(sql)?
        .execute(params![retention::claims_ended_before(now).stored(), integer(batch as u64)])
}

pub(super) fn save_grant(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: &User,
    grant: &SealedGrant,
    now: Time,
    verified: Option<u32>,
) -> rusqlite::Result<GrantSaved> {
    let revocation = revocations::stored(connection, user.id)?.map(|stored| stored.stage(now));
    let saved = GrantSaved::decide(is_blocked(connection, user.id)?, revocation, verified);
    match saved {
        // A blocked user has no session, so nothing else needs the new grant.
        GrantSaved::Blocked => revocations::add(connection, user.id, grant, now)?,
        GrantSaved::Saved => {
            revocations::cancel(connection, user.id)?;
            run(forgotten::remove(connection, user.id))?;
            accounts::save_profile(connection, user)?;
            accounts::save_grant(connection, user.id, grant)?;
            topics.push(Topic::Id(user.id));
        }
        GrantSaved::RevocationRunning | GrantSaved::RevocationSent { .. } => {}
    }
    Ok(saved)
}

pub(super) fn open_session(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: &User,
    token: TokenHash,
    session: &Session,
    most: usize,
) -> rusqlite::Result<Admission> {
    let admission = Admission::decide(is_blocked(connection, user.id)?);
    if admission == Admission::Blocked {
        return Ok(admission);
    }
    accounts::save_profile(connection, user)?;
    if takes_back_grant(accounts::has_grant(connection, user.id)?, revocations::stored(connection, user.id)?)
        && let Some(grant) = revocations::take_back(connection, user.id)?
    {
        accounts::save_grant(connection, user.id, &grant)?;
        topics.push(Topic::Id(user.id));
    }
    connection.prepare_cached("UPDATE users SET signing_in = NULL WHERE id = ?1")?.execute([user.id.stored()])?;
    let sql = "INSERT INTO sessions (token_hash, id, user_id, created, last_seen, agent)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(params![
        token.0,
        session.id.stored(),
        user.id.stored(),
        session.created.stored(),
        session.last_seen.stored(),
        session.agent
    ])?;
    topics.push(Topic::SessionsOf(user.id));
    sessions::end_surplus(connection, topics, user.id, token, most)?;
    Ok(admission)
}

fn is_blocked(connection: &Connection, user: Snowflake) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM blocked_users WHERE user_id = ?1")?.exists([user.stored()])
}

/// Records that a user is blocked; [`sessions::block`] ends their sessions.
pub(super) fn block(connection: &Connection, blocked: &BlockedUser) -> rusqlite::Result<()> {
    let sql = "INSERT INTO blocked_users (user_id, reason, since) VALUES (?1, ?2, ?3)
        ON CONFLICT (user_id) DO UPDATE SET reason = excluded.reason, since = excluded.since";
    connection
        .prepare_cached(sql)?
        .execute(params![blocked.user.stored(), blocked.reason, blocked.since.stored()])
        .map(drop)
}

pub(super) fn unblock(connection: &Connection, user: Snowflake) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("DELETE FROM blocked_users WHERE user_id = ?1")?
        .execute([user.stored()])
        .map(|deleted| deleted > 0)
}

pub(super) fn blocked(connection: &Connection) -> rusqlite::Result<Vec<BlockedUser>> {
    let sql = "SELECT user_id, reason, since FROM blocked_users ORDER BY since DESC, user_id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement
        .query_map([], |row| Ok(BlockedUser { user: row.column(0)?, reason: row.get(1)?, since: row.column(2)? }))?;
    readable("blocked user", rows)
}
