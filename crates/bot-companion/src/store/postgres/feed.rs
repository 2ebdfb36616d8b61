//! The bot's events, numbered, and what the feed holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use deadpool_postgres::{GenericClient, Transaction};

use crate::domain::feed::{
    Event, FeedState, Holder, InstanceId, Life, Named, OwnShards, ShardKey, ShardState, Verdict, judge,
};
use crate::domain::{Change, Snowflake, Time};
use crate::store::{Fed, Foreign};

use super::columns::{Whole, readable, unsigned};
use super::coverage::{self, Coverage};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::snapshots::later_owner;
use super::work::Touched;
use super::{changes, instances, keys};

pub(super) async fn feed(
    db: &Transaction<'_>,
    touched: &mut Touched,
    instance: &InstanceId,
    first: u64,
    events: &[Event],
    now: Time,
) -> Sql<Fed> {
    lock(db, Lock::Feed).await?;
    if !keys::is_good(db, &instance.key).await? {
        return Ok(Fed::KeyRefused);
    }
    let sender = instances::touch(db, instance, now).await?;
    let next = sender.next;
    let end = first.saturating_add(events.len() as u64);
    if first > next {
        return Ok(Fed::Resync { next });
    }
    if end <= next {
        return Ok(Fed::Applied { applied: 0, ignored: events.len() as u64, next, foreign: Foreign::default() });
    }
    // Fits: the repeats are fewer than the events.
    let repeats = usize::try_from(next - first).unwrap_or(usize::MAX);
    let new = events.iter().skip(repeats).filter_map(|event| match event {
        Event::Change(change) => Some(change),
        Event::Ignored(_) => None,
    });
    let guilds: Vec<_> = new.clone().filter_map(Change::guild).collect();
    let mut coverage = Coverage::for_changes(db, &guilds).await?;
    let mut naming = Naming { instance, life: &sender.life, own: None, taken: HashMap::new(), now };
    let (mut said, mut foreign) = (Vec::new(), Foreign::default());
    for change in new {
        let verdict = match change.guild() {
            None => Verdict::Apply,
            Some(guild) => {
                let cover = coverage.cover(guild);
                let (holder, owner) = cover.holder(instance, &sender.life, now);
                let (mut named, mut owner) = (Named::No, owner.cloned());
                if holder == Holder::Nobody {
                    (named, owner) = naming.of(db, guild).await?;
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
        changes::apply_one(db, touched, &mut coverage, change).await?;
    }
    coverage.write_counts(db).await?;
    instances::advance(db, instance, end).await?;
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
    async fn of(&mut self, db: &Transaction<'_>, guild: Snowflake) -> Sql<(Named, Option<InstanceId>)> {
        let own = match &mut self.own {
            Some(own) => own,
            none => none.insert(instances::own(db, self.instance).await?),
        };
        let mut found = (Named::No, None);
        for shard in own.of(guild) {
            let taken = match self.taken.entry(shard) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let overlapping = coverage::overlapping(db, shard).await?;
                    let owner = later_owner(shard, &overlapping, self.instance, self.life, self.now);
                    unknown.insert(owner.cloned())
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
    let sql = "SELECT shard_count, shard_id, key, instance, snapshot_at, guilds FROM feed_shards WHERE shard_count > 0
        ORDER BY shard_count, shard_id";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("shard", &db.query(&statement, &[]).await?, |row| {
        let Whole(count) = row.try_get(0)?;
        let Whole(id) = row.try_get(1)?;
        Ok(ShardState {
            shard: ShardKey { count, id },
            instance: instances::read(row, 2)?,
            snapshot_at: row.try_get(4)?,
            guilds: unsigned(row.try_get(5)?),
        })
    }))
}
