//! Removes what no read can see any more, a bounded number of rows at a time, behind those who changed the truth.

use rusqlite::{Connection, OptionalExtension};

use crate::domain::Snowflake;

use super::columns::{integer, readable};
use super::coverage::Coverage;
use super::snapshots::Staging;
use super::{guilds, instances};

/// Has all rows of a snapshot removed.
pub(super) fn bury(connection: &Connection, snapshot: i64) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO feed_sweeps (snapshot, whole, after, again) VALUES (?1, 1, 0, 0)";
    connection.prepare_cached(sql)?.execute([snapshot]).map(drop)
}

/// Has those rows of a snapshot removed that a later one covers.
pub(super) fn thin_out(connection: &Connection, snapshot: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO feed_sweeps (snapshot, whole, after, again) VALUES (?1, 0, 0, 0)
        ON CONFLICT (snapshot) DO UPDATE SET again = 1";
    connection.prepare_cached(sql)?.execute([snapshot]).map(drop)
}

/// Looks at about `batch` rows, removes those that nobody can see, and says how many it looked at: 0 when all is done.
pub(super) fn clean_up(connection: &Connection, staging: &Staging, batch: usize) -> rusqlite::Result<usize> {
    instances::forget(connection)?;
    bury_left_behind(connection, staging)?;
    let coverage = Coverage::load(connection)?;
    let mut spent = 0;
    while spent < batch.max(1) {
        let Some(sweep) = Sweep::first(connection)? else { break };
        // Also a sweep that finds nothing is a step, so that a call with many of them ends.
        spent += sweep.run(connection, &coverage, batch.max(1) - spent)?.max(1);
    }
    Ok(spent)
}

/// Gives up the snapshots that a process which is gone was staging. If it still lives, it is told at its next line.
fn bury_left_behind(connection: &Connection, staging: &Staging) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("SELECT id FROM staged_snapshots")?;
    let staged: Vec<i64> = readable("staged snapshot", statement.query_map([], |row| row.get(0))?)?;
    for snapshot in staged.into_iter().filter(|snapshot| !staging.has(*snapshot)) {
        connection.prepare_cached("DELETE FROM staged_snapshots WHERE id = ?1")?.execute([snapshot])?;
        bury(connection, snapshot)?;
    }
    Ok(())
}

struct Sweep {
    snapshot: i64,
    whole: bool,
    after: i64,
    again: bool,
    /// How many guilds were removed that the snapshot's shard still counts.
    removed: i64,
}

impl Sweep {
    fn first(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT snapshot, whole, after, again FROM feed_sweeps ORDER BY snapshot LIMIT 1";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Self { snapshot: row.get(0)?, whole: row.get(1)?, after: row.get(2)?, again: row.get(3)?, removed: 0 })
        };
        connection.prepare_cached(sql)?.query_row([], read).optional()
    }

    /// Walks on over the snapshot's guilds, and says how many rows it looked at.
    fn run(mut self, connection: &Connection, coverage: &Coverage, batch: usize) -> rusqlite::Result<usize> {
        let sql = "SELECT id FROM guilds WHERE snapshot = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        let limit = integer(batch as u64);
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([self.snapshot, self.after, limit], |row| row.get(0))?;
        let walked: Vec<Snowflake> = readable("guild", rows)?;
        let mut spent = 0;
        for guild in &walked {
            if spent >= batch {
                break;
            }
            // A guild may have thousands of staff: what counts is rows, not guilds.
            spent += self.look_at(connection, coverage, *guild)?.max(1);
            self.after = integer(guild.get());
        }
        if self.removed > 0 {
            let sql = "UPDATE feed_shards SET guilds = guilds - ?2 WHERE snapshot = ?1";
            connection.prepare_cached(sql)?.execute([self.snapshot, self.removed])?;
        }
        if spent < batch && self.whole {
            spent += self.drop_staged(connection, limit)?;
        }
        // Short of the batch means that nothing was left.
        let saved = if spent < batch { self.end(connection) } else { self.save(connection) };
        saved.map(|()| spent)
    }

    /// Removes a guild if nobody can see it here, and says how many rows that were.
    fn look_at(&mut self, connection: &Connection, coverage: &Coverage, guild: Snowflake) -> rusqlite::Result<usize> {
        if self.whole {
            return guilds::delete(connection, self.snapshot, guild);
        }
        if coverage.of(connection, guild)?.snapshot == self.snapshot {
            return Ok(0);
        }
        self.removed += 1;
        guilds::delete(connection, self.snapshot, guild)
    }

    /// What else was staged under its number.
    fn drop_staged(&self, connection: &Connection, limit: i64) -> rusqlite::Result<usize> {
        let mut dropped = 0;
        for sql in [
            "DELETE FROM staged_kept WHERE snapshot = ?1 AND guild IN
                (SELECT guild FROM staged_kept WHERE snapshot = ?1 LIMIT ?2)",
            "DELETE FROM staged_subscriptions WHERE snapshot = ?1 AND userid IN
                (SELECT userid FROM staged_subscriptions WHERE snapshot = ?1 LIMIT ?2)",
        ] {
            dropped += connection.prepare_cached(sql)?.execute([self.snapshot, limit])?;
        }
        Ok(dropped)
    }

    fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "UPDATE feed_sweeps SET after = ?2 WHERE snapshot = ?1";
        connection.prepare_cached(sql)?.execute([self.snapshot, self.after]).map(drop)
    }

    fn end(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.again {
            let sql = "UPDATE feed_sweeps SET after = 0, again = 0 WHERE snapshot = ?1";
            return connection.prepare_cached(sql)?.execute([self.snapshot]).map(drop);
        }
        connection.prepare_cached("DELETE FROM feed_sweeps WHERE snapshot = ?1")?.execute([self.snapshot]).map(drop)
    }
}
