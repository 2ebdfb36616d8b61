//! Removes what no read can see any more, a bounded number of rows at a time, behind those who changed the truth.

use deadpool_postgres::Transaction;

use crate::domain::Snowflake;

use super::columns::{integer, readable};
use super::coverage::{self, Coverage};
use super::errors::Sql;
use super::locks::{Lock, lock, try_lock};
use super::{guilds, instances};

/// Has all rows of these snapshots removed.
pub(super) async fn bury(db: &Transaction<'_>, snapshots: &[i64]) -> Sql<()> {
    let sql = "INSERT INTO feed_sweeps (snapshot, whole, after, again) SELECT unnest($1::bigint[]), true, 0, false
        ON CONFLICT (snapshot) DO UPDATE SET whole = true, after = 0, again = false";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&snapshots]).await?;
    Ok(())
}

/// Has those rows of these snapshots removed that a later one covers.
pub(super) async fn thin_out(db: &Transaction<'_>, snapshots: &[i64]) -> Sql<()> {
    let sql = "INSERT INTO feed_sweeps (snapshot, whole, after, again) SELECT unnest($1::bigint[]), false, 0, false
        ON CONFLICT (snapshot) DO UPDATE SET again = true";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&snapshots]).await?;
    Ok(())
}

/// Looks at about `batch` rows, removes those that nobody can see, and says how many it looked at: 0 when all is done, or another
/// replica is at it.
pub(super) async fn clean_up(db: &Transaction<'_>, batch: usize) -> Sql<usize> {
    if !try_lock(db, Lock::CleanUp).await? {
        return Ok(0);
    }
    lock(db, Lock::Feed).await?;
    instances::forget(db).await?;
    bury_left_behind(db).await?;
    let batch = batch.max(1) as u64;
    let mut spent = 0;
    while spent < batch {
        let Some(sweep) = Sweep::first(db).await? else { break };
        // Also a sweep that finds nothing is a step, so that a call with many of them ends.
        spent += sweep.run(db, batch - spent).await?.max(1);
    }
    Ok(usize::try_from(spent).unwrap_or(usize::MAX))
}

/// Gives up the snapshots whose lines have stopped coming: whoever was staging them is gone. If it still lives, it is told at its
/// next line.
async fn bury_left_behind(db: &Transaction<'_>) -> Sql<()> {
    // One that is locked has lines coming in just now.
    let sql = "DELETE FROM staged_snapshots WHERE id IN (SELECT id FROM staged_snapshots
        WHERE touched < clock_timestamp() - interval '10 minutes' FOR UPDATE SKIP LOCKED) RETURNING id";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[]).await?;
    let left: Vec<i64> = readable("staged snapshot", &rows, |row| Ok(row.try_get(0)?));
    if left.is_empty() { Ok(()) } else { bury(db, &left).await }
}

struct Sweep {
    snapshot: i64,
    whole: bool,
    after: i64,
    again: bool,
}

impl Sweep {
    async fn first(db: &Transaction<'_>) -> Sql<Option<Self>> {
        let sql = "SELECT snapshot, whole, after, again FROM feed_sweeps ORDER BY snapshot LIMIT 1";
        let statement = db.prepare_cached(sql).await?;
        let Some(row) = db.query_opt(&statement, &[]).await? else { return Ok(None) };
        let (snapshot, whole, after, again) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        Ok(Some(Self { snapshot, whole, after, again }))
    }

    /// Walks on over the snapshot's guilds, and says how many rows it looked at.
    async fn run(self, db: &Transaction<'_>, batch: u64) -> Sql<u64> {
        let end = self.end_of_step(db, batch).await?;
        let up_to = end.unwrap_or(i64::MAX);
        let mut spent = if self.whole { self.remove(db, up_to).await? } else { self.thin_out(db, up_to).await? };
        if let Some(end) = end {
            self.go_on_after(db, end).await?;
            return Ok(spent);
        }
        if self.whole {
            let staged = self.drop_staged(db, batch).await?;
            spent += staged;
            if staged >= batch {
                return Ok(spent);
            }
        }
        self.end(db).await?;
        Ok(spent)
    }

