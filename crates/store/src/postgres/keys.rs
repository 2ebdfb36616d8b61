//! Bot keys, by their hashes.

use deadpool_postgres::{GenericClient, Transaction};
use domain::{Time, TokenHash};
use tokio_postgres::Row;

use super::columns::{Column as _, ReadColumn as _, readable};
use super::errors::Sql;
use super::work::ChangedTopics;
use crate::{BotKey, Topic};

pub(super) async fn add(db: &Transaction<'_>, topics: &mut ChangedTopics, key: &BotKey, hash: TokenHash) -> Sql<()> {
    let sql = "INSERT INTO bot_keys (id, label, key_hash, created, revoked) VALUES ($1, $2, $3, $4, $5)";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&key.id, &key.label, &hash.0.as_slice(), &key.created.stored(), &key.revoked.stored()])
        .await?;
    topics.push(Topic::Keys);
    Ok(())
}

pub(super) async fn by_hash(db: &impl GenericClient, hash: TokenHash) -> Sql<Option<BotKey>> {
    let sql = "SELECT id, label, created, revoked FROM bot_keys WHERE key_hash = $1";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&hash.0.as_slice()]).await?.as_ref().map(read).transpose()
}

/// Whether there is a key with this ID that was not revoked. The row is locked, so that a revocation waits until this work has
/// ended: what is committed after the revocation finds the key revoked.
pub(super) async fn is_good(db: &Transaction<'_>, id: &str) -> Sql<bool> {
    let sql = "SELECT 1 FROM bot_keys WHERE id = $1 AND revoked IS NULL FOR SHARE";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_opt(&statement, &[&id]).await?.is_some())
}

pub(super) async fn good(db: &impl GenericClient) -> Sql<Vec<TokenHash>> {
    let statement = db.prepare_cached("SELECT key_hash FROM bot_keys WHERE revoked IS NULL").await?;
    let hashes = readable("bot key", &db.query(&statement, &[]).await?, |row| {
        Ok(row.try_get::<_, &[u8]>(0)?.try_into().ok().map(TokenHash))
    });
    Ok(hashes.into_iter().flatten().collect())
}

pub(super) async fn all(db: &impl GenericClient) -> Sql<Vec<BotKey>> {
    let statement =
        db.prepare_cached("SELECT id, label, created, revoked FROM bot_keys ORDER BY created, ordinal").await?;
    Ok(readable("bot key", &db.query(&statement, &[]).await?, read))
}

fn read(row: &Row) -> Sql<BotKey> {
    Ok(BotKey { id: row.try_get(0)?, label: row.try_get(1)?, created: row.column(2)?, revoked: row.column(3)? })
}

pub(super) async fn revoke(db: &Transaction<'_>, topics: &mut ChangedTopics, id: &str, now: Time) -> Sql<bool> {
    let statement = db.prepare_cached("UPDATE bot_keys SET revoked = $2 WHERE id = $1 AND revoked IS NULL").await?;
    let revoked = db.execute(&statement, &[&id, &now.stored()]).await? > 0;
    if revoked {
        topics.push(Topic::Keys);
    }
    Ok(revoked)
}
