//! Snapshots: staged out of sight in short transactions, made the truth by one row.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::feed::{GuildLine, InstanceId, Lines, Scope, ShardKey};
use crate::domain::{Snowflake, Subscription, Time};
use crate::store::{Committed, SnapshotId, Topic};

use super::columns::{integer, json, readable, unsigned};
use super::coverage::Coverage;
use super::guilds::Rows;
use super::writer::Touched;
use super::{accounts, clean_up, guilds, instances, subscriptions};

/// The snapshots that this process is staging. Changed only by the writer, so that cleaning up never meets one half known.
#[derive(Clone, Default)]
pub(super) struct Staging(Arc<Mutex<HashSet<i64>>>);

impl Staging {
    pub(super) fn has(&self, snapshot: i64) -> bool {
        self.0.lock().contains(&snapshot)
    }
}

pub(super) fn begin(
    connection: &Connection,
    staging: &Staging,
    scope: Scope,
    instance: &InstanceId,
    sequence: u64,
    now: Time,
) -> rusqlite::Result<SnapshotId> {
    let id = accounts::next_version(connection)?;
    let shard = match scope {
        Scope::Shard(shard) => Some(shard),
        Scope::Subscriptions => None,
    };
    let sql = "INSERT INTO staged_snapshots (id, shard_count, shard_id, instance, sequence, begun, guilds)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
    connection.prepare_cached(sql)?.execute(params![
        integer(id),
        shard.map(|shard| shard.count),
        shard.map(|shard| shard.id),
        instance.as_str(),
        integer(sequence),
        now
    ])?;
    staging.0.lock().insert(integer(id));
    Ok(SnapshotId(id))
}

/// Stages some lines; `None` if the snapshot is not being staged.
pub(super) fn stage(connection: &Connection, snapshot: SnapshotId, lines: Lines) -> rusqlite::Result<Option<()>> {
    let id = integer(snapshot.0);
    if !connection.prepare_cached("SELECT 1 FROM staged_snapshots WHERE id = ?1")?.exists([id])? {
        return Ok(None);
    }
    match lines {
        Lines::Guilds(lines) => stage_guilds(connection, id, lines)?,
        Lines::Subscriptions(lines) => stage_subscriptions(connection, id, &lines)?,
    }
    Ok(Some(()))
}

/// Of the lines of one guild, the last counts.
fn stage_guilds(connection: &Connection, snapshot: i64, mut lines: Vec<GuildLine>) -> rusqlite::Result<()> {
    // In the order of the table, which is faster; stable, so that the last line of a guild stays the last.
    lines.sort_by_key(|line| match line {
        GuildLine::Guild(guild) => guild.id,
        GuildLine::Unavailable(guild) => *guild,
    });
    let mut rows = Rows::of(connection, snapshot)?;
    let mut keep = connection.prepare_cached("INSERT OR IGNORE INTO staged_kept (snapshot, guild) VALUES (?1, ?2)")?;
    let mut forget = connection.prepare_cached("DELETE FROM staged_kept WHERE snapshot = ?1 AND guild = ?2")?;
    // Mostly there are none, and then no line needs to look.
    let mut any_kept =
        connection.prepare_cached("SELECT 1 FROM staged_kept WHERE snapshot = ?1")?.exists([snapshot])?;
    let mut more = 0;
    for line in lines {
        match line {
            GuildLine::Guild(mut guild) => {
                if any_kept {
                    forget.execute(params![snapshot, guild.id])?;
                }
                if rows.insert(&guild)? {
                    more += 1;
                } else {
                    // It is whole: what it does not say is not there.
                    guild.grants.get_or_insert_default();
                    guild.staff.get_or_insert_default();
                    rows.update(&guild)?;
                }
            }
            GuildLine::Unavailable(guild) => {
                if guilds::delete(connection, snapshot, guild)? > 0 {
                    more -= 1;
                }
                keep.execute(params![snapshot, guild])?;
                any_kept = true;
            }
        }
    }
    let sql = "UPDATE staged_snapshots SET guilds = guilds + ?2 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([snapshot, more]).map(drop)
}

fn stage_subscriptions(connection: &Connection, snapshot: i64, lines: &[Subscription]) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO staged_subscriptions (snapshot, userid, slots, active_until, guilds)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut put = connection.prepare_cached(sql)?;
    lines.iter().try_for_each(|line| {
        put.execute(params![snapshot, line.userid, line.slots, line.active_until, json(&line.guilds)]).map(drop)
    })
}

struct Staged {
    id: i64,
    shard: Option<ShardKey>,
    instance: InstanceId,
    sequence: u64,
    begun: Time,
    guilds: i64,
}

