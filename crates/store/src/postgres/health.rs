//! The bot's health. The domain merges heartbeats; rows that differ afterwards are written.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use domain::feed::InstanceId;
use domain::health::{Instance, Shard};
use domain::{Health, Heartbeat, Time};

use super::columns::{Column as _, ReadColumn as _, Whole, integer, readable, unsigned};
use super::errors::Sql;
use super::instances as numbering;
use super::locks::{Lock, lock};
use super::work::ChangedTopics;
use crate::Topic;

pub(super) async fn load(db: &impl GenericClient) -> Sql<Health> {
    let (instances, shards) = futures_util::try_join!(instances(db), shards(db))?;
    Ok(Health { instances, shards })
}

async fn instances(db: &impl GenericClient) -> Sql<BTreeMap<InstanceId, Instance>> {
    let sql = "SELECT key, id, started_at, memory, reported, shard_count FROM instances";
    let statement = db.prepare_cached(sql).await?;
    let instances = readable("instance", &db.query(&statement, &[]).await?, |row| {
        let Whole(shard_count) = row.try_get(5)?;
        let instance = Instance {
            started_at: row.column(2)?,
            memory: unsigned(row.try_get(3)?),
            reported: row.column(4)?,
            shard_count,
        };
        Ok((numbering::read(row, 0)?, instance))
    });
    Ok(instances.into_iter().collect())
}

async fn shards(db: &impl GenericClient) -> Sql<BTreeMap<u32, Shard>> {
    let sql = "SELECT id, key, instance, started_at, reported, sent, acknowledged, latency FROM shards";
    let statement = db.prepare_cached(sql).await?;
    let shards = readable("shard", &db.query(&statement, &[]).await?, |row| {
        let Whole(id) = row.try_get(0)?;
        let shard = Shard {
            instance: numbering::read(row, 1)?,
            started_at: row.column(3)?,
            reported: row.column(4)?,
            sent: row.column(5)?,
            acknowledged: row.column(6)?,
            latency: row.try_get(7)?,
        };
        Ok((id, shard))
    });
    Ok(shards.into_iter().collect())
}

pub(super) async fn record_heartbeat(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    heartbeat: &Heartbeat,
    now: Time,
) -> Sql<()> {
    lock(db, Lock::Health).await?;
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

async fn write_instances(
    db: &Transaction<'_>,
    before: &BTreeMap<InstanceId, Instance>,
    after: &BTreeMap<InstanceId, Instance>,
) -> Sql<()> {
    let gone = before.keys().filter(|id| !after.contains_key(*id)).map(|id| (id.key.as_str(), id.name.as_str()));
    let (keys, names): (Vec<&str>, Vec<&str>) = gone.unzip();
    if !keys.is_empty() {
        let sql = "DELETE FROM instances USING unnest($1::text[], $2::text[]) AS gone (key, name)
            WHERE instances.key = gone.key AND instances.id = gone.name";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&keys, &names]).await?;
    }
    let sql =
        "INSERT INTO instances (key, id, started_at, memory, reported, shard_count) VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (key, id) DO UPDATE SET started_at = $3, memory = $4, reported = $5, shard_count = $6";
    let statement = db.prepare_cached(sql).await?;
    for (id, instance) in after.iter().filter(|(id, instance)| before.get(*id) != Some(*instance)) {
        let Instance { started_at, memory, reported, shard_count } = instance;
        let (memory, shard_count) = (integer(*memory), i64::from(*shard_count));
        db.execute(
            &statement,
            &[&id.key, &id.name.stored(), &started_at.stored(), &memory, &reported.stored(), &shard_count],
        )
        .await?;
    }
    Ok(())
}

async fn write_shards(db: &Transaction<'_>, before: &BTreeMap<u32, Shard>, after: &BTreeMap<u32, Shard>) -> Sql<()> {
    let gone: Vec<_> = before.keys().filter(|id| !after.contains_key(*id)).copied().map(i64::from).collect();
    if !gone.is_empty() {
        let statement = db.prepare_cached("DELETE FROM shards WHERE id = ANY ($1)").await?;
        db.execute(&statement, &[&gone]).await?;
    }
    let changed: Vec<_> = after.iter().filter(|(id, shard)| before.get(*id) != Some(*shard)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    // One statement for possibly hundreds of shards.
    let sql = "INSERT INTO shards (id, key, instance, started_at, reported, sent, acknowledged, latency)
        SELECT * FROM unnest($1::bigint[], $8::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::float8[])
        ON CONFLICT (id) DO UPDATE SET key = excluded.key, instance = excluded.instance, started_at = excluded.started_at,
            reported = excluded.reported, sent = excluded.sent, acknowledged = excluded.acknowledged,
            latency = excluded.latency";
    let statement = db.prepare_cached(sql).await?;
    let ids: Vec<i64> = changed.iter().map(|(id, _)| i64::from(**id)).collect();
    let keys: Vec<&str> = changed.iter().map(|(_, shard)| shard.instance.key.as_str()).collect();
    let instances: Vec<&str> = changed.iter().map(|(_, shard)| shard.instance.name.as_str()).collect();
    let times = |of: fn(&Shard) -> Time| changed.iter().map(|(_, shard)| of(shard)).collect::<Vec<Time>>();
    let (started, reported) = (times(|shard| shard.started_at), times(|shard| shard.reported));
    let (sent, acknowledged) = (times(|shard| shard.sent), times(|shard| shard.acknowledged));
    let latencies: Vec<f64> = changed.iter().map(|(_, shard)| shard.latency).collect();
    db.execute(
        &statement,
        &[
            &ids,
            &instances,
            &started.stored(),
            &reported.stored(),
            &sent.stored(),
            &acknowledged.stored(),
            &latencies,
            &keys,
        ],
    )
    .await?;
    Ok(())
}
