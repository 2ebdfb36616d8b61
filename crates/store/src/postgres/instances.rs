//! The bot's processes: their numbering, when they were seen, and the shards they own.

use deadpool_postgres::{GenericClient, Transaction};
use domain::feed::{
    FIRST_EVENT, InstanceId, InstanceState, LOST_SHARDS, Life, OwnShards, SenderState, ShardKey, counted_start,
};
use domain::{Time, health, retention};
use tokio_postgres::Row;

use super::columns::{Column as _, ReadColumn as _, Whole, integer, readable, unsigned};
use super::errors::Sql;
use crate::sql::keys;

/// Reads the columns of `feed_instances` and `reported`, from this index on; `None` if there is no row.
pub(super) fn life(row: &Row, first: usize) -> Sql<Option<Life>> {
    let (Some(first_seen), Some(last_call)) = (row.column(first)?, row.column(first + 2)?) else { return Ok(None) };
    let (reported_start, last_heartbeat) = (row.column(first + 1)?, row.column(first + 3)?);
    Ok(Some(Life { first_seen, reported_start, last_call, last_heartbeat }))
}

/// Records a numbered call from an instance, and returns what is known about it; `None` if its key is invalid.
pub(super) async fn admit(db: &Transaction<'_>, instance: &InstanceId, now: Time) -> Sql<Option<SenderState>> {
    if !keys::is_good(db, &instance.key).await? {
        return Ok(None);
    }
    note_call(db, instance, now).await.map(Some)
}

/// Records a numbered call from an instance, possibly its first, and returns what is known about it.
pub(super) async fn note_call(db: &Transaction<'_>, instance: &InstanceId, now: Time) -> Sql<SenderState> {
    let sql = "INSERT INTO feed_instances (key, instance, next, first_seen, started_at, last_used, sent_snapshot)
        VALUES ($1, $2, $4, $3, NULL, $3, false)
        ON CONFLICT (key, instance) DO UPDATE SET last_used = greatest(feed_instances.last_used, $3)
        RETURNING next, sent_snapshot, first_seen, started_at, last_used,
            (SELECT reported FROM instances WHERE instances.key = $1 AND id = $2)";
    let statement = db.prepare_cached(sql).await?;
    let (key, name) = (&instance.key, instance.name.as_str());
    let row = db.query_one(&statement, &[key, &name, &now.stored(), &integer(FIRST_EVENT)]).await?;
    Ok(SenderState {
        instance: instance.clone(),
        next: unsigned(row.try_get(0)?),
        has_sent_snapshot: row.try_get(1)?,
        life: Life {
            first_seen: row.column(2)?,
            reported_start: row.column(3)?,
            last_call: row.column(4)?,
            last_heartbeat: row.column(5)?,
        },
    })
}

/// Sets the number of a sender's next event, if there is one and it has changed.
pub(super) async fn advance(db: &Transaction<'_>, sender: &SenderState, next: Option<u64>) -> Sql<()> {
    let Some(next) = next.filter(|next| *next != sender.next) else { return Ok(()) };
    let InstanceId { key, name } = &sender.instance;
    let statement = db.prepare_cached("UPDATE feed_instances SET next = $3 WHERE key = $1 AND instance = $2").await?;
    db.execute(&statement, &[key, &name.stored(), &integer(next)]).await?;
    Ok(())
}

/// Records that a known instance has sent a snapshot. If it is a shard's snapshot, the shard is one of its own.
pub(super) async fn note_snapshot(db: &Transaction<'_>, instance: &InstanceId, shard: Option<ShardKey>) -> Sql<()> {
    let sql = "UPDATE feed_instances SET sent_snapshot = true WHERE key = $1 AND instance = $2 AND NOT sent_snapshot";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&instance.key, &instance.name.as_str()]).await?;
    note_own(db, instance, shard).await
}

pub(super) async fn note_own(
    db: &Transaction<'_>,
    instance: &InstanceId,
    shards: impl IntoIterator<Item = ShardKey>,
) -> Sql<()> {
    let (counts, ids): (Vec<i64>, Vec<i64>) =
        shards.into_iter().map(|shard| (i64::from(shard.count), i64::from(shard.id))).unzip();
    if counts.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO feed_own_shards (key, instance, shard_count, shard_id)
        SELECT $1, $2, own.* FROM unnest($3::bigint[], $4::bigint[]) AS own ON CONFLICT DO NOTHING";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&instance.key, &instance.name.as_str(), &counts, &ids]).await?;
    Ok(())
}

pub(super) async fn own_shards(db: &Transaction<'_>, instance: &InstanceId) -> Sql<OwnShards> {
    let sql = "SELECT shard_count, shard_id FROM feed_own_shards WHERE key = $1 AND instance = $2";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&instance.key, &instance.name.as_str()]).await?;
    rows.iter().map(read_shard).collect()
}

