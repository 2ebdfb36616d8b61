//! Which snapshot is authoritative for a guild: the one committed last among those that cover it, under any shard count.

use std::collections::{BTreeMap, HashMap};

use domain::Snowflake;
use domain::feed::{Commits, CommittedShard, Life, Owner, ShardKey, UNCOVERED, common_divisor};

use super::{Database, Read, Result, Row, Value, instances, values};

/// The shard counts under which snapshots were committed: one, except during a resharding, and 0 for the guilds that no
/// snapshot covers. One step per count, because a DISTINCT would go through every shard.
const COUNTS: &str = "WITH RECURSIVE counts (count) AS MATERIALIZED (
        VALUES (CAST(0 AS BIGINT))
        UNION ALL
        SELECT (SELECT min(shard_count) FROM feed_shards WHERE shard_count > count) FROM counts WHERE count IS NOT NULL)";

/// The columns of a committed shard with what is known about its owner.
const COMMITTED: &str = "cover.shard_count, cover.shard_id, cover.snapshot, cover.committed, cover.key, cover.instance,
        owner.first_seen, owner.started_at, owner.last_used, beats.reported";

/// Finds one shard.
const SHARD: &str = "cover.shard_count = ?1 AND cover.shard_id = ?2";

/// Joins what is known about the owner.
const OWNER: &str = "LEFT JOIN feed_instances AS owner ON owner.key = cover.key AND owner.instance = cover.instance
        LEFT JOIN instances AS beats ON beats.key = cover.key AND beats.id = cover.instance";

/// Selects these columns of the guilds in a parameter, `asked.guild`, and of the rows of `feed_shards` that cover them, `cover`.
pub(crate) fn select_covered<D: Database>(columns: &str, guilds: &str) -> String {
    format!("{COUNTS} SELECT {columns} FROM {}", D::WORDS.covered.put(guilds))
}

/// What covers the guilds that a piece of work is about. It stays true until the work ends, because changes to the bot's data
/// wait for the feed's lock.
pub(crate) struct Coverage {
    covers: HashMap<Snowflake, Cover>,
    /// Who sent the snapshots that were asked about.
    owners: HashMap<i64, Owner>,
    /// The snapshots being staged that carry stored data over.
    carrying: Vec<(i64, ShardKey)>,
    /// How many members each of the stored guilds has. Read together with everything else, because asking for each guild as it
    /// changes takes a quarter longer.
    members: HashMap<Snowflake, i64>,
}

/// The snapshot that covers a guild, with its row of `feed_shards`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    /// The row's key: count and ID.
    pub(crate) shard: (i64, i64),
    pub(crate) snapshot: i64,
}

/// A guild with the snapshot that covers it.
pub(crate) struct Covered {
    pub(crate) guild: Snowflake,
    pub(crate) cover: Cover,
    /// How many members it has, if the snapshot has the guild.
    pub(crate) members: Option<i64>,
}

/// See [`Database::covered`].
pub(super) async fn covered<D: Database>(db: &D, guilds: &[Snowflake]) -> Result<Vec<Covered>, D> {
    let columns = "asked.guild, cover.shard_count, cover.shard_id, cover.snapshot, stored.members";
    let sql = format!(
        "{} LEFT JOIN guilds AS stored ON stored.snapshot = cover.snapshot AND stored.id = asked.guild",
        select_covered::<D>(columns, "?1")
    );
    let read = |row: &Row| {
        let cover = Cover { shard: (row.get(1)?, row.get(2)?), snapshot: row.get(3)? };
        Ok(Covered { guild: row.get(0)?, cover, members: row.get(4)? })
    };
    Ok(db.query(&sql, &values![guilds]).await?.iter().map(read).collect::<Read<_>>()?)
}

impl Coverage {
    /// What covers these guilds.
    pub(crate) async fn of<D: Database>(db: &D, guilds: &[Snowflake]) -> Result<Self, D> {
        let mut coverage =
            Self { covers: HashMap::new(), owners: HashMap::new(), carrying: Vec::new(), members: HashMap::new() };
        if !guilds.is_empty() {
            for Covered { guild, cover, members } in db.covered(guilds).await? {
                coverage.covers.insert(guild, cover);
                coverage.members.extend(members.map(|members| (guild, members)));
            }
        }
        Ok(coverage)
    }

    /// The same, for work that changes guilds.
    pub(crate) async fn for_changes<D: Database>(db: &D, guilds: &[Snowflake]) -> Result<Self, D> {
        let (coverage, carrying) = futures_util::try_join!(Self::of(db, guilds), carrying(db, guilds))?;
        Ok(Self { carrying, ..coverage })
    }

