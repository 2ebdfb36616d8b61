//! Snapshots: staged invisibly in short transactions, and made current by one row.

use domain::feed::{
    CarriedParts, Committed, CommittedShard, GuildLine, GuildTotals, InstanceId, LastGuildLines, Lines, Replacement,
    Scope, ShardKey, StagedSnapshot, UNCOVERED, is_resharding, keep_last, latest_commit, merge_basis,
};
use domain::{Snowflake, Subscription, Time};

use super::coverage::{self, Coverage};
use super::{
    ChangedTopics, Database, Lock, Read, Result, Row, accounts, clean_up, guilds, instances, readable, totals, values,
};
use crate::columns::{Column as _, integer, json};
use crate::{SnapshotId, Topic};

pub(crate) async fn begin<D: Database>(
    db: &D,
    scope: Scope,
    instance: &InstanceId,
    sequence: u64,
    now: Time,
) -> Result<SnapshotId, D> {
    instances::note_call(db, instance, now).await?;
    let (shard, version) = (scope.shard(), accounts::new_version(db).await?);
    let sql = format!(
        "INSERT INTO staged_snapshots (id, shard_count, shard_id, key, instance, sequence, begun, guilds)
        VALUES ({version}, ?1, ?2, ?3, ?4, ?5, ?6, 0) RETURNING id"
    );
    let (count, id) = (shard.map(|shard| shard.count), shard.map(|shard| shard.id));
    let row = db.query_one(&sql, &values![count, id, instance.key, instance.name, sequence, now]).await?;
    Ok(SnapshotId(row.get(0)?))
}

/// Stages some lines, and returns the users of the subscriptions that they replaced; `None` if the snapshot is not being staged.
pub(crate) async fn stage<D: Database>(
    db: &D,
    snapshot: SnapshotId,
    lines: &Lines,
) -> Result<Option<Vec<Snowflake>>, D> {
    if lines.has_carried_parts() {
        // What is carried over must not change in the meantime.
        db.lock(Lock::Feed).await?;
    }
    let id = integer(snapshot.0);
    match lines {
        Lines::Guilds(lines) => Ok(stage_guilds(db, id, lines).await?.map(|()| Vec::new())),
        Lines::Subscriptions(lines) => match note_lines(db, id, GuildTotals::default()).await? {
            Some(_) => stage_subscriptions(db, id, lines).await.map(Some),
            None => Ok(None),
        },
    }
}

/// Records that the snapshot has this much more, and returns whether it leaves any guilds as they are; `None` if it is not
/// being staged. Its row stays locked until the end of the transaction, so that a commit, or discarding it, waits for these
/// lines.
async fn note_lines<D: Database>(db: &D, snapshot: i64, more: GuildTotals) -> Result<Option<bool>, D> {
    let sql = format!(
        "UPDATE staged_snapshots SET guilds = guilds + ?2, member_sum = member_sum + ?3{}
        WHERE id = ?1 RETURNING EXISTS (SELECT 1 FROM staged_kept WHERE snapshot = ?1)",
        D::WORDS.touch
    );
    let row = db.query_first(&sql, &values![snapshot, more.guilds, more.members]).await?;
    Ok(row.map(|row| row.get(0)).transpose()?)
}

async fn stage_guilds<D: Database>(db: &D, snapshot: i64, lines: &[GuildLine]) -> Result<Option<()>, D> {
    // In table order, which is faster.
    let LastGuildLines { guilds, carrying, unavailable } = LastGuildLines::of(lines);
    let more = GuildTotals::of(guilds.iter().copied());
    let Some(any_unavailable) = note_lines(db, snapshot, more).await? else { return Ok(None) };
    let mut known = GuildTotals::default();
    if !guilds.is_empty() {
        let ids: Vec<Snowflake> = guilds.iter().map(|guild| guild.id).collect();
        // Usually there are none, so no line needs to check.
        if any_unavailable {
            note_available(db, snapshot, &ids).await?;
        }
        known += db.stage_guilds(snapshot, &guilds, &ids).await?;
    }
    if !carrying.is_empty() {
        carry_over(db, snapshot, &carrying).await?;
    }
    if !unavailable.is_empty() {
        known += note_unavailable(db, snapshot, &unavailable).await?;
    }
    if !known.is_nothing() {
        note_lines(db, snapshot, GuildTotals::default() - known).await?;
    }
    Ok(Some(()))
}

