//! Bot keys, by their hashes.

use domain::{Time, TokenHash};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Column as _, ReadColumn as _, readable};
use super::writer::ChangedTopics;
use crate::{BotKey, Topic};

pub(super) fn add(
    connection: &Connection,
    topics: &mut ChangedTopics,
    key: &BotKey,
    hash: TokenHash,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO bot_keys (id, label, key_hash, created, revoked) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(sql)?.execute(params![
        key.id,
        key.label,
        hash.0,
        key.created.stored(),
        key.revoked.stored()
    ])?;
    topics.push(Topic::Keys);
    Ok(())
}

pub(super) fn by_hash(connection: &Connection, hash: TokenHash) -> rusqlite::Result<Option<BotKey>> {
    connection
        .prepare_cached("SELECT id, label, created, revoked FROM bot_keys WHERE key_hash = ?1")?
        .query_row([hash.0], read)
        .optional()
}

/// Whether there is a key with this ID that was not revoked.
pub(super) fn is_good(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM bot_keys WHERE id = ?1 AND revoked IS NULL")?.exists([id])
}

pub(super) fn good(connection: &Connection) -> rusqlite::Result<Vec<TokenHash>> {
    let mut statement = connection.prepare_cached("SELECT key_hash FROM bot_keys WHERE revoked IS NULL")?;
    readable("bot key", statement.query_map([], |row| row.get(0).map(TokenHash))?)
}

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<BotKey>> {
    let sql = "SELECT id, label, created, revoked FROM bot_keys ORDER BY created, rowid";
    let mut statement = connection.prepare_cached(sql)?;
    readable("bot key", statement.query_map([], read)?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<BotKey> {
    Ok(BotKey { id: row.get(0)?, label: row.get(1)?, created: row.column(2)?, revoked: row.column(3)? })
}

pub(super) fn revoke(
    connection: &Connection,
    topics: &mut ChangedTopics,
    id: &str,
    now: Time,
) -> rusqlite::Result<bool> {
    let revoked = connection
        .prepare_cached("UPDATE bot_keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
        .execute(params![id, now.stored()])?;
    if revoked > 0 {
        topics.push(Topic::Keys);
    }
    Ok(revoked > 0)
}
