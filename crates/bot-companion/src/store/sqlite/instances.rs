//! The numbering of the bot's processes, and which of two started later.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::Time;
use crate::domain::feed::{InstanceId, InstanceState};

use super::columns::{integer, readable, unsigned};
use super::coverage::Cover;

/// How long a numbering that nobody uses is remembered, counted back from the latest use of any.
const REMEMBERED: Duration = Duration::from_hours(30 * 24);

/// The number of an instance's next event; an unknown one begins at 1.
pub(super) fn next(connection: &Connection, instance: &InstanceId) -> rusqlite::Result<u64> {
    let next = connection
        .prepare_cached("SELECT next FROM feed_instances WHERE instance = ?1")?
        .query_row([instance.as_str()], |row| row.get(0))
        .optional()?;
    Ok(next.map_or(1, unsigned))
}

/// Sets the number of an instance's next event. One that is new was first seen at `seen`.
pub(super) fn advance(
    connection: &Connection,
    instance: &InstanceId,
    next: u64,
    seen: Time,
    now: Time,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO feed_instances (instance, next, first_seen, started_at, last_used)
        VALUES (?1, ?2, ?3, (SELECT started_at FROM instances WHERE id = ?1), ?4)
        ON CONFLICT (instance) DO UPDATE SET next = ?2, last_used = max(last_used, ?4)";
    connection.prepare_cached(sql)?.execute(params![instance.as_str(), integer(next), seen, now]).map(drop)
}

/// Notes when an instance says that it started. The health forgets it soon after its last heartbeat; its rank must not change
/// with that.
pub(super) fn note_started(connection: &Connection, instance: &str, started_at: Time) -> rusqlite::Result<()> {
    let sql = "UPDATE feed_instances SET started_at = ?2 WHERE instance = ?1 AND started_at IS NOT ?2";
    connection.prepare_cached(sql)?.execute(params![instance, started_at]).map(drop)
}

/// Whether another instance, started later than this known one, has sent the snapshot.
pub(super) fn is_outranked(connection: &Connection, instance: &InstanceId, cover: &Cover) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM feed_shards AS shard
        JOIN feed_instances AS theirs ON theirs.instance = shard.instance
        JOIN feed_instances AS ours ON ours.instance = ?3
        WHERE shard_count = ?1 AND shard_id = ?2 AND theirs.instance <> ours.instance
            AND coalesce(theirs.started_at, theirs.first_seen) > coalesce(ours.started_at, ours.first_seen)";
    connection.prepare_cached(sql)?.exists(params![cover.shard_count, cover.shard_id, instance.as_str()])
}

/// Forgets the numberings that nobody uses: a process that comes back after that long sends everything anew.
pub(super) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    let latest: Option<Time> =
        connection.prepare_cached("SELECT max(last_used) FROM feed_instances")?.query_row([], |row| row.get(0))?;
    if let Some(latest) = latest {
        let sql = "DELETE FROM feed_instances WHERE last_used < ?1";
        connection.prepare_cached(sql)?.execute([latest.before(REMEMBERED)])?;
    }
    Ok(())
}

pub(super) fn states(connection: &Connection) -> rusqlite::Result<Vec<InstanceState>> {
    let sql = "SELECT instance, next, feed_instances.started_at, reported
        FROM feed_instances LEFT JOIN instances ON id = instance ORDER BY instance";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(InstanceState {
            instance: row.get(0)?,
            next: unsigned(row.get(1)?),
            started_at: row.get(2)?,
            last_heartbeat: row.get(3)?,
        })
    })?;
    readable("instance", rows)
}
