//! Feedback. The positive entries are numbered without a gap, so that drawing one at random is one look-up.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tracing::warn;

use crate::domain::User;
use crate::domain::feedback::{Feedback, FeedbackEntry, draw};
use crate::random::Random;
use crate::store::{Sample, Topic};

use super::columns::{Whole, integer, readable, unsigned};
use super::work::{Sql, Touched};

pub(super) async fn sample(db: &impl GenericClient, seed: u64) -> Sql<Sample> {
    let mut count = positive(db).await?;
    loop {
        let random = Random::seeded(seed);
        let slots = draw(count, || random.number());
        let (still, entries) = of_slots(db, &slots).await?;
        // The draw belongs to the count; if it changed meanwhile, the draw is made anew.
        if still == count {
            return Ok(Sample { count, entries });
        }
        count = still;
    }
}

/// How many positive entries there are, and at the same moment the entries of these slots.
async fn of_slots(db: &impl GenericClient, slots: &[u64]) -> Sql<(u64, Vec<(u64, Feedback)>)> {
    let sql = "SELECT known.count, slot, id, feedback, rating, \"timestamp\",
            submitter_id, submitter_username, submitter_name, submitter_avatar
        FROM (SELECT coalesce(max(slot) + 1, 0) AS count FROM feedback WHERE slot IS NOT NULL) AS known
        LEFT JOIN feedback ON slot = ANY ($1::bigint[])";
    let statement = db.prepare_cached(sql).await?;
    let wanted: Vec<i64> = slots.iter().copied().map(integer).collect();
    let rows = db.query(&statement, &[&wanted]).await?;
    let count = rows.first().map_or(Ok(0), |row| row.try_get(0)).map(unsigned)?;
    let held: Vec<&Row> = rows.iter().filter(|row| matches!(row.try_get::<_, Option<i64>>(1), Ok(Some(_)))).collect();
    if held.len() < slots.len() {
        warn!(slots.len = slots.len(), held.len = held.len(), "some slots have no feedback entry");
    }
    let mut entries: HashMap<u64, Feedback> = readable("feedback entry", held, read).into_iter().collect();
    Ok((count, slots.iter().filter_map(|slot| entries.remove_entry(slot)).collect()))
}

fn read(row: &Row) -> Sql<(u64, Feedback)> {
    let submitter =
        User { id: row.try_get(6)?, username: row.try_get(7)?, name: row.try_get(8)?, avatar: row.try_get(9)? };
    let Whole(rating) = row.try_get(4)?;
    let entry = FeedbackEntry { feedback: row.try_get(3)?, rating, timestamp: unsigned(row.try_get(5)?), submitter };
    Ok((unsigned(row.try_get(1)?), Feedback { id: row.try_get(2)?, entry }))
}

pub(super) async fn put(db: &Transaction<'_>, touched: &mut Touched, feedback: &Feedback) -> Sql<()> {
    let entry = &feedback.entry;
    let held = held_slot(db, &feedback.id).await?;
    let slot = match (held, entry.is_positive()) {
        (Some(slot), true) => Some(slot),
        (None, true) => Some(integer(positive(db).await?)),
        (Some(slot), false) => {
            give_up(db, &feedback.id, slot).await?;
            None
        }
        (None, false) => None,
    };
    let sql = "INSERT INTO feedback (id, feedback, rating, \"timestamp\",
            submitter_id, submitter_username, submitter_name, submitter_avatar, slot)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (id) DO UPDATE SET feedback = $2, rating = $3, \"timestamp\" = $4,
            submitter_id = $5, submitter_username = $6, submitter_name = $7, submitter_avatar = $8, slot = $9";
    let statement = db.prepare_cached(sql).await?;
    let (rating, timestamp) = (i64::from(entry.rating), integer(entry.timestamp));
    let User { id, username, name, avatar } = &entry.submitter;
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 9] =
        [&feedback.id, &entry.feedback, &rating, &timestamp, id, username, name, avatar, &slot];
    db.execute(&statement, &row).await?;
    if held.is_some() || slot.is_some() {
        touched.push(Topic::Feedback);
    }
    Ok(())
}

pub(super) async fn remove(db: &Transaction<'_>, touched: &mut Touched, id: &str) -> Sql<()> {
    if let Some(slot) = held_slot(db, id).await? {
        give_up(db, id, slot).await?;
        touched.push(Topic::Feedback);
    }
    let statement = db.prepare_cached("DELETE FROM feedback WHERE id = $1").await?;
    db.execute(&statement, &[&id]).await?;
    Ok(())
}

pub(super) async fn refresh_user(db: &Transaction<'_>, touched: &mut Touched, user: &User) -> Sql<()> {
    let sql = "UPDATE feedback SET submitter_username = $2, submitter_name = $3, submitter_avatar = $4
        WHERE submitter_id = $1
            AND (submitter_username, submitter_name, submitter_avatar) IS DISTINCT FROM ($2, $3, $4)";
    let statement = db.prepare_cached(sql).await?;
    if db.execute(&statement, &[&user.id, &user.username, &user.name, &user.avatar]).await? > 0 {
        touched.push(Topic::Feedback);
    }
    Ok(())
}

/// How many positive entries there are.
async fn positive(db: &impl GenericClient) -> Sql<u64> {
    let statement = db.prepare_cached("SELECT max(slot) FROM feedback WHERE slot IS NOT NULL").await?;
    let last: Option<i64> = db.query_one(&statement, &[]).await?.try_get(0)?;
    Ok(last.map_or(0, |last| unsigned(last) + 1))
}

async fn held_slot(db: &Transaction<'_>, id: &str) -> Sql<Option<i64>> {
    let statement = db.prepare_cached("SELECT slot FROM feedback WHERE id = $1").await?;
    let slot = db.query_opt(&statement, &[&id]).await?.map(|row| row.try_get(0)).transpose()?;
    Ok(slot.flatten())
}

/// Takes an entry's slot away; the last one moves into the gap.
async fn give_up(db: &Transaction<'_>, id: &str, slot: i64) -> Sql<()> {
    let statement = db.prepare_cached("UPDATE feedback SET slot = NULL WHERE id = $1").await?;
    db.execute(&statement, &[&id]).await?;
    let last = integer(positive(db).await?) - 1;
    if last > slot {
        let statement = db.prepare_cached("UPDATE feedback SET slot = $2 WHERE slot = $1").await?;
        db.execute(&statement, &[&last, &slot]).await?;
    }
    Ok(())
}
