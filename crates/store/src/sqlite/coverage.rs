//! Which snapshot covers a guild, looked up one after the other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use domain::Snowflake;
use domain::feed::{ShardKey, UNCOVERED};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::columns::Column as _;
use crate::sql::{Cover, Covered};

/// The snapshots that cover these guilds.
pub(super) fn covered(connection: &Connection, guilds: &[Snowflake]) -> rusqlite::Result<Vec<Covered>> {
    let counts = counts(connection)?;
    let shard = "SELECT snapshot, committed FROM feed_shards WHERE shard_count = ?1 AND shard_id = ?2";
    let mut shard = connection.prepare_cached(shard)?;
    let mut members = connection.prepare_cached("SELECT members FROM guilds WHERE snapshot = ?1 AND id = ?2")?;
    // Guilds of a batch have few shards in common.
    let mut known = HashMap::new();
    let mut covered = Vec::with_capacity(guilds.len());
    for guild in guilds {
        let (mut cover, mut latest) = (Cover { shard: (0, 0), snapshot: UNCOVERED }, 0);
        for count in &counts {
            let key = ShardKey::of(*guild, *count);
            let found: Option<(i64, i64)> = match known.entry(key) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                    *unknown.insert(shard.query_row(params![key.count, key.id], row).optional()?)
                }
            };
            if let Some((snapshot, committed)) = found
                && committed > latest
            {
                cover = Cover { shard: (key.count.into(), key.id.into()), snapshot };
                latest = committed;
            }
        }
        let members = members.query_row(params![cover.snapshot, guild.stored()], |row| row.get(0)).optional()?;
        covered.push(Covered { guild: *guild, cover, members });
    }
    Ok(covered)
}

/// The shard counts under which snapshots were committed. One step per count, because a DISTINCT would go through every shard.
fn counts(connection: &Connection) -> rusqlite::Result<Vec<u32>> {
    let mut next = connection.prepare_cached("SELECT min(shard_count) FROM feed_shards WHERE shard_count > ?1")?;
    let mut counts = Vec::new();
    while let Some(count) = next.query_row([counts.last().unwrap_or(&0)], |row| row.get(0))? {
        counts.push(count);
    }
    Ok(counts)
}
