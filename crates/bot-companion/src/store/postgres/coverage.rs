//! Which snapshot says how a guild is: of those that cover it, under whatever count of shards, the one that was committed last.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;

use crate::domain::Snowflake;
use crate::domain::feed::{InstanceId, ShardKey, common_divisor};

use super::columns::{Whole, integer};
use super::errors::Sql;

/// The counts of shards under which snapshots were committed: one, but for the time of a resharding, and 0, under which stand
/// the guilds that no snapshot covers. One step a count: a DISTINCT would walk over every shard.
macro_rules! counts {
    () => {
        "RECURSIVE counts (count) AS (
            VALUES (0::bigint)
            UNION ALL
            SELECT (SELECT min(shard_count) FROM feed_shards WHERE shard_count > count) FROM counts WHERE count IS NOT NULL)"
    };
}

/// The row of `feed_shards` that covers the guild `asked.guild`; needs the counts. There is at most one row a count; to say so makes
/// the database look each up by its key, instead of walking over every shard for every guild.
macro_rules! cover {
    () => {
        "(SELECT shard.* FROM counts CROSS JOIN LATERAL (SELECT * FROM feed_shards WHERE shard_count = count
            AND shard_id = coalesce((asked.guild >> 22) % nullif(count, 0), 0) LIMIT 1) AS shard
            ORDER BY committed DESC LIMIT 1)"
    };
}

pub(super) use {counts, cover};

/// What covers the guilds that a piece of work is about. It holds until the work ends: whoever changes what the bot said has it
/// to themselves.
pub(super) struct Coverage {
    covers: HashMap<Snowflake, Cover>,
    /// How many guilds more, or fewer, each shard has by now.
    more: BTreeMap<(i64, i64), i64>,
}

/// The snapshot that covers a guild, with the row of `feed_shards` that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    shard: (i64, i64),
    pub(super) snapshot: i64,
    /// Whether it was sent by an instance that started later than the one that is asking.
    pub(super) outranks: bool,
}

impl Coverage {
    /// What covers these guilds, and what of it is not this instance's to change.
    pub(super) async fn of(db: &Transaction<'_>, guilds: &[Snowflake], instance: Option<&InstanceId>) -> Sql<Self> {
        let mut covers = HashMap::new();
        if !guilds.is_empty() {
            let sql = concat!(
                "WITH ",
                counts!(),
                " SELECT asked.guild, cover.shard_count, cover.shard_id, cover.snapshot, EXISTS (
                    SELECT 1 FROM feed_instances AS theirs JOIN feed_instances AS ours ON ours.instance = $2
                    WHERE theirs.instance = cover.instance AND theirs.instance <> ours.instance
                        AND coalesce(theirs.started_at, theirs.first_seen) > coalesce(ours.started_at, ours.first_seen))
                FROM unnest($1::bigint[]) AS asked (guild) CROSS JOIN LATERAL ",
                cover!(),
                " AS cover"
            );
            let statement = db.prepare_cached(sql).await?;
            for row in db.query(&statement, &[&guilds, &instance]).await? {
                let shard = (row.try_get(1)?, row.try_get(2)?);
                covers.insert(row.try_get(0)?, Cover { shard, snapshot: row.try_get(3)?, outranks: row.try_get(4)? });
            }
        }
        Ok(Self { covers, more: BTreeMap::new() })
    }

    /// The snapshot that covers one of the guilds; the one with the number 0 if none does.
    pub(super) fn cover(&self, guild: Snowflake) -> Cover {
        self.covers.get(&guild).copied().unwrap_or(Cover { shard: (0, 0), snapshot: 0, outranks: false })
    }

    /// Notes that the snapshot has this many more guilds, or fewer.
    pub(super) fn count(&mut self, cover: Cover, more: i64) {
        *self.more.entry(cover.shard).or_default() += more;
    }

    /// Writes down what was counted.
    pub(super) async fn write_counts(self, db: &Transaction<'_>) -> Sql<()> {
        for ((shard_count, shard_id), more) in self.more.into_iter().filter(|(_, more)| *more != 0) {
            let sql = "UPDATE feed_shards SET guilds = guilds + $3 WHERE shard_count = $1 AND shard_id = $2";
            let statement = db.prepare_cached(sql).await?;
            db.execute(&statement, &[&shard_count, &shard_id, &more]).await?;
        }
        Ok(())
    }
}

/// A committed snapshot that covers some guild of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) shard: ShardKey,
    pub(super) snapshot: i64,
    pub(super) instance: String,
    committed: i64,
}

