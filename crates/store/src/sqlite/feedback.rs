//! Feedback. The positive entries are numbered without gaps, so that drawing one at random is one lookup.

use domain::feedback::{Feedback, FeedbackEntry, draw};
use domain::{User, slots};
use runtime::random::Random;
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::{ReadColumn as _, integer, is_unreadable, unsigned};
use crate::Sample;
use crate::columns::warn_broken;
use crate::sql::feedback::LAST_SLOT;

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

fn last_slot(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let last: Option<i64> = connection.prepare_cached(LAST_SLOT)?.query_row([], |row| row.get(0)).optional()?;
    Ok(last.map(unsigned))
}
