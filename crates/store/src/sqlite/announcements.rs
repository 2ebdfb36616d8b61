//! What the operator tells visitors: announcements, maintenance, and updates to them and to incidents.

use domain::Time;
use domain::history::Announcement;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, Update, UpdateOutcome, UpdatePhase, UpdateSubject};
use domain::retention::{MOST_ANNOUNCEMENTS, MOST_UPDATES};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Column as _, ReadColumn as _, integer, readable, unsigned};
use super::writer::ChangedTopics;
use crate::Topic;

pub(super) fn announcements(connection: &Connection) -> rusqlite::Result<Vec<Announcement>> {
    let sql = "SELECT id, title, text, posted, ended, begins, ends, rescheduled FROM announcements ORDER BY id DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        let (begins, ends): (Option<Time>, Option<Time>) = (row.column(5)?, row.column(6)?);
        Ok(Announcement {
            id: unsigned(row.get(0)?),
            title: row.get(1)?,
            text: row.get(2)?,
            posted: row.column(3)?,
            ended: row.column(4)?,
            window: begins.zip(ends).map(|(begins, ends)| MaintenanceWindow { begins, ends }),
            rescheduled: row.column(7)?,
        })
    };
    readable("announcement", statement.query_map([], read)?)
}

pub(super) fn updates(connection: &Connection) -> rusqlite::Result<Vec<Update>> {
    let sql = "SELECT id, announcement, incident, phase, text, posted FROM history_updates ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        let (announcement, incident): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let incident = incident.map(unsigned).map(UpdateSubject::Incident);
        let subject = announcement.map(unsigned).map(UpdateSubject::Announcement).or(incident);
        let (id, text, posted) = (unsigned(row.get(0)?), row.get(4)?, row.column(5)?);
        let phase: UpdatePhase = row.column(3)?;
        Ok(subject.map(|subject| Update { id, subject, phase, text, posted }))
    };
    Ok(readable("update", statement.query_map([], read)?)?.into_iter().flatten().collect())
}

pub(super) fn announce(
    connection: &Connection,
    topics: &mut ChangedTopics,
    notice: &Notice,
    now: Time,
) -> rusqlite::Result<u64> {
    let sql = "INSERT INTO announcements (id, title, text, posted, ended, begins, ends)
        SELECT coalesce(max(id), 0) + 1, ?1, ?2, ?3, NULL, ?4, ?5 FROM announcements RETURNING id";
    let mut statement = connection.prepare_cached(sql)?;
    let (begins, ends) = (notice.window.map(|window| window.begins), notice.window.map(|window| window.ends));
    let values = params![notice.title, notice.text, now.stored(), begins.stored(), ends.stored()];
    let id = statement.query_row(values, |row| row.get(0))?;
    let sql = "DELETE FROM announcements WHERE id <= (SELECT id FROM announcements ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    connection.prepare_cached(sql)?.execute([MOST_ANNOUNCEMENTS])?;
    topics.push(Topic::History);
    Ok(unsigned(id))
}

pub(super) fn update(
    connection: &Connection,
    topics: &mut ChangedTopics,
    update: &NewUpdate,
    now: Time,
) -> rusqlite::Result<UpdateOutcome> {
    let (announcement, incident, table) = match update.subject {
        UpdateSubject::Announcement(id) => (Some(integer(id)), None, "announcements"),
        UpdateSubject::Incident(id) => (None, Some(integer(id)), "incidents"),
    };
    let id = announcement.or(incident);
    let sql = format!("SELECT ended FROM {table} WHERE id = ?1");
    let ended: Option<Option<Time>> =
        connection.prepare_cached(&sql)?.query_row([id], |row| row.column(0)).optional()?;
    let Some(ended) = ended else { return Ok(UpdateOutcome::NoSubject) };
    let is_resolved = update.phase == UpdatePhase::Resolved;
    if is_resolved && ended.is_none() && incident.is_some() {
        return Ok(UpdateOutcome::NotOver);
    }
    let sql = "SELECT count(*) FROM history_updates WHERE announcement = ?1 OR incident = ?2";
    let known: u32 = connection.prepare_cached(sql)?.query_row([announcement, incident], |row| row.get(0))?;
    if known >= MOST_UPDATES {
        return Ok(UpdateOutcome::TooMany);
    }
    let sql = "INSERT INTO history_updates (id, announcement, incident, phase, text, posted)
        SELECT coalesce(max(id), 0) + 1, ?1, ?2, ?3, ?4, ?5 FROM history_updates";
    let values = params![announcement, incident, update.phase.stored(), update.text, now.stored()];
    connection.prepare_cached(sql)?.execute(values)?;
    if is_resolved && announcement.is_some() {
        let sql = "UPDATE announcements SET ended = ?2 WHERE id = ?1 AND ended IS NULL AND (ends IS NULL OR ends > ?2)";
        connection.prepare_cached(sql)?.execute(params![id, now.stored()])?;
    }
    topics.push(Topic::History);
    Ok(UpdateOutcome::Posted)
}

/// Reschedules maintenance; `false` if there is none with this number, or it is marked as over.
pub(super) fn reschedule(
    connection: &Connection,
    topics: &mut ChangedTopics,
    id: u64,
    window: MaintenanceWindow,
    now: Time,
) -> rusqlite::Result<bool> {
    let sql = "UPDATE announcements SET begins = ?2, ends = ?3, rescheduled = ?4
        WHERE id = ?1 AND ended IS NULL AND begins IS NOT NULL";
    let values = params![integer(id), window.begins.stored(), window.ends.stored(), now.stored()];
    let moved = connection.prepare_cached(sql)?.execute(values)?;
    topics.push(Topic::History);
    Ok(moved > 0)
}