/// Carries over what is stored for these guilds and was not sent, and records from which commit.
async fn carry_over<D: Database>(db: &D, snapshot: i64, guilds: &[Snowflake]) -> Result<(), D> {
    for (from, guilds) in Coverage::of(db, guilds).await?.by_snapshot(guilds) {
        guilds::copy(db, from, &[snapshot], &guilds, CarriedParts::All).await?;
    }
    let sql = "SELECT shard_count, shard_id, basis FROM staged_snapshots WHERE id = ?1";
    let row = db.query_one(sql, &values![snapshot]).await?;
    let (Some(shard), known) = (read_shard(&row)?, row.get(2)?) else { return Ok(()) };
    let basis = merge_basis(known, latest_commit(&coverage::overlapping(db, shard).await?));
    if known != Some(basis) {
        db.execute("UPDATE staged_snapshots SET basis = ?2 WHERE id = ?1", &values![snapshot, basis]).await?;
    }
    Ok(())
}

/// Reads the shard of a staged snapshot, if it has one, from the first two columns.
fn read_shard(row: &Row) -> Read<Option<ShardKey>> {
    let shard = row.get::<Option<u32>>(0)?.zip(row.get::<Option<u32>>(1)?);
    Ok(shard.and_then(|(count, id)| ShardKey::new(count, id)))
}

/// Records that a snapshot leaves these guilds as they are, and returns what earlier lines said about them.
async fn note_unavailable<D: Database>(db: &D, snapshot: i64, guilds: &[Snowflake]) -> Result<GuildTotals, D> {
    let known = guilds::delete(db, snapshot, guilds).await?.totals;
    let guilds: Vec<_> = guilds.iter().map(|guild| (guild.stored(),)).collect();
    let sql = format!(
        "INSERT INTO staged_kept (snapshot, guild) SELECT ?1, CAST(value ->> 0 AS BIGINT) FROM {} WHERE true
        ON CONFLICT DO NOTHING",
        D::WORDS.elements.put("?2")
    );
    db.execute(&sql, &values![snapshot, json(&guilds)]).await?;
    Ok(known)
}

/// Records that a snapshot has these guilds after all.
async fn note_available<D: Database>(db: &D, snapshot: i64, guilds: &[Snowflake]) -> Result<(), D> {
    let sql = format!("DELETE FROM staged_kept WHERE snapshot = ?1 AND guild {}", D::WORDS.among.put("?2"));
    db.execute(&sql, &values![snapshot, guilds]).await.map(drop)
}

/// Stages subscriptions, and returns the users of those that they replaced.
async fn stage_subscriptions<D: Database>(db: &D, snapshot: i64, lines: &[Subscription]) -> Result<Vec<Snowflake>, D> {
    let mut lines: Vec<&Subscription> = lines.iter().collect();
    let mut replaced = keep_last(&mut lines, |line| line.userid);
    let users: Vec<Snowflake> = lines.iter().map(|line| line.userid).collect();
    let sql = format!(
        "DELETE FROM staged_subscriptions WHERE snapshot = ?1 AND userid {} RETURNING userid",
        D::WORDS.among.put("?2")
    );
    for row in db.query(&sql, &values![snapshot, users]).await? {
        replaced.push(row.get(0)?);
    }
    let row = |line: &&Subscription| {
        (line.userid.stored(), line.slots, line.active_until.stored(), json(&line.distinct_guilds()))
    };
    let lines: Vec<_> = lines.iter().map(row).collect();
    let sql = format!(
        "INSERT INTO staged_subscriptions (snapshot, userid, slots, active_until, guilds)
        SELECT ?1, CAST(value ->> 0 AS BIGINT), CAST(value ->> 1 AS BIGINT), CAST(value ->> 2 AS BIGINT), value ->> 3
        FROM {} WHERE true",
        D::WORDS.elements.put("?2")
    );
    db.execute(&sql, &values![snapshot, json(&lines)]).await?;
    Ok(replaced)
}

/// Makes a staged snapshot current, or drops it; `None` if it is not being staged.
pub(crate) async fn commit<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    snapshot: SnapshotId,
    after: Option<u64>,
    now: Time,
) -> Result<Option<Committed>, D> {
    db.lock(Lock::Feed).await?;
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
            db.replace_subscriptions(staged.id).await?;
            clean_up::sweep_whole(db, &[staged.id]).await?;
        }
        Some(_) | None => clean_up::sweep_whole(db, &[staged.id]).await?,
    }
    Ok(Some(committed))
}

