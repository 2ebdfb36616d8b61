//! Removes what no read can see any more, in steps of limited size, in the background.

use deadpool_postgres::Transaction;
use domain::Snowflake;
use domain::feed::{GuildTotals, Sweep, SweepBudget};
use domain::retention::STAGED_SILENCE;
use tokio_postgres::Row;

use super::columns::{ReadColumn as _, integer, readable};
use super::coverage::Coverage;
use super::errors::Sql;
use super::guilds;
use super::locks::{Lock, lock, try_lock};
use super::work::ChangedTopics;
use crate::sql::{instances, totals};

/// Schedules all rows of these snapshots for removal.
pub(super) async fn sweep_whole(db: &Transaction<'_>, snapshots: &[i64]) -> Sql<()> {
    put(db, &snapshots.iter().copied().map(Sweep::whole).collect::<Vec<_>>()).await
}

/// Schedules for removal the rows of these snapshots that a later one covers.
pub(super) async fn sweep_covered(db: &Transaction<'_>, snapshots: &[i64]) -> Sql<()> {
    if snapshots.is_empty() {
        return Ok(());
    }
    let sql = "SELECT snapshot, whole, after, again FROM feed_sweeps WHERE snapshot = ANY ($1)";
    let statement = db.prepare_cached(sql).await?;
    let queued = db.query(&statement, &[&snapshots]).await?.iter().map(read).collect::<Sql<Vec<_>>>()?;
    let queued = |snapshot: i64| queued.iter().copied().find(|sweep| sweep.snapshot == snapshot);
    let sweeps: Vec<_> = snapshots.iter().map(|snapshot| Sweep::covered(*snapshot, queued(*snapshot))).collect();
    put(db, &sweeps).await
}

fn read(row: &Row) -> Sql<Sweep> {
    let (snapshot, whole, after, again) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    Ok(Sweep { snapshot, whole, after, again })
}

async fn put(db: &Transaction<'_>, sweeps: &[Sweep]) -> Sql<()> {
    if sweeps.is_empty() {
        return Ok(());
    }
    let snapshots: Vec<i64> = sweeps.iter().map(|sweep| sweep.snapshot).collect();
    let wholes: Vec<bool> = sweeps.iter().map(|sweep| sweep.whole).collect();
    let afters: Vec<i64> = sweeps.iter().map(|sweep| sweep.after).collect();
    let agains: Vec<bool> = sweeps.iter().map(|sweep| sweep.again).collect();
    // One statement for possibly hundreds of shards.
    let sql = "INSERT INTO feed_sweeps (snapshot, whole, after, again)
        SELECT * FROM unnest($1::bigint[], $2::boolean[], $3::bigint[], $4::boolean[])
        ON CONFLICT (snapshot) DO UPDATE SET whole = excluded.whole, after = excluded.after, again = excluded.again";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&snapshots, &wholes, &afters, &agains]).await?;
    Ok(())
}

/// Checks about `batch` rows and removes those that nobody can see. Returns how many it checked: 0 when all is done, or another
/// replica is doing it.
pub(super) async fn clean_up(db: &Transaction<'_>, topics: &mut ChangedTopics, batch: usize) -> Sql<usize> {
    if !try_lock(db, Lock::CleanUp).await? {
        return Ok(0);
    }
    lock(db, Lock::Feed).await?;
    instances::forget(db).await?;
    give_up_abandoned(db).await?;
    let mut budget = SweepBudget::new(batch);
    while let Some(left) = budget.left()
        && let Some(sweep) = first(db).await?
    {
        budget.spend(run(db, topics, sweep, left).await?);
    }
    Ok(budget.spent())
}

/// Discards snapshots whose lines have stopped coming, because the process that staged them is gone. If it is still alive, it
/// finds out at its next line.
async fn give_up_abandoned(db: &Transaction<'_>) -> Sql<()> {
    // A locked one is receiving lines right now.
    let sql = "DELETE FROM staged_snapshots WHERE id IN (SELECT id FROM staged_snapshots
        WHERE touched < clock_timestamp() - make_interval(secs => $1) FOR UPDATE SKIP LOCKED) RETURNING id";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&STAGED_SILENCE.as_secs_f64()]).await?;
    let left: Vec<i64> = readable("staged snapshot", &rows, |row| Ok(row.try_get(0)?));
    sweep_whole(db, &left).await
}

/// The sweep that comes next. The totals are not exact until the last one that looks for hidden rows has ended, so those come
/// first.
async fn first(db: &Transaction<'_>) -> Sql<Option<Sweep>> {
    let sql = "SELECT snapshot, whole, after, again FROM feed_sweeps ORDER BY whole, snapshot LIMIT 1";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[]).await?.as_ref().map(read).transpose()
}

