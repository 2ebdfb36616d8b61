//! The totals of `GET /stats`. They are updated with every change, so that reading them always costs the same.

use domain::Stats;
use domain::feed::{GuildTotals, hidden_after_commit, hidden_after_sweep, shown_totals};
use domain::stats::{Ratings, RatingsChange};

use super::{ChangedTopics, Database, Result, values};
use crate::Topic;
use crate::columns::{json, unsigned};
use crate::totals_change::TotalsChange;

/// Everything in `totals` and the sums over `feed_shards`, in one statement.
const ALL: &str = "SELECT stored.guilds, stored.members, hidden_guilds, hidden_members, feedback, ratings,
        (SELECT count(*) FROM shards)
    FROM totals, (SELECT CAST(coalesce(sum(guilds), 0) AS BIGINT) AS guilds,
        CAST(coalesce(sum(member_sum), 0) AS BIGINT) AS members FROM feed_shards) AS stored";

struct StoredTotals {
    /// The guilds and members of all committed snapshots, including those that nobody can see.
    stored: GuildTotals,
    hidden: GuildTotals,
    ratings: Ratings,
    shards: u64,
}

async fn load<D: Database>(db: &D) -> Result<StoredTotals, D> {
    let row = db.query_one(ALL, &[]).await?;
    Ok(StoredTotals {
        stored: GuildTotals { guilds: row.get(0)?, members: row.get(1)? },
        hidden: GuildTotals { guilds: row.get(2)?, members: row.get(3)? },
        ratings: Ratings { count: row.get(4)?, sum: row.get(5)? },
        shards: row.get(6)?,
    })
}

pub(crate) async fn stats<D: Database>(db: &D) -> Result<Stats, D> {
    let StoredTotals { stored, hidden, ratings, shards } = load(db).await?;
    let GuildTotals { guilds, members } = shown_totals(stored, hidden);
    Ok(Stats { guilds: unsigned(guilds), members: unsigned(members), shards, ratings })
}

/// The guilds and members that are shown.
pub(crate) async fn shown<D: Database>(db: &D) -> Result<GuildTotals, D> {
    let StoredTotals { stored, hidden, .. } = load(db).await?;
    Ok(shown_totals(stored, hidden))
}

async fn put_hidden<D: Database>(db: &D, hidden: GuildTotals) -> Result<(), D> {
    let sql = "UPDATE totals SET hidden_guilds = ?1, hidden_members = ?2";
    db.execute(sql, &values![hidden.guilds, hidden.members]).await.map(drop)
}

/// What counts as hidden, and whether there is still a sweep that looks for rows covered by a later snapshot.
async fn hidden<D: Database>(db: &D) -> Result<(GuildTotals, bool), D> {
    let sql = "SELECT hidden_guilds, hidden_members, EXISTS (SELECT 1 FROM feed_sweeps WHERE NOT whole) FROM totals";
    let row = db.query_one(sql, &[]).await?;
    Ok((GuildTotals { guilds: row.get(0)?, members: row.get(1)? }, row.get(2)?))
}

/// After a commit that hides rows of other shards: keeps showing the previous totals until everything is known.
pub(crate) async fn keep_shown<D: Database>(db: &D, shown_before: GuildTotals) -> Result<(), D> {
    let stored = load(db).await?.stored;
    let (_, is_sweep_left) = hidden(db).await?;
    put_hidden(db, hidden_after_commit(stored, shown_before, is_sweep_left)).await
}

/// After a step of a sweep that removed these rows, which nobody could see.
pub(crate) async fn note_swept<D: Database>(db: &D, topics: &mut ChangedTopics, removed: GuildTotals) -> Result<(), D> {
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

/// Writes the changes to the totals.
pub(crate) async fn write<D: Database>(db: &D, change: &TotalsChange) -> Result<(), D> {
    match &change.shards()[..] {
        [] => {}
        // Usually there is one, and PostgreSQL would plan the other statement again every time.
        [(shard, more)] => add(db, *shard, *more).await?,
        shards => {
            let shards: Vec<_> =
                shards.iter().map(|((count, id), more)| (count, id, more.guilds, more.members)).collect();
            let sql = format!(
                "UPDATE feed_shards SET guilds = feed_shards.guilds + more.guilds, member_sum = member_sum + more.members
                FROM (SELECT CAST(value ->> 0 AS BIGINT) AS count, CAST(value ->> 1 AS BIGINT) AS id,
                        CAST(value ->> 2 AS BIGINT) AS guilds, CAST(value ->> 3 AS BIGINT) AS members FROM {}) AS more
                WHERE shard_count = more.count AND shard_id = more.id",
                D::WORDS.elements.put("?1")
            );
            db.execute(&sql, &values![json(&shards)]).await?;
        }
    }
    if let Some(RatingsChange { count, sum }) = change.ratings() {
        let sql = "UPDATE totals SET feedback = feedback + ?1, ratings = ratings + ?2";
        db.execute(sql, &values![count, sum]).await?;
    }
    Ok(())
}

/// Adds this to a shard's snapshot.
pub(crate) async fn add<D: Database>(db: &D, (count, id): (i64, i64), more: GuildTotals) -> Result<(), D> {
    let sql = "UPDATE feed_shards SET guilds = guilds + ?3, member_sum = member_sum + ?4
        WHERE shard_count = ?1 AND shard_id = ?2";
    db.execute(sql, &values![count, id, more.guilds, more.members]).await.map(drop)
}

/// Subtracts this from a snapshot's count.
pub(crate) async fn take_off<D: Database>(db: &D, snapshot: i64, removed: GuildTotals) -> Result<(), D> {
    let sql = "UPDATE feed_shards SET guilds = guilds - ?2, member_sum = member_sum - ?3 WHERE snapshot = ?1";
    db.execute(sql, &values![snapshot, removed.guilds, removed.members]).await.map(drop)
}
