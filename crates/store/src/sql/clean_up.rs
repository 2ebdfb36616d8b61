//! Removes what no read can see any more, in steps of limited size, in the background.

use domain::Snowflake;
use domain::feed::{GuildTotals, Sweep, SweepBudget};
use domain::retention::STAGED_SILENCE;

use super::coverage::Coverage;
use super::{ChangedTopics, Database, Lock, Read, Result, Row, guilds, instances, readable, totals, values};
use crate::columns::json;

/// Schedules all rows of these snapshots for removal.
pub(crate) async fn sweep_whole<D: Database>(db: &D, snapshots: &[i64]) -> Result<(), D> {
    put(db, &snapshots.iter().copied().map(Sweep::whole).collect::<Vec<_>>()).await
}

/// Schedules for removal the rows of these snapshots that a later one covers.
pub(crate) async fn sweep_covered<D: Database>(db: &D, snapshots: &[i64]) -> Result<(), D> {
    if snapshots.is_empty() {
        return Ok(());
    }
    let among = D::WORDS.among.put("?1");
    let sql = format!("SELECT snapshot, whole, after, again FROM feed_sweeps WHERE snapshot {among}");
    let queued = db.query(&sql, &values![snapshots]).await?.iter().map(read).collect::<Read<Vec<_>>>()?;
    let queued = |snapshot: i64| queued.iter().copied().find(|sweep| sweep.snapshot == snapshot);
    let sweeps: Vec<_> = snapshots.iter().map(|snapshot| Sweep::covered(*snapshot, queued(*snapshot))).collect();
    put(db, &sweeps).await
}

fn read(row: &Row) -> Read<Sweep> {
    Ok(Sweep { snapshot: row.get(0)?, whole: row.get(1)?, after: row.get(2)?, again: row.get(3)? })
}

async fn put<D: Database>(db: &D, sweeps: &[Sweep]) -> Result<(), D> {
    if sweeps.is_empty() {
        return Ok(());
    }
    let sweeps: Vec<_> = sweeps.iter().map(|sweep| (sweep.snapshot, sweep.whole, sweep.after, sweep.again)).collect();
    // One statement for possibly hundreds of shards.
    let sql = format!(
        "INSERT INTO feed_sweeps (snapshot, whole, after, again)
        SELECT CAST(value ->> 0 AS BIGINT), CAST(value ->> 1 AS BOOLEAN), CAST(value ->> 2 AS BIGINT),
            CAST(value ->> 3 AS BOOLEAN) FROM {} WHERE true
        ON CONFLICT (snapshot) DO UPDATE SET whole = excluded.whole, after = excluded.after, again = excluded.again",
        D::WORDS.elements.put("?1")
    );
    db.execute(&sql, &values![json(&sweeps)]).await.map(drop)
}

/// Checks about `batch` rows and removes those that nobody can see. Returns how many it checked: 0 when all is done, or another
/// replica is doing it.
pub(crate) async fn clean_up<D: Database>(db: &D, topics: &mut ChangedTopics, batch: usize) -> Result<usize, D> {
    if !db.try_lock(Lock::CleanUp).await? {
        return Ok(0);
    }
    db.lock(Lock::Feed).await?;
    instances::forget(db).await?;
    let sql = format!("DELETE FROM staged_snapshots WHERE {} RETURNING id", D::WORDS.abandoned);
    let rows = db.query(&sql, &values![STAGED_SILENCE.as_secs_f64()]).await?;
    let abandoned: Vec<i64> = readable!("staged snapshot", rows, |row| row.get(0));
    sweep_whole(db, &abandoned).await?;
    let mut budget = SweepBudget::new(batch);
    while let Some(left) = budget.left()
        && let Some(sweep) = first(db).await?
    {
        budget.spend(run(db, topics, sweep, left).await?);
    }
    Ok(budget.spent())
}

/// The sweep that comes next. The totals are not exact until the last one that looks for hidden rows has ended, so those come
/// first.
async fn first<D: Database>(db: &D) -> Result<Option<Sweep>, D> {
    let sql = "SELECT snapshot, whole, after, again FROM feed_sweeps ORDER BY whole, snapshot LIMIT 1";
    Ok(db.query_first(sql, &[]).await?.as_ref().map(read).transpose()?)
}

/// Continues through the snapshot's guilds, and returns how many rows it checked.
async fn run<D: Database>(db: &D, topics: &mut ChangedTopics, sweep: Sweep, batch: u64) -> Result<u64, D> {
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
        db.execute("DELETE FROM feed_sweeps WHERE snapshot = ?1", &values![sweep.snapshot]).await?;
    }
    if !sweep.whole {
        totals::note_swept(db, topics, hidden).await?;
    }
    Ok(spent)
}

/// The guild that a step of this size ends at; `None` if it goes to the end. A guild may have thousands of staff, so rows are
/// counted, not guilds.
async fn end_of_step<D: Database>(db: &D, sweep: Sweep, batch: u64) -> Result<Option<i64>, D> {
    let sql = "SELECT
        (SELECT id FROM guilds WHERE snapshot = ?1 AND id > ?2 ORDER BY id LIMIT 1 OFFSET ?3),
        (SELECT guild FROM guild_staff WHERE snapshot = ?1 AND guild > ?2 ORDER BY guild, \"user\" LIMIT 1 OFFSET ?3)";
    let row = db.query_one(sql, &values![sweep.snapshot, sweep.after, batch - 1]).await?;
    let ends: [Option<i64>; 2] = [row.get(0)?, row.get(1)?];
    Ok(ends.into_iter().flatten().min())
}

/// Removes every guild of the step.
async fn remove<D: Database>(db: &D, sweep: Sweep, up_to: i64) -> Result<u64, D> {
    let mut removed = 0;
    for sql in [
        "DELETE FROM guild_staff WHERE snapshot = ?1 AND guild > ?2 AND guild <= ?3",
        "DELETE FROM guilds WHERE snapshot = ?1 AND id > ?2 AND id <= ?3",
    ] {
        removed += db.execute(sql, &values![sweep.snapshot, sweep.after, up_to]).await? as u64;
    }
    Ok(removed)
}

/// Removes the step's guilds that nobody can see here. Returns how many rows it checked, and what it removed.
async fn remove_hidden<D: Database>(db: &D, sweep: Sweep, up_to: i64) -> Result<(u64, GuildTotals), D> {
    let sql = "SELECT id FROM guilds WHERE snapshot = ?1 AND id > ?2 AND id <= ?3";
    let rows = db.query(sql, &values![sweep.snapshot, sweep.after, up_to]).await?;
    let walked: Vec<Snowflake> = readable!("guild", rows, |row| row.get(0));
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
async fn drop_staged<D: Database>(db: &D, snapshot: i64, limit: u64) -> Result<u64, D> {
    let mut dropped = 0;
    for (table, key) in [("staged_kept", "guild"), ("staged_subscriptions", "userid")] {
        let some = D::WORDS.one_of.put(&format!("SELECT {key} FROM {table} WHERE snapshot = ?1 LIMIT ?2"));
        let sql = format!("DELETE FROM {table} WHERE snapshot = ?1 AND {key} {some}");
        dropped += db.execute(&sql, &values![snapshot, limit]).await? as u64;
    }
    Ok(dropped)
}