fn read_shard(row: &Row) -> Sql<ShardKey> {
    let (Whole(count), Whole(id)) = (row.try_get(0)?, row.try_get(1)?);
    Ok(ShardKey { count, id })
}

/// The first of the shards that an instance has named and that may hold another one's data: all of them while snapshots of
/// several shard counts are stored, otherwise those that it didn't send.
pub(super) async fn possibly_lost_shards(db: &Transaction<'_>, instance: &InstanceId) -> Sql<Vec<ShardKey>> {
    let sql = "SELECT own.shard_count, own.shard_id FROM feed_own_shards AS own
        LEFT JOIN feed_shards AS sent ON sent.shard_count = own.shard_count AND sent.shard_id = own.shard_id
        WHERE own.key = $1 AND own.instance = $2
            AND (sent.key IS DISTINCT FROM own.key OR sent.instance IS DISTINCT FROM own.instance
                OR (SELECT min(shard_count) < max(shard_count) FROM feed_shards WHERE shard_count > 0))
        ORDER BY own.shard_count, own.shard_id LIMIT $3";
    let statement = db.prepare_cached(sql).await?;
    let (key, name) = (&instance.key, instance.name.as_str());
    let rows = db.query(&statement, &[key, &name, &i64::from(LOST_SHARDS)]).await?;
    rows.iter().map(read_shard).collect()
}

/// Makes an instance count as silent, because it says that it leaves. Its next call would undo this.
pub(super) async fn note_left(db: &Transaction<'_>, instance: &InstanceId, now: Time) -> Sql<()> {
    let sql = "UPDATE feed_instances SET last_used = least(last_used, $3) WHERE key = $1 AND instance = $2";
    let statement = db.prepare_cached(sql).await?;
    let silent = now.before(health::SILENCE).stored();
    db.execute(&statement, &[&instance.key, &instance.name.as_str(), &silent]).await?;
    Ok(())
}

/// Records when an instance says it started, and returns the start that counts. It is recorded here because the health data
/// drops the instance soon after its last heartbeat, which must not change who owns its shards.
pub(super) async fn note_started(db: &Transaction<'_>, instance: &InstanceId, said: Time, now: Time) -> Sql<Time> {
    // A concurrent numbered call may record a new instance first. Then the time of that call is read here.
    let sql = "INSERT INTO feed_instances (key, instance, next, first_seen, started_at, last_used, sent_snapshot)
        VALUES ($1, $2, $4, $3, NULL, $3, false) ON CONFLICT DO NOTHING";
    let (key, name) = (&instance.key, instance.name.as_str());
    let find = "SELECT first_seen, started_at FROM feed_instances WHERE key = $1 AND instance = $2";
    let find = db.prepare_cached(find).await?;
    let known = if let Some(row) = db.query_opt(&find, &[key, &name]).await? {
        row
    } else {
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[key, &name, &now.stored(), &integer(FIRST_EVENT)]).await?;
        db.query_one(&find, &[key, &name]).await?
    };
    let (first_seen, noted): (Time, Option<Time>) = (known.column(0)?, known.column(1)?);
    let started = counted_start(said, first_seen);
    if noted != Some(started) {
        let sql = "UPDATE feed_instances SET started_at = $3 WHERE key = $1 AND instance = $2";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[key, &name, &started.stored()]).await?;
    }
    Ok(started)
}

/// Forgets instances that have not made a numbered call for a long time.
pub(super) async fn forget(db: &Transaction<'_>) -> Sql<()> {
    let statement = db.prepare_cached("SELECT max(last_used) FROM feed_instances").await?;
    let latest: Option<Time> = db.query_one(&statement, &[]).await?.column(0)?;
    let Some(latest) = latest else { return Ok(()) };
    // An instance that only sends heartbeats is still alive.
    let sql = "WITH gone AS (DELETE FROM feed_instances WHERE last_used < $1
                AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.key = feed_instances.key AND id = instance)
            RETURNING key, instance)
        DELETE FROM feed_own_shards AS own USING gone WHERE own.key = gone.key AND own.instance = gone.instance";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&retention::numberings_unused_since(latest).stored()]).await?;
    Ok(())
}

pub(super) async fn states(db: &impl GenericClient) -> Sql<Vec<InstanceState>> {
    let sql = "SELECT feed_instances.key, instance, next, feed_instances.started_at, reported
        FROM feed_instances LEFT JOIN instances ON instances.key = feed_instances.key AND id = instance
        ORDER BY feed_instances.key, instance";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("instance", &db.query(&statement, &[]).await?, |row| {
        Ok(InstanceState {
            instance: read(row, 0)?,
            next: unsigned(row.try_get(2)?),
            started_at: row.column(3)?,
            last_heartbeat: row.column(4)?,
        })
    }))
}

/// Reads an instance from the columns of its key and its name.
pub(super) fn read(row: &Row, first: usize) -> Sql<InstanceId> {
    Ok(InstanceId { key: row.try_get(first)?, name: row.column(first + 1)? })
}
