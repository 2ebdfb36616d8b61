//! Snapshots: staged invisibly in short transactions, and made current by one row.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use domain::feed::{
    CarriedParts, Committed, CommittedShard, GuildLine, GuildTotals, InstanceId, LastGuildLines, Lines, Replacement,
    Scope, ShardKey, StagedSnapshot, UNCOVERED, is_resharding, keep_last, latest_commit, merge_basis,
};
use domain::{Guild, Snowflake, Subscription, Time};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::columns::{Column as _, ReadColumn as _, Whole, instance, integer, json, readable, unsigned};
use super::coverage::{self, Coverage};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::ChangedTopics;
use super::{bulk_insert, clean_up, guilds, subscriptions};
use crate::sql::{instances, totals};
use crate::{SnapshotId, Topic};

pub(super) async fn begin(
    db: &Transaction<'_>,
    scope: Scope,
    instance: &InstanceId,
    sequence: u64,
    now: Time,
) -> Sql<SnapshotId> {
    instances::note_call(db, instance, now).await?;
    let shard = scope.shard();
    let sql = "INSERT INTO staged_snapshots (id, shard_count, shard_id, key, instance, sequence, begun, guilds)
        VALUES (nextval('versions'), $1, $2, $3, $4, $5, $6, 0) RETURNING id";
    let statement = db.prepare_cached(sql).await?;
    let (count, id) = (shard.map(|shard| i64::from(shard.count)), shard.map(|shard| i64::from(shard.id)));
    let (key, name, sequence) = (&instance.key, &instance.name, integer(sequence));
    let row = db.query_one(&statement, &[&count, &id, key, &name.stored(), &sequence, &now.stored()]).await?;
    Ok(SnapshotId(unsigned(row.try_get(0)?)))
}

/// Stages some lines, and returns the users of the subscriptions that they replaced; `None` if the snapshot is not being staged.
pub(super) async fn stage(db: &Transaction<'_>, snapshot: SnapshotId, lines: &Lines) -> Sql<Option<Vec<Snowflake>>> {
    if lines.has_carried_parts() {
        // What is carried over must not change in the meantime.
        lock(db, Lock::Feed).await?;
    }
    match lines {
        Lines::Guilds(lines) => {
            let staged = stage_guilds(db, integer(snapshot.0), lines).await?;
            Ok(staged.map(|()| Vec::new()))
        }
        Lines::Subscriptions(lines) => stage_subscriptions(db, integer(snapshot.0), lines).await,
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
            let sql = "DELETE FROM staged_kept WHERE snapshot = $1 AND guild = ANY ($2)";
            let statement = db.prepare_cached(sql).await?;
            db.execute(&statement, &[&snapshot, &ids.stored()]).await?;
        }
        known += copy(db, snapshot, &guilds, &ids).await?;
    }
    if !carrying.is_empty() {
        carry_over(db, snapshot, &carrying).await?;
    }
    if !unavailable.is_empty() {
        known += guilds::delete(db, snapshot, &unavailable).await?.totals;
        let sql = "INSERT INTO staged_kept (snapshot, guild) SELECT $1, unnest($2::bigint[]) ON CONFLICT DO NOTHING";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&snapshot, &unavailable.stored()]).await?;
    }
    if !known.is_nothing() {
        let sql = "UPDATE staged_snapshots SET guilds = guilds - $2, member_sum = member_sum - $3 WHERE id = $1";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&snapshot, &known.guilds, &known.members]).await?;
    }
    Ok(Some(()))
}

/// Carries over what is stored for these guilds and was not sent, and records from which commit.
async fn carry_over(db: &Transaction<'_>, snapshot: i64, guilds: &[Snowflake]) -> Sql<()> {
    for (from, guilds) in by_snapshot(&Coverage::of(db, guilds).await?, guilds) {
        guilds::copy(db, from, &[snapshot], &guilds, CarriedParts::All).await?;
    }
    let statement =
        db.prepare_cached("SELECT shard_count, shard_id, basis FROM staged_snapshots WHERE id = $1").await?;
    let row = db.query_one(&statement, &[&snapshot]).await?;
    let (Some(Whole(count)), Some(Whole(id))) = (row.try_get(0)?, row.try_get(1)?) else { return Ok(()) };
    let (shard, known) = (ShardKey { count, id }, row.try_get::<_, Option<i64>>(2)?);
    let basis = merge_basis(known, latest_commit(&coverage::overlapping(db, shard).await?));
    if known != Some(basis) {
        let statement = db.prepare_cached("UPDATE staged_snapshots SET basis = $2 WHERE id = $1").await?;
        db.execute(&statement, &[&snapshot, &basis]).await?;
    }
    Ok(())
}

