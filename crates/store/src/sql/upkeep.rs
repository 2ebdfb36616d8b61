//! What operators need besides the service's own work.

use domain::{Snowflake, Time};

use super::{Database, Read, Result, Words, health, values};
use crate::upkeep::{GrantKind, HeldGrant, Holdings, MOST_KEYS, Resealed};
use crate::{SealedGrant, StoreContent};

pub(crate) async fn grants_by_key<D: Database>(db: &D) -> Result<Vec<(String, u64)>, D> {
    let rows = db.query(D::WORDS.grants_by_key, &values![MOST_KEYS]).await?;
    // As bytes, because a damaged grant may begin with anything.
    let found = rows.iter().map(|row| {
        let key: Vec<u8> = row.get(0)?;
        Ok((String::from_utf8_lossy(&key).into_owned(), row.get(1)?))
    });
    Ok(found.collect::<Read<_>>()?)
}

/// What matters to a check.
pub(crate) async fn content<D: Database>(db: &D) -> Result<StoreContent, D> {
    Ok(StoreContent { grants_by_key: grants_by_key(db).await?, health: health::load(db).await? })
}

pub(crate) async fn sealed_grants<D: Database>(
    db: &D,
    kind: GrantKind,
    after: Option<Snowflake>,
    batch: usize,
) -> Result<Vec<HeldGrant>, D> {
    let (table, id) = table(kind);
    let sql = format!(
        "SELECT {id}, grant_sealed FROM {table} WHERE grant_sealed IS NOT NULL
            AND (CAST(?1 AS BIGINT) IS NULL OR {id} > ?1) ORDER BY {id} LIMIT ?2"
    );
    let rows = db.query(&sql, &values![after, batch]).await?;
    let found = rows.iter().map(|row| Ok(HeldGrant { user: row.get(0)?, sealed: SealedGrant(row.get(1)?) }));
    Ok(found.collect::<Read<_>>()?)
}

pub(crate) async fn replace_sealed<D: Database>(db: &D, kind: GrantKind, resealed: &[Resealed]) -> Result<usize, D> {
    let (table, id) = table(kind);
    let sql = format!("UPDATE {table} SET grant_sealed = ?3 WHERE {id} = ?1 AND grant_sealed = ?2");
    let mut replaced = 0;
    for Resealed { old, sealed } in resealed {
        replaced += db.execute(&sql, &values![old.user, old.sealed.0, sealed.0]).await?;
    }
    Ok(replaced)
}

/// Where these grants are, and the column of their users.
fn table(kind: GrantKind) -> (&'static str, &'static str) {
    match kind {
        GrantKind::InUse => ("users", "id"),
        GrantKind::ToRevoke => ("revocations", "user_id"),
    }
}

pub(crate) async fn holdings<D: Database>(db: &D) -> Result<Holdings, D> {
    let Words { size, schema, .. } = D::WORDS;
    let sql = format!(
        "SELECT {size}, (SELECT count(*) FROM users), (SELECT count(*) FROM sessions),
        (SELECT min(created) FROM sessions), (SELECT max(created) FROM sessions),
        (SELECT count(*) FROM revocations WHERE grant_sealed IS NOT NULL),
        (SELECT count(*) FROM blocked_users), (SELECT count(*) FROM forgotten_users),
        (SELECT count(*) FROM bot_keys WHERE revoked IS NULL), (SELECT count(*) FROM bot_keys WHERE revoked IS NOT NULL),
        (SELECT count(*) FROM audit), (SELECT min(at) FROM audit), (SELECT max(at) FROM audit),
        (SELECT min(\"timestamp\") FROM feedback), (SELECT max(\"timestamp\") FROM feedback), {schema}"
    );
    let row = db.query_one(&sql, &[]).await?;
    let seconds = |column| row.get::<Option<u64>>(column).map(|seconds| seconds.map(Time::from_seconds));
    Ok(Holdings {
        schema: row.get(15)?,
        size: row.get(0)?,
        users: row.get(1)?,
        sessions: row.get(2)?,
        oldest_session: row.get(3)?,
        newest_session: row.get(4)?,
        to_revoke: row.get(5)?,
        blocked: row.get(6)?,
        forgotten: row.get(7)?,
        good_keys: row.get(8)?,
        revoked_keys: row.get(9)?,
        audit: row.get(10)?,
        oldest_audit: row.get(11)?,
        newest_audit: row.get(12)?,
        oldest_feedback: seconds(13)?,
        newest_feedback: seconds(14)?,
    })
}
