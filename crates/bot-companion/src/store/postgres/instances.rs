//! The numbering of the bot's processes, and which of two started later.

use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};

use crate::domain::Time;
use crate::domain::feed::{InstanceId, InstanceState};

use super::columns::{integer, readable, unsigned};
use super::locks::{Lock, lock};
use super::work::Sql;

/// How long a numbering that nobody uses is remembered, counted back from the latest use of any.
const REMEMBERED: Duration = Duration::from_hours(30 * 24);

/// The number of an instance's next event; an unknown one begins at 1.
pub(super) async fn next(db: &Transaction<'_>, instance: &InstanceId) -> Sql<u64> {
    let statement = db.prepare_cached("SELECT next FROM feed_instances WHERE instance = $1").await?;
    let next = db.query_opt(&statement, &[instance]).await?.map(|row| row.try_get(0)).transpose()?;
    Ok(next.map_or(1, unsigned))
}

/// Sets the number of an instance's next event. One that is new was first seen at `seen`.
pub(super) async fn advance(db: &Transaction<'_>, instance: &InstanceId, next: u64, seen: Time, now: Time) -> Sql<()> {
    let sql = "UPDATE feed_instances SET next = $2, last_used = greatest(last_used, $3) WHERE instance = $1";
    let statement = db.prepare_cached(sql).await?;
    if db.execute(&statement, &[instance, &integer(next), &now]).await? > 0 {
        return Ok(());
    }
    // A first heartbeat beside it either is seen here, or sees the new row.
    lock(db, Lock::Health).await?;
    let sql = "INSERT INTO feed_instances (instance, next, first_seen, started_at, last_used)
        VALUES ($1, $2, $3, (SELECT started_at FROM instances WHERE id = $1), $4)";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[instance, &integer(next), &seen, &now]).await?;
    Ok(())
}

/// Notes when an instance says that it started. The health forgets it soon after its last heartbeat; its rank must not change
/// with that.
pub(super) async fn note_started(db: &Transaction<'_>, instance: &str, started_at: Time) -> Sql<()> {
    let sql = "UPDATE feed_instances SET started_at = $2 WHERE instance = $1 AND started_at IS DISTINCT FROM $2";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&instance, &started_at]).await?;
    Ok(())
}

/// Whether one of the others started later than this known one.
pub(super) async fn is_outranked(db: &Transaction<'_>, instance: &InstanceId, others: &[&str]) -> Sql<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM feed_instances AS theirs JOIN feed_instances AS ours ON ours.instance = $2
        WHERE theirs.instance = ANY ($1) AND theirs.instance <> ours.instance
            AND coalesce(theirs.started_at, theirs.first_seen) > coalesce(ours.started_at, ours.first_seen))";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_one(&statement, &[&others, instance]).await?.try_get(0)?)
}

/// Forgets the numberings that nobody uses: a process that comes back after that long sends everything anew.
pub(super) async fn forget(db: &Transaction<'_>) -> Sql<()> {
    let sql = "DELETE FROM feed_instances WHERE last_used < (SELECT max(last_used) FROM feed_instances) - $1::bigint";
    let statement = db.prepare_cached(sql).await?;
    let remembered = i64::try_from(REMEMBERED.as_millis()).unwrap_or(i64::MAX);
    db.execute(&statement, &[&remembered]).await?;
    Ok(())
}

pub(super) async fn states(db: &impl GenericClient) -> Sql<Vec<InstanceState>> {
    let sql = "SELECT instance, next, feed_instances.started_at, reported
        FROM feed_instances LEFT JOIN instances ON id = instance ORDER BY instance";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("instance", &db.query(&statement, &[]).await?, |row| {
        Ok(InstanceState {
            instance: row.try_get(0)?,
            next: unsigned(row.try_get(1)?),
            started_at: row.try_get(2)?,
            last_heartbeat: row.try_get(3)?,
        })
    }))
}
