//! Which snapshot is authoritative for a guild: the one committed last among those that cover it, under any shard count.

use domain::Snowflake;
use domain::feed::{Commits, CommittedShard, Owner, ShardKey, UNCOVERED, common_divisor};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{instance, life};

/// The shard counts under which snapshots were committed: one, except during a resharding.
pub(super) struct Coverage {
    counts: Vec<u32>,
    /// The snapshots being staged that carry stored data over.
    carrying: Vec<(i64, ShardKey)>,
}

/// The snapshot that covers a guild, with its row of `feed_shards`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    shard_count: u32,
    shard_id: u32,
    pub(super) snapshot: i64,
    committed: i64,
}

/// The committed shards that meet a condition, with what is known about their owners.
macro_rules! committed_shards {
    ($condition:literal) => {
        concat!(
            "SELECT shard.shard_count, shard_id, snapshot, committed, shard.key, shard.instance,
                first_seen, owner.started_at, last_used, reported
            FROM feed_shards AS shard
            LEFT JOIN feed_instances AS owner ON owner.key = shard.key AND owner.instance = shard.instance
            LEFT JOIN instances ON instances.key = shard.key AND instances.id = shard.instance
            WHERE ",
            $condition
        )
    };
}

impl Coverage {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        // One step per count, because a DISTINCT would go through every shard.
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

    /// The snapshots being staged that may carry data of this guild over.
    pub(super) fn carrying(&self, guild: Snowflake) -> impl Iterator<Item = i64> {
        self.carrying.iter().filter(move |(_, shard)| shard.covers(guild)).map(|(snapshot, _)| *snapshot)
    }

    /// The snapshot that covers a guild; that of the uncovered guilds if none does.
    pub(super) fn of(&self, connection: &Connection, guild: Snowflake) -> rusqlite::Result<Cover> {
        let sql = "SELECT shard_count, shard_id, snapshot, committed FROM feed_shards
            WHERE shard_count = ?1 AND shard_id = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let mut latest = Cover { shard_count: 0, shard_id: 0, snapshot: UNCOVERED, committed: 0 };
        for count in &self.counts {
            let shard = ShardKey::of(guild, *count);
            if let Some(cover) = statement.query_row(params![shard.count, shard.id], Cover::read).optional()?
                && cover.committed > latest.committed
            {
                latest = cover;
            }
        }
        Ok(latest)
    }

    /// Who sent the snapshot that covers a guild.
    pub(super) fn owner(&self, connection: &Connection, guild: Snowflake) -> rusqlite::Result<Option<Owner>> {
        let Cover { shard_count: count, shard_id: id, .. } = self.of(connection, guild)?;
        Ok(committed(connection, ShardKey { count, id })?.map(|committed| committed.owner))
    }

    /// Every snapshot that covers some guild of this shard, possibly one of the same shard.
    pub(super) fn overlapping(
        &self,
        connection: &Connection,
        shard: ShardKey,
    ) -> rusqlite::Result<Vec<CommittedShard>> {
        let mut found: Vec<_> = committed(connection, shard)?.into_iter().collect();
        let sql = committed_shards!("shard.shard_count = ?1 AND shard_id % ?2 = ?3");
        let mut statement = connection.prepare_cached(sql)?;
        for count in self.counts.iter().filter(|count| **count != shard.count) {
            let common = common_divisor(*count, shard.count);
            for committed in statement.query_map(params![count, common, shard.id % common], read_committed)? {
                found.push(committed?);
            }
        }
        Ok(found)
    }
}

/// The snapshot of a shard that was committed last.
fn committed(connection: &Connection, shard: ShardKey) -> rusqlite::Result<Option<CommittedShard>> {
    let sql = committed_shards!("shard.shard_count = ?1 AND shard.shard_count > 0 AND shard_id = ?2");
    connection.prepare_cached(sql)?.query_row(params![shard.count, shard.id], read_committed).optional()
}

fn read_committed(row: &Row<'_>) -> rusqlite::Result<CommittedShard> {
    Ok(CommittedShard {
        shard: ShardKey { count: row.get(0)?, id: row.get(1)? },
        snapshot: row.get(2)?,
        committed: row.get(3)?,
        owner: Owner { instance: instance(row, 4)?, life: life(row, 6)? },
    })
}

/// When each shard of this count was committed.
pub(super) fn commits(connection: &Connection, count: u32) -> rusqlite::Result<Box<Commits>> {
    let sql = "SELECT shard_id, committed FROM feed_shards WHERE shard_count = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([count], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

impl Cover {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { shard_count: row.get(0)?, shard_id: row.get(1)?, snapshot: row.get(2)?, committed: row.get(3)? })
    }

    /// The row's key: count and ID.
    pub(super) fn shard(&self) -> (i64, i64) {
        (self.shard_count.into(), self.shard_id.into())
    }
}
