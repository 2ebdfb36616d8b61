//! The bot's events, numbered, and what the feed holds.

use rusqlite::Connection;

use crate::domain::Time;
use crate::domain::feed::{Event, FeedState, Holder, InstanceId, ShardKey, ShardState, Verdict, judge};
use crate::store::{Fed, Foreign};

use super::columns::{readable, unsigned};
use super::coverage::Coverage;
use super::writer::Touched;
use super::{changes, instances, keys};

pub(super) fn feed(
    connection: &Connection,
    touched: &mut Touched,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> rusqlite::Result<Fed> {
    if !keys::is_good(connection, &instance.key)? {
        return Ok(Fed::KeyRefused);
    }
    let sender = instances::touch(connection, instance, now)?;
    let next = sender.next;
    let end = first.saturating_add(events.len() as u64);
    if first > next {
        return Ok(Fed::Resync { next });
    }
    if end <= next {
        return Ok(Fed::Applied { applied: 0, ignored: events.len() as u64, next, foreign: Foreign::default() });
    }
    let coverage = Coverage::for_changes(connection)?;
    // Fits: the repeats are fewer than the events.
    let repeats = usize::try_from(next - first).unwrap_or(usize::MAX);
    let new = events.iter().skip(repeats).filter_map(|event| match event {
        Event::Change(change) => Some(change),
        Event::Ignored(_) => None,
    });
    let mut own = None;
    let (mut said, mut foreign) = (Vec::new(), Foreign::default());
    for change in new {
        let verdict = match change.guild() {
            None => Verdict::Apply,
            Some(guild) => {
                let (holder, owner) = coverage.holder(connection, guild, instance, &sender.life, now)?;
                let named = holder == Holder::Nobody && {
                    let own = match &mut own {
                        Some(own) => own,
                        none => none.insert(instances::own(connection, instance)?),
                    };
                    own.name(guild)
                };
                foreign.owner = owner.filter(|_| holder == Holder::Later).or(foreign.owner);
                judge(holder, named, sender.sent_snapshot)
            }
        };
        match verdict {
            Verdict::Apply => said.push(change),
            Verdict::Overruled => foreign.overruled += 1,
            Verdict::Unclaimed => foreign.unclaimed += 1,
            Verdict::Resync => return Ok(Fed::Resync { next }),
        }
    }
    let applied = said.len() as u64;
    for change in said {
        changes::apply_one(connection, touched, &coverage, change)?;
    }
    instances::advance(connection, instance, end)?;
    Ok(Fed::Applied { applied, ignored: events.len() as u64 - applied, next: end, foreign })
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
    let sql = "SELECT shard_count, shard_id, key, instance, snapshot_at, guilds FROM feed_shards WHERE shard_count > 0
        ORDER BY shard_count, shard_id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(ShardState {
            shard: ShardKey { count: row.get(0)?, id: row.get(1)? },
            instance: instances::read(row, 2)?,
            snapshot_at: row.get(4)?,
            guilds: unsigned(row.get(5)?),
        })
    })?;
    readable("shard", rows)
}