    /// Records the new number of members of one of the guilds, if it exists, and returns the old one.
    pub(super) fn replace_members(&mut self, guild: Snowflake, members: Option<i64>) -> Option<i64> {
        match members {
            Some(members) => self.members.insert(guild, members),
            None => self.members.remove(&guild),
        }
    }

    /// The snapshots being staged that may carry data of this guild over.
    pub(super) fn carrying(&self, guild: Snowflake) -> Vec<i64> {
        let covering = self.carrying.iter().filter(|(_, shard)| shard.covers(guild));
        covering.map(|(snapshot, _)| *snapshot).collect()
    }

    /// The snapshot that covers one of the guilds; that of the uncovered guilds if none does.
    pub(super) fn cover(&self, guild: Snowflake) -> Cover {
        self.covers.get(&guild).copied().unwrap_or(Cover { shard: (0, 0), snapshot: UNCOVERED })
    }

    /// Who sent that snapshot. Each is looked up once: a batch is about few shards.
    pub(super) async fn owner<D: Database>(&mut self, db: &D, guild: Snowflake) -> Result<Option<&Owner>, D> {
        let Cover { shard: (count, id), snapshot } = self.cover(guild);
        if snapshot != UNCOVERED && !self.owners.contains_key(&snapshot) {
            let found = committed(db, SHARD, &values![count, id]).await?;
            self.owners.extend(found.into_iter().map(|committed| (committed.snapshot, committed.owner)));
        }
        Ok(self.owners.get(&snapshot))
    }

    /// Some of the guilds by the snapshots that cover them.
    pub(crate) fn by_snapshot(&self, guilds: &[Snowflake]) -> BTreeMap<i64, Vec<Snowflake>> {
        let mut by_snapshot: BTreeMap<i64, Vec<Snowflake>> = BTreeMap::new();
        for guild in guilds {
            by_snapshot.entry(self.cover(*guild).snapshot).or_default().push(*guild);
        }
        by_snapshot
    }
}

/// The snapshots being staged that carry stored data over, if there are guilds that this could matter to.
async fn carrying<D: Database>(db: &D, guilds: &[Snowflake]) -> Result<Vec<(i64, ShardKey)>, D> {
    if guilds.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, shard_count, shard_id FROM staged_snapshots WHERE basis IS NOT NULL";
    let read = |row: &Row| Ok((row.get(0)?, ShardKey { count: row.get(1)?, id: row.get(2)? }));
    Ok(db.query(sql, &[]).await?.iter().map(read).collect::<Read<_>>()?)
}

fn read_owner(row: &Row) -> Read<Owner> {
    let life = match (row.get(6)?, row.get(8)?) {
        (Some(first_seen), Some(last_call)) => {
            Some(Life { first_seen, reported_start: row.get(7)?, last_call, last_heartbeat: row.get(9)? })
        }
        _ => None,
    };
    Ok(Owner { instance: instances::read(row, 4)?, life })
}

/// Every snapshot that covers some guild of this shard, possibly one of the same shard.
pub(crate) async fn overlapping<D: Database>(db: &D, shard: ShardKey) -> Result<Vec<CommittedShard>, D> {
    let key = values![shard.count, shard.id];
    let own = committed(db, SHARD, &key);
    let (mut found, counts) = futures_util::try_join!(own, counts(db))?;
    // None without a resharding.
    for count in counts.into_iter().filter(|count| *count != shard.count) {
        let common = common_divisor(count, shard.count);
        let condition = "cover.shard_count = ?1 AND cover.shard_id % ?2 = ?3";
        found.extend(committed(db, condition, &values![count, common, shard.id % common]).await?);
    }
    Ok(found)
}

/// The committed shards that meet a condition on these numbers.
async fn committed<D: Database>(db: &D, condition: &str, numbers: &[Value<'_>]) -> Result<Vec<CommittedShard>, D> {
    let sql = format!("SELECT {COMMITTED} FROM feed_shards AS cover {OWNER} WHERE {condition}");
    let read = |row: &Row| {
        let shard = ShardKey { count: row.get(0)?, id: row.get(1)? };
        Ok(CommittedShard { shard, snapshot: row.get(2)?, committed: row.get(3)?, owner: read_owner(row)? })
    };
    Ok(db.query(&sql, numbers).await?.iter().map(read).collect::<Read<_>>()?)
}

async fn counts<D: Database>(db: &D) -> Result<Vec<u32>, D> {
    let rows = db.query(&format!("{COUNTS} SELECT count FROM counts WHERE count > 0"), &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect::<Read<_>>()?)
}

/// When each shard of this count was committed.
pub(crate) async fn commits<D: Database>(db: &D, count: u32) -> Result<Box<Commits>, D> {
    let rows = db.query("SELECT shard_id, committed FROM feed_shards WHERE shard_count = ?1", &values![count]).await?;
    Ok(rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Read<_>>()?)
}
