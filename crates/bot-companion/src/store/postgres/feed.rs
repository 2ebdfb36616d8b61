//! The bot's events, numbered, and what the feed holds.

use deadpool_postgres::{GenericClient, Transaction};

use crate::domain::feed::{Event, FeedState, InstanceId, ShardKey, ShardState};
use crate::domain::{Change, Time};
use crate::store::Fed;

use super::columns::{Whole, readable, unsigned};
use super::coverage::Coverage;
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::Touched;
use super::{changes, instances};

pub(super) async fn feed(
    db: &Transaction<'_>,
    touched: &mut Touched,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> Sql<Fed> {
    lock(db, Lock::Feed).await?;
    let next = instances::next(db, instance).await?;
    let end = first.saturating_add(events.len() as u64);
    if first > next {
        return Ok(Fed::Gap { next });
    }
    if end <= next {
        return Ok(Fed::Applied { applied: 0, ignored: events.len() as u64, next });
    }
    instances::advance(db, instance, end, now, now).await?;
    // Fits: the repeats are fewer than the events.
    let repeats = usize::try_from(next - first).unwrap_or(usize::MAX);
    let new = events.iter().skip(repeats).filter_map(|event| match event {
        Event::Change(change) => Some(change),
        Event::Ignored(_) => None,
    });
    let guilds: Vec<_> = new.clone().filter_map(Change::guild).collect();
    let mut coverage = Coverage::of(db, &guilds, Some(instance)).await?;
    let mut applied = 0;
    for change in new {
        // Whether the change is the instance's to say: a shard belongs to the latest-started one that has sent its snapshot.
        if change.guild().is_none_or(|guild| !coverage.cover(guild).outranks) {
            changes::apply_one(db, touched, &mut coverage, change).await?;
            applied += 1;
        }
    }
    coverage.write_counts(db).await?;
    Ok(Fed::Applied { applied, ignored: events.len() as u64 - applied, next: end })
}

/// What the feed holds. While a resharding is being cleaned up behind, guilds that moved count under both their shards.
pub(super) async fn state(db: &impl GenericClient) -> Sql<FeedState> {
    let sql =
        "SELECT (SELECT count(*) FROM subscriptions), (SELECT count(*) FROM feedback), (SELECT count(*) FROM team),
        (SELECT coalesce(sum(guilds), 0)::bigint FROM feed_shards)";
    let statement = db.prepare_cached(sql).await?;
    let counts = db.query_one(&statement, &[]).await?;
    Ok(FeedState {
        instances: instances::states(db).await?,
        shards: shards(db).await?,
        subscriptions: unsigned(counts.try_get(0)?),
        feedback: unsigned(counts.try_get(1)?),
        team: unsigned(counts.try_get(2)?),
        guilds: unsigned(counts.try_get(3)?),
    })
}

async fn shards(db: &impl GenericClient) -> Sql<Vec<ShardState>> {
    let sql = "SELECT shard_count, shard_id, instance, snapshot_at, guilds FROM feed_shards WHERE shard_count > 0
        ORDER BY shard_count, shard_id";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("shard", &db.query(&statement, &[]).await?, |row| {
        let Whole(count) = row.try_get(0)?;
        let Whole(id) = row.try_get(1)?;
        Ok(ShardState {
            shard: ShardKey { count, id },
            instance: row.try_get(2)?,
            snapshot_at: row.try_get(3)?,
            guilds: unsigned(row.try_get(4)?),
        })
    }))
}