    /// The guild up to which a step of this size goes; `None` if it goes to the end. A guild may have thousands of staff: what
    /// counts is rows, not guilds.
    async fn end_of_step(&self, db: &Transaction<'_>, batch: u64) -> Sql<Option<i64>> {
        let sql = "SELECT least(
            (SELECT id FROM guilds WHERE snapshot = $1 AND id > $2 ORDER BY id OFFSET $3 LIMIT 1),
            (SELECT guild FROM guild_staff WHERE snapshot = $1 AND guild > $2 ORDER BY guild, \"user\" OFFSET $3 LIMIT 1))";
        let statement = db.prepare_cached(sql).await?;
        let row = db.query_one(&statement, &[&self.snapshot, &self.after, &(integer(batch) - 1)]).await?;
        Ok(row.try_get(0)?)
    }

    /// Removes every guild of the step.
    async fn remove(&self, db: &Transaction<'_>, up_to: i64) -> Sql<u64> {
        let mut removed = 0;
        for sql in [
            "DELETE FROM guild_staff WHERE snapshot = $1 AND guild > $2 AND guild <= $3",
            "DELETE FROM guilds WHERE snapshot = $1 AND id > $2 AND id <= $3",
        ] {
            let statement = db.prepare_cached(sql).await?;
            removed += db.execute(&statement, &[&self.snapshot, &self.after, &up_to]).await?;
        }
        Ok(removed)
    }

    /// Removes those guilds of the step that nobody can see here.
    async fn thin_out(&self, db: &Transaction<'_>, up_to: i64) -> Sql<u64> {
        let sql = "SELECT id FROM guilds WHERE snapshot = $1 AND id > $2 AND id <= $3";
        let statement = db.prepare_cached(sql).await?;
        let rows = db.query(&statement, &[&self.snapshot, &self.after, &up_to]).await?;
        let walked: Vec<Snowflake> = readable("guild", &rows, |row| Ok(row.try_get(0)?));
        let coverage = Coverage::of(db, &walked).await?;
        let hidden = |guild: &Snowflake| coverage.cover(*guild).snapshot != self.snapshot;
        let gone: Vec<Snowflake> = walked.iter().copied().filter(hidden).collect();
        if gone.is_empty() {
            return Ok(walked.len() as u64);
        }
        let removed = guilds::delete(db, self.snapshot, &gone).await?;
        // The shard still counts them.
        coverage::count_down(db, self.snapshot, removed.guilds).await?;
        Ok(walked.len() as u64 + removed.staff)
    }

    /// What else was staged under its number.
    async fn drop_staged(&self, db: &Transaction<'_>, limit: u64) -> Sql<u64> {
        let mut dropped = 0;
        for table in ["staged_kept", "staged_subscriptions"] {
            let sql = format!(
                "DELETE FROM {table} WHERE ctid = ANY (ARRAY (SELECT ctid FROM {table} WHERE snapshot = $1 LIMIT $2))"
            );
            let statement = db.prepare_cached(&sql).await?;
            dropped += db.execute(&statement, &[&self.snapshot, &integer(limit)]).await?;
        }
        Ok(dropped)
    }

    async fn go_on_after(&self, db: &Transaction<'_>, guild: i64) -> Sql<()> {
        let statement = db.prepare_cached("UPDATE feed_sweeps SET after = $2 WHERE snapshot = $1").await?;
        db.execute(&statement, &[&self.snapshot, &guild]).await?;
        Ok(())
    }

    async fn end(&self, db: &Transaction<'_>) -> Sql<()> {
        let sql = if self.again {
            "UPDATE feed_sweeps SET after = 0, again = false WHERE snapshot = $1"
        } else {
            "DELETE FROM feed_sweeps WHERE snapshot = $1"
        };
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&self.snapshot]).await?;
        Ok(())
    }
}
