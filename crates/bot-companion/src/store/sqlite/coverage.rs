//! Which snapshot says how a guild is: of those that cover it, under whatever count of shards, the one that was committed last.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::feed::{Holder, InstanceId, Life, ShardKey, common_divisor};
use crate::domain::{Snowflake, Time};

use super::instances;

/// The counts of shards under which snapshots were committed: one, but for the time of a resharding.
pub(super) struct Coverage {
    counts: Vec<u32>,
    /// The snapshots being staged that carry something over from what is stored.
    carrying: Vec<(i64, ShardKey)>,
}

/// The snapshot that covers a guild, with the row of `feed_shards` that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) shard_count: u32,
    pub(super) shard_id: u32,
    pub(super) snapshot: i64,
    pub(super) committed: i64,
}

impl Coverage {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        // One step a count: a DISTINCT would walk over every shard.
        let mut next = connection.prepare_cached("SELECT min(shard_count) FROM feed_shards WHERE shard_count > ?1")?;
        let mut counts = Vec::new();
        let mut last = 0;
        while let Some(count) = next.query_row([last], |row| row.get::<_, Option<u32>>(0))? {
            counts.push(count);
            last = count;
        }
        Ok(Self { counts, carrying: Vec::new() })
    }

    /// The same, for work that changes guilds.
    pub(super) fn for_changes(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT id, shard_count, shard_id FROM staged_snapshots WHERE basis IS NOT NULL";
        let mut statement = connection.prepare_cached(sql)?;
        let rows =
            statement.query_map([], |row| Ok((row.get(0)?, ShardKey { count: row.get(1)?, id: row.get(2)? })))?;
        Ok(Self { carrying: rows.collect::<rusqlite::Result<_>>()?, ..Self::load(connection)? })
    }

    /// The snapshots being staged that may carry something of this guild over.
    pub(super) fn carrying(&self, guild: Snowflake) -> impl Iterator<Item = i64> {
        self.carrying.iter().filter(move |(_, shard)| shard.covers(guild)).map(|(snapshot, _)| *snapshot)
    }

    /// Who holds the shard of a guild, from the view of this sender.
    pub(super) fn holder(
        &self,
        connection: &Connection,
        guild: Snowflake,
        sender: &InstanceId,
        life: &Life,
        now: Time,
    ) -> rusqlite::Result<(Holder, Option<InstanceId>)> {
        self.of(connection, guild)?.holder(connection, sender, life, now)
    }

    /// The snapshot that covers a guild; the one with the number 0 if none does.
    pub(super) fn of(&self, connection: &Connection, guild: Snowflake) -> rusqlite::Result<Cover> {
        let mut latest = Cover { shard_count: 0, shard_id: 0, snapshot: 0, committed: 0 };
        for count in &self.counts {
            let shard = ShardKey::of(guild, *count);
            if let Some(cover) = Cover::of_shard(connection, shard)?
                && cover.committed > latest.committed
            {
                latest = cover;
            }
        }
        Ok(latest)
    }

    /// Every snapshot that covers some guild of this shard, which may be one of the same shard.
    pub(super) fn overlapping(&self, connection: &Connection, shard: ShardKey) -> rusqlite::Result<Vec<Cover>> {
        let mut found: Vec<_> = Cover::of_shard(connection, shard)?.into_iter().collect();
        let sql = "SELECT shard_count, shard_id, snapshot, committed FROM feed_shards
            WHERE shard_count = ?1 AND shard_id % ?2 = ?3";
        let mut statement = connection.prepare_cached(sql)?;
        for count in self.counts.iter().filter(|count| **count != shard.count) {
            let common = common_divisor(*count, shard.count);
            for cover in statement.query_map(params![count, common, shard.id % common], Cover::read)? {
                found.push(cover?);
            }
        }
        Ok(found)
    }
}

impl Cover {
    fn of_shard(connection: &Connection, shard: ShardKey) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT shard_count, shard_id, snapshot, committed FROM feed_shards
            WHERE shard_count = ?1 AND shard_id = ?2";
        connection.prepare_cached(sql)?.query_row(params![shard.count, shard.id], Self::read).optional()
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { shard_count: row.get(0)?, shard_id: row.get(1)?, snapshot: row.get(2)?, committed: row.get(3)? })
    }

    /// The shard that it is of.
    pub(super) fn shard(&self) -> ShardKey {
        ShardKey { count: self.shard_count, id: self.shard_id }
    }

    /// Who holds the shard of this snapshot, from the view of this sender.
    pub(super) fn holder(
        &self,
        connection: &Connection,
        sender: &InstanceId,
        life: &Life,
        now: Time,
    ) -> rusqlite::Result<(Holder, Option<InstanceId>)> {
        if self.shard_count == 0 {
            return Ok((Holder::Nobody, None));
        }
        let sql = "SELECT shard.key, shard.instance, first_seen, theirs.started_at, last_used, reported
            FROM feed_shards AS shard
            JOIN feed_instances AS theirs ON theirs.key = shard.key AND theirs.instance = shard.instance
            LEFT JOIN instances ON instances.key = shard.key AND instances.id = shard.instance
            WHERE shard.shard_count = ?1 AND shard_id = ?2";
        let owner = connection
            .prepare_cached(sql)?
            .query_row([self.shard_count, self.shard_id], |row| {
                Ok((instances::read(row, 0)?, instances::life(row, 2)?))
            })
            .optional()?;
        Ok(match owner {
            Some((owner, _)) if owner == *sender => (Holder::Sender, Some(owner)),
            Some((owner, theirs)) => (Holder::other(Some(&theirs), life, now), Some(owner)),
            None => (Holder::Nobody, None),
        })
    }

    /// Notes that the snapshot has this many more guilds, or fewer.
    pub(super) fn count(&self, connection: &Connection, more: i64) -> rusqlite::Result<()> {
        let sql = "UPDATE feed_shards SET guilds = guilds + ?3 WHERE shard_count = ?1 AND shard_id = ?2";
        connection.prepare_cached(sql)?.execute(params![self.shard_count, self.shard_id, more]).map(drop)
    }

    /// Whether the shards of this count that overlap with this snapshot's were all committed after it: then nothing of it counts.
    pub(super) fn is_superseded(&self, connection: &Connection, count: u32) -> rusqlite::Result<bool> {
        let common = common_divisor(self.shard_count, count);
        let sql = "SELECT count(*) FROM feed_shards WHERE shard_count = ?1 AND shard_id % ?2 = ?3 AND committed > ?4";
        let later: u32 = connection
            .prepare_cached(sql)?
            .query_row(params![count, common, self.shard_id % common, self.committed], |row| row.get(0))?;
        Ok(later == count / common)
    }
}
