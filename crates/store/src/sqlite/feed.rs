//! The bot's numbered events, and the state of the feed.

use domain::Time;
use domain::feed::{BatchOutcome, CommittedShard, Event, EventBatch, InstanceId, Question, ShardKey};
use rusqlite::Connection;

use super::changes;
use super::coverage::Coverage;
use super::database::run;
use super::writer::ChangedTopics;
use crate::sql::{instances, totals};
use crate::totals_change::TotalsChange;

pub(super) fn feed(
    connection: &Connection,
    topics: &mut ChangedTopics,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> rusqlite::Result<BatchOutcome> {
    let Some(sender) = run(instances::admit(connection, instance, now))? else { return Ok(BatchOutcome::KeyRefused) };
    let mut batch = EventBatch::new(&sender, first, events, now);
    let coverage = Coverage::for_changes(connection)?;
    while let Some(question) = batch.question() {
        match question {
            Question::Owner(guild) => batch.answer_owner(coverage.owner(connection, guild)?),
            Question::OwnShards => batch.answer_own_shards(run(instances::own_shards(connection, instance))?),
            Question::Overlapping(shard) => batch.answer_overlapping(shard, &coverage.overlapping(connection, shard)?),
            Question::LostShards => batch.answer_lost_shards(&lost_shards(connection, &coverage, instance)?),
        }
    }
    let (fed, changes) = batch.finish();
    let mut change_of_totals = TotalsChange::default();
    for change in changes {
        changes::apply_one(connection, topics, &coverage, &mut change_of_totals, change)?;
    }
    run(totals::write(connection, &change_of_totals))?;
    run(instances::advance(connection, &sender, fed.next()))?;
    Ok(fed)
}

/// The shards that an instance has named and that may hold another one's data, with the snapshots overlapping with each.
fn lost_shards(
    connection: &Connection,
    coverage: &Coverage,
    instance: &InstanceId,
) -> rusqlite::Result<Vec<(ShardKey, Vec<CommittedShard>)>> {
    let shards = run(instances::possibly_lost_shards(connection, instance))?;
    shards.into_iter().map(|shard| Ok((shard, coverage.overlapping(connection, shard)?))).collect()
}