/// Continues through the snapshot's guilds, and returns how many rows it checked.
async fn run(db: &Transaction<'_>, topics: &mut ChangedTopics, sweep: Sweep, batch: u64) -> Sql<u64> {
    let end = end_of_step(db, sweep, batch).await?;
    // Without an end, it covers everything that is left.
    let up_to = end.unwrap_or(i64::MAX);
    let (mut spent, hidden) = if sweep.whole {
        (remove(db, sweep, up_to).await?, GuildTotals::default())
    } else {
        remove_hidden(db, sweep, up_to).await?
    };
    let mut rest = end.map(|end| sweep.continued(end));
    if rest.is_none() && sweep.whole {
        let staged = drop_staged(db, sweep.snapshot, batch).await?;
        spent += staged;
        // A full batch means that there may be more.
        rest = (staged >= batch).then_some(sweep);
    }
    if let Some(rest) = rest.or_else(|| sweep.finished()) {
        put(db, &[rest]).await?;
    } else {
        let statement = db.prepare_cached("DELETE FROM feed_sweeps WHERE snapshot = $1").await?;
        db.execute(&statement, &[&sweep.snapshot]).await?;
    }
    if !sweep.whole {
        totals::note_swept(db, topics, hidden).await?;
    }
    Ok(spent)
}

/// The guild that a step of this size ends at; `None` if it goes to the end. A guild may have thousands of staff, so rows are
/// counted, not guilds.
async fn end_of_step(db: &Transaction<'_>, sweep: Sweep, batch: u64) -> Sql<Option<i64>> {
    let sql = "SELECT least(
        (SELECT id FROM guilds WHERE snapshot = $1 AND id > $2 ORDER BY id OFFSET $3 LIMIT 1),
        (SELECT guild FROM guild_staff WHERE snapshot = $1 AND guild > $2 ORDER BY guild, \"user\" OFFSET $3 LIMIT 1))";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_one(&statement, &[&sweep.snapshot, &sweep.after, &(integer(batch) - 1)]).await?;
    Ok(row.try_get(0)?)
}

/// Removes every guild of the step.
async fn remove(db: &Transaction<'_>, sweep: Sweep, up_to: i64) -> Sql<u64> {
    let mut removed = 0;
    for sql in [
        "DELETE FROM guild_staff WHERE snapshot = $1 AND guild > $2 AND guild <= $3",
        "DELETE FROM guilds WHERE snapshot = $1 AND id > $2 AND id <= $3",
    ] {
        let statement = db.prepare_cached(sql).await?;
        removed += db.execute(&statement, &[&sweep.snapshot, &sweep.after, &up_to]).await?;
    }
    Ok(removed)
}

/// Removes the step's guilds that nobody can see here. Returns how many rows it checked, and what it removed.
async fn remove_hidden(db: &Transaction<'_>, sweep: Sweep, up_to: i64) -> Sql<(u64, GuildTotals)> {
    let sql = "SELECT id FROM guilds WHERE snapshot = $1 AND id > $2 AND id <= $3";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&sweep.snapshot, &sweep.after, &up_to]).await?;
    let walked: Vec<Snowflake> = readable("guild", &rows, |row| Ok(row.column(0)?));
    let coverage = Coverage::of(db, &walked).await?;
    let hidden = |guild: &Snowflake| sweep.hides(coverage.cover(*guild).snapshot);
    let gone: Vec<Snowflake> = walked.iter().copied().filter(hidden).collect();
    if gone.is_empty() {
        return Ok((walked.len() as u64, GuildTotals::default()));
    }
    let removed = guilds::delete(db, sweep.snapshot, &gone).await?;
    // The snapshot's shard still counts them.
    totals::take_off(db, sweep.snapshot, removed.totals).await?;
    Ok((walked.len() as u64 + removed.staff, removed.totals))
}

/// Removes what else was staged under a snapshot's number, and returns how many rows that was.
async fn drop_staged(db: &Transaction<'_>, snapshot: i64, limit: u64) -> Sql<u64> {
    let mut dropped = 0;
    for table in ["staged_kept", "staged_subscriptions"] {
        let sql = format!(
            "DELETE FROM {table} WHERE ctid = ANY (ARRAY (SELECT ctid FROM {table} WHERE snapshot = $1 LIMIT $2))"
        );
        let statement = db.prepare_cached(&sql).await?;
        dropped += db.execute(&statement, &[&snapshot, &integer(limit)]).await?;
    }
    Ok(dropped)
}
