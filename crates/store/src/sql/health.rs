//! The bot's health. The domain merges heartbeats; rows that differ afterwards are written.

use std::collections::BTreeMap;

use domain::feed::InstanceId;
use domain::health::{Instance, Shard};
use domain::{Health, Heartbeat, Time};

use super::instances as numbering;
use super::{ChangedTopics, Database, Lock, Result, readable, values};
use crate::Topic;
use crate::columns::{Column as _, json};

pub(crate) async fn load<D: Database>(db: &D) -> Result<Health, D> {
    let (instances, shards) = futures_util::try_join!(instances(db), shards(db))?;
    Ok(Health { instances, shards })
}

async fn instances<D: Database>(db: &D) -> Result<BTreeMap<InstanceId, Instance>, D> {
    let rows = db.query("SELECT key, id, started_at, memory, reported, shard_count FROM instances", &[]).await?;
    let instances = readable!("instance", rows, |row| {
        let instance =
            Instance { started_at: row.get(2)?, memory: row.get(3)?, reported: row.get(4)?, shard_count: row.get(5)? };
        Ok((numbering::read(row, 0)?, instance))
    });
    Ok(instances.into_iter().collect())
}

async fn shards<D: Database>(db: &D) -> Result<BTreeMap<u32, Shard>, D> {
    let sql = "SELECT id, key, instance, started_at, reported, sent, acknowledged, latency FROM shards";
    let shards = readable!("shard", db.query(sql, &[]).await?, |row| {
        let shard = Shard {
            instance: numbering::read(row, 1)?,
            started_at: row.get(3)?,
            reported: row.get(4)?,
            sent: row.get(5)?,
            acknowledged: row.get(6)?,
            latency: row.get(7)?,
        };
        Ok((row.get(0)?, shard))
    });
    Ok(shards.into_iter().collect())
}

pub(crate) async fn record_heartbeat<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    heartbeat: &Heartbeat,
    now: Time,
) -> Result<(), D> {
    db.lock(Lock::Health).await?;
    let before = load(db).await?;
    let started_at = numbering::note_started(db, &heartbeat.instance, heartbeat.started_at, now).await?;
    numbering::note_own(db, &heartbeat.instance, heartbeat.own_shards()).await?;
    if heartbeat.leaving {
        numbering::note_left(db, &heartbeat.instance, now).await?;
    }
    let mut after = before.clone();
    after.merge(Heartbeat { started_at, ..heartbeat.clone() }, now);
    write_instances(db, &before.instances, &after.instances).await?;
    write_shards(db, &before.shards, &after.shards).await?;
    topics.push(Topic::Health);
    if before.shards.len() != after.shards.len() {
        topics.push(Topic::Stats);
    }
    Ok(())
}

async fn write_instances<D: Database>(
    db: &D,
    before: &BTreeMap<InstanceId, Instance>,
    after: &BTreeMap<InstanceId, Instance>,
) -> Result<(), D> {
    for id in before.keys().filter(|id| !after.contains_key(*id)) {
        db.execute("DELETE FROM instances WHERE key = ?1 AND id = ?2", &values![id.key, id.name]).await?;
    }
    let sql =
        "INSERT INTO instances (key, id, started_at, memory, reported, shard_count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (key, id) DO UPDATE SET started_at = ?3, memory = ?4, reported = ?5, shard_count = ?6";
    for (id, instance) in after.iter().filter(|(id, instance)| before.get(*id) != Some(*instance)) {
        let Instance { started_at, memory, reported, shard_count } = instance;
        db.execute(sql, &values![id.key, id.name, started_at, memory, reported, shard_count]).await?;
    }
    Ok(())
}

async fn write_shards<D: Database>(
    db: &D,
    before: &BTreeMap<u32, Shard>,
    after: &BTreeMap<u32, Shard>,
) -> Result<(), D> {
    let gone: Vec<u32> = before.keys().filter(|id| !after.contains_key(*id)).copied().collect();
    if !gone.is_empty() {
        let gone_ids = D::WORDS.elements.put("?1");
        // In both databases, the text of a JSON number is the number's.
        let sql =
            format!("DELETE FROM shards WHERE id IN (SELECT CAST(CAST(value AS TEXT) AS BIGINT) FROM {gone_ids})");
        db.execute(&sql, &values![json(&gone)]).await?;
    }
    let changed = after.iter().filter(|(id, shard)| before.get(*id) != Some(*shard)).map(|(id, shard)| {
        let Shard { instance, started_at, reported, sent, acknowledged, latency } = shard;
        let times = (started_at.stored(), reported.stored(), sent.stored(), acknowledged.stored());
        (id, &instance.key, instance.name.as_str(), times.0, times.1, times.2, times.3, latency)
    });
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() {
        return Ok(());
    }
    // One statement for possibly hundreds of shards.
    let sql = format!(
        "INSERT INTO shards (id, key, instance, started_at, reported, sent, acknowledged, latency)
        SELECT CAST(value ->> 0 AS BIGINT), value ->> 1, value ->> 2, CAST(value ->> 3 AS BIGINT),
            CAST(value ->> 4 AS BIGINT), CAST(value ->> 5 AS BIGINT), CAST(value ->> 6 AS BIGINT),
            CAST(value ->> 7 AS DOUBLE PRECISION)
        FROM {} WHERE true
        ON CONFLICT (id) DO UPDATE SET key = excluded.key, instance = excluded.instance, started_at = excluded.started_at,
            reported = excluded.reported, sent = excluded.sent, acknowledged = excluded.acknowledged,
            latency = excluded.latency",
        D::WORDS.elements.put("?1")
    );
    db.execute(&sql, &values![json(&changed)]).await.map(drop)
}
