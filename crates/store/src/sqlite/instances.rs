//! The bot's processes: their numbering, when they were seen, and the shards they own.

use domain::feed::{
    FIRST_EVENT, InstanceId, InstanceState, LOST_SHARDS, Life, OwnShards, SenderState, ShardKey, counted_start,
};
use domain::{Time, health, retention};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Column as _, ReadColumn as _, integer, readable, unsigned};
use super::database::run;
use crate::sql::keys;

/// Reads the columns of `feed_instances` and `reported`, from this index on; `None` if there is no row.
pub(super) fn life(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Life>> {
    let (Some(first_seen), Some(last_call)) = (row.column(first)?, row.column(first + 2)?) else { return Ok(None) };
    let (reported_start, last_heartbeat) = (row.column(first + 1)?, row.column(first + 3)?);
    Ok(Some(Life { first_seen, reported_start, last_call, last_heartbeat }))
}

/// Records a numbered call from an instance, and returns what is known about it; `None` if its key is invalid.
pub(super) fn admit(
    connection: &Connection,
    instance: &InstanceId,
    now: Time,
) -> rusqlite::Result<Option<SenderState>> {
    if !run(keys::is_good(connection, &instance.key))? {
        return Ok(None);
    }
    note_call(connection, instance, now)?;
    let sql = "SELECT next, sent_snapshot, first_seen, feed_instances.started_at, last_used, reported
        FROM feed_instances LEFT JOIN instances ON instances.key = feed_instances.key AND id = instance
        WHERE feed_instances.key = ?1 AND instance = ?2";
    let sender = connection.prepare_cached(sql)?.query_row(params![instance.key, instance.name.as_str()], |row| {
        Ok(SenderState {
            instance: instance.clone(),
            next: unsigned(row.get(0)?),
            has_sent_snapshot: row.get(1)?,
            life: Life {
                first_seen: row.column(2)?,
                reported_start: row.column(3)?,
                last_call: row.column(4)?,
                last_heartbeat: row.column(5)?,
            },
        })
    })?;
    Ok(Some(sender))
}

/// Records a numbered call from an instance, possibly its first.
pub(super) fn note_call(connection: &Connection, instance: &InstanceId, now: Time) -> rusqlite::Result<()> {
    let sql = "INSERT INTO feed_instances (key, instance, next, first_seen, started_at, last_used, sent_snapshot)
        VALUES (?1, ?2, ?4, ?3, NULL, ?3, 0)
        ON CONFLICT (key, instance) DO UPDATE SET last_used = max(last_used, ?3)";
    let row = params![instance.key, instance.name.as_str(), now.stored(), integer(FIRST_EVENT)];
    connection.prepare_cached(sql)?.execute(row).map(drop)
}

/// Sets the number of a sender's next event, if there is one and it has changed.
pub(super) fn advance(connection: &Connection, sender: &SenderState, next: Option<u64>) -> rusqlite::Result<()> {
    let Some(next) = next.filter(|next| *next != sender.next) else { return Ok(()) };
    let InstanceId { key, name } = &sender.instance;
    let sql = "UPDATE feed_instances SET next = ?3 WHERE key = ?1 AND instance = ?2";
    connection.prepare_cached(sql)?.execute(params![key, name.as_str(), integer(next)]).map(drop)
}

/// Records that a known instance has sent a snapshot. If it is a shard's snapshot, the shard is one of its own.
pub(super) fn note_snapshot(
    connection: &Connection,
    instance: &InstanceId,
    shard: Option<ShardKey>,
) -> rusqlite::Result<()> {
    let sql = "UPDATE feed_instances SET sent_snapshot = 1 WHERE key = ?1 AND instance = ?2 AND NOT sent_snapshot";
    connection.prepare_cached(sql)?.execute(params![instance.key, instance.name.as_str()])?;
    note_own(connection, instance, shard)
}

pub(super) fn note_own(
    connection: &Connection,
    instance: &InstanceId,
    shards: impl IntoIterator<Item = ShardKey>,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO feed_own_shards (key, instance, shard_count, shard_id) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    shards.into_iter().try_for_each(|shard| {
        insert.execute(params![instance.key, instance.name.as_str(), shard.count, shard.id]).map(drop)
    })
}

pub(super) fn own_shards(connection: &Connection, instance: &InstanceId) -> rusqlite::Result<OwnShards> {
    let sql = "SELECT shard_count, shard_id FROM feed_own_shards WHERE key = ?1 AND instance = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![instance.key, instance.name.as_str()], |row| {
        Ok(ShardKey { count: row.get(0)?, id: row.get(1)? })
    })?;
    rows.collect()
}

