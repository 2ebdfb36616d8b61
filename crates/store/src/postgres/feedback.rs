//! Feedback. The positive entries are numbered without gaps, so that drawing one at random is one lookup.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use domain::feedback::{Feedback, FeedbackEntry, draw};
use domain::slots::{SlotChange, Slots};
use domain::stats::RatingsChange;
use domain::{User, slots};
use runtime::random::Random;
use tokio_postgres::Row;

use super::columns::{Column as _, ReadColumn as _, Whole, integer, readable, unsigned};
use super::errors::Sql;
use super::work::ChangedTopics;
use crate::columns::warn_broken;
use crate::sql::forgotten;
use crate::totals_change::TotalsChange;
use crate::{Sample, Topic};

pub(super) async fn sample(db: &impl GenericClient, seed: u64) -> Sql<Sample> {
    read_slots(db, |count| {
        let random = Random::seeded(seed);
        draw(count, || random.number()).to_vec()
    })
    .await
}

pub(super) async fn before(db: &impl GenericClient, slot: u64) -> Sql<Sample> {
    read_slots(db, |count| (0..count.min(slot)).collect()).await
}

/// The entries in the slots that are chosen when it is known how many there are.
async fn read_slots(db: &impl GenericClient, choose: impl Fn(u64) -> Vec<u64>) -> Sql<Sample> {
    let statement = db.prepare_cached("SELECT max(slot) FROM feedback WHERE slot IS NOT NULL").await?;
    let last: Option<i64> = db.query_one(&statement, &[]).await?.try_get(0)?;
    let mut count = slots::count(last.map(unsigned));
    loop {
        let (still, entries) = of_slots(db, &choose(count)).await?;
        // The choice belongs to the count; if that has changed, choose again.
        if still == count {
            return Ok(Sample { count, entries });
        }
        count = still;
    }
}

/// How many positive entries there are and, at the same moment, the entries in these slots.
async fn of_slots(db: &impl GenericClient, slots: &[u64]) -> Sql<(u64, Vec<(u64, Feedback)>)> {
    let sql = "SELECT known.last, slot, id, feedback, rating, \"timestamp\",
            submitter_id, submitter_username, submitter_name, submitter_avatar
        FROM (SELECT max(slot) AS last FROM feedback WHERE slot IS NOT NULL) AS known
        LEFT JOIN feedback ON slot = ANY ($1::bigint[])";
    let statement = db.prepare_cached(sql).await?;
    let wanted: Vec<i64> = slots.iter().copied().map(integer).collect();
    let rows = db.query(&statement, &[&wanted]).await?;
    let last: Option<i64> = rows.first().map_or(Ok(None), |row| row.try_get(0))?;
    let count = slots::count(last.map(unsigned));
    let found: Vec<&Row> = rows.iter().filter(|row| matches!(row.try_get::<_, Option<i64>>(1), Ok(Some(_)))).collect();
    if found.len() < slots.len() {
        warn_broken!(slots = slots.len(), found = found.len(), "some slots have no feedback entry");
    }
    let mut entries: HashMap<u64, Feedback> = readable("feedback entry", found, read).into_iter().collect();
    Ok((count, slots.iter().filter_map(|slot| entries.remove_entry(slot)).collect()))
}

fn read(row: &Row) -> Sql<(u64, Feedback)> {
    let submitter =
        User { id: row.column(6)?, username: row.try_get(7)?, name: row.try_get(8)?, avatar: row.column(9)? };
    let Whole(rating) = row.try_get(4)?;
    let entry = FeedbackEntry { feedback: row.try_get(3)?, rating, timestamp: unsigned(row.try_get(5)?), submitter };
    Ok((unsigned(row.try_get(1)?), Feedback { id: row.try_get(2)?, entry }))
}

pub(super) async fn put(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    totals: &mut TotalsChange,
    feedback: &Feedback,
) -> Sql<()> {
    let entry = &feedback.entry;
    let (slots, before) = known(db, &feedback.id).await?;
    let change = slots.put(entry.is_positive());
    totals.rate(topics, RatingsChange::of(before, Some(entry.rating.into())));
    fill_gap(db, &feedback.id, &change).await?;
    let sql = "INSERT INTO feedback (id, feedback, rating, \"timestamp\",
            submitter_id, submitter_username, submitter_name, submitter_avatar, slot)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (id) DO UPDATE SET feedback = $2, rating = $3, \"timestamp\" = $4,
            submitter_id = $5, submitter_username = $6, submitter_name = $7, submitter_avatar = $8, slot = $9";
    let statement = db.prepare_cached(sql).await?;
    let (rating, timestamp, slot) = (i64::from(entry.rating), integer(entry.timestamp), change.slot.map(integer));
    let is_forgotten = forgotten::contains(db, entry.submitter.id).await?;
    let submitter = if is_forgotten { &FeedbackEntry::no_submitter() } else { &entry.submitter };
    let User { id, username, name, avatar } = submitter;
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 9] =
        [&feedback.id, &entry.feedback, &rating, &timestamp, &id.stored(), username, name, &avatar.stored(), &slot];
    db.execute(&statement, &row).await?;
    if change.is_visible {
        topics.push(Topic::Feedback);
    }
    Ok(())
}

pub(super) async fn remove(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    totals: &mut TotalsChange,
    id: &str,
) -> Sql<()> {
    let (slots, before) = known(db, id).await?;
    let change = slots.remove();
    totals.rate(topics, RatingsChange::of(before, None));
    fill_gap(db, id, &change).await?;
    if change.is_visible {
        topics.push(Topic::Feedback);
    }
    let statement = db.prepare_cached("DELETE FROM feedback WHERE id = $1").await?;
    db.execute(&statement, &[&id]).await?;
    Ok(())
}

pub(super) async fn refresh_user(db: &Transaction<'_>, topics: &mut ChangedTopics, user: &User) -> Sql<()> {
    let sql = "UPDATE feedback SET submitter_username = $2, submitter_name = $3, submitter_avatar = $4
        WHERE submitter_id = $1
            AND (submitter_username, submitter_name, submitter_avatar) IS DISTINCT FROM ($2, $3, $4)";
    let statement = db.prepare_cached(sql).await?;
    if db.execute(&statement, &[&user.id.stored(), &user.username, &user.name, &user.avatar.stored()]).await? > 0 {
        topics.push(Topic::Feedback);
    }
    Ok(())
}

/// The numbering as far as it matters to this entry, and its rating if it exists.
async fn known(db: &Transaction<'_>, id: &str) -> Sql<(Slots, Option<i64>)> {
    let sql =
        "SELECT slot, rating, known.last FROM (SELECT max(slot) AS last FROM feedback WHERE slot IS NOT NULL) AS known
        LEFT JOIN feedback ON id = $1";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_one(&statement, &[&id]).await?;
    let (own, rating, last): (Option<i64>, _, Option<i64>) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok((Slots { own: own.map(unsigned), last: last.map(unsigned) }, rating))
}

/// Moves another entry into the slot that this one gives up.
async fn fill_gap(db: &Transaction<'_>, id: &str, change: &SlotChange) -> Sql<()> {
    let Some((from, to)) = change.moved else { return Ok(()) };
    let statement = db.prepare_cached("UPDATE feedback SET slot = NULL WHERE id = $1").await?;
    db.execute(&statement, &[&id]).await?;
    let statement = db.prepare_cached("UPDATE feedback SET slot = $2 WHERE slot = $1").await?;
    db.execute(&statement, &[&integer(from), &integer(to)]).await?;
    Ok(())
}
