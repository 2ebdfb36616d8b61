//! Snapshots: staged invisibly in short transactions, and made current by one row.

use std::collections::HashSet;
use std::sync::Arc;

use domain::feed::{
    Committed, CommittedShard, GuildLine, GuildTotals, InstanceId, LastGuildLines, Lines, Replacement, Scope, ShardKey,
    StagedSnapshot, UNCOVERED, is_resharding, keep_last, latest_commit, merge_basis,
};
use domain::{Snowflake, Subscription, Time};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Column as _, ReadColumn as _, instance, integer, json, readable, unsigned};
use super::coverage::{self, Coverage};
use super::database::run;
use super::guilds::GuildWriter;
use super::writer::ChangedTopics;
use super::{clean_up, guilds, subscriptions};
use crate::sql::{instances, totals};
use crate::{SnapshotId, Topic};

/// The snapshots that this process is staging. Only the writer changes it, so that cleaning up never sees one that is half
/// recorded.
#[derive(Clone, Default)]
pub(super) struct LocalStaging(Arc<Mutex<HashSet<i64>>>);

impl LocalStaging {
    pub(super) fn has(&self, snapshot: i64) -> bool {
        self.0.lock().contains(&snapshot)
    }
}

pub(super) fn begin(
    connection: &Connection,
    staging: &LocalStaging,
    scope: Scope,
    instance: &InstanceId,
    sequence: u64,
    now: Time,
) -> rusqlite::Result<SnapshotId> {
    run(instances::note_call(connection, instance, now))?;
    let id = next_version(connection)?;
    let shard = scope.shard();
    let sql = "INSERT INTO staged_snapshots (id, shard_count, shard_id, key, instance, sequence, begun, guilds)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)";
    connection.prepare_cached(sql)?.execute(params![
        integer(id),
        shard.map(|shard| shard.count),
        shard.map(|shard| shard.id),
        instance.key,
        instance.name.as_str(),
        integer(sequence),
        now.stored()
    ])?;
    staging.0.lock().insert(integer(id));
    Ok(SnapshotId(id))
}

struct StagingTarget {
    snapshot: i64,
    shard: Option<ShardKey>,
    basis: Option<i64>,
}

/// Stages some lines, and returns the users of the subscriptions that they replaced; `None` if the snapshot is not being staged.
pub(super) fn stage(
    connection: &Connection,
    snapshot: SnapshotId,
    lines: &Lines,
) -> rusqlite::Result<Option<Vec<Snowflake>>> {
    let id = integer(snapshot.0);
    let sql = "SELECT shard_count, shard_id, basis FROM staged_snapshots WHERE id = ?1";
    let target = connection
        .prepare_cached(sql)?
        .query_row([id], |row| Ok(StagingTarget { snapshot: id, shard: read_shard(row)?, basis: row.get(2)? }))
        .optional()?;
    let Some(target) = target else { return Ok(None) };
    match lines {
        Lines::Guilds(lines) => stage_guilds(connection, &target, lines).map(|()| Some(Vec::new())),
        Lines::Subscriptions(lines) => stage_subscriptions(connection, id, lines).map(Some),
    }
}

/// Reads the shard of a staged snapshot, if it has one, from the first two columns.
fn read_shard(row: &Row<'_>) -> rusqlite::Result<Option<ShardKey>> {
    let shard = row.get::<_, Option<u32>>(0)?.zip(row.get::<_, Option<u32>>(1)?);
    Ok(shard.and_then(|(count, id)| ShardKey::new(count, id)))
}

