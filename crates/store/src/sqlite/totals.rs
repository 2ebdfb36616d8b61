//! The totals of `GET /stats`. They are updated with every change, so that reading them always costs the same.

use domain::Stats;
use domain::feed::{GuildTotals, hidden_after_commit, hidden_after_sweep, shown_totals};
use domain::stats::{Ratings, RatingsChange};
use rusqlite::{Connection, params};

use super::columns::unsigned;
use super::writer::ChangedTopics;
use crate::Topic;
use crate::totals_change::TotalsChange;

pub(super) fn stats(connection: &Connection) -> rusqlite::Result<Stats> {
    let sql = "SELECT feedback, ratings, (SELECT count(*) FROM shards) FROM totals";
    let read = connection.prepare_cached(sql)?.query_row([], |row| {
        let ratings = Ratings { count: unsigned(row.get(0)?), sum: unsigned(row.get(1)?) };
        Ok((ratings, unsigned(row.get(2)?)))
    });
    let (ratings, shards) = read?;
    let GuildTotals { guilds, members } = shown(connection)?;
    Ok(Stats { guilds: unsigned(guilds), members: unsigned(members), shards, ratings })
}

/// The guilds and members that are shown.
pub(super) fn shown(connection: &Connection) -> rusqlite::Result<GuildTotals> {
    Ok(shown_totals(stored(connection)?, hidden(connection)?))
}

/// The guilds and members of all committed snapshots, including those that nobody can see.
fn stored(connection: &Connection) -> rusqlite::Result<GuildTotals> {
    let sql = "SELECT coalesce(sum(guilds), 0), coalesce(sum(member_sum), 0) FROM feed_shards";
    read_totals(connection, sql)
}

fn hidden(connection: &Connection) -> rusqlite::Result<GuildTotals> {
    read_totals(connection, "SELECT hidden_guilds, hidden_members FROM totals")
}

fn read_totals(connection: &Connection, sql: &str) -> rusqlite::Result<GuildTotals> {
    let read = |row: &rusqlite::Row<'_>| Ok(GuildTotals { guilds: row.get(0)?, members: row.get(1)? });
    connection.prepare_cached(sql)?.query_row([], read)
}

fn put_hidden(connection: &Connection, hidden: GuildTotals) -> rusqlite::Result<()> {
    let sql = "UPDATE totals SET hidden_guilds = ?1, hidden_members = ?2";
    connection.prepare_cached(sql)?.execute(params![hidden.guilds, hidden.members]).map(drop)
}

/// Whether there is still a sweep that looks for rows covered by a later snapshot.
fn is_sweep_left(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM feed_sweeps WHERE NOT whole")?.exists([])
}

/// After a commit that hides rows of other shards: keeps showing the previous totals until everything is known.
pub(super) fn keep_shown(connection: &Connection, shown_before: GuildTotals) -> rusqlite::Result<()> {
    let is_sweep_left = is_sweep_left(connection)?;
    put_hidden(connection, hidden_after_commit(stored(connection)?, shown_before, is_sweep_left))
}

/// After a step of a sweep that removed these rows, which nobody could see.
pub(super) fn note_swept(
    connection: &Connection,
    topics: &mut ChangedTopics,
    removed: GuildTotals,
) -> rusqlite::Result<()> {
    let before = hidden(connection)?;
    let after = hidden_after_sweep(before, removed, is_sweep_left(connection)?);
    if after != before {
        put_hidden(connection, after)?;
    }
    if after != before - removed {
        topics.push(Topic::Stats);
    }
    Ok(())
}

/// Writes the changes to the totals.
pub(super) fn write(connection: &Connection, change: &TotalsChange) -> rusqlite::Result<()> {
    for (shard, more) in change.shards() {
        add(connection, shard, more)?;
    }
    if let Some(RatingsChange { count, sum }) = change.ratings() {
        let sql = "UPDATE totals SET feedback = feedback + ?1, ratings = ratings + ?2";
        connection.prepare_cached(sql)?.execute([count, sum])?;
    }
    Ok(())
}

/// Adds this to a shard's snapshot.
pub(super) fn add(connection: &Connection, (count, id): (i64, i64), more: GuildTotals) -> rusqlite::Result<()> {
    let sql = "UPDATE feed_shards SET guilds = guilds + ?3, member_sum = member_sum + ?4
        WHERE shard_count = ?1 AND shard_id = ?2";
    connection.prepare_cached(sql)?.execute([count, id, more.guilds, more.members]).map(drop)
}
