//! Grants that the provider is still to be told of.

use deadpool_postgres::Transaction;

use crate::domain::{REVOCATION_WAIT, RevocationEnd, RevocationStage, Snowflake, Time};
use crate::store::{Revocation, SealedGrant};

use super::columns::{Whole, integer};
use super::errors::Sql;

/// Notes that a grant is to be revoked after a while. It replaces one of the same user that waits, because revoking one token
/// revokes all; one that is being sent still counts as such.
pub(super) async fn add(db: &Transaction<'_>, user: Snowflake, grant: &SealedGrant, now: Time) -> Sql<()> {
    let sql = "INSERT INTO revocations AS old (user_id, grant_sealed, due, tries, sending_until)
            VALUES ($1, $2, $3, 0, NULL)
        ON CONFLICT (user_id) DO UPDATE SET grant_sealed = excluded.grant_sealed, due = excluded.due,
            tries = CASE WHEN old.sending_until > $4 THEN old.tries ELSE 0 END,
            sending_until = CASE WHEN old.sending_until > $4 THEN old.sending_until END";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user, &grant.0, &now.after(REVOCATION_WAIT), &now]).await?;
    Ok(())
}

/// Takes back a grant that waits to be revoked: its user has a session again.
pub(super) async fn take_back(db: &Transaction<'_>, user: Snowflake) -> Sql<Option<SealedGrant>> {
    let sql = "DELETE FROM revocations WHERE user_id = $1 AND tries = 0 AND grant_sealed IS NOT NULL
        RETURNING grant_sealed";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_opt(&statement, &[&user]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(SealedGrant))
}

/// How far the revocation of a user's former grant has come, if there is one. Nobody begins to send it before this
/// transaction ends.
pub(super) async fn stage(db: &Transaction<'_>, user: Snowflake, now: Time) -> Sql<Option<RevocationStage>> {
    let sql = "SELECT tries, sending_until, grant_sealed IS NULL FROM revocations WHERE user_id = $1 FOR UPDATE";
    let statement = db.prepare_cached(sql).await?;
    let Some(row) = db.query_opt(&statement, &[&user]).await? else { return Ok(None) };
    let Whole(tries) = row.try_get(0)?;
    Ok(Some(RevocationStage::of(now, tries, row.try_get(1)?, row.try_get(2)?)))
}

pub(super) async fn cancel(db: &Transaction<'_>, user: Snowflake) -> Sql<()> {
    let statement = db.prepare_cached("DELETE FROM revocations WHERE user_id = $1").await?;
    db.execute(&statement, &[&user]).await?;
    Ok(())
}

pub(super) async fn take(db: &Transaction<'_>, now: Time, until: Time) -> Sql<Option<Revocation>> {
    let sql = "SELECT user_id FROM revocations
        WHERE due <= $1 AND grant_sealed IS NOT NULL AND (sending_until IS NULL OR sending_until <= $1)
        ORDER BY due, user_id LIMIT 1 FOR UPDATE SKIP LOCKED";
    let statement = db.prepare_cached(sql).await?;
    let Some(row) = db.query_opt(&statement, &[&now]).await? else { return Ok(None) };
    let user: Snowflake = row.try_get(0)?;
    let sql = "UPDATE revocations SET tries = tries + 1, sending_until = $2 WHERE user_id = $1
        RETURNING grant_sealed, tries";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_one(&statement, &[&user, &until]).await?;
    let Whole(tries) = row.try_get(1)?;
    Ok(Some(Revocation { user, grant: SealedGrant(row.try_get(0)?), tries, until }))
}

/// Ends a try, unless somebody else has taken the revocation over or the user has signed in meanwhile.
pub(super) async fn finish(db: &Transaction<'_>, user: Snowflake, until: Time, end: RevocationEnd) -> Sql<()> {
    let (sql, due) = match end {
        RevocationEnd::Over { until } => (
            "UPDATE revocations SET grant_sealed = NULL, sending_until = NULL, due = $3
                WHERE user_id = $1 AND sending_until = $2",
            until,
        ),
        RevocationEnd::Retry { at } => {
            ("UPDATE revocations SET sending_until = NULL, due = $3 WHERE user_id = $1 AND sending_until = $2", at)
        }
        RevocationEnd::Unsent { at } => (
            "UPDATE revocations SET sending_until = NULL, due = $3, tries = tries - 1
                WHERE user_id = $1 AND sending_until = $2",
            at,
        ),
    };
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user, &until, &due]).await?;
    Ok(())
}

/// Forgets those that were sent long enough ago; gives how many.
pub(super) async fn forget(db: &Transaction<'_>, now: Time, batch: usize) -> Sql<usize> {
    let sql = "DELETE FROM revocations WHERE user_id = ANY (ARRAY
        (SELECT user_id FROM revocations WHERE due <= $1 AND grant_sealed IS NULL LIMIT $2 FOR UPDATE SKIP LOCKED))";
    let statement = db.prepare_cached(sql).await?;
    let forgotten = db.execute(&statement, &[&now, &integer(batch as u64)]).await?;
    Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
}