fn stage_guilds(connection: &Connection, target: &StagingTarget, lines: &[GuildLine]) -> rusqlite::Result<()> {
    // In table order, which is faster.
    let LastGuildLines { guilds, carrying, unavailable } = LastGuildLines::of(lines);
    let snapshot = target.snapshot;
    let mut writer = GuildWriter::new(connection, snapshot)?;
    let note_unavailable = "INSERT OR IGNORE INTO staged_kept (snapshot, guild) VALUES (?1, ?2)";
    let mut note_unavailable = connection.prepare_cached(note_unavailable)?;
    let mut note_available = connection.prepare_cached("DELETE FROM staged_kept WHERE snapshot = ?1 AND guild = ?2")?;
    // Usually there are none, so no line needs to check.
    let any_unavailable =
        connection.prepare_cached("SELECT 1 FROM staged_kept WHERE snapshot = ?1")?.exists([snapshot])?;
    let coverage = Coverage::load(connection)?;
    if !carrying.is_empty() {
        note_basis(connection, target, &coverage)?;
    }
    let mut more = GuildTotals::of(guilds.iter().copied());
    for guild in guilds {
        let carried = guild.carried();
        if any_unavailable {
            note_available.execute(params![snapshot, guild.id.stored()])?;
        }
        if !writer.insert(guild, carried)? {
            // What an earlier line said about it no longer counts.
            more = more - guilds::delete(connection, snapshot, guild.id)?.totals;
            writer.insert(guild, carried)?;
        }
        if carried.any() {
            let from = coverage.of(connection, guild.id)?.snapshot;
            guilds::carry_over(connection, from, snapshot, guild.id, carried)?;
        }
    }
    for guild in unavailable {
        more = more - guilds::delete(connection, snapshot, guild)?.totals;
        note_unavailable.execute(params![snapshot, guild.stored()])?;
    }
    let sql = "UPDATE staged_snapshots SET guilds = guilds + ?2, member_sum = member_sum + ?3 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([snapshot, more.guilds, more.members]).map(drop)
}

/// Records the commit that lines are carried over from.
fn note_basis(connection: &Connection, target: &StagingTarget, coverage: &Coverage) -> rusqlite::Result<()> {
    let Some(shard) = target.shard else { return Ok(()) };
    let basis = merge_basis(target.basis, latest_commit(&coverage.overlapping(connection, shard)?));
    if target.basis != Some(basis) {
        let sql = "UPDATE staged_snapshots SET basis = ?2 WHERE id = ?1";
        connection.prepare_cached(sql)?.execute([target.snapshot, basis])?;
    }
    Ok(())
}

fn stage_subscriptions(
    connection: &Connection,
    snapshot: i64,
    lines: &[Subscription],
) -> rusqlite::Result<Vec<Snowflake>> {
    let mut lines: Vec<&Subscription> = lines.iter().collect();
    let mut replaced = keep_last(&mut lines, |line| line.userid);
    let sql = "INSERT INTO staged_subscriptions (snapshot, userid, slots, active_until, guilds)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut put = connection.prepare_cached(sql)?;
    let mut delete =
        connection.prepare_cached("DELETE FROM staged_subscriptions WHERE snapshot = ?1 AND userid = ?2")?;
    for line in lines {
        if delete.execute(params![snapshot, line.userid.stored()])? > 0 {
            replaced.push(line.userid);
        }
        let guilds = json(&line.distinct_guilds());
        put.execute(params![snapshot, line.userid.stored(), line.slots, line.active_until.stored(), guilds])?;
    }
    Ok(replaced)
}

/// Makes a staged snapshot current, or drops it; `None` if it is not being staged.
pub(super) fn commit(
    connection: &Connection,
    topics: &mut ChangedTopics,
    staging: &LocalStaging,
    snapshot: SnapshotId,
    after: Option<u64>,
    now: Time,
) -> rusqlite::Result<Option<Committed>> {
    let Some(staged) = take(connection, staging, snapshot)? else { return Ok(None) };
    let Some(sender) = run(instances::admit(connection, &staged.instance, now))? else {
        clean_up::sweep_whole(connection, staged.id)?;
        return Ok(Some(Committed::KeyRefused));
    };
    run(instances::note_snapshot(connection, &staged.instance, staged.shard))?;
    let coverage = Coverage::load(connection)?;
    let overlapping = match staged.shard {
        Some(shard) => coverage.overlapping(connection, shard)?,
        None => Vec::new(),
    };
    let committed = staged.decide(&sender, after, &overlapping, now);
    run(instances::advance(connection, &sender, committed.next()))?;
    let is_replaced = matches!(committed, Committed::Replaced { .. });
    if is_replaced {
        // Working out which responses it changes would take longer the larger the snapshot is.
        topics.push(Topic::Everything);
    }
    match staged.shard {
        Some(shard) if is_replaced => replace_shard(connection, &staged, shard, &coverage, &overlapping, now)?,
        None if is_replaced => {
            subscriptions::replace_from(connection, staged.id)?;
            clean_up::sweep_whole(connection, staged.id)?;
        }
        Some(_) | None => clean_up::sweep_whole(connection, staged.id)?,
    }
    Ok(Some(committed))
}

