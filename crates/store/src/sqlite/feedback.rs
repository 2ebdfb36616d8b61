//! Feedback. The positive entries are numbered without gaps, so that drawing one at random is one lookup.

use domain::feedback::{Feedback, FeedbackEntry, draw};
use domain::slots::{SlotChange, Slots};
use domain::stats::RatingsChange;
use domain::{User, slots};
use runtime::random::Random;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Column as _, ReadColumn as _, integer, is_unreadable, unsigned};
use super::database::run;
use super::writer::ChangedTopics;
use crate::columns::warn_broken;
use crate::sql::forgotten;
use crate::totals_change::TotalsChange;
use crate::{Sample, Topic};

pub(super) const LAST_SLOT: &str = "SELECT slot FROM feedback WHERE slot IS NOT NULL ORDER BY slot DESC LIMIT 1";
pub(super) const BY_SLOT: &str = "SELECT id, feedback, rating, timestamp,
    submitter_id, submitter_username, submitter_name, submitter_avatar FROM feedback WHERE slot = ?1";

pub(super) fn sample(connection: &Connection, seed: u64) -> rusqlite::Result<Sample> {
    let count = slots::count(last_slot(connection)?);
    let random = Random::seeded(seed);
    of_slots(connection, count, draw(count, || random.number()).iter().copied())
}

pub(super) fn before(connection: &Connection, slot: u64) -> rusqlite::Result<Sample> {
    let count = slots::count(last_slot(connection)?);
    of_slots(connection, count, 0..count.min(slot))
}

fn of_slots(connection: &Connection, count: u64, slots: impl Iterator<Item = u64>) -> rusqlite::Result<Sample> {
    let mut statement = connection.prepare_cached(BY_SLOT)?;
    let mut entries = Vec::new();
    for slot in slots {
        match statement.query_row([integer(slot)], read).optional() {
            Ok(Some(entry)) => entries.push((slot, entry)),
            Ok(None) => warn_broken!(slot, "no feedback entry has this slot"),
            Err(error) if is_unreadable(&error) => {
                warn_broken!(slot, %error, "left out a feedback entry that cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Sample { count, entries })
}

fn read(row: &Row<'_>) -> rusqlite::Result<Feedback> {
    let submitter = User { id: row.column(4)?, username: row.get(5)?, name: row.get(6)?, avatar: row.column(7)? };
    let entry =
        FeedbackEntry { feedback: row.get(1)?, rating: row.get(2)?, timestamp: unsigned(row.get(3)?), submitter };
    Ok(Feedback { id: row.get(0)?, entry })
}

pub(super) fn put(
    connection: &Connection,
    topics: &mut ChangedTopics,
    totals: &mut TotalsChange,
    feedback: &Feedback,
) -> rusqlite::Result<()> {
    let entry = &feedback.entry;
    let (slots, before) = known(connection, &feedback.id)?;
    let change = slots.put(entry.is_positive());
    totals.rate(topics, RatingsChange::of(before, Some(entry.rating.into())));
    fill_gap(connection, &feedback.id, &change)?;
    let is_forgotten = run(forgotten::contains(connection, entry.submitter.id))?;
    let submitter = if is_forgotten { &FeedbackEntry::no_submitter() } else { &entry.submitter };
    let sql = "INSERT INTO feedback (id, feedback, rating, timestamp,
            submitter_id, submitter_username, submitter_name, submitter_avatar, slot)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (id) DO UPDATE SET feedback = ?2, rating = ?3, timestamp = ?4,
            submitter_id = ?5, submitter_username = ?6, submitter_name = ?7, submitter_avatar = ?8, slot = ?9";
    connection.prepare_cached(sql)?.execute(params![
        feedback.id,
        entry.feedback,
        entry.rating,
        integer(entry.timestamp),
        submitter.id.stored(),
        submitter.username,
        submitter.name,
        submitter.avatar.stored(),
        change.slot.map(integer)
    ])?;
    if change.is_visible {
        topics.push(Topic::Feedback);
    }
    Ok(())
}

pub(super) fn remove(
    connection: &Connection,
    topics: &mut ChangedTopics,
    totals: &mut TotalsChange,
    id: &str,
) -> rusqlite::Result<()> {
    let (slots, before) = known(connection, id)?;
    let change = slots.remove();
    totals.rate(topics, RatingsChange::of(before, None));
    fill_gap(connection, id, &change)?;
    if change.is_visible {
        topics.push(Topic::Feedback);
    }
    connection.prepare_cached("DELETE FROM feedback WHERE id = ?1")?.execute([id]).map(drop)
}

pub(super) fn refresh_user(connection: &Connection, topics: &mut ChangedTopics, user: &User) -> rusqlite::Result<()> {
    let sql = "UPDATE feedback SET submitter_username = ?2, submitter_name = ?3, submitter_avatar = ?4
        WHERE submitter_id = ?1 AND (submitter_username, submitter_name, submitter_avatar) IS NOT (?2, ?3, ?4)";
    if connection.prepare_cached(sql)?.execute(params![
        user.id.stored(),
        user.username,
        user.name,
        user.avatar.stored()
    ])? > 0
    {
        topics.push(Topic::Feedback);
    }
    Ok(())
}

/// The numbering as far as it matters to this entry, and its rating if it exists.
fn known(connection: &Connection, id: &str) -> rusqlite::Result<(Slots, Option<i64>)> {
    let stored: Option<(Option<i64>, i64)> = connection
        .prepare_cached("SELECT slot, rating FROM feedback WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (own, rating) = stored.unzip();
    Ok((Slots { own: own.flatten().map(unsigned), last: last_slot(connection)? }, rating))
}

fn last_slot(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let last: Option<i64> = connection.prepare_cached(LAST_SLOT)?.query_row([], |row| row.get(0)).optional()?;
    Ok(last.map(unsigned))
}

/// Moves another entry into the slot that this one gives up.
fn fill_gap(connection: &Connection, id: &str, change: &SlotChange) -> rusqlite::Result<()> {
    let Some((from, to)) = change.moved else { return Ok(()) };
    connection.prepare_cached("UPDATE feedback SET slot = NULL WHERE id = ?1")?.execute([id])?;
    let sql = "UPDATE feedback SET slot = ?2 WHERE slot = ?1";
    connection.prepare_cached(sql)?.execute([integer(from), integer(to)]).map(drop)
}
