//! Feedback. The positive entries are numbered without gaps, so that drawing one at random is one lookup.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use domain::feedback::{Feedback, FeedbackEntry, draw};
use domain::{User, slots};
use runtime::random::Random;
use tokio_postgres::Row;

use super::columns::{ReadColumn as _, Whole, integer, readable, unsigned};
use super::errors::Sql;
use crate::Sample;
use crate::columns::warn_broken;

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
