//! What an operator asks beside the service's own work.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;

use super::Postgres;
use super::columns::unsigned;
use super::errors::Sql;
use super::work::Read;
use crate::store::Result;
use crate::store::upkeep::{MOST_KEYS, Upkeep};

#[async_trait]
impl Upkeep for Postgres {
    async fn grants_by_key(&self) -> Result<Vec<(String, u64)>> {
        self.executor.read((), Read::Statement(|db, ()| Box::pin(grants_by_key(db)))).await
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