/// The first of the shards that an instance has named and that may hold another one's data: all of them while snapshots of
/// several shard counts are stored, otherwise those that it didn't send.
pub(super) fn possibly_lost_shards(connection: &Connection, instance: &InstanceId) -> rusqlite::Result<Vec<ShardKey>> {
    let sql = "SELECT own.shard_count, own.shard_id FROM feed_own_shards AS own
        LEFT JOIN feed_shards AS sent ON sent.shard_count = own.shard_count AND sent.shard_id = own.shard_id
        WHERE own.key = ?1 AND own.instance = ?2 AND (sent.key IS NOT own.key OR sent.instance IS NOT own.instance
            OR (SELECT min(shard_count) < max(shard_count) FROM feed_shards WHERE shard_count > 0))
        ORDER BY own.shard_count, own.shard_id LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![instance.key, instance.name.as_str(), LOST_SHARDS], |row| {
        Ok(ShardKey { count: row.get(0)?, id: row.get(1)? })
    })?;
    rows.collect()
}

/// Makes an instance count as silent, because it says that it leaves. Its next call would undo this.
pub(super) fn note_left(connection: &Connection, instance: &InstanceId, now: Time) -> rusqlite::Result<()> {
    let sql = "UPDATE feed_instances SET last_used = min(last_used, ?3) WHERE key = ?1 AND instance = ?2";
    let silent = now.before(health::SILENCE).stored();
    connection.prepare_cached(sql)?.execute(params![instance.key, instance.name.as_str(), silent]).map(drop)
}

/// Records when an instance says it started, and returns the start that counts. It is recorded here because the health data
/// drops the instance soon after its last heartbeat, which must not change who owns its shards.
pub(super) fn note_started(
    connection: &Connection,
    instance: &InstanceId,
    said: Time,
    now: Time,
) -> rusqlite::Result<Time> {
    let name = instance.name.as_str();
    let known: Option<(Time, Option<Time>)> = connection
        .prepare_cached("SELECT first_seen, started_at FROM feed_instances WHERE key = ?1 AND instance = ?2")?
        .query_row(params![instance.key, name], |row| Ok((row.column(0)?, row.column(1)?)))
        .optional()?;
    let started = counted_start(said, known.map_or(now, |(first_seen, _)| first_seen));
    match known {
        Some((_, noted)) if noted == Some(started) => {}
        Some(_) => {
            let sql = "UPDATE feed_instances SET started_at = ?3 WHERE key = ?1 AND instance = ?2";
            connection.prepare_cached(sql)?.execute(params![instance.key, name, started.stored()])?;
        }
        None => {
            let sql =
                "INSERT INTO feed_instances (key, instance, next, first_seen, started_at, last_used, sent_snapshot)
                VALUES (?1, ?2, ?5, ?3, ?4, ?3, 0)";
            let row = params![instance.key, name, now.stored(), started.stored(), integer(FIRST_EVENT)];
            connection.prepare_cached(sql)?.execute(row)?;
        }
    }
    Ok(started)
}

/// Forgets instances that have not made a numbered call for a long time.
pub(super) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    let latest: Option<Time> =
        connection.prepare_cached("SELECT max(last_used) FROM feed_instances")?.query_row([], |row| row.column(0))?;
    let Some(latest) = latest else { return Ok(()) };
    // An instance that only sends heartbeats is still alive.
    let sql = "DELETE FROM feed_instances WHERE last_used < ?1
        AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.key = feed_instances.key AND id = instance)
        RETURNING key, instance";
    let mut statement = connection.prepare_cached(sql)?;
    let unused_since = retention::numberings_unused_since(latest);
    let rows = statement.query_map([unused_since.stored()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let gone: Vec<(String, String)> = readable("instance", rows)?;
    let mut own = connection.prepare_cached("DELETE FROM feed_own_shards WHERE key = ?1 AND instance = ?2")?;
    gone.iter().try_for_each(|(key, name)| own.execute([key, name]).map(drop))
}

pub(super) fn states(connection: &Connection) -> rusqlite::Result<Vec<InstanceState>> {
    let sql = "SELECT feed_instances.key, instance, next, feed_instances.started_at, reported
        FROM feed_instances LEFT JOIN instances ON instances.key = feed_instances.key AND id = instance
        ORDER BY feed_instances.key, instance";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(InstanceState {
            instance: read(row, 0)?,
            next: unsigned(row.get(2)?),
            started_at: row.column(3)?,
            last_heartbeat: row.column(4)?,
        })
    })?;
    readable("instance", rows)
}

/// Reads an instance from the columns of its key and its name.
pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<InstanceId> {
    let (key, name): (String, String) = (row.get(first)?, row.get(first + 1)?);
    InstanceId::parse(&key, &name).ok_or_else(|| {
        let problem = "not the name of an instance".into();
        rusqlite::Error::FromSqlConversionFailure(first + 1, rusqlite::types::Type::Text, problem)
    })
}
