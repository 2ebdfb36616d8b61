//! The totals of `GET /stats`. They are updated with every change, so that reading them always costs the same.

use deadpool_postgres::{GenericClient, Transaction};
use domain::Stats;
use domain::feed::{GuildTotals, hidden_after_commit, hidden_after_sweep, shown_totals};
use domain::stats::{Ratings, RatingsChange};

use super::columns::unsigned;
use super::errors::Sql;
use super::work::ChangedTopics;
use crate::Topic;
use crate::totals_change::TotalsChange;

/// Everything in `totals` and the sums over `feed_shards`, in one statement.
const ALL: &str = "SELECT stored.guilds, stored.members, hidden_guilds, hidden_members, feedback, ratings,
        (SELECT count(*) FROM shards)
    FROM totals, (SELECT coalesce(sum(guilds), 0)::bigint AS guilds, coalesce(sum(member_sum), 0)::bigint AS members
        FROM feed_shards) AS stored";

struct StoredTotals {
    /// The guilds and members of all committed snapshots, including those that nobody can see.
    stored: GuildTotals,
    hidden: GuildTotals,
    ratings: Ratings,
    shards: u64,
}

impl StoredTotals {
    async fn load(db: &impl GenericClient) -> Sql<Self> {
        let statement = db.prepare_cached(ALL).await?;
        let row = db.query_one(&statement, &[]).await?;
        Ok(Self {
            stored: GuildTotals { guilds: row.try_get(0)?, members: row.try_get(1)? },
            hidden: GuildTotals { guilds: row.try_get(2)?, members: row.try_get(3)? },
            ratings: Ratings { count: unsigned(row.try_get(4)?), sum: unsigned(row.try_get(5)?) },
            shards: unsigned(row.try_get(6)?),
        })
    }
}

pub(super) async fn stats(db: &impl GenericClient) -> Sql<Stats> {
    let StoredTotals { stored, hidden, ratings, shards } = StoredTotals::load(db).await?;
    let GuildTotals { guilds, members } = shown_totals(stored, hidden);
    Ok(Stats { guilds: unsigned(guilds), members: unsigned(members), shards, ratings })
}

/// The guilds and members that are shown.
pub(super) async fn shown(db: &Transaction<'_>) -> Sql<GuildTotals> {
    let StoredTotals { stored, hidden, .. } = StoredTotals::load(db).await?;
    Ok(shown_totals(stored, hidden))
}

async fn put_hidden(db: &Transaction<'_>, hidden: GuildTotals) -> Sql<()> {
    let statement = db.prepare_cached("UPDATE totals SET hidden_guilds = $1, hidden_members = $2").await?;
    db.execute(&statement, &[&hidden.guilds, &hidden.members]).await?;
    Ok(())
}

/// What counts as hidden, and whether there is still a sweep that looks for rows covered by a later snapshot.
async fn hidden(db: &Transaction<'_>) -> Sql<(GuildTotals, bool)> {
    let sql = "SELECT hidden_guilds, hidden_members, EXISTS (SELECT 1 FROM feed_sweeps WHERE NOT whole) FROM totals";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_one(&statement, &[]).await?;
    Ok((GuildTotals { guilds: row.try_get(0)?, members: row.try_get(1)? }, row.try_get(2)?))
}

/// After a commit that hides rows of other shards: keeps showing the previous totals until everything is known.
pub(super) async fn keep_shown(db: &Transaction<'_>, shown_before: GuildTotals) -> Sql<()> {
    let stored = StoredTotals::load(db).await?.stored;
    let (_, is_sweep_left) = hidden(db).await?;
    put_hidden(db, hidden_after_commit(stored, shown_before, is_sweep_left)).await
}

/// After a step of a sweep that removed these rows, which nobody could see.
pub(super) async fn note_swept(db: &Transaction<'_>, topics: &mut ChangedTopics, removed: GuildTotals) -> Sql<()> {
    let (before, is_sweep_left) = hidden(db).await?;
    let after = hidden_after_sweep(before, removed, is_sweep_left);
    if after != before {
        put_hidden(db, after).await?;
    }
    if after != before - removed {
        topics.push(Topic::Stats);
    }
    Ok(())
}

pub(super) async fn write(db: &Transaction<'_>, change: &TotalsChange) -> Sql<()> {
    match &change.shards()[..] {
        [] => {}
        // Usually there is one, and the database would plan the other statement again every time.
        [((count, id), more)] => {
            let sql = "UPDATE feed_shards SET guilds = guilds + $3, member_sum = member_sum + $4
                WHERE shard_count = $1 AND shard_id = $2";
            let statement = db.prepare_cached(sql).await?;
            db.execute(&statement, &[count, id, &more.guilds, &more.members]).await?;
        }
        shards => {
            let (counts, ids): (Vec<i64>, Vec<i64>) = shards.iter().map(|(shard, _)| *shard).unzip();
            let (guilds, members): (Vec<i64>, Vec<i64>) =
                shards.iter().map(|(_, more)| (more.guilds, more.members)).unzip();
            let sql = "UPDATE feed_shards
                SET guilds = feed_shards.guilds + more.guilds, member_sum = member_sum + more.members
                FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS more (count, id, guilds, members)
                WHERE shard_count = more.count AND shard_id = more.id";
            let statement = db.prepare_cached(sql).await?;
            db.execute(&statement, &[&counts, &ids, &guilds, &members]).await?;
        }
    }
    if let Some(RatingsChange { count, sum }) = change.ratings() {
        let sql = "UPDATE totals SET feedback = feedback + $1, ratings = ratings + $2";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&count, &sum]).await?;
    }
    Ok(())
}

/// Subtracts this from a snapshot's count.
pub(super) async fn take_off(db: &Transaction<'_>, snapshot: i64, removed: GuildTotals) -> Sql<()> {
    let sql = "UPDATE feed_shards SET guilds = guilds - $2, member_sum = member_sum - $3 WHERE snapshot = $1";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&snapshot, &removed.guilds, &removed.members]).await?;
    Ok(())
}