/// Takes a snapshot out of staging.
fn take(
    connection: &Connection,
    staging: &LocalStaging,
    snapshot: SnapshotId,
) -> rusqlite::Result<Option<StagedSnapshot>> {
    let id = integer(snapshot.0);
    staging.0.lock().remove(&id);
    let sql = "DELETE FROM staged_snapshots WHERE id = ?1
        RETURNING shard_count, shard_id, key, instance, sequence, guilds, member_sum, basis";
    let staged = connection.prepare_cached(sql)?.query_row([id], |row| {
        Ok(StagedSnapshot {
            id,
            shard: read_shard(row)?,
            instance: instance(row, 2)?,
            sequence: unsigned(row.get(4)?),
            totals: GuildTotals { guilds: row.get(5)?, members: row.get(6)? },
            basis: row.get(7)?,
        })
    });
    staged.optional()
}

/// Makes the staged guilds the shard's.
fn replace_shard(
    connection: &Connection,
    staged: &StagedSnapshot,
    shard: ShardKey,
    coverage: &Coverage,
    overlapping: &[CommittedShard],
    now: Time,
) -> rusqlite::Result<()> {
    let (is_resharding, has_uncovered) = (is_resharding(shard, overlapping), has_uncovered(connection)?);
    let shown = if is_resharding || has_uncovered { Some(run(totals::shown(connection))?) } else { None };
    let GuildTotals { guilds, members } = staged.totals + move_unavailable(connection, coverage, staged.id, shard)?;
    let committed = next_version(connection)?;
    let sql = "INSERT OR REPLACE INTO feed_shards
        (shard_count, shard_id, snapshot, committed, key, instance, snapshot_at, guilds, member_sum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        shard.count,
        shard.id,
        staged.id,
        integer(committed),
        staged.instance.key,
        staged.instance.name.as_str(),
        now.stored(),
        guilds,
        members
    ])?;
    let commits = if is_resharding { coverage::commits(connection, shard.count)? } else { Box::default() };
    let plan = Replacement::plan(shard, overlapping, &commits, has_uncovered);
    let mut forget = connection.prepare_cached("DELETE FROM feed_shards WHERE shard_count = ?1 AND shard_id = ?2")?;
    for ShardKey { count, id } in plan.superseded.iter().map(|sent| sent.shard) {
        forget.execute([count, id])?;
    }
    plan.removed.into_iter().try_for_each(|snapshot| clean_up::sweep_whole(connection, snapshot))?;
    plan.partly_covered.into_iter().try_for_each(|snapshot| clean_up::sweep_covered(connection, snapshot))?;
    match shown.filter(|_| plan.hides_rows) {
        Some(shown) => run(totals::keep_shown(connection, shown)),
        None => Ok(()),
    }
}

/// Whether there are guilds that no snapshot covered when they were stored.
fn has_uncovered(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM feed_shards WHERE shard_count = 0 AND snapshot = ?1 AND guilds > 0";
    connection.prepare_cached(sql)?.exists([UNCOVERED])
}

/// Moves unavailable guilds to this snapshot as they are stored now, and returns what was moved: no read will look for them in
/// their old place any more.
fn move_unavailable(
    connection: &Connection,
    coverage: &Coverage,
    snapshot: i64,
    shard: ShardKey,
) -> rusqlite::Result<GuildTotals> {
    let mut statement = connection.prepare_cached("DELETE FROM staged_kept WHERE snapshot = ?1 RETURNING guild")?;
    let guilds: Vec<Snowflake> = readable("guild", statement.query_map([snapshot], |row| row.column(0))?)?;
    let mut all = GuildTotals::default();
    for guild in guilds.into_iter().filter(|guild| shard.covers(*guild)) {
        let cover = coverage.of(connection, guild)?;
        let moved = guilds::relocate(connection, cover.snapshot, snapshot, guild)?;
        run(totals::add(connection, cover.shard(), GuildTotals::default() - moved))?;
        all += moved;
    }
    Ok(all)
}

pub(super) fn abandon(connection: &Connection, staging: &LocalStaging, snapshot: SnapshotId) -> rusqlite::Result<()> {
    match take(connection, staging, snapshot)? {
        Some(staged) => clean_up::sweep_whole(connection, staged.id),
        None => Ok(()),
    }
}

/// A number that was never used before.
fn next_version(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("UPDATE counter SET value = value + 1 RETURNING value")?
        .query_row([], |row| row.get(0))
        .map(unsigned)
}
