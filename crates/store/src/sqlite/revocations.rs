//! Grants waiting to be revoked at the provider.

use domain::revocation::{NewRevocation, RevocationUpdate, StoredRevocation};
use domain::{RevocationEnd, Snowflake, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{Column as _, ReadColumn as _, integer};
use crate::{Revocation, SealedGrant};

/// The revocation of a user's previous grant, if there is one.
pub(super) fn stored(connection: &Connection, user: Snowflake) -> rusqlite::Result<Option<StoredRevocation>> {
    connection
        .prepare_cached("SELECT tries, sending_until, grant_sealed IS NULL FROM revocations WHERE user_id = ?1")?
        .query_row([user.stored()], |row| {
            Ok(StoredRevocation { tries: row.get(0)?, sending_until: row.column(1)?, is_sent: row.get(2)? })
        })
        .optional()
}

/// Queues a grant for revocation after a while.
pub(super) fn add(connection: &Connection, user: Snowflake, grant: &SealedGrant, now: Time) -> rusqlite::Result<()> {
    let NewRevocation { due, tries, sending_until } = NewRevocation::replacing(stored(connection, user)?, now);
    let sql = "INSERT OR REPLACE INTO revocations (user_id, grant_sealed, due, tries, sending_until)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    connection
        .prepare_cached(sql)?
        .execute(params![user.stored(), grant.0, due.stored(), tries, sending_until.stored()])
        .map(drop)
}

/// Takes back a grant that is waiting to be revoked.
pub(super) fn take_back(connection: &Connection, user: Snowflake) -> rusqlite::Result<Option<SealedGrant>> {
    let sql = "DELETE FROM revocations WHERE user_id = ?1 AND grant_sealed IS NOT NULL RETURNING grant_sealed";
    connection.prepare_cached(sql)?.query_row([user.stored()], |row| row.get(0).map(SealedGrant)).optional()
}

pub(super) fn cancel(connection: &Connection, user: Snowflake) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM revocations WHERE user_id = ?1")?.execute([user.stored()]).map(drop)
}

/// Takes the revocation that is due first and not being sent.
pub(super) fn take(connection: &Connection, now: Time, until: Time) -> rusqlite::Result<Option<Revocation>> {
    let sql = "UPDATE revocations SET tries = tries + 1, sending_until = ?2 WHERE user_id =
            (SELECT user_id FROM revocations
                WHERE due <= ?1 AND grant_sealed IS NOT NULL AND (sending_until IS NULL OR sending_until <= ?1)
                ORDER BY due, user_id LIMIT 1)
        RETURNING user_id, grant_sealed, tries";
    connection
        .prepare_cached(sql)?
        .query_row(params![now.stored(), until.stored()], |row| {
            Ok(Revocation { user: row.column(0)?, grant: SealedGrant(row.get(1)?), tries: row.get(2)?, until })
        })
        .optional()
}

/// Ends an attempt, unless another process has taken over the revocation or the user has signed in in the meantime.
pub(super) fn finish(
    connection: &Connection,
    user: Snowflake,
    until: Time,
    end: RevocationEnd,
) -> rusqlite::Result<()> {
    let RevocationUpdate { due, forgets_grant, uncounted } = end.update();
    let sql = "UPDATE revocations SET sending_until = NULL, due = ?3, tries = tries - ?4,
            grant_sealed = CASE WHEN ?5 THEN NULL ELSE grant_sealed END
        WHERE user_id = ?1 AND sending_until = ?2";
    connection
        .prepare_cached(sql)?
        .execute(params![user.stored(), until.stored(), due.stored(), uncounted, forgets_grant])
        .map(drop)
}

/// Removes those that were sent long enough ago, and returns how many.
pub(super) fn forget(connection: &Connection, now: Time, batch: usize) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM revocations WHERE user_id IN
        (SELECT user_id FROM revocations WHERE due <= ?1 AND grant_sealed IS NULL LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![now.stored(), integer(batch as u64)])
}
