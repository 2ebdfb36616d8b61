//! What an operator asks beside the service's own work.

use async_trait::async_trait;
use rusqlite::Connection;

use super::Sqlite;
use super::columns::unsigned;
use crate::store::Result;
use crate::store::upkeep::{MOST_KEYS, Upkeep};

#[async_trait]
impl Upkeep for Sqlite {
    async fn grants_by_key(&self) -> Result<Vec<(String, u64)>> {
        self.readers.read(grants_by_key).await
    }
}

fn grants_by_key(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    // As bytes: a damaged grant may begin with anything.
    let sql = "SELECT CAST(grant_key AS BLOB), count(*) FROM
            (SELECT grant_key FROM users WHERE grant_key IS NOT NULL
            UNION ALL SELECT grant_key FROM revocations WHERE grant_key IS NOT NULL)
        GROUP BY grant_key ORDER BY grant_key LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([MOST_KEYS], |row| {
        let key: Vec<u8> = row.get(0)?;
        Ok((String::from_utf8_lossy(&key).into_owned(), unsigned(row.get(1)?)))
    })?;
    rows.collect()
}
