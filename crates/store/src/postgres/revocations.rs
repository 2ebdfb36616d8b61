//! Grants waiting to be revoked at the provider.

use deadpool_postgres::Transaction;
use domain::revocation::{NewRevocation, RevocationUpdate, StoredRevocation};
use domain::{RevocationEnd, Snowflake, Time};

use super::columns::{Column as _, ReadColumn as _, Whole, changed, integer};
use super::errors::Sql;
use crate::{Revocation, SealedGrant};

/// The revocation of a user's previous grant, if there is one. It may change at any time.
pub(super) async fn find(db: &Transaction<'_>, user: Snowflake) -> Sql<Option<StoredRevocation>> {
    read(db, user, "SELECT tries, sending_until, grant_sealed IS NULL FROM revocations WHERE user_id = $1").await
}

/// The revocation of a user's previous grant, if there is one. Nobody starts to send it before this transaction ends.
pub(super) async fn stored(db: &Transaction<'_>, user: Snowflake) -> Sql<Option<StoredRevocation>> {
    let sql = "SELECT tries, sending_until, grant_sealed IS NULL FROM revocations WHERE user_id = $1 FOR UPDATE";
    read(db, user, sql).await
}

async fn read(db: &Transaction<'_>, user: Snowflake, sql: &str) -> Sql<Option<StoredRevocation>> {
    let statement = db.prepare_cached(sql).await?;
    let Some(row) = db.query_opt(&statement, &[&user.stored()]).await? else { return Ok(None) };
    let Whole(tries) = row.try_get(0)?;
    Ok(Some(StoredRevocation { tries, sending_until: row.column(1)?, is_sent: row.try_get(2)? }))
}

/// Queues a grant for revocation after a while. The caller has the user's lock.
pub(super) async fn add(db: &Transaction<'_>, user: Snowflake, grant: &SealedGrant, now: Time) -> Sql<()> {
    let NewRevocation { due, tries, sending_until } = NewRevocation::replacing(stored(db, user).await?, now);
    let sql = "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (user_id) DO UPDATE SET grant_sealed = $2, due = $3, tries = $4, sending_until = $5";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user.stored(), &grant.0, &due.stored(), &i64::from(tries), &sending_until.stored()])
        .await?;
    Ok(())
}

/// Takes back a grant that is waiting to be revoked, if its revocation is unchanged.
pub(super) async fn take_back(
    db: &Transaction<'_>,
    user: Snowflake,
    found: StoredRevocation,
) -> Sql<Option<SealedGrant>> {
    let sql = "DELETE FROM revocations WHERE user_id = $1 AND grant_sealed IS NOT NULL AND tries = $2
            AND sending_until IS NOT DISTINCT FROM $3
        RETURNING grant_sealed";
    let statement = db.prepare_cached(sql).await?;
    let row =
        db.query_opt(&statement, &[&user.stored(), &i64::from(found.tries), &found.sending_until.stored()]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(SealedGrant))
}

pub(super) async fn cancel(db: &Transaction<'_>, user: Snowflake) -> Sql<()> {
    let statement = db.prepare_cached("DELETE FROM revocations WHERE user_id = $1").await?;
    db.execute(&statement, &[&user.stored()]).await?;
    Ok(())
}

/// Takes the revocation that is due first and not being sent.
pub(super) async fn take(db: &Transaction<'_>, now: Time, until: Time) -> Sql<Option<Revocation>> {
    let sql = "SELECT user_id FROM revocations
        WHERE due <= $1 AND grant_sealed IS NOT NULL AND (sending_until IS NULL OR sending_until <= $1)
        ORDER BY due, user_id LIMIT 1 FOR UPDATE SKIP LOCKED";
    let statement = db.prepare_cached(sql).await?;
    let Some(row) = db.query_opt(&statement, &[&now.stored()]).await? else { return Ok(None) };
    let user: Snowflake = row.column(0)?;
    let sql = "UPDATE revocations SET tries = tries + 1, sending_until = $2 WHERE user_id = $1
        RETURNING grant_sealed, tries";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_one(&statement, &[&user.stored(), &until.stored()]).await?;
    let Whole(tries) = row.try_get(1)?;
    Ok(Some(Revocation { user, grant: SealedGrant(row.try_get(0)?), tries, until }))
}

/// Ends an attempt, unless another process has taken over the revocation or the user has signed in in the meantime.
pub(super) async fn finish(db: &Transaction<'_>, user: Snowflake, until: Time, end: RevocationEnd) -> Sql<()> {
    let RevocationUpdate { due, forgets_grant, uncounted } = end.update();
    let sql = "UPDATE revocations SET sending_until = NULL, due = $3, tries = tries - $4,
            grant_sealed = CASE WHEN $5 THEN NULL ELSE grant_sealed END
        WHERE user_id = $1 AND sending_until = $2";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user.stored(), &until.stored(), &due.stored(), &i64::from(uncounted), &forgets_grant])
        .await?;
    Ok(())
}

/// Removes those that were sent long enough ago, and returns how many.
pub(super) async fn forget(db: &Transaction<'_>, now: Time, batch: usize) -> Sql<usize> {
    let sql = "DELETE FROM revocations WHERE user_id = ANY (ARRAY
        (SELECT user_id FROM revocations WHERE due <= $1 AND grant_sealed IS NULL LIMIT $2 FOR UPDATE SKIP LOCKED))";
    let statement = db.prepare_cached(sql).await?;
    let forgotten = db.execute(&statement, &[&now.stored(), &integer(batch as u64)]).await?;
    Ok(changed(forgotten))
}
