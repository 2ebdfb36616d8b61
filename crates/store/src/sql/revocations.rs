//! Grants waiting to be revoked at the provider.

use domain::revocation::{NewRevocation, RevocationUpdate, StoredRevocation};
use domain::{RevocationEnd, Snowflake, Time};

use super::{Database, Result, values};
use crate::{Revocation, SealedGrant};

/// The revocation of a user's previous grant, if there is one. It may change at any time.
pub(crate) async fn find<D: Database>(db: &D, user: Snowflake) -> Result<Option<StoredRevocation>, D> {
    read(db, user, "").await
}

/// The revocation of a user's previous grant, if there is one. Nobody starts to send it before this transaction ends.
pub(crate) async fn stored<D: Database>(db: &D, user: Snowflake) -> Result<Option<StoredRevocation>, D> {
    read(db, user, D::WORDS.for_update).await
}

async fn read<D: Database>(db: &D, user: Snowflake, locked: &str) -> Result<Option<StoredRevocation>, D> {
    let sql = format!("SELECT tries, sending_until, grant_sealed IS NULL FROM revocations WHERE user_id = ?1{locked}");
    let Some(row) = db.query_first(&sql, &values![user]).await? else { return Ok(None) };
    Ok(Some(StoredRevocation { tries: row.get(0)?, sending_until: row.get(1)?, is_sent: row.get(2)? }))
}

/// Queues a grant for revocation after a while. The caller has the user's lock.
pub(crate) async fn add<D: Database>(db: &D, user: Snowflake, grant: &SealedGrant, now: Time) -> Result<(), D> {
    let NewRevocation { due, tries, sending_until } = NewRevocation::replacing(stored(db, user).await?, now);
    let sql = "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (user_id) DO UPDATE SET grant_sealed = ?2, due = ?3, tries = ?4, sending_until = ?5";
    db.execute(sql, &values![user, grant.0, due, tries, sending_until]).await.map(drop)
}

/// Takes back a grant that is waiting to be revoked, if its revocation is unchanged.
pub(crate) async fn take_back<D: Database>(
    db: &D,
    user: Snowflake,
    found: StoredRevocation,
) -> Result<Option<SealedGrant>, D> {
    let sql = "DELETE FROM revocations WHERE user_id = ?1 AND grant_sealed IS NOT NULL AND tries = ?2
            AND sending_until IS NOT DISTINCT FROM ?3
        RETURNING grant_sealed";
    let row = db.query_first(sql, &values![user, found.tries, found.sending_until]).await?;
    Ok(row.map(|row| row.get(0)).transpose()?.map(SealedGrant))
}

pub(crate) async fn cancel<D: Database>(db: &D, user: Snowflake) -> Result<(), D> {
    db.execute("DELETE FROM revocations WHERE user_id = ?1", &values![user]).await.map(drop)
}

/// Takes the revocation that is due first and not being sent.
pub(crate) async fn take<D: Database>(db: &D, now: Time, until: Time) -> Result<Option<Revocation>, D> {
    let sql = format!(
        "SELECT user_id FROM revocations
        WHERE due <= ?1 AND grant_sealed IS NOT NULL AND (sending_until IS NULL OR sending_until <= ?1)
        ORDER BY due, user_id LIMIT 1{}",
        D::WORDS.skip_locked
    );
    let Some(row) = db.query_first(&sql, &values![now]).await? else { return Ok(None) };
    let user: Snowflake = row.get(0)?;
    let sql = "UPDATE revocations SET tries = tries + 1, sending_until = ?2 WHERE user_id = ?1
        RETURNING grant_sealed, tries";
    let row = db.query_one(sql, &values![user, until]).await?;
    Ok(Some(Revocation { user, grant: SealedGrant(row.get(0)?), tries: row.get(1)?, until }))
}

/// Ends an attempt, unless another process has taken over the revocation or the user has signed in in the meantime.
pub(crate) async fn finish<D: Database>(db: &D, user: Snowflake, until: Time, end: RevocationEnd) -> Result<(), D> {
    let RevocationUpdate { due, forgets_grant, uncounted } = end.update();
    let sql = "UPDATE revocations SET sending_until = NULL, due = ?3, tries = tries - ?4,
            grant_sealed = CASE WHEN ?5 THEN NULL ELSE grant_sealed END
        WHERE user_id = ?1 AND sending_until = ?2";
    db.execute(sql, &values![user, until, due, uncounted, forgets_grant]).await.map(drop)
}

/// Removes those that were sent long enough ago, and returns how many.
pub(crate) async fn forget<D: Database>(db: &D, now: Time, batch: usize) -> Result<usize, D> {
    let words = D::WORDS;
    let sent = format!(
        "SELECT user_id FROM revocations WHERE due <= ?1 AND grant_sealed IS NULL LIMIT ?2{}",
        words.skip_locked
    );
    let sql = format!("DELETE FROM revocations WHERE user_id {}", words.one_of.put(&sent));
    db.execute(&sql, &values![now, batch]).await
}
