//! Snapshots: staged out of sight in short transactions, made the truth by one row.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::feed::{GuildLine, InstanceId, Life, Lines, Scope, ShardKey, merged_basis, still_counting};
use crate::domain::{Snowflake, Subscription, Time};
use crate::store::{Committed, SnapshotId, Topic};

use super::columns::{integer, json, readable, unsigned};
use super::coverage::{Cover, Coverage};
use super::guilds::Rows;
use super::writer::Touched;
use super::{accounts, clean_up, guilds, instances, keys, subscriptions};

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
    instances::touch(connection, instance, now)?;
    let id = accounts::next_version(connection)?;
    let shard = match scope {
        Scope::Shard(shard) => Some(shard),
        Scope::Subscriptions => None,
    };
    let sql = "INSERT INTO staged_snapshots (id, shard_count, shard_id, key, instance, sequence, begun, guilds)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)";
    connection.prepare_cached(sql)?.execute(params![
        integer(id),
        shard.map(|shard| shard.count),
        shard.map(|shard| shard.id),
        instance.key,
        instance.name.as_str(),
        integer(sequence),
        now
    ])?;
    staging.0.lock().insert(integer(id));
    Ok(SnapshotId(id))
}

/// Stages some lines; `None` if the snapshot is not being staged.
pub(super) fn stage(connection: &Connection, snapshot: SnapshotId, lines: Lines) -> rusqlite::Result<Option<()>> {
    let id = integer(snapshot.0);
    let sql = "SELECT shard_count, shard_id, basis FROM staged_snapshots WHERE id = ?1";
    let target = connection
        .prepare_cached(sql)?
        .query_row([id], |row| {
            let shard = row.get::<_, Option<u32>>(0)?.zip(row.get::<_, Option<u32>>(1)?);
            let shard = shard.and_then(|(count, id)| ShardKey::new(count, id));
            Ok(Target { snapshot: id, shard, basis: row.get(2)? })
        })
        .optional()?;
    let Some(target) = target else { return Ok(None) };
    match lines {
        Lines::Guilds(lines) => stage_guilds(connection, &target, lines)?,
        Lines::Subscriptions(lines) => stage_subscriptions(connection, id, &lines)?,
    }
    Ok(Some(()))
}

/// The snapshot that lines are staged for.
struct Target {
    snapshot: i64,
    shard: Option<ShardKey>,
    basis: Option<i64>,
}

impl Target {
    /// Notes from which commits lines are carried over. If they changed on the way, no later commit is the right one.
    fn note_basis(&self, connection: &Connection, coverage: &Coverage) -> rusqlite::Result<()> {
        let Some(shard) = self.shard else { return Ok(()) };
        let latest = latest_commit(&coverage.overlapping(connection, shard)?);
        let basis = merged_basis(self.basis, latest);
        if self.basis != Some(basis) {
            let sql = "UPDATE staged_snapshots SET basis = ?2 WHERE id = ?1";
            connection.prepare_cached(sql)?.execute([self.snapshot, basis])?;
        }
        Ok(())
    }
}

/// The latest commit among these.
fn latest_commit(covers: &[Cover]) -> i64 {
    covers.iter().map(|cover| cover.committed).max().unwrap_or(0)
}