/// Guilds by the snapshots that cover them.
fn by_snapshot(coverage: &Coverage, guilds: &[Snowflake]) -> BTreeMap<i64, Vec<Snowflake>> {
    let mut by_snapshot: BTreeMap<i64, Vec<Snowflake>> = BTreeMap::new();
    for guild in guilds {
        by_snapshot.entry(coverage.cover(*guild).snapshot).or_default().push(*guild);
    }
    by_snapshot
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

async fn stage_subscriptions(
    db: &Transaction<'_>,
    snapshot: i64,
    lines: &[Subscription],
) -> Sql<Option<Vec<Snowflake>>> {
    if note_lines(db, snapshot, GuildTotals::default()).await?.is_none() {
        return Ok(None);
    }
    let mut lines: Vec<&Subscription> = lines.iter().collect();
    let mut replaced = keep_last(&mut lines, |line| line.userid);
    let users: Vec<Snowflake> = lines.iter().map(|line| line.userid).collect();
    let slots: Vec<i64> = lines.iter().map(|line| line.slots.into()).collect();
    let ends: Vec<Option<Time>> = lines.iter().map(|line| line.active_until).collect();
    let guilds: Vec<String> = lines.iter().map(|line| json(&line.distinct_guilds())).collect();
    let sql = "INSERT INTO staged_subscriptions (snapshot, userid, slots, active_until, guilds)
        SELECT $1, line.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS line
        ON CONFLICT (snapshot, userid) DO UPDATE
            SET slots = excluded.slots, active_until = excluded.active_until, guilds = excluded.guilds
        RETURNING userid, xmax <> 0";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&snapshot, &users.stored(), &slots, &ends.stored(), &guilds]).await?;
    // A row that another one replaced has been locked by its transaction.
    for row in &rows {
        if row.try_get(1)? {
            replaced.push(row.column(0)?);
        }
    }
    Ok(Some(replaced))
}

/// Makes a staged snapshot current, or drops it; `None` if it is not being staged.
pub(super) async fn commit(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    snapshot: SnapshotId,
    after: Option<u64>,
    now: Time,
) -> Sql<Option<Committed>> {
    lock(db, Lock::Feed).await?;
    let Some(staged) = take(db, snapshot).await? else { return Ok(None) };
    let Some(sender) = instances::admit(db, &staged.instance, now).await? else {
        clean_up::sweep_whole(db, &[staged.id]).await?;
        return Ok(Some(Committed::KeyRefused));
    };
    instances::note_snapshot(db, &staged.instance, staged.shard).await?;
    let overlapping = match staged.shard {
        Some(shard) => coverage::overlapping(db, shard).await?,
        None => Vec::new(),
    };
    let committed = staged.decide(&sender, after, &overlapping, now);
    instances::advance(db, &sender, committed.next()).await?;
    let is_replaced = matches!(committed, Committed::Replaced { .. });
    if is_replaced {
        // Working out which responses it changes would take longer the larger the snapshot is.
        topics.push(Topic::Everything);
    }
    match staged.shard {
        Some(shard) if is_replaced => replace_shard(db, &staged, shard, &overlapping, now).await?,
        None if is_replaced => {
            subscriptions::replace_from(db, staged.id).await?;
            clean_up::sweep_whole(db, &[staged.id]).await?;
        }
        Some(_) | None => clean_up::sweep_whole(db, &[staged.id]).await?,
    }
    Ok(Some(committed))
}

/// Takes a snapshot out of staging.
async fn take(db: &Transaction<'_>, snapshot: SnapshotId) -> Sql<Option<StagedSnapshot>> {
    let id = integer(snapshot.0);
    let sql = "DELETE FROM staged_snapshots WHERE id = $1
        RETURNING shard_count, shard_id, key, instance, sequence, guilds, member_sum, basis";
    let statement = db.prepare_cached(sql).await?;
    let read = |row: Row| {
        let shard = row.try_get::<_, Option<Whole<u32>>>(0)?.zip(row.try_get::<_, Option<Whole<u32>>>(1)?);
        Ok(StagedSnapshot {
            id,
            shard: shard.and_then(|(Whole(count), Whole(id))| ShardKey::new(count, id)),
            instance: instance(&row, 2)?,
            sequence: unsigned(row.try_get(4)?),
            totals: GuildTotals { guilds: row.try_get(5)?, members: row.try_get(6)? },
            basis: row.try_get(7)?,
        })
    };
    db.query_opt(&statement, &[&id]).await?.map(read).transpose()
}

/// Makes the staged guilds the shard's.
async fn replace_shard(
    db: &Transaction<'_>,
    staged: &StagedSnapshot,
    shard: ShardKey,
    overlapping: &[CommittedShard],
    now: Time,
) -> Sql<()> {
    let (is_resharding, has_uncovered) = (is_resharding(shard, overlapping), has_uncovered(db).await?);
    let shown = if is_resharding || has_uncovered { Some(totals::shown(db).await?) } else { None };
    let totals = staged.totals + move_unavailable(db, staged.id, shard).await?;
    let sql = "INSERT INTO feed_shards
            (shard_count, shard_id, snapshot, committed, key, instance, snapshot_at, guilds, member_sum)
        VALUES ($1, $2, $3, nextval('versions'), $4, $5, $6, $7, $8)
        ON CONFLICT (shard_count, shard_id) DO UPDATE SET snapshot = excluded.snapshot, committed = excluded.committed,
            key = excluded.key, instance = excluded.instance, snapshot_at = excluded.snapshot_at,
            guilds = excluded.guilds, member_sum = excluded.member_sum";
    let statement = db.prepare_cached(sql).await?;
    let (count, id) = (i64::from(shard.count), i64::from(shard.id));
    let InstanceId { key, name } = &staged.instance;
    let row: [&(dyn ToSql + Sync); 8] =
        [&count, &id, &staged.id, key, &name.stored(), &now.stored(), &totals.guilds, &totals.members];
    db.execute(&statement, &row).await?;

    let commits = if is_resharding { coverage::commits(db, shard.count).await? } else { Box::default() };
    let plan = Replacement::plan(shard, overlapping, &commits, has_uncovered);
    if !plan.superseded.is_empty() {
        let superseded: Vec<i64> = plan.superseded.iter().map(|sent| sent.snapshot).collect();
        let statement = db.prepare_cached("DELETE FROM feed_shards WHERE snapshot = ANY ($1)").await?;
        db.execute(&statement, &[&superseded]).await?;
    }
    clean_up::sweep_whole(db, &plan.removed).await?;
    clean_up::sweep_covered(db, &plan.partly_covered).await?;
    match shown.filter(|_| plan.hides_rows) {
        Some(shown) => totals::keep_shown(db, shown).await,
        None => Ok(()),
    }
}

/// Whether there are guilds that no snapshot covered when they were stored.
async fn has_uncovered(db: &Transaction<'_>) -> Sql<bool> {
    let sql = "SELECT 1 FROM feed_shards WHERE shard_count = 0 AND snapshot = $1 AND guilds > 0";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_opt(&statement, &[&UNCOVERED]).await?.is_some())
}

