//! What is stored of the feed.

use domain::feed::{FeedState, ShardKey, ShardState};

use super::{Database, Result, instances, readable};

/// Everything stored that the bot has sent. After a resharding, guilds that moved count under both shards until they are
/// cleaned up.
pub(crate) async fn load<D: Database>(db: &D) -> Result<FeedState, D> {
    let sql = "SELECT (SELECT count(*) FROM subscriptions), (SELECT feedback FROM totals), (SELECT count(*) FROM team),
        (SELECT CAST(coalesce(sum(guilds), 0) AS BIGINT) FROM feed_shards)";
    let counts = db.query_one(sql, &[]).await?;
    Ok(FeedState {
        instances: instances::states(db).await?,
        shards: shards(db).await?,
        subscriptions: counts.get(0)?,
        feedback: counts.get(1)?,
        team: counts.get(2)?,
        guilds: counts.get(3)?,
    })
}

async fn shards<D: Database>(db: &D) -> Result<Vec<ShardState>, D> {
    let sql = "SELECT shard_count, shard_id, key, instance, snapshot_at, guilds FROM feed_shards WHERE shard_count > 0
        ORDER BY shard_count, shard_id";
    Ok(readable!("shard", db.query(sql, &[]).await?, |row| {
        Ok(ShardState {
            shard: ShardKey { count: row.get(0)?, id: row.get(1)? },
            instance: instances::read(row, 2)?,
            snapshot_at: row.get(4)?,
            guilds: row.get(5)?,
        })
    }))
}
