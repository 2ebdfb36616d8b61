//! The bot's numbered events, and the state of the feed.

use domain::Time;
use domain::feed::{BatchOutcome, CommittedShard, Event, EventBatch, InstanceId, Question, ShardKey};
use futures_util::future::try_join_all;

use super::coverage::{self, Coverage};
use super::{ChangedTopics, Database, Lock, Result, changes, instances, totals};
use crate::totals_change::TotalsChange;

pub(crate) async fn feed<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> Result<BatchOutcome, D> {
    db.lock(Lock::Feed).await?;
    let Some(sender) = instances::admit(db, instance, now).await? else { return Ok(BatchOutcome::KeyRefused) };
    let mut batch = EventBatch::new(&sender, first, events, now);
    let mut coverage = Coverage::for_changes(db, &batch.guilds()).await?;
    while let Some(question) = batch.question() {
        match question {
            Question::Owner(guild) => batch.answer_owner(coverage.owner(db, guild).await?),
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
async fn lost_shards<D: Database>(db: &D, instance: &InstanceId) -> Result<Vec<(ShardKey, Vec<CommittedShard>)>, D> {
    let shards = instances::possibly_lost_shards(db, instance).await?;
    // Sent at the same time, because there may be many.
    try_join_all(shards.into_iter().map(async |shard| Ok((shard, coverage::overlapping(db, shard).await?)))).await
}
