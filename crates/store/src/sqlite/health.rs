//! The bot's health. The domain merges heartbeats; rows that differ afterwards are written.

use std::collections::BTreeMap;

use domain::feed::InstanceId;
use domain::health::{Instance, Shard};
use domain::{Health, Heartbeat, Time};
use rusqlite::{Connection, params};

use super::columns::{Column as _, ReadColumn as _, integer, readable, unsigned};
use super::instances as numbering;
use super::writer::ChangedTopics;
use crate::Topic;

pub(super) fn load(connection: &Connection) -> rusqlite::Result<Health> {
    Ok(Health { instances: instances(connection)?, shards: shards(connection)? })
}

fn instances(connection: &Connection) -> rusqlite::Result<BTreeMap<InstanceId, Instance>> {
    let sql = "SELECT key, id, started_at, memory, reported, shard_count FROM instances";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let instance = Instance {
            started_at: row.column(2)?,
            memory: unsigned(row.get(3)?),
            reported: row.column(4)?,
            shard_count: row.get(5)?,
        };
        Ok((numbering::read(row, 0)?, instance))
    })?;
    Ok(readable("instance", rows)?.into_iter().collect())
}

fn shards(connection: &Connection) -> rusqlite::Result<BTreeMap<u32, Shard>> {
    let sql = "SELECT id, key, instance, started_at, reported, sent, acknowledged, latency FROM shards";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let shard = Shard {
            instance: numbering::read(row, 1)?,
            started_at: row.column(3)?,
            reported: row.column(4)?,
            sent: row.column(5)?,
            acknowledged: row.column(6)?,
            latency: row.get(7)?,
        };
        Ok((row.get(0)?, shard))
    })?;
    Ok(readable("shard", rows)?.into_iter().collect())
}

pub(super) fn record_heartbeat(
    connection: &Connection,
    topics: &mut ChangedTopics,
    mut heartbeat: Heartbeat,
    now: Time,
) -> rusqlite::Result<()> {
    let before = load(connection)?;
    heartbeat.started_at = numbering::note_started(connection, &heartbeat.instance, heartbeat.started_at, now)?;
    numbering::note_own(connection, &heartbeat.instance, heartbeat.own_shards())?;
    if heartbeat.leaving {
        numbering::note_left(connection, &heartbeat.instance, now)?;
    }
    let mut after = before.clone();
    after.merge(heartbeat, now);
    write_instances(connection, &before.instances, &after.instances)?;
    write_shards(connection, &before.shards, &after.shards)?;
    topics.push(Topic::Health);
    if before.shards.len() != after.shards.len() {
        topics.push(Topic::Stats);
    }
    Ok(())
}

fn write_instances(
    connection: &Connection,
    before: &BTreeMap<InstanceId, Instance>,
    after: &BTreeMap<InstanceId, Instance>,
) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached("DELETE FROM instances WHERE key = ?1 AND id = ?2")?;
    for id in before.keys().filter(|id| !after.contains_key(*id)) {
        delete.execute([id.key.as_str(), id.name.as_str()])?;
    }
    let sql = "INSERT OR REPLACE INTO instances (key, id, started_at, memory, reported, shard_count)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut put = connection.prepare_cached(sql)?;
    for (id, instance) in after.iter().filter(|(id, instance)| before.get(*id) != Some(*instance)) {
        let Instance { started_at, memory, reported, shard_count } = instance;
        put.execute(params![
            id.key,
            id.name.as_str(),
            started_at.stored(),
            integer(*memory),
            reported.stored(),
            shard_count
        ])?;
    }
    Ok(())
}

fn write_shards(
    connection: &Connection,
    before: &BTreeMap<u32, Shard>,
    after: &BTreeMap<u32, Shard>,
) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached("DELETE FROM shards WHERE id = ?1")?;
    for id in before.keys().filter(|id| !after.contains_key(*id)) {
        delete.execute([id])?;
    }
    let sql = "INSERT OR REPLACE INTO shards (id, key, instance, started_at, reported, sent, acknowledged, latency)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut put = connection.prepare_cached(sql)?;
    for (id, shard) in after.iter().filter(|(id, shard)| before.get(*id) != Some(*shard)) {
        let Shard { instance, started_at, reported, sent, acknowledged, latency } = shard;
        let (key, name) = (&instance.key, instance.name.as_str());
        put.execute(params![
            id,
            key,
            name,
            started_at.stored(),
            reported.stored(),
            sent.stored(),
            acknowledged.stored(),
            latency
        ])?;
    }
    Ok(())
}