/// Makes a staged snapshot the truth, or drops it; `None` if it is not being staged.
pub(super) fn commit(
    connection: &Connection,
    touched: &mut Touched,
    staging: &Staging,
    snapshot: SnapshotId,
    now: Time,
) -> rusqlite::Result<Option<Committed>> {
    let Some(staged) = take(connection, staging, snapshot)? else { return Ok(None) };
    let (instance, sequence) = (&staged.instance, staged.sequence);
    let next = instances::next(connection, instance)?;
    if next > sequence {
        clean_up::bury(connection, staged.id)?;
        return Ok(Some(Committed::Outdated { next }));
    }
    instances::advance(connection, instance, sequence, staged.begun, now)?;
    if let Some(shard) = staged.shard {
        if !replace_shard(connection, &staged, shard, now)? {
            clean_up::bury(connection, staged.id)?;
            return Ok(Some(Committed::Outranked { next: sequence }));
        }
    } else {
        subscriptions::replace_from(connection, staged.id)?;
        clean_up::bury(connection, staged.id)?;
    }
    // Which answers it changes is a question as large as the snapshot.
    touched.push(Topic::Everything);
    Ok(Some(Committed::Replaced { next: sequence }))
}

/// Takes a snapshot out of staging.
fn take(connection: &Connection, staging: &Staging, snapshot: SnapshotId) -> rusqlite::Result<Option<Staged>> {
    let id = integer(snapshot.0);
    staging.0.lock().remove(&id);
    let sql = "DELETE FROM staged_snapshots WHERE id = ?1
        RETURNING shard_count, shard_id, instance, sequence, begun, guilds";
    let staged = connection.prepare_cached(sql)?.query_row([id], |row| {
        let shard = row.get::<_, Option<u32>>(0)?.zip(row.get::<_, Option<u32>>(1)?);
        Ok(Staged {
            id,
            shard: shard.and_then(|(count, id)| ShardKey::new(count, id)),
            instance: InstanceId::parse(&row.get::<_, String>(2)?).ok_or(rusqlite::Error::InvalidQuery)?,
            sequence: unsigned(row.get(3)?),
            begun: row.get(4)?,
            guilds: row.get(5)?,
        })
    });
    staged.optional()
}

/// Makes the staged guilds those of the shard; `false` if it belongs to an instance that started later.
fn replace_shard(connection: &Connection, staged: &Staged, shard: ShardKey, now: Time) -> rusqlite::Result<bool> {
    let coverage = Coverage::load(connection)?;
    let overlapping = coverage.overlapping(connection, shard)?;
    for cover in &overlapping {
        if instances::is_outranked(connection, &staged.instance, cover)? {
            return Ok(false);
        }
    }
    let kept = keep_unavailable(connection, &coverage, staged.id)?;
    let committed = accounts::next_version(connection)?;
    let sql = "INSERT OR REPLACE INTO feed_shards
        (shard_count, shard_id, snapshot, committed, instance, snapshot_at, guilds)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.prepare_cached(sql)?.execute(params![
        shard.count,
        shard.id,
        staged.id,
        integer(committed),
        staged.instance.as_str(),
        now,
        staged.guilds + kept
    ])?;
    for cover in &overlapping {
        if cover.shard_count == shard.count {
            clean_up::bury(connection, cover.snapshot)?;
        } else if cover.is_superseded(connection, shard.count)? {
            let sql = "DELETE FROM feed_shards WHERE shard_count = ?1 AND shard_id = ?2";
            connection.prepare_cached(sql)?.execute([cover.shard_count, cover.shard_id])?;
            clean_up::bury(connection, cover.snapshot)?;
        } else {
            clean_up::thin_out(connection, cover.snapshot)?;
        }
    }
    let uncovered = "SELECT 1 FROM feed_shards WHERE shard_count = 0 AND guilds > 0";
    if connection.prepare_cached(uncovered)?.exists([])? {
        clean_up::thin_out(connection, 0)?;
    }
    Ok(true)
}

/// Takes the guilds that are unavailable over as they are stored at this moment, and says how many there were. They move:
/// where they were, nobody will look for them any more.
fn keep_unavailable(connection: &Connection, coverage: &Coverage, snapshot: i64) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("DELETE FROM staged_kept WHERE snapshot = ?1 RETURNING guild")?;
    let guilds: Vec<Snowflake> = readable("guild", statement.query_map([snapshot], |row| row.get(0))?)?;
    let mut kept = 0;
    for guild in guilds {
        let cover = coverage.of(connection, guild)?;
        if guilds::relocate(connection, cover.snapshot, snapshot, guild)? {
            cover.count(connection, -1)?;
            kept += 1;
        }
    }
    Ok(kept)
}

pub(super) fn abandon(connection: &Connection, staging: &Staging, snapshot: SnapshotId) -> rusqlite::Result<()> {
    match take(connection, staging, snapshot)? {
        Some(staged) => clean_up::bury(connection, staged.id),
        None => Ok(()),
    }
}