impl Sent {
    fn read(row: &Row) -> Sql<Self> {
        let Whole(count) = row.try_get(0)?;
        let Whole(id) = row.try_get(1)?;
        Ok(Self {
            shard: ShardKey { count, id },
            snapshot: row.try_get(2)?,
            instance: row.try_get(3)?,
            committed: row.try_get(4)?,
        })
    }
}

/// Every snapshot that covers some guild of this shard, which may be one of the same shard.
pub(super) async fn overlapping(db: &impl GenericClient, shard: ShardKey) -> Sql<Vec<Sent>> {
    // Apart, because without a resharding the first finds one row and the second none, and neither walks over the shards.
    let sql = "SELECT shard_count, shard_id, snapshot, instance, committed FROM feed_shards
        WHERE shard_count = $1 AND shard_id = $2
        UNION ALL SELECT shard_count, shard_id, snapshot, instance, committed FROM feed_shards
        WHERE (shard_count > 0 AND shard_count < $1 OR shard_count > $1)
            AND shard_id % gcd(shard_count, $1) = $2 % gcd(shard_count, $1)";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&i64::from(shard.count), &i64::from(shard.id)]).await?;
    rows.iter().map(Sent::read).collect()
}

/// When the shards of one count were committed: what tells whether anything of a snapshot of another count still counts.
pub(super) struct Commits {
    count: u32,
    committed: Vec<(u32, i64)>,
}

impl Commits {
    pub(super) async fn of(db: &impl GenericClient, count: u32) -> Sql<Self> {
        let statement = db.prepare_cached("SELECT shard_id, committed FROM feed_shards WHERE shard_count = $1").await?;
        let rows = db.query(&statement, &[&i64::from(count)]).await?;
        let read = |row: &Row| {
            let Whole(id) = row.try_get(0)?;
            Ok((id, row.try_get(1)?))
        };
        Ok(Self { count, committed: rows.iter().map(read).collect::<Sql<_>>()? })
    }

    /// Of these snapshots of other counts, those that the shards of this count were all committed after: nothing of them counts.
    pub(super) fn superseded<'a>(&self, others: &'a [Sent]) -> Vec<&'a Sent> {
        // How many shards have a remainder, and when the first of them was committed; by the divisor that two counts share.
        let mut classes: HashMap<(u32, u32), (u32, i64)> = HashMap::new();
        let mut seen = Vec::new();
        let mut superseded = Vec::new();
        for other in others {
            let common = common_divisor(other.shard.count, self.count);
            if !seen.contains(&common) {
                seen.push(common);
                for (id, committed) in &self.committed {
                    let (number, first) = classes.entry((common, id % common)).or_insert((0, i64::MAX));
                    *number += 1;
                    *first = (*first).min(*committed);
                }
            }
            let class = classes.get(&(common, other.shard.id % common));
            if class.is_some_and(|(number, first)| *number == self.count / common && *first > other.committed) {
                superseded.push(other);
            }
        }
        superseded
    }
}

/// Notes that a snapshot has this many guilds fewer.
pub(super) async fn count_down(db: &Transaction<'_>, snapshot: i64, removed: u64) -> Sql<()> {
    let statement = db.prepare_cached("UPDATE feed_shards SET guilds = guilds - $2 WHERE snapshot = $1").await?;
    db.execute(&statement, &[&snapshot, &integer(removed)]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(count: u32, id: u32, committed: i64) -> Sent {
        Sent { shard: ShardKey { count, id }, snapshot: committed, instance: String::new(), committed }
    }

    #[test]
    fn nothing_counts_of_a_snapshot_whose_guilds_were_all_sent_again_later() {
        let commits = |count, committed: &[(u32, i64)]| Commits { count, committed: committed.to_vec() };
        let old = [committed(2, 0, 10), committed(2, 1, 11), committed(3, 2, 20)];
        let ids = |commits: &Commits| commits.superseded(&old).iter().map(|it| it.snapshot).collect::<Vec<_>>();
        assert_eq!(ids(&commits(4, &[(0, 12), (2, 13)])), [10]);
        assert_eq!(ids(&commits(4, &[(0, 12), (2, 9), (1, 12), (3, 12)])), [11], "one of them is older");
        assert_eq!(ids(&commits(4, &[(0, 21), (1, 22), (2, 23), (3, 24)])), [10, 11, 20]);
        assert_eq!(ids(&commits(4, &[(0, 21), (1, 22), (2, 23)])), [10], "one is missing");
        assert!(ids(&commits(6, &[(2, 30)])).is_empty());
        assert_eq!(ids(&commits(6, &[(2, 30), (5, 31)])), [20]);
    }
}
