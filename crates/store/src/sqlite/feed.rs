//! The bot's numbered events, and the state of the feed.

use domain::Time;
use domain::feed::{
    BatchOutcome, CommittedShard, Event, EventBatch, FeedState, InstanceId, Question, ShardKey, ShardState,
};
use rusqlite::Connection;

use super::columns::{ReadColumn as _, readable, unsigned};
use super::coverage::Coverage;
use super::writer::ChangedTopics;
use super::{changes, instances, totals};
use crate::totals_change::TotalsChange;

pub(super) fn feed(
    connection: &Connection,
    topics: &mut ChangedTopics,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> rusqlite::Result<BatchOutcome> {
    let Some(sender) = instances::admit(connection, instance, now)? else { return Ok(BatchOutcome::KeyRefused) };
    let mut batch = EventBatch::new(&sender, first, events, now);
    let coverage = Coverage::for_changes(connection)?;
    while let Some(question) = batch.question() {
        match question {
            Question::Owner(guild) => batch.answer_owner(coverage.owner(connection, guild)?),
            Question::OwnShards => batch.answer_own_shards(instances::own_shards(connection, instance)?),
            Question::Overlapping(shard) => batch.answer_overlapping(shard, &coverage.overlapping(connection, shard)?),
            Question::LostShards => batch.answer_lost_shards(&lost_shards(connection, &coverage, instance)?),
        }
    }
    let (fed, changes) = batch.finish();
    let mut change_of_totals = TotalsChange::default();
    for change in changes {
        changes::apply_one(connection, topics, &coverage, &mut change_of_totals, change)?;
    }
    totals::write(connection, &change_of_totals)?;
    instances::advance(connection, &sender, fed.next())?;
    Ok(fed)
}

/// The shards that an instance has named and that may hold another one's data, with the snapshots overlapping with each.
fn lost_shards(
    connection: &Connection,
    coverage: &Coverage,
    instance: &InstanceId,
) -> rusqlite::Result<Vec<(ShardKey, Vec<CommittedShard>)>> {
    let shards = instances::possibly_lost_shards(connection, instance)?;
    shards.into_iter().map(|shard| Ok((shard, coverage.overlapping(connection, shard)?))).collect()
}

/// Everything stored that the bot has sent. After a resharding, guilds that moved count under both shards until they are
/// cleaned up.
pub(super) fn state(connection: &Connection) -> rusqlite::Result<FeedState> {
    let count = |sql| connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).map(unsigned);
    Ok(FeedState {
        instances: instances::states(connection)?,
        shards: shards(connection)?,
        guilds: count("SELECT sum(guilds) FROM feed_shards")?,
        subscriptions: count("SELECT count(*) FROM subscriptions")?,
        feedback: count("SELECT feedback FROM totals")?,
        team: count("SELECT count(*) FROM team")?,
    })
}

fn shards(connection: &Connection) -> rusqlite::Result<Vec<ShardState>> {
    let sql = "SELECT shard_count, shard_id, key, instance, snapshot_at, guilds FROM feed_shards WHERE shard_count > 0
        ORDER BY shard_count, shard_id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(ShardState {
            shard: ShardKey { count: row.get(0)?, id: row.get(1)? },
            instance: instances::read(row, 2)?,
            snapshot_at: row.column(4)?,
            guilds: unsigned(row.get(5)?),
        })
    })?;
    readable("shard", rows)
}