/// Of the lines of one guild, the last counts.
fn stage_guilds(connection: &Connection, target: &Target, mut lines: Vec<GuildLine>) -> rusqlite::Result<()> {
    // In the order of the table, which is faster; stable, so that the last line of a guild stays the last.
    lines.sort_by_key(GuildLine::id);
    let snapshot = target.snapshot;
    let mut rows = Rows::of(connection, snapshot)?;
    let mut keep = connection.prepare_cached("INSERT OR IGNORE INTO staged_kept (snapshot, guild) VALUES (?1, ?2)")?;
    let mut forget = connection.prepare_cached("DELETE FROM staged_kept WHERE snapshot = ?1 AND guild = ?2")?;
    // Mostly there are none, and then no line needs to look.
    let mut any_kept =
        connection.prepare_cached("SELECT 1 FROM staged_kept WHERE snapshot = ?1")?.exists([snapshot])?;
    let coverage = Coverage::load(connection)?;
    if lines.iter().any(|line| line.carried().any()) {
        target.note_basis(connection, &coverage)?;
    }
    let mut more = 0;
    for line in lines {
        let carried = line.carried();
        match line {
            GuildLine::Guild(guild) => {
                if any_kept {
                    forget.execute(params![snapshot, guild.id])?;
                }
                if rows.insert(&guild, carried)? {
                    more += 1;
                } else {
                    // What an earlier line of it said does not count.
                    guilds::delete(connection, snapshot, guild.id)?;
                    rows.insert(&guild, carried)?;
                }
                if carried.any() {
                    let from = coverage.of(connection, guild.id)?.snapshot;
                    guilds::carry(connection, from, snapshot, guild.id, carried, None)?;
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
    guilds: i64,
    basis: Option<i64>,
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
    let committed = decide(connection, &staged, now)?;
    if matches!(committed, Committed::Replaced { .. }) {
        // Which answers it changes is a question as large as the snapshot.
        touched.push(Topic::Everything);
    } else {
        clean_up::bury(connection, staged.id)?;
    }
    Ok(Some(committed))
}

fn decide(connection: &Connection, staged: &Staged, now: Time) -> rusqlite::Result<Committed> {
    let (instance, sequence) = (&staged.instance, staged.sequence);
    if !keys::is_good(connection, &instance.key)? {
        return Ok(Committed::KeyRefused);
    }
    let sender = instances::touch(connection, instance, now)?;
    instances::note_snapshot(connection, instance, staged.shard)?;
    if sender.next > sequence {
        return Ok(Committed::Outdated { next: sender.next });
    }
    let Some(shard) = staged.shard else {
        instances::advance(connection, instance, sequence)?;
        subscriptions::replace_from(connection, staged.id)?;
        clean_up::bury(connection, staged.id)?;
        return Ok(Committed::Replaced { next: sequence });
    };
    let coverage = Coverage::load(connection)?;
    let overlapping = coverage.overlapping(connection, shard)?;
    if let Some(owner) = later_owner(connection, shard, &overlapping, instance, &sender.life, now)? {
        instances::advance(connection, instance, sequence)?;
        return Ok(Committed::Outranked { next: sequence, owner });
    }
    if staged.basis.is_some_and(|basis| basis != latest_commit(&overlapping)) {
        return Ok(Committed::Outdated { next: sender.next });
    }
    instances::advance(connection, instance, sequence)?;
    replace_shard(connection, staged, shard, &coverage, &overlapping, now)?;
    Ok(Committed::Replaced { next: sequence })
}

/// The instance to which a shard, or a part of it, belongs so that this sender's snapshot is ignored, if there is one.
pub(super) fn later_owner(
    connection: &Connection,
    shard: ShardKey,
    overlapping: &[Cover],
    sender: &InstanceId,
    life: &Life,
    now: Time,
) -> rusqlite::Result<Option<InstanceId>> {
    let mut later = None;
    for cover in still_counting(shard, overlapping, |cover| (cover.shard(), cover.committed)) {
        if let (holder, Some(owner)) = cover.holder(connection, sender, life, now)?
            && !holder.yields()
        {
            later = later.max(Some((cover.committed, owner)));
        }
    }
    Ok(later.map(|(_, owner)| owner))
}

/// Takes a snapshot out of staging.
fn take(connection: &Connection, staging: &Staging, snapshot: SnapshotId) -> rusqlite::Result<Option<Staged>> {
    let id = integer(snapshot.0);
    staging.0.lock().remove(&id);
    let sql = "DELETE FROM staged_snapshots WHERE id = ?1
        RETURNING shard_count, shard_id, key, instance, sequence, guilds, basis";
    let staged = connection.prepare_cached(sql)?.query_row([id], |row| {
        let shard = row.get::<_, Option<u32>>(0)?.zip(row.get::<_, Option<u32>>(1)?);
        Ok(Staged {
            id,
            shard: shard.and_then(|(count, id)| ShardKey::new(count, id)),
            instance: instances::read(row, 2)?,
            sequence: unsigned(row.get(4)?),
            guilds: row.get(5)?,
            basis: row.get(6)?,
        })
    });
    staged.optional()
}

/// Makes the staged guilds those of the shard.
fn replace_shard(
    connection: &Connection,
    staged: &Staged,
    shard: ShardKey,
    coverage: &Coverage,
    overlapping: &[Cover],
    now: Time,
) -> rusqlite::Result<()> {
    let kept = keep_unavailable(connection, coverage, staged.id, shard)?;
    let committed = accounts::next_version(connection)?;
    let sql = "INSERT OR REPLACE INTO feed_shards
        (shard_count, shard_id, snapshot, committed, key, instance, snapshot_at, guilds)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        shard.count,
        shard.id,
        staged.id,
        integer(committed),
        staged.instance.key,
        staged.instance.name.as_str(),
        now,
        staged.guilds + kept
    ])?;
    for cover in overlapping {
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
    Ok(())
}

/// Takes the guilds that are unavailable over as they are stored at this moment, and says how many there were. They move:
/// where they were, nobody will look for them any more.
fn keep_unavailable(
    connection: &Connection,
    coverage: &Coverage,
    snapshot: i64,
    shard: ShardKey,
) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("DELETE FROM staged_kept WHERE snapshot = ?1 RETURNING guild")?;
    let guilds: Vec<Snowflake> = readable("guild", statement.query_map([snapshot], |row| row.get(0))?)?;
    let mut kept = 0;
    for guild in guilds.into_iter().filter(|guild| shard.covers(*guild)) {
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
