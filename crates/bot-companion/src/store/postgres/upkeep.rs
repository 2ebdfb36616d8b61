//! What an operator asks beside the service's own work.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};

use super::Postgres;
use super::columns::{integer, unsigned};
use super::errors::Sql;
use super::work::{Pace, Read};
use crate::domain::Snowflake;
use crate::store::upkeep::{GrantKind, HeldGrant, MOST_KEYS, Resealed, Upkeep};
use crate::store::{Result, SealedGrant};

#[async_trait]
impl Upkeep for Postgres {
    async fn grants_by_key(&self) -> Result<Vec<(String, u64)>> {
        self.executor.read((), Read::Statement(|db, ()| Box::pin(grants_by_key(db)))).await
    }

    async fn sealed_grants(&self, kind: GrantKind, after: Option<Snowflake>, batch: usize) -> Result<Vec<HeldGrant>> {
        let read = Read::Statement(|db, (kind, after, batch)| Box::pin(sealed_grants(db, *kind, *after, *batch)));
        self.executor.read((kind, after, batch), read).await
    }

    async fn replace_sealed(&self, kind: GrantKind, resealed: Vec<Resealed>) -> Result<usize> {
        let work = self.executor.write(Pace::Long, (kind, resealed), |db, _topics, (kind, resealed)| {
            Box::pin(replace_sealed(db, *kind, resealed))
        });
        work.await
    }
}

async fn grants_by_key(db: &impl GenericClient) -> Sql<Vec<(String, u64)>> {
    // The number of bytes of the key's id, then the id. As bytes: a damaged grant may begin with anything.
    let sql = "SELECT CASE WHEN length(sealed) > 0 AND get_byte(sealed, 0) BETWEEN 1 AND 32
                THEN substring(sealed FROM 2 FOR get_byte(sealed, 0)) ELSE '' END AS key, count(*)
        FROM (SELECT grant_sealed AS sealed FROM users WHERE grant_sealed IS NOT NULL
            UNION ALL SELECT grant_sealed FROM revocations WHERE grant_sealed IS NOT NULL) AS grants
        GROUP BY key ORDER BY key LIMIT $1";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&MOST_KEYS]).await?;
    let found = rows.iter().map(|row| {
        let key: &[u8] = row.try_get(0)?;
        Ok((String::from_utf8_lossy(key).into_owned(), unsigned(row.try_get(1)?)))
    });
    found.collect()
}

async fn sealed_grants(
    db: &impl GenericClient,
    kind: GrantKind,
    after: Option<Snowflake>,
    batch: usize,
) -> Sql<Vec<HeldGrant>> {
    let sql = match kind {
        GrantKind::InUse => {
            "SELECT id, grant_sealed FROM users WHERE grant_sealed IS NOT NULL AND ($1::bigint IS NULL OR id > $1)
                ORDER BY id LIMIT $2"
        }
        GrantKind::ToRevoke => {
            "SELECT user_id, grant_sealed FROM revocations
                WHERE grant_sealed IS NOT NULL AND ($1::bigint IS NULL OR user_id > $1) ORDER BY user_id LIMIT $2"
        }
    };
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&after, &integer(batch as u64)]).await?;
    rows.iter().map(|row| Ok(HeldGrant { user: row.try_get(0)?, sealed: SealedGrant(row.try_get(1)?) })).collect()
}

async fn replace_sealed(db: &Transaction<'_>, kind: GrantKind, resealed: &[Resealed]) -> Sql<usize> {
    let sql = match kind {
        GrantKind::InUse => "UPDATE users SET grant_sealed = $3 WHERE id = $1 AND grant_sealed = $2",
        GrantKind::ToRevoke => "UPDATE revocations SET grant_sealed = $3 WHERE user_id = $1 AND grant_sealed = $2",
    };
    let statement = db.prepare_cached(sql).await?;
    let mut replaced = 0;
    for Resealed { old, sealed } in resealed {
        replaced += db.execute(&statement, &[&old.user, &old.sealed.0, &sealed.0]).await?;
    }
    Ok(usize::try_from(replaced).unwrap_or(usize::MAX))
}
