//! Which snapshot says how a guild is: of those that cover it, under whatever count of shards, the one that was committed last.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::domain::Snowflake;
use crate::domain::feed::{ShardKey, common_divisor};

/// The counts of shards under which snapshots were committed: one, but for the time of a resharding.
pub(super) struct Coverage {
    counts: Vec<u32>,
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
        Ok(Self { counts })
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