/// Takes a snapshot out of staging.
async fn take<D: Database>(db: &D, snapshot: SnapshotId) -> Result<Option<StagedSnapshot>, D> {
    let sql = "DELETE FROM staged_snapshots WHERE id = ?1
        RETURNING shard_count, shard_id, key, instance, sequence, guilds, member_sum, basis, id";
    let Some(row) = db.query_first(sql, &values![snapshot.0]).await? else { return Ok(None) };
    Ok(Some(StagedSnapshot {
        id: row.get(8)?,
        shard: read_shard(&row)?,
        instance: instances::read(&row, 2)?,
        sequence: row.get(4)?,
        totals: GuildTotals { guilds: row.get(5)?, members: row.get(6)? },
        basis: row.get(7)?,
    }))
}

/// Makes the staged guilds the shard's.
async fn replace_shard<D: Database>(
    db: &D,
    staged: &StagedSnapshot,
    shard: ShardKey,
    overlapping: &[CommittedShard],
    now: Time,
) -> Result<(), D> {
    let (is_resharding, has_uncovered) = (is_resharding(shard, overlapping), has_uncovered(db).await?);
    let shown = if is_resharding || has_uncovered { Some(totals::shown(db).await?) } else { None };
    let totals = staged.totals + move_unavailable(db, staged.id, shard).await?;
    let version = accounts::new_version(db).await?;
    let sql = format!(
        "INSERT INTO feed_shards
            (shard_count, shard_id, snapshot, committed, key, instance, snapshot_at, guilds, member_sum)
        VALUES (?1, ?2, ?3, {version}, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (shard_count, shard_id) DO UPDATE SET snapshot = excluded.snapshot, committed = excluded.committed,
            key = excluded.key, instance = excluded.instance, snapshot_at = excluded.snapshot_at,
            guilds = excluded.guilds, member_sum = excluded.member_sum"
    );
    let (InstanceId { key, name }, GuildTotals { guilds, members }) = (&staged.instance, totals);
    db.execute(&sql, &values![shard.count, shard.id, staged.id, key, name, now, guilds, members]).await?;

    let commits = if is_resharding { coverage::commits(db, shard.count).await? } else { Box::default() };
    let plan = Replacement::plan(shard, overlapping, &commits, has_uncovered);
    if !plan.superseded.is_empty() {
        let superseded: Vec<i64> = plan.superseded.iter().map(|sent| sent.snapshot).collect();
        let sql = format!("DELETE FROM feed_shards WHERE snapshot {}", D::WORDS.among.put("?1"));
        db.execute(&sql, &values![superseded.as_slice()]).await?;
    }
    clean_up::sweep_whole(db, &plan.removed).await?;
    clean_up::sweep_covered(db, &plan.partly_covered).await?;
    match shown.filter(|_| plan.hides_rows) {
        Some(shown) => totals::keep_shown(db, shown).await,
        None => Ok(()),
    }
}

/// Whether there are guilds that no snapshot covered when they were stored.
async fn has_uncovered<D: Database>(db: &D) -> Result<bool, D> {
    let sql = "SELECT 1 FROM feed_shards WHERE shard_count = 0 AND snapshot = ?1 AND guilds > 0";
    Ok(db.query_first(sql, &values![UNCOVERED]).await?.is_some())
}

/// Moves unavailable guilds to this snapshot as they are stored now, and returns what was moved: no read will look for them in
/// their old place any more.
async fn move_unavailable<D: Database>(db: &D, snapshot: i64, shard: ShardKey) -> Result<GuildTotals, D> {
    let kept = db.query("DELETE FROM staged_kept WHERE snapshot = ?1 RETURNING guild", &values![snapshot]).await?;
    let mut unavailable: Vec<Snowflake> = readable!("guild", kept, |row| row.get(0));
    unavailable.retain(|guild| shard.covers(*guild));
    let mut all = GuildTotals::default();
    for (from, guilds) in Coverage::of(db, &unavailable).await?.by_snapshot(&unavailable) {
        let moved = guilds::relocate(db, from, snapshot, &guilds).await?;
        totals::take_off(db, from, moved).await?;
        all += moved;
    }
    Ok(all)
}

pub(crate) async fn abandon<D: Database>(db: &D, snapshot: SnapshotId) -> Result<(), D> {
    db.lock(Lock::Feed).await?;
    match take(db, snapshot).await? {
        Some(staged) => clean_up::sweep_whole(db, &[staged.id]).await,
        None => Ok(()),
    }
}
