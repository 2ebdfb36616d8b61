//! The bot's processes: their numbering, when they were seen, and the shards they own.

use domain::feed::{
    FIRST_EVENT, InstanceId, InstanceState, LOST_SHARDS, Life, OwnShards, SenderState, ShardKey, counted_start,
};
use domain::{Time, health, retention};

use super::{Database, Read, Result, Row, keys, readable, values};
use crate::columns::json;

/// Records a numbered call from an instance, and returns what is known about it; `None` if its key is invalid.
pub(crate) async fn admit<D: Database>(db: &D, instance: &InstanceId, now: Time) -> Result<Option<SenderState>, D> {
    if !keys::is_good(db, &instance.key).await? {
        return Ok(None);
    }
    note_call(db, instance, now).await?;
    // On SQLite, RETURNING would cost more: it needs a temporary table.
    let sql = "SELECT next, sent_snapshot, first_seen, feed_instances.started_at, last_used, reported
        FROM feed_instances LEFT JOIN instances ON instances.key = feed_instances.key AND id = instance
        WHERE feed_instances.key = ?1 AND instance = ?2";
    let row = db.query_one(sql, &values![instance.key, instance.name]).await?;
    Ok(Some(SenderState {
        instance: instance.clone(),
        next: row.get(0)?,
        has_sent_snapshot: row.get(1)?,
        life: Life {
            first_seen: row.get(2)?,
            reported_start: row.get(3)?,
            last_call: row.get(4)?,
            last_heartbeat: row.get(5)?,
        },
    }))
}

/// Records a numbered call from an instance, possibly its first.
pub(crate) async fn note_call<D: Database>(db: &D, instance: &InstanceId, now: Time) -> Result<(), D> {
    let sql = "INSERT INTO feed_instances (key, instance, next, first_seen, started_at, last_used, sent_snapshot)
        VALUES (?1, ?2, ?4, ?3, NULL, ?3, false)
        ON CONFLICT (key, instance) DO UPDATE
        SET last_used = CASE WHEN feed_instances.last_used < ?3 THEN ?3 ELSE feed_instances.last_used END";
    db.execute(sql, &values![instance.key, instance.name, now, FIRST_EVENT]).await.map(drop)
}

/// Sets the number of a sender's next event, if there is one and it has changed.
pub(crate) async fn advance<D: Database>(db: &D, sender: &SenderState, next: Option<u64>) -> Result<(), D> {
    let Some(next) = next.filter(|next| *next != sender.next) else { return Ok(()) };
    let InstanceId { key, name } = &sender.instance;
    let sql = "UPDATE feed_instances SET next = ?3 WHERE key = ?1 AND instance = ?2";
    db.execute(sql, &values![key, name, next]).await.map(drop)
}

/// Records that a known instance has sent a snapshot. If it is a shard's snapshot, the shard is one of its own.
pub(crate) async fn note_snapshot<D: Database>(
    db: &D,
    instance: &InstanceId,
    shard: Option<ShardKey>,
) -> Result<(), D> {
    let sql = "UPDATE feed_instances SET sent_snapshot = true WHERE key = ?1 AND instance = ?2 AND NOT sent_snapshot";
    db.execute(sql, &values![instance.key, instance.name]).await?;
    note_own(db, instance, shard).await
}

pub(crate) async fn note_own<D: Database>(
    db: &D,
    instance: &InstanceId,
    shards: impl IntoIterator<Item = ShardKey>,
) -> Result<(), D> {
    let shards: Vec<(u32, u32)> = shards.into_iter().map(|shard| (shard.count, shard.id)).collect();
    if shards.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "INSERT INTO feed_own_shards (key, instance, shard_count, shard_id)
        SELECT ?1, ?2, CAST(value ->> 0 AS BIGINT), CAST(value ->> 1 AS BIGINT) FROM {} WHERE true
        ON CONFLICT DO NOTHING",
        D::WORDS.elements.put("?3")
    );
    db.execute(&sql, &values![instance.key, instance.name, json(&shards)]).await.map(drop)
}

pub(crate) async fn own_shards<D: Database>(db: &D, instance: &InstanceId) -> Result<OwnShards, D> {
    let sql = "SELECT shard_count, shard_id FROM feed_own_shards WHERE key = ?1 AND instance = ?2";
    let rows = db.query(sql, &values![instance.key, instance.name]).await?;
    Ok(rows.iter().map(read_shard).collect::<Read<_>>()?)
}

fn read_shard(row: &Row) -> Read<ShardKey> {
    Ok(ShardKey { count: row.get(0)?, id: row.get(1)? })
}

