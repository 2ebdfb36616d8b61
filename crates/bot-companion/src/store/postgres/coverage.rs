//! Which snapshot says how a guild is: of those that cover it, under whatever count of shards, the one that was committed last.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;

use crate::domain::feed::{Holder, InstanceId, Life, ShardKey, common_divisor};
use crate::domain::{Snowflake, Time};

use super::columns::{Whole, integer};
use super::errors::Sql;
use super::instances;

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
    /// The snapshots being staged that carry something over from what is stored.
    carrying: Vec<(i64, ShardKey)>,
}

/// The snapshot that covers a guild, with the row of `feed_shards` that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    shard: (i64, i64),
    pub(super) snapshot: i64,
    owner: Option<(InstanceId, Option<Life>)>,
}

impl Cover {
    /// Who holds the shard of this snapshot, from the view of this sender.
    pub(super) fn holder(&self, sender: &InstanceId, life: &Life, now: Time) -> (Holder, Option<&InstanceId>) {
        match &self.owner {
            Some((owner, theirs)) => (seen_by(sender, life, owner, theirs.as_ref(), now), Some(owner)),
            None => (Holder::Nobody, None),
        }
    }
}

/// Who an owner is, from the view of this sender.
fn seen_by(sender: &InstanceId, life: &Life, owner: &InstanceId, theirs: Option<&Life>, now: Time) -> Holder {
    if owner == sender { Holder::Sender } else { Holder::other(theirs, life, now) }
}

/// What is known of the life of the owner of `$shard`.
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

impl Coverage {
    /// What covers these guilds.
    pub(super) async fn of(db: &Transaction<'_>, guilds: &[Snowflake]) -> Sql<Self> {
        let mut covers = HashMap::new();
        if !guilds.is_empty() {
            let sql = concat!(
                "WITH ",
                counts!(),
                " SELECT asked.guild, cover.shard_count, cover.shard_id, cover.snapshot, cover.key, cover.instance,
                    owner.first_seen, owner.started_at, owner.last_used, beats.reported
                FROM unnest($1::bigint[]) AS asked (guild) CROSS JOIN LATERAL ",
                cover!(),
                " AS cover",
                owner!("cover")
            );
            let statement = db.prepare_cached(sql).await?;
            for row in db.query(&statement, &[&guilds]).await? {
                let shard = (row.try_get(1)?, row.try_get(2)?);
                let owner =
                    if shard.0 == 0 { None } else { Some((instances::read(&row, 4)?, instances::life(&row, 6)?)) };
                covers.insert(row.try_get(0)?, Cover { shard, snapshot: row.try_get(3)?, owner });
            }
        }
        Ok(Self { covers, more: BTreeMap::new(), carrying: Vec::new() })
    }

    /// The same, for work that changes guilds.
    pub(super) async fn for_changes(db: &Transaction<'_>, guilds: &[Snowflake]) -> Sql<Self> {
        let sql = "SELECT id, shard_count, shard_id FROM staged_snapshots WHERE basis IS NOT NULL";
        let statement = db.prepare_cached(sql).await?;
        let read = |row: &Row| {
            let (Whole(count), Whole(id)) = (row.try_get(1)?, row.try_get(2)?);
            Ok((row.try_get(0)?, ShardKey { count, id }))
        };
        let carrying = db.query(&statement, &[]).await?.iter().map(read).collect::<Sql<_>>()?;
        Ok(Self { carrying, ..Self::of(db, guilds).await? })
    }

    /// The snapshots being staged that may carry something of this guild over.
    pub(super) fn carrying(&self, guild: Snowflake) -> Vec<i64> {
        let covering = self.carrying.iter().filter(|(_, shard)| shard.covers(guild));
        covering.map(|(snapshot, _)| *snapshot).collect()
    }

    /// The snapshot that covers one of the guilds; the one with the number 0 if none does.
    pub(super) fn cover(&self, guild: Snowflake) -> Cover {
        self.covers.get(&guild).cloned().unwrap_or(Cover { shard: (0, 0), snapshot: 0, owner: None })
    }

    /// Notes that the snapshot has this many more guilds, or fewer.
    pub(super) fn count(&mut self, cover: &Cover, more: i64) {
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
    pub(super) instance: InstanceId,
    pub(super) committed: i64,
    life: Option<Life>,
}

impl Sent {
    fn read(row: &Row) -> Sql<Self> {
        let Whole(count) = row.try_get(0)?;
        let Whole(id) = row.try_get(1)?;
        Ok(Self {
            shard: ShardKey { count, id },
            snapshot: row.try_get(2)?,
            committed: row.try_get(3)?,
            instance: instances::read(row, 4)?,
            life: instances::life(row, 6)?,
        })
    }

    /// Who holds the shard of this snapshot, from the view of this sender.
    pub(super) fn holder(&self, sender: &InstanceId, life: &Life, now: Time) -> Holder {
        seen_by(sender, life, &self.instance, self.life.as_ref(), now)
    }
}

/// Every snapshot that covers some guild of this shard, which may be one of the same shard.
pub(super) async fn overlapping(db: &impl GenericClient, shard: ShardKey) -> Sql<Vec<Sent>> {
    // Apart, because without a resharding the first finds one row and the second none, and neither walks over the shards.
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
        let instance = InstanceId::parse("key", "a").unwrap();
        Sent { shard: ShardKey { count, id }, snapshot: committed, instance, committed, life: None }
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
