//! The bot's numbered events, and the state of the feed.

use deadpool_postgres::{GenericClient, Transaction};
use domain::Time;
use domain::feed::{
    BatchOutcome, CommittedShard, Event, EventBatch, FeedState, InstanceId, Question, ShardKey, ShardState,
};
use futures_util::future::try_join_all;

use super::columns::{ReadColumn as _, Whole, readable, unsigned};
use super::coverage::{self, Coverage};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::ChangedTopics;
use super::{changes, instances, totals};
use crate::totals_change::TotalsChange;

pub(super) async fn feed(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> Sql<BatchOutcome> {
    lock(db, Lock::Feed).await?;
    let Some(sender) = instances::admit(db, instance, now).await? else { return Ok(BatchOutcome::KeyRefused) };
    let mut batch = EventBatch::new(&sender, first, events, now);
    let mut coverage = Coverage::for_changes(db, &batch.guilds()).await?;
    while let Some(question) = batch.question() {
        match question {
            Question::Owner(guild) => batch.answer_owner(coverage.cover(guild).owner),
            Question::OwnShards => batch.answer_own_shards(instances::own_shards(db, instance).await?),
            Question::Overlapping(shard) => {
                batch.answer_overlapping(shard, &coverage::overlapping(db, shard).await?);
            }
            Question::LostShards => batch.answer_lost_shards(&lost_shards(db, instance).await?),
        }
    }
    let (fed, changes) = batch.finish();
    let mut change_of_totals = TotalsChange::default();
    for change in changes {
        changes::apply_one(db, topics, &mut coverage, &mut change_of_totals, change).await?;
    }
    // Sent at the same time, so that events that change the totals do not wait for one more answer.
    futures_util::try_join!(totals::write(db, &change_of_totals), instances::advance(db, &sender, fed.next()))?;
    Ok(fed)
}

/// The shards that an instance has named and that may hold another one's data, with the snapshots overlapping with each.
async fn lost_shards(db: &Transaction<'_>, instance: &InstanceId) -> Sql<Vec<(ShardKey, Vec<CommittedShard>)>> {
    let shards = instances::possibly_lost_shards(db, instance).await?;
    // Sent at the same time, because there may be many.
    try_join_all(shards.into_iter().map(async |shard| Ok((shard, coverage::overlapping(db, shard).await?)))).await
}

/// Everything stored that the bot has sent. After a resharding, guilds that moved count under both shards until they are
/// cleaned up.
pub(super) async fn state(db: &impl GenericClient) -> Sql<FeedState> {
    let sql = "SELECT (SELECT count(*) FROM subscriptions), (SELECT feedback FROM totals), (SELECT count(*) FROM team),
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
    let sql = "SELECT shard_count, shard_id, key, instance, snapshot_at, guilds FROM feed_shards WHERE shard_count > 0
        ORDER BY shard_count, shard_id";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("shard", &db.query(&statement, &[]).await?, |row| {
        let Whole(count) = row.try_get(0)?;
        let Whole(id) = row.try_get(1)?;
        Ok(ShardState {
            shard: ShardKey { count, id },
            instance: instances::read(row, 2)?,
            snapshot_at: row.column(4)?,
            guilds: unsigned(row.try_get(5)?),
        })
    }))
}
