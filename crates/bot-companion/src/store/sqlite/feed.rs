//! The bot's events, numbered, and what the feed holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::Connection;

use crate::domain::feed::{
    Event, FeedState, Holder, InstanceId, Life, Named, OwnShards, ShardKey, ShardState, Verdict, judge,
};
use crate::domain::{Snowflake, Time};
use crate::store::{Fed, Foreign};

use super::columns::{readable, unsigned};
use super::coverage::Coverage;
use super::snapshots::later_owner;
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
    let mut naming = Naming { instance, life: &sender.life, own: None, taken: HashMap::new(), now };
    let (mut said, mut foreign) = (Vec::new(), Foreign::default());
    for change in new {
        let verdict = match change.guild() {
            None => Verdict::Apply,
            Some(guild) => {
                let (holder, mut owner) = coverage.holder(connection, guild, instance, &sender.life, now)?;
                let mut named = Named::No;
                if holder == Holder::Nobody {
                    (named, owner) = naming.of(connection, &coverage, guild)?;
                }
                let verdict = judge(holder, named, sender.sent_snapshot);
                foreign.owner = owner.filter(|_| verdict == Verdict::Overruled).or(foreign.owner);
                verdict
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

/// Which shards a sender has called its own. Looked up only if nobody holds the shard of a guild, and each shard once.
struct Naming<'a> {
    instance: &'a InstanceId,
    life: &'a Life,
    own: Option<OwnShards>,
    /// Who keeps the sender's snapshot from taking a shard.
    taken: HashMap<ShardKey, Option<InstanceId>>,
    now: Time,
}

impl Naming<'_> {
    fn of(
        &mut self,
        connection: &Connection,
        coverage: &Coverage,
        guild: Snowflake,
    ) -> rusqlite::Result<(Named, Option<InstanceId>)> {
        let own = match &mut self.own {
            Some(own) => own,
            none => none.insert(instances::own(connection, self.instance)?),
        };
        let mut found = (Named::No, None);
        for shard in own.of(guild) {
            let taken = match self.taken.entry(shard) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let overlapping = coverage.overlapping(connection, shard)?;
                    let (sender, life) = (self.instance, self.life);
                    unknown.insert(later_owner(connection, shard, &overlapping, sender, life, self.now)?)
                }
            };
            match taken {
                None => return Ok((Named::Free, None)),
                Some(owner) => found = (Named::InVain, Some(owner.clone())),
            }
        }
        Ok(found)
    }
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
