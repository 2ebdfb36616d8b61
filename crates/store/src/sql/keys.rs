//! Bot keys, by their hashes.

use domain::{Time, TokenHash};

use super::{ChangedTopics, Database, Read, Result, Row, readable, values};
use crate::{BotKey, Topic};

pub(crate) async fn add<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    key: &BotKey,
    hash: TokenHash,
) -> Result<(), D> {
    let sql = "INSERT INTO bot_keys (id, label, key_hash, created, revoked) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.execute(sql, &values![key.id, key.label, hash.0, key.created, key.revoked]).await?;
    topics.push(Topic::Keys);
    Ok(())
}

pub(crate) async fn by_hash<D: Database>(db: &D, hash: TokenHash) -> Result<Option<BotKey>, D> {
    let sql = "SELECT id, label, created, revoked FROM bot_keys WHERE key_hash = ?1";
    let row = db.query_first(sql, &values![hash.0]).await?;
    Ok(row.as_ref().map(read).transpose()?)
}

/// Whether there is a key with this ID that was not revoked. The row is locked, so that a revocation waits until this work has
/// ended: what is committed after the revocation finds the key revoked.
pub(crate) async fn is_good<D: Database>(db: &D, id: &str) -> Result<bool, D> {
    let sql = format!("SELECT 1 FROM bot_keys WHERE id = ?1 AND revoked IS NULL{}", D::WORDS.for_share);
    Ok(db.query_first(&sql, &values![id]).await?.is_some())
}

pub(crate) async fn good<D: Database>(db: &D) -> Result<Vec<TokenHash>, D> {
    let rows = db.query("SELECT key_hash FROM bot_keys WHERE revoked IS NULL", &[]).await?;
    Ok(readable!("bot key", rows, |row| row.get(0).map(TokenHash)))
}

pub(crate) async fn all<D: Database>(db: &D) -> Result<Vec<BotKey>, D> {
    let sql = format!("SELECT id, label, created, revoked FROM bot_keys ORDER BY created, {}", D::WORDS.ordinal);
    Ok(readable!("bot key", db.query(&sql, &[]).await?, read))
}

fn read(row: &Row) -> Read<BotKey> {
    Ok(BotKey { id: row.get(0)?, label: row.get(1)?, created: row.get(2)?, revoked: row.get(3)? })
}

pub(crate) async fn revoke<D: Database>(db: &D, topics: &mut ChangedTopics, id: &str, now: Time) -> Result<bool, D> {
    let sql = "UPDATE bot_keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL";
    let revoked = db.execute(sql, &values![id, now]).await? > 0;
    if revoked {
        topics.push(Topic::Keys);
    }
    Ok(revoked)
}
