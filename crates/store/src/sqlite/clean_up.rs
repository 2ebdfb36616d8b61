//! Removes what no read can see any more, in steps of limited size, in the background.

use domain::Snowflake;
use domain::feed::{GuildTotals, Sweep, SweepBudget};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{ReadColumn as _, integer, readable};
use super::coverage::Coverage;
use super::snapshots::LocalStaging;
use super::writer::ChangedTopics;
use super::{database, guilds};
use crate::sql::{instances, totals};

/// Schedules all rows of a snapshot for removal.
pub(super) fn sweep_whole(connection: &Connection, snapshot: i64) -> rusqlite::Result<()> {
    put(connection, &Sweep::whole(snapshot))
}

/// Schedules for removal the rows of a snapshot that a later one covers.
pub(super) fn sweep_covered(connection: &Connection, snapshot: i64) -> rusqlite::Result<()> {
    let sql = "SELECT snapshot, whole, after, again FROM feed_sweeps WHERE snapshot = ?1";
    let queued = connection.prepare_cached(sql)?.query_row([snapshot], read).optional()?;
    put(connection, &Sweep::covered(snapshot, queued))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Sweep> {
    Ok(Sweep { snapshot: row.get(0)?, whole: row.get(1)?, after: row.get(2)?, again: row.get(3)? })
}

fn put(connection: &Connection, sweep: &Sweep) -> rusqlite::Result<()> {
    let Sweep { snapshot, whole, after, again } = sweep;
    let sql = "INSERT OR REPLACE INTO feed_sweeps (snapshot, whole, after, again) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![snapshot, whole, after, again]).map(drop)
}

/// Checks about `batch` rows and removes those that nobody can see. Returns how many it checked: 0 when all is done.
pub(super) fn clean_up(
    connection: &Connection,
    topics: &mut ChangedTopics,
    staging: &LocalStaging,
    batch: usize,
) -> rusqlite::Result<usize> {
    database::run(instances::forget(connection))?;
    give_up_abandoned(connection, staging)?;
    let coverage = Coverage::load(connection)?;
    let mut budget = SweepBudget::new(batch);
    while let Some(left) = budget.left()
        && let Some(sweep) = first(connection)?
    {
        budget.spend(run(connection, topics, &coverage, sweep, left)?);
    }
    Ok(budget.spent())
}

/// Discards snapshots that were being staged by a process that is gone. If it is still alive, it finds out at its next line.
fn give_up_abandoned(connection: &Connection, staging: &LocalStaging) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("SELECT id FROM staged_snapshots")?;
    let staged: Vec<i64> = readable("staged snapshot", statement.query_map([], |row| row.get(0))?)?;
    for snapshot in staged.into_iter().filter(|snapshot| !staging.has(*snapshot)) {
        connection.prepare_cached("DELETE FROM staged_snapshots WHERE id = ?1")?.execute([snapshot])?;
        sweep_whole(connection, snapshot)?;
    }
    Ok(())
}

/// The sweep that comes next. The totals are not exact until the last one that looks for hidden rows has ended, so those come
/// first.
fn first(connection: &Connection) -> rusqlite::Result<Option<Sweep>> {
    let sql = "SELECT snapshot, whole, after, again FROM feed_sweeps ORDER BY whole, snapshot LIMIT 1";
    connection.prepare_cached(sql)?.query_row([], read).optional()
}

/// Continues through the snapshot's guilds, and returns how many rows it checked.
fn run(
    connection: &Connection,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    sweep: Sweep,
    batch: u64,
) -> rusqlite::Result<u64> {
    let snapshot = sweep.snapshot;
    let sql = "SELECT id FROM guilds WHERE snapshot = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([snapshot, sweep.after, integer(batch)], |row| row.column(0))?;
    let walked: Vec<Snowflake> = readable("guild", rows)?;
    let (mut spent, mut uncounted, mut after) = (0, GuildTotals::default(), sweep.after);
    for guild in walked {
        if spent >= batch {
            break;
        }
        let mut rows = 0;
        if sweep.whole || sweep.hides(coverage.of(connection, guild)?.snapshot) {
            let removed = guilds::delete(connection, snapshot, guild)?;
            rows = removed.rows;
            uncounted += removed.totals;
        }
        // A guild may have thousands of staff, so rows are counted, not guilds.
        spent += (rows as u64).max(1);
        after = integer(guild.get());
    }
    if !sweep.whole && !uncounted.is_nothing() {
        // The snapshot's shard still counts them.
        let sql = "UPDATE feed_shards SET guilds = guilds - ?2, member_sum = member_sum - ?3 WHERE snapshot = ?1";
        connection.prepare_cached(sql)?.execute([snapshot, uncounted.guilds, uncounted.members])?;
    }
    if spent < batch && sweep.whole {
        spent += drop_staged(connection, snapshot, batch)?;
    }
    // Less than a batch means that nothing is left.
    let rest = if spent < batch { sweep.finished() } else { Some(sweep.continued(after)) };
    if let Some(rest) = rest {
        put(connection, &rest)?;
    } else {
        connection.prepare_cached("DELETE FROM feed_sweeps WHERE snapshot = ?1")?.execute([snapshot])?;
    }
    if !sweep.whole {
        database::run(totals::note_swept(connection, topics, uncounted))?;
    }
    Ok(spent)
}

/// Removes what else was staged under a snapshot's number, and returns how many rows that was.
fn drop_staged(connection: &Connection, snapshot: i64, limit: u64) -> rusqlite::Result<u64> {
    let mut dropped = 0;
    for sql in [
        "DELETE FROM staged_kept WHERE snapshot = ?1 AND guild IN
            (SELECT guild FROM staged_kept WHERE snapshot = ?1 LIMIT ?2)",
        "DELETE FROM staged_subscriptions WHERE snapshot = ?1 AND userid IN
            (SELECT userid FROM staged_subscriptions WHERE snapshot = ?1 LIMIT ?2)",
    ] {
        dropped += connection.prepare_cached(sql)?.execute([snapshot, integer(limit)])? as u64;
    }
    Ok(dropped)
}