/// Moves unavailable guilds to this snapshot as they are stored now, and returns what was moved: no read will look for them in
/// their old place any more.
async fn move_unavailable(db: &Transaction<'_>, snapshot: i64, shard: ShardKey) -> Sql<GuildTotals> {
    let statement = db.prepare_cached("DELETE FROM staged_kept WHERE snapshot = $1 RETURNING guild").await?;
    let rows = db.query(&statement, &[&snapshot]).await?;
    let mut unavailable: Vec<Snowflake> = readable("guild", &rows, |row| Ok(row.column(0)?));
    unavailable.retain(|guild| shard.covers(*guild));
    let coverage = Coverage::of(db, &unavailable).await?;
    let mut all = GuildTotals::default();
    for (from, guilds) in by_snapshot(&coverage, &unavailable) {
        let moved = guilds::relocate(db, from, snapshot, &guilds).await?;
        totals::take_off(db, from, moved).await?;
        all += moved;
    }
    Ok(all)
}

pub(super) async fn abandon(db: &Transaction<'_>, snapshot: SnapshotId) -> Sql<()> {
    lock(db, Lock::Feed).await?;
    match take(db, snapshot).await? {
        Some(staged) => clean_up::sweep_whole(db, &[staged.id]).await,
        None => Ok(()),
    }
}
