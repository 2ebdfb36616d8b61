//! Which snapshot is authoritative for a guild: the one committed last among those that cover it, under any shard count.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use domain::Snowflake;
use domain::feed::{Commits, CommittedShard, Owner, ShardKey, UNCOVERED};
use tokio_postgres::Row;

use super::columns::{ReadColumn as _, Whole, ids, instance, life};
use super::errors::Sql;

/// The shard counts under which snapshots were committed: one, except during a resharding, and 0 for the guilds that no
/// snapshot covers. One step per count, because a DISTINCT would go through every shard.
macro_rules! counts {
    () => {
        "RECURSIVE counts (count) AS (
            VALUES (0::bigint)
            UNION ALL
            SELECT (SELECT min(shard_count) FROM feed_shards WHERE shard_count > count) FROM counts WHERE count IS NOT NULL)"
    };
}

/// The row of `feed_shards` that covers the guild `asked.guild`; needs the counts. There is at most one row per count; saying
/// so makes the database look each one up by key, instead of going through every shard for every guild.
macro_rules! cover {
    () => {
        "(SELECT shard.* FROM counts CROSS JOIN LATERAL (SELECT * FROM feed_shards WHERE shard_count = count
            AND shard_id = coalesce((asked.guild >> 22) % nullif(count, 0), 0) LIMIT 1) AS shard
            ORDER BY committed DESC LIMIT 1)"
    };
}

pub(super) use {counts, cover};

/// What covers the guilds that a piece of work is about. It stays true until the work ends, because changes to the bot's data
/// wait for the feed's lock.
pub(super) struct Coverage {
    covers: HashMap<Snowflake, Cover>,
    /// The snapshots being staged that carry stored data over.
    carrying: Vec<(i64, ShardKey)>,
    /// How many members each of the stored guilds has; only for work that changes them. Read together with everything else,
    /// because asking for each guild as it changes takes a quarter longer.
    members: HashMap<Snowflake, i64>,
}

/// The snapshot that covers a guild, with its row of `feed_shards`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) shard: (i64, i64),
    pub(super) snapshot: i64,
    /// Who sent it.
    pub(super) owner: Option<Owner>,
}

/// What is known about the owner of `$shard`.
macro_rules! owner {
    ($shard:literal) => {
        concat!(
            " LEFT JOIN feed_instances AS owner ON owner.key = ",
            $shard,
            ".key AND owner.instance = ",
            $shard,
            ".instance LEFT JOIN instances AS beats ON beats.key = ",
            $shard,
            ".key AND beats.id = ",
            $shard,
            ".instance "
        )
    };
}

/// What covers the guilds `$1`, with what is known about the owner, and last how many members each has: `$members`, which
/// `$join` finds.
macro_rules! covers {
    ($members:literal, $join:literal) => {
        concat!(
            "WITH ",
            counts!(),
            " SELECT asked.guild, cover.shard_count, cover.shard_id, cover.snapshot, cover.key, cover.instance,
                owner.first_seen, owner.started_at, owner.last_used, beats.reported, ",
            $members,
            " FROM unnest($1::bigint[]) AS asked (guild) CROSS JOIN LATERAL ",
            cover!(),
            " AS cover",
            owner!("cover"),
            $join
        )
    };
}

impl Coverage {
    /// What covers these guilds.
    pub(super) async fn of(db: &Transaction<'_>, guilds: &[Snowflake]) -> Sql<Self> {
        Self::load(db, guilds, covers!("NULL::bigint", "")).await
    }

    async fn load(db: &Transaction<'_>, guilds: &[Snowflake], sql: &str) -> Sql<Self> {
        let (mut covers, mut members) = (HashMap::new(), HashMap::new());
        if !guilds.is_empty() {
            let statement = db.prepare_cached(sql).await?;
            for row in db.query(&statement, &[&ids(guilds)]).await? {
                let (shard, snapshot) = ((row.try_get(1)?, row.try_get(2)?), row.try_get(3)?);
                let owner = if snapshot == UNCOVERED { None } else { Some(read_owner(&row, 4)?) };
                covers.insert(row.column(0)?, Cover { shard, snapshot, owner });
                if let Some(known) = row.try_get(10)? {
                    members.insert(row.column(0)?, known);
                }
            }
        }
        Ok(Self { covers, carrying: Vec::new(), members })
    }

    /// The same, for work that changes guilds.
    pub(super) async fn for_changes(db: &Transaction<'_>, guilds: &[Snowflake]) -> Sql<Self> {
        let sql = covers!(
            "stored.members",
            " LEFT JOIN guilds AS stored ON stored.snapshot = cover.snapshot AND stored.id = asked.guild"
        );
        let coverage = Self::load(db, guilds, sql).await?;
        if guilds.is_empty() {
            return Ok(coverage);
        }
        let sql = "SELECT id, shard_count, shard_id FROM staged_snapshots WHERE basis IS NOT NULL";
        let statement = db.prepare_cached(sql).await?;
        let read = |row: &Row| {
            let (Whole(count), Whole(id)) = (row.try_get(1)?, row.try_get(2)?);
            Ok((row.try_get(0)?, ShardKey { count, id }))
        };
        let carrying = db.query(&statement, &[]).await?.iter().map(read).collect::<Sql<_>>()?;
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
        self.covers.get(&guild).cloned().unwrap_or(Cover { shard: (0, 0), snapshot: UNCOVERED, owner: None })
    }
}

/// Reads an owner from the columns of its ID and its timestamps.
fn read_owner(row: &Row, first: usize) -> Sql<Owner> {
    Ok(Owner { instance: instance(row, first)?, life: life(row, first + 2)? })
}

/// Every snapshot that covers some guild of this shard, possibly one of the same shard.
pub(super) async fn overlapping(db: &impl GenericClient, shard: ShardKey) -> Sql<Vec<CommittedShard>> {
    // Separate queries, because without a resharding the first finds one row and the second none, and neither goes through the
    // shards.
    let sql = concat!(
        "SELECT shard.shard_count, shard_id, snapshot, committed, shard.key, shard.instance,
            owner.first_seen, owner.started_at, owner.last_used, beats.reported
        FROM (SELECT * FROM feed_shards WHERE shard_count = $1 AND shard_id = $2
            UNION ALL SELECT * FROM feed_shards
            WHERE (shard_count > 0 AND shard_count < $1 OR shard_count > $1)
                AND shard_id % gcd(shard_count, $1) = $2 % gcd(shard_count, $1)) AS shard",
        owner!("shard")
    );
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&i64::from(shard.count), &i64::from(shard.id)]).await?;
    let read = |row: &Row| {
        let (Whole(count), Whole(id)) = (row.try_get(0)?, row.try_get(1)?);
        let (snapshot, committed) = (row.try_get(2)?, row.try_get(3)?);
        Ok(CommittedShard { shard: ShardKey { count, id }, snapshot, committed, owner: read_owner(row, 4)? })
    };
    rows.iter().map(read).collect()
}

/// When each shard of this count was committed.
pub(super) async fn commits(db: &impl GenericClient, count: u32) -> Sql<Box<Commits>> {
    let statement = db.prepare_cached("SELECT shard_id, committed FROM feed_shards WHERE shard_count = $1").await?;
    let rows = db.query(&statement, &[&i64::from(count)]).await?;
    let read = |row: &Row| {
        let Whole(id) = row.try_get(0)?;
        Ok((id, row.try_get(1)?))
    };
    rows.iter().map(read).collect()
}
