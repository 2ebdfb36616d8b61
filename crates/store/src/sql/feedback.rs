//! Feedback. The positive entries are numbered without gaps, so that drawing one at random is one lookup.

use std::collections::HashMap;

use domain::feedback::{Feedback, FeedbackEntry, draw};
use domain::slots::{SlotChange, Slots};
use domain::stats::RatingsChange;
use domain::{User, slots};
use runtime::random::Random;

use super::{ChangedTopics, Database, Read, Result, Row, forgotten, readable, values};
use crate::columns::warn_broken;
use crate::totals_change::TotalsChange;
use crate::{Sample, Topic};

pub(crate) const LAST_SLOT: &str = "SELECT slot FROM feedback WHERE slot IS NOT NULL ORDER BY slot DESC LIMIT 1";

pub(crate) async fn sample<D: Database>(db: &D, seed: u64) -> Result<Sample, D> {
    read_slots(db, |count| {
        let random = Random::seeded(seed);
        draw(count, || random.number()).to_vec()
    })
    .await
}

pub(crate) async fn before<D: Database>(db: &D, slot: u64) -> Result<Sample, D> {
    read_slots(db, |count| (0..count.min(slot)).collect()).await
}

/// The entries in the slots that are chosen when it is known how many there are.
async fn read_slots<D: Database>(db: &D, choose: impl Fn(u64) -> Vec<u64>) -> Result<Sample, D> {
    let last = db.query_first(LAST_SLOT, &[]).await?;
    let mut count = slots::count(last.map(|row| row.get(0)).transpose()?);
    loop {
        let (still, entries) = of_slots(db, &choose(count)).await?;
        // The choice belongs to the count; if that has changed, choose again.
        if still == count {
            return Ok(Sample { count, entries });
        }
        count = still;
    }
}

/// The positive entries in some slots; every row begins with the last slot.
pub(crate) fn by_slot<D: Database>() -> String {
    format!(
        "SELECT known.last, slot, id, feedback, rating, \"timestamp\",
            submitter_id, submitter_username, submitter_name, submitter_avatar
        FROM (SELECT ({LAST_SLOT}) AS last) AS known LEFT JOIN feedback ON slot {}",
        D::WORDS.among.put("?1")
    )
}

/// How many positive entries there are and, at the same moment, the entries in these slots.
async fn of_slots<D: Database>(db: &D, slots: &[u64]) -> Result<(u64, Vec<(u64, Feedback)>), D> {
    let rows = db.query(&by_slot::<D>(), &values![slots]).await?;
    let last = rows.first().map_or(Ok(None), |row| row.get(0))?;
    let found: Vec<Row> = rows.into_iter().filter(|row| matches!(row.get(1), Ok(Some(0_u64..)))).collect();
    if found.len() < slots.len() {
        warn_broken!(slots = slots.len(), found = found.len(), "some slots have no feedback entry");
    }
    let mut entries: HashMap<u64, Feedback> = readable!("feedback entry", found, read).into_iter().collect();
    Ok((slots::count(last), slots.iter().filter_map(|slot| entries.remove_entry(slot)).collect()))
}

fn read(row: &Row) -> Read<(u64, Feedback)> {
    let submitter = User { id: row.get(6)?, username: row.get(7)?, name: row.get(8)?, avatar: row.get(9)? };
    let entry = FeedbackEntry { feedback: row.get(3)?, rating: row.get(4)?, timestamp: row.get(5)?, submitter };
    Ok((row.get(1)?, Feedback { id: row.get(2)?, entry }))
}

pub(crate) async fn put<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    totals: &mut TotalsChange,
    feedback: &Feedback,
) -> Result<(), D> {
    let entry = &feedback.entry;
    let (slots, before) = known(db, &feedback.id).await?;
    let change = slots.put(entry.is_positive());
    totals.rate(topics, RatingsChange::of(before, Some(entry.rating.into())));
    fill_gap(db, &feedback.id, &change).await?;
    let is_forgotten = forgotten::contains(db, entry.submitter.id).await?;
    let submitter = if is_forgotten { &FeedbackEntry::no_submitter() } else { &entry.submitter };
    let sql = "INSERT INTO feedback (id, feedback, rating, \"timestamp\",
            submitter_id, submitter_username, submitter_name, submitter_avatar, slot)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (id) DO UPDATE SET feedback = ?2, rating = ?3, \"timestamp\" = ?4,
            submitter_id = ?5, submitter_username = ?6, submitter_name = ?7, submitter_avatar = ?8, slot = ?9";
    let FeedbackEntry { feedback: text, rating, timestamp, .. } = entry;
    let User { id, username, name, avatar } = submitter;
    let row = values![feedback.id, text, rating, timestamp, id, username, name, avatar, change.slot];
    db.execute(sql, &row).await?;
    if change.is_visible {
        topics.push(Topic::Feedback);
    }
    Ok(())
}

pub(crate) async fn remove<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    totals: &mut TotalsChange,
    id: &str,
) -> Result<(), D> {
    let (slots, before) = known(db, id).await?;
    let change = slots.remove();
    totals.rate(topics, RatingsChange::of(before, None));
    fill_gap(db, id, &change).await?;
    if change.is_visible {
        topics.push(Topic::Feedback);
    }
    db.execute("DELETE FROM feedback WHERE id = ?1", &values![id]).await.map(drop)
}

pub(crate) async fn refresh_user<D: Database>(db: &D, topics: &mut ChangedTopics, user: &User) -> Result<(), D> {
    let sql = "UPDATE feedback SET submitter_username = ?2, submitter_name = ?3, submitter_avatar = ?4
        WHERE submitter_id = ?1
            AND (submitter_username, submitter_name, submitter_avatar) IS DISTINCT FROM (?2, ?3, ?4)";
    if db.execute(sql, &values![user.id, user.username, user.name, user.avatar]).await? > 0 {
        topics.push(Topic::Feedback);
    }
    Ok(())
}

/// The numbering as far as it matters to this entry, and its rating if it exists.
async fn known<D: Database>(db: &D, id: &str) -> Result<(Slots, Option<i64>), D> {
    let id = values![id];
    let stored = db.query_first("SELECT slot, rating FROM feedback WHERE id = ?1", &id);
    let (stored, last) = futures_util::try_join!(stored, db.query_first(LAST_SLOT, &[]))?;
    let (own, rating) = match stored {
        Some(row) => (row.get(0)?, Some(row.get(1)?)),
        None => (None, None),
    };
    Ok((Slots { own, last: last.map(|row| row.get(0)).transpose()? }, rating))
}

/// Moves another entry into the slot that this one gives up.
async fn fill_gap<D: Database>(db: &D, id: &str, change: &SlotChange) -> Result<(), D> {
    let Some((from, to)) = change.moved else { return Ok(()) };
    db.execute("UPDATE feedback SET slot = NULL WHERE id = ?1", &values![id]).await?;
    db.execute("UPDATE feedback SET slot = ?2 WHERE slot = ?1", &values![from, to]).await.map(drop)
}
