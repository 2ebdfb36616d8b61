//! Removes what no read can see any more.

use deadpool_postgres::Transaction;
use domain::retention::STAGED_SILENCE;

use super::errors::Sql;
use super::locks::{Lock, lock, try_lock};
use super::work::ChangedTopics;
use crate::sql::{Database, clean_up, instances, readable, values};

/// Checks about `batch` rows and removes those that nobody can see. Returns how many it checked: 0 when all is done, or another
/// replica is doing it.
pub(super) async fn clean_up(db: &Transaction<'_>, topics: &mut ChangedTopics, batch: usize) -> Sql<usize> {
    if !try_lock(db, Lock::CleanUp).await? {
        return Ok(0);
    }
    lock(db, Lock::Feed).await?;
    instances::forget(db).await?;
    give_up_abandoned(db).await?;
    clean_up::sweep(db, topics, batch).await
}

/// Discards snapshots whose lines have stopped coming, because the process that staged them is gone. If it is still alive, it
/// finds out at its next line.
async fn give_up_abandoned(db: &Transaction<'_>) -> Sql<()> {
    // A locked one is receiving lines right now.
    let sql = "DELETE FROM staged_snapshots WHERE id IN (SELECT id FROM staged_snapshots
        WHERE touched < clock_timestamp() - make_interval(secs => $1) FOR UPDATE SKIP LOCKED) RETURNING id";
    let rows = Database::query(db, sql, &values![STAGED_SILENCE.as_secs_f64()]).await?;
    let left: Vec<i64> = readable!("staged snapshot", rows, |row| row.get(0));
    clean_up::sweep_whole(db, &left).await
}