/// The first of the shards that an instance has named and that may hold another one's data: all of them while snapshots of
/// several shard counts are stored, otherwise those that it didn't send.
pub(crate) async fn possibly_lost_shards<D: Database>(db: &D, instance: &InstanceId) -> Result<Vec<ShardKey>, D> {
    let sql = "SELECT own.shard_count, own.shard_id FROM feed_own_shards AS own
        LEFT JOIN feed_shards AS sent ON sent.shard_count = own.shard_count AND sent.shard_id = own.shard_id
        WHERE own.key = ?1 AND own.instance = ?2
            AND (sent.key IS DISTINCT FROM own.key OR sent.instance IS DISTINCT FROM own.instance
                OR (SELECT min(shard_count) < max(shard_count) FROM feed_shards WHERE shard_count > 0))
        ORDER BY own.shard_count, own.shard_id LIMIT ?3";
    let rows = db.query(sql, &values![instance.key, instance.name, LOST_SHARDS]).await?;
    Ok(rows.iter().map(read_shard).collect::<Read<_>>()?)
}

/// Makes an instance count as silent, because it says that it leaves. Its next call would undo this.
pub(crate) async fn note_left<D: Database>(db: &D, instance: &InstanceId, now: Time) -> Result<(), D> {
    let sql = "UPDATE feed_instances SET last_used = ?3 WHERE key = ?1 AND instance = ?2 AND last_used > ?3";
    db.execute(sql, &values![instance.key, instance.name, now.before(health::SILENCE)]).await.map(drop)
}

/// Records when an instance says it started, and returns the start that counts. It is recorded here because the health data
/// drops the instance soon after its last heartbeat, which must not change who owns its shards.
pub(crate) async fn note_started<D: Database>(db: &D, instance: &InstanceId, said: Time, now: Time) -> Result<Time, D> {
    let InstanceId { key, name } = instance;
    let find = "SELECT first_seen, started_at FROM feed_instances WHERE key = ?1 AND instance = ?2";
    let known = if let Some(row) = db.query_first(find, &values![key, name]).await? {
        row
    } else {
        // A concurrent numbered call may record a new instance first. Then the time of that call is read here.
        let sql = "INSERT INTO feed_instances (key, instance, next, first_seen, started_at, last_used, sent_snapshot)
            VALUES (?1, ?2, ?4, ?3, NULL, ?3, false) ON CONFLICT DO NOTHING";
        db.execute(sql, &values![key, name, now, FIRST_EVENT]).await?;
        db.query_one(find, &values![key, name]).await?
    };
    let (first_seen, noted): (Time, Option<Time>) = (known.get(0)?, known.get(1)?);
    let started = counted_start(said, first_seen);
    if noted != Some(started) {
        let sql = "UPDATE feed_instances SET started_at = ?3 WHERE key = ?1 AND instance = ?2";
        db.execute(sql, &values![key, name, started]).await?;
    }
    Ok(started)
}

/// Forgets instances that have not made a numbered call for a long time.
pub(crate) async fn forget<D: Database>(db: &D) -> Result<(), D> {
    let latest: Option<Time> = db.query_one("SELECT max(last_used) FROM feed_instances", &[]).await?.get(0)?;
    let Some(latest) = latest else { return Ok(()) };
    // An instance that only sends heartbeats is still alive.
    let sql = "DELETE FROM feed_instances WHERE last_used < ?1
            AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.key = feed_instances.key AND id = instance)
        RETURNING key, instance";
    let gone = db.query(sql, &values![retention::numberings_unused_since(latest)]).await?;
    for (key, name) in readable!("instance", gone, |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?))) {
        db.execute("DELETE FROM feed_own_shards WHERE key = ?1 AND instance = ?2", &values![key, name]).await?;
    }
    Ok(())
}

pub(crate) async fn states<D: Database>(db: &D) -> Result<Vec<InstanceState>, D> {
    let sql = "SELECT feed_instances.key, instance, next, feed_instances.started_at, reported
        FROM feed_instances LEFT JOIN instances ON instances.key = feed_instances.key AND id = instance
        ORDER BY feed_instances.key, instance";
    Ok(readable!("instance", db.query(sql, &[]).await?, |row| {
        Ok(InstanceState {
            instance: read(row, 0)?,
            next: row.get(2)?,
            started_at: row.get(3)?,
            last_heartbeat: row.get(4)?,
        })
    }))
}

/// Reads an instance from the columns of its key and its name.
pub(crate) fn read(row: &Row, first: usize) -> Read<InstanceId> {
    Ok(InstanceId { key: row.get(first)?, name: row.get(first + 1)? })
}
