//! The bot's health. The domain merges reports; this writes down what came out different.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use crate::domain::health::{Instance, Shard};
use crate::domain::{Health, Heartbeat, Time};
use crate::store::Topic;

use super::columns::{integer, readable, unsigned};
use super::instances as numbering;
use super::writer::Touched;

pub(super) fn load(connection: &Connection) -> rusqlite::Result<Health> {
    Ok(Health { instances: instances(connection)?, shards: shards(connection)? })
}

fn instances(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Instance>> {
    let sql = "SELECT id, started_at, memory, reported, shard_count FROM instances";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let instance = Instance {
            started_at: row.get(1)?,
            memory: unsigned(row.get(2)?),
            reported: row.get(3)?,
            shard_count: row.get(4)?,
        };
        Ok((row.get(0)?, instance))
    })?;
    Ok(readable("instance", rows)?.into_iter().collect())
}

fn shards(connection: &Connection) -> rusqlite::Result<BTreeMap<u32, Shard>> {
    let sql = "SELECT id, instance, started_at, reported, sent, acknowledged, latency FROM shards";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let shard = Shard {
            instance: row.get(1)?,
            started_at: row.get(2)?,
            reported: row.get(3)?,
            sent: row.get(4)?,
            acknowledged: row.get(5)?,
            latency: row.get(6)?,
        };
        Ok((row.get(0)?, shard))
    })?;
    Ok(readable("shard", rows)?.into_iter().collect())
}

pub(super) fn beat(connection: &Connection, touched: &mut Touched, beat: Heartbeat, now: Time) -> rusqlite::Result<()> {
    let before = load(connection)?;
    numbering::note_started(connection, &beat.instance, beat.started_at)?;
    let mut after = before.clone();
    after.merge(beat, now);
    write_instances(connection, &before.instances, &after.instances)?;
    write_shards(connection, &before.shards, &after.shards)?;
    touched.push(Topic::Health);
    Ok(())
}

fn write_instances(
    connection: &Connection,
    before: &BTreeMap<String, Instance>,
    after: &BTreeMap<String, Instance>,
) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached("DELETE FROM instances WHERE id = ?1")?;
    for id in before.keys().filter(|id| !after.contains_key(*id)) {
        delete.execute([id])?;
    }
    let sql = "INSERT OR REPLACE INTO instances (id, started_at, memory, reported, shard_count)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut put = connection.prepare_cached(sql)?;
    for (id, instance) in after.iter().filter(|(id, instance)| before.get(*id) != Some(*instance)) {
        let Instance { started_at, memory, reported, shard_count } = instance;
        put.execute(params![id, started_at, integer(*memory), reported, shard_count])?;
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
    let sql = "INSERT OR REPLACE INTO shards (id, instance, started_at, reported, sent, acknowledged, latency)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut put = connection.prepare_cached(sql)?;
    for (id, shard) in after.iter().filter(|(id, shard)| before.get(*id) != Some(*shard)) {
        let Shard { instance, started_at, reported, sent, acknowledged, latency } = shard;
        put.execute(params![id, instance, started_at, reported, sent, acknowledged, latency])?;
    }
    Ok(())
}
