//! The bot's events, numbered, and what the feed holds.

use rusqlite::Connection;

use crate::domain::feed::{Event, FeedState, InstanceId, ShardKey, ShardState};
use crate::domain::{Change, Time};
use crate::store::Fed;

use super::columns::{readable, unsigned};
use super::coverage::Coverage;
use super::writer::Touched;
use super::{changes, instances};

pub(super) fn feed(
    connection: &Connection,
    touched: &mut Touched,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> rusqlite::Result<Fed> {
    let next = instances::next(connection, instance)?;
    let end = first.saturating_add(events.len() as u64);
    if first > next {
        return Ok(Fed::Gap { next });
    }
    if end <= next {
        return Ok(Fed::Applied { applied: 0, ignored: events.len() as u64, next });
    }
    instances::advance(connection, instance, end, now, now)?;
    let coverage = Coverage::load(connection)?;
    let mut applied = 0;
    // Fits: the repeats are fewer than the events.
    let repeats = usize::try_from(next - first).unwrap_or(usize::MAX);
    for event in events.iter().skip(repeats) {
        if let Event::Change(change) = event
            && may_say(connection, &coverage, instance, change)?
        {
            changes::apply_one(connection, touched, &coverage, change)?;
            applied += 1;
        }
    }
    Ok(Fed::Applied { applied, ignored: events.len() as u64 - applied, next: end })
}

/// Whether the change is the instance's to say: a shard belongs to the latest-started one that has sent its snapshot.
fn may_say(
    connection: &Connection,
    coverage: &Coverage,
    instance: &InstanceId,
    change: &Change,
) -> rusqlite::Result<bool> {
    let Some(guild) = change.guild() else { return Ok(true) };
    Ok(!instances::is_outranked(connection, instance, &coverage.of(connection, guild)?)?)
}

/// What the feed holds. While a resharding is being cleaned up behind, guilds that moved count under both their shards.
pub(super) fn state(connection: &Connection) -> rusqlite::Result<FeedState> {
    let count = |sql| connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).map(unsigned);
    Ok(FeedState {
        instances: instances::states(connection)?,
        shards: shards(connection)?,
        guilds: count("SELECT sum(guilds) FROM feed_shards")?,
        subscriptions: count("SELECT count(*) FROM subscriptions")?,
        feedback: count("SELECT count(*) FROM feedback")?,
        team: count("SELECT count(*) FROM team")?,
    })
}

fn shards(connection: &Connection) -> rusqlite::Result<Vec<ShardState>> {
    let sql = "SELECT shard_count, shard_id, instance, snapshot_at, guilds FROM feed_shards WHERE shard_count > 0
        ORDER BY shard_count, shard_id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(ShardState {
            shard: ShardKey { count: row.get(0)?, id: row.get(1)? },
            instance: row.get(2)?,
            snapshot_at: row.get(3)?,
            guilds: unsigned(row.get(4)?),
        })
    })?;
    readable("shard", rows)
}
