//! The lines of a snapshot that is being staged.

use deadpool_postgres::Transaction;
use domain::feed::{GuildLine, GuildTotals, LastGuildLines, Lines};
use domain::{Guild, Snowflake};

use super::bulk_insert;
use super::errors::Sql;
use super::locks::{Lock, lock};
use crate::SnapshotId;
use crate::columns::integer;
use crate::sql::{guilds, snapshots};

/// Stages some lines, and returns the users of the subscriptions that they replaced; `None` if the snapshot is not being staged.
pub(super) async fn stage(db: &Transaction<'_>, snapshot: SnapshotId, lines: &Lines) -> Sql<Option<Vec<Snowflake>>> {
    if lines.has_carried_parts() {
        // What is carried over must not change in the meantime.
        lock(db, Lock::Feed).await?;
    }
    let id = integer(snapshot.0);
    match lines {
        Lines::Guilds(lines) => {
            let staged = stage_guilds(db, id, lines).await?;
            Ok(staged.map(|()| Vec::new()))
        }
        Lines::Subscriptions(lines) => {
            if note_lines(db, id, GuildTotals::default()).await?.is_none() {
                return Ok(None);
            }
            snapshots::stage_subscriptions(db, id, lines).await.map(Some)
        }
    }
}

/// Records that the snapshot has this much more, and returns whether it leaves any guilds as they are; `None` if it is not
/// being staged. Its row stays locked until the end of the transaction, so that a commit, or discarding it, waits for these
/// lines.
async fn note_lines(db: &Transaction<'_>, snapshot: i64, more: GuildTotals) -> Sql<Option<bool>> {
    let sql =
        "UPDATE staged_snapshots SET guilds = guilds + $2, member_sum = member_sum + $3, touched = clock_timestamp()
        WHERE id = $1 RETURNING EXISTS (SELECT 1 FROM staged_kept WHERE snapshot = $1)";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_opt(&statement, &[&snapshot, &more.guilds, &more.members]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

async fn stage_guilds(db: &Transaction<'_>, snapshot: i64, lines: &[GuildLine]) -> Sql<Option<()>> {
    // In index order, which is faster.
    let LastGuildLines { guilds, carrying, unavailable } = LastGuildLines::of(lines);
    let more = GuildTotals::of(guilds.iter().copied());
    let Some(any_unavailable) = note_lines(db, snapshot, more).await? else { return Ok(None) };
    let mut known = GuildTotals::default();
    if !guilds.is_empty() {
        let ids: Vec<Snowflake> = guilds.iter().map(|guild| guild.id).collect();
        // Usually there are none, so no line needs to check.
        if any_unavailable {
            snapshots::note_available(db, snapshot, &ids).await?;
        }
        known += copy(db, snapshot, &guilds, &ids).await?;
    }
    if !carrying.is_empty() {
        snapshots::carry_over(db, snapshot, &carrying).await?;
    }
    if !unavailable.is_empty() {
        known += snapshots::note_unavailable(db, snapshot, &unavailable).await?;
    }
    if !known.is_nothing() {
        let sql = "UPDATE staged_snapshots SET guilds = guilds - $2, member_sum = member_sum - $3 WHERE id = $1";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&snapshot, &known.guilds, &known.members]).await?;
    }
    Ok(Some(()))
}

/// Copies guilds into a snapshot, and returns which of them it already had.
async fn copy(db: &Transaction<'_>, snapshot: i64, guilds: &[&Guild], ids: &[Snowflake]) -> Sql<GuildTotals> {
    db.batch_execute("SAVEPOINT copying").await?;
    match bulk_insert::guilds(db, snapshot, guilds).await {
        // A guild is hardly ever sent twice, so checking every time would cost more than trying again.
        Err(error) if error.is_duplicate() => {
            db.batch_execute("ROLLBACK TO SAVEPOINT copying").await?;
            let known = guilds::delete(db, snapshot, ids).await?;
            bulk_insert::guilds(db, snapshot, guilds).await?;
            Ok(known.totals)
        }
        copied => copied.map(|()| GuildTotals::default()),
    }
}
