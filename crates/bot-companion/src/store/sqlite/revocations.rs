//! Grants that the provider is still to be told of.

use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::{REVOCATION_WAIT, RevocationEnd, RevocationStage, Snowflake, Time};
use crate::store::{Revocation, SealedGrant};

use super::columns::integer;

/// Notes that a grant is to be revoked after a while. It replaces one of the same user that waits, because revoking one token
/// revokes all; one that is being sent still counts as such.
pub(super) fn add(connection: &Connection, user: Snowflake, grant: &SealedGrant, now: Time) -> rusqlite::Result<()> {
    let sql = "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until) VALUES (?1, ?2, ?3, 0, NULL)
        ON CONFLICT (user_id) DO UPDATE SET grant_sealed = excluded.grant_sealed, due = excluded.due,
            tries = CASE WHEN sending_until > ?4 THEN tries ELSE 0 END,
            sending_until = CASE WHEN sending_until > ?4 THEN sending_until END";
    connection.prepare_cached(sql)?.execute(params![user, grant.0, now.after(REVOCATION_WAIT), now]).map(drop)
}

/// Takes back a grant that waits to be revoked: its user has a session again.
pub(super) fn take_back(connection: &Connection, user: Snowflake) -> rusqlite::Result<Option<SealedGrant>> {
    let sql = "DELETE FROM revocations WHERE user_id = ?1 AND tries = 0 AND grant_sealed IS NOT NULL
        RETURNING grant_sealed";
    connection.prepare_cached(sql)?.query_row([user], |row| row.get(0).map(SealedGrant)).optional()
}

/// How far the revocation of a user's former grant has come, if there is one.
pub(super) fn stage(connection: &Connection, user: Snowflake, now: Time) -> rusqlite::Result<Option<RevocationStage>> {
    connection
        .prepare_cached("SELECT tries, sending_until, grant_sealed IS NULL FROM revocations WHERE user_id = ?1")?
        .query_row([user], |row| Ok(RevocationStage::of(now, row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
}

pub(super) fn cancel(connection: &Connection, user: Snowflake) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM revocations WHERE user_id = ?1")?.execute([user]).map(drop)
}

pub(super) fn take(connection: &Connection, now: Time, until: Time) -> rusqlite::Result<Option<Revocation>> {
    let sql = "UPDATE revocations SET tries = tries + 1, sending_until = ?2 WHERE user_id =
            (SELECT user_id FROM revocations
                WHERE due <= ?1 AND grant_sealed IS NOT NULL AND (sending_until IS NULL OR sending_until <= ?1)
                ORDER BY due, user_id LIMIT 1)
        RETURNING user_id, grant_sealed, tries";
    connection
        .prepare_cached(sql)?
        .query_row(params![now, until], |row| {
            Ok(Revocation { user: row.get(0)?, grant: SealedGrant(row.get(1)?), tries: row.get(2)?, until })
        })
        .optional()
}

/// Ends a try, unless somebody else has taken the revocation over or the user has signed in meanwhile.
pub(super) fn finish(
    connection: &Connection,
    user: Snowflake,
    until: Time,
    end: RevocationEnd,
) -> rusqlite::Result<()> {
    let (sql, due) = match end {
        RevocationEnd::Over { until } => (
            "UPDATE revocations SET grant_sealed = NULL, sending_until = NULL, due = ?3
                WHERE user_id = ?1 AND sending_until = ?2",
            until,
        ),
        RevocationEnd::Retry { at } => {
            ("UPDATE revocations SET sending_until = NULL, due = ?3 WHERE user_id = ?1 AND sending_until = ?2", at)
        }
        RevocationEnd::Unsent { at } => (
            "UPDATE revocations SET sending_until = NULL, due = ?3, tries = tries - 1
                WHERE user_id = ?1 AND sending_until = ?2",
            at,
        ),
    };
    connection.prepare_cached(sql)?.execute(params![user, until, due]).map(drop)
}

/// Forgets those that were sent long enough ago; gives how many.
pub(super) fn forget(connection: &Connection, now: Time, batch: usize) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM revocations WHERE user_id IN
        (SELECT user_id FROM revocations WHERE due <= ?1 AND grant_sealed IS NULL LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![now, integer(batch as u64)])
}
