//! What the operator tells visitors: announcements, maintenance, and updates to them and to incidents.

use deadpool_postgres::{GenericClient, Transaction};
use domain::Time;
use domain::history::Announcement;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, Update, UpdateOutcome, UpdatePhase, UpdateSubject};
use domain::retention::{MOST_ANNOUNCEMENTS, MOST_UPDATES};

use super::columns::{Column as _, ReadColumn as _, integer, readable, unsigned};
use super::errors::Sql;
use super::history::{change, execute};
use super::locks::{Lock, lock};
use super::work::ChangedTopics;
use crate::Topic;

pub(super) async fn announcements(db: &impl GenericClient) -> Sql<Vec<Announcement>> {
    let sql = "SELECT id, title, text, posted, ended, begins, ends, rescheduled FROM announcements ORDER BY id DESC";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("announcement", &db.query(&statement, &[]).await?, |row| {
        let (begins, ends): (Option<Time>, Option<Time>) = (row.column(5)?, row.column(6)?);
        Ok(Announcement {
            id: unsigned(row.try_get(0)?),
            title: row.try_get(1)?,
            text: row.try_get(2)?,
            posted: row.column(3)?,
            ended: row.column(4)?,
            window: begins.zip(ends).map(|(begins, ends)| MaintenanceWindow { begins, ends }),
            rescheduled: row.column(7)?,
        })
    }))
}

pub(super) async fn updates(db: &impl GenericClient) -> Sql<Vec<Update>> {
    let sql = "SELECT id, announcement, incident, phase, text, posted FROM history_updates ORDER BY id";
    let statement = db.prepare_cached(sql).await?;
    let read = readable("update", &db.query(&statement, &[]).await?, |row| {
        let (announcement, incident): (Option<i64>, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
        let incident = incident.map(unsigned).map(UpdateSubject::Incident);
        let subject = announcement.map(unsigned).map(UpdateSubject::Announcement).or(incident);
        let (id, text, posted) = (unsigned(row.try_get(0)?), row.try_get(4)?, row.column(5)?);
        let phase: UpdatePhase = row.column(3)?;
        Ok(subject.map(|subject| Update { id, subject, phase, text, posted }))
    });
    Ok(read.into_iter().flatten().collect())
}

pub(super) async fn announce(db: &Transaction<'_>, topics: &mut ChangedTopics, notice: &Notice, now: Time) -> Sql<u64> {
    lock(db, Lock::History).await?;
    let sql = "INSERT INTO announcements (id, title, text, posted, ended, begins, ends)
        SELECT coalesce(max(id), 0) + 1, $1, $2, $3, NULL, $4, $5 FROM announcements RETURNING id";
    let statement = db.prepare_cached(sql).await?;
    let (begins, ends) = (notice.window.map(|window| window.begins), notice.window.map(|window| window.ends));
    let (begins, ends, now) = (begins.stored(), ends.stored(), now.stored());
    let row = db.query_one(&statement, &[&notice.title, &notice.text, &now, &begins, &ends]).await?;
    let id = row.try_get(0)?;
    let sql = "DELETE FROM announcements WHERE id <= (SELECT id FROM announcements ORDER BY id DESC LIMIT 1 OFFSET $1)";
    change(db, topics, sql, &[&i64::from(MOST_ANNOUNCEMENTS)]).await?;
    Ok(unsigned(id))
}

pub(super) async fn update(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    update: &NewUpdate,
    now: Time,
) -> Sql<UpdateOutcome> {
    lock(db, Lock::History).await?;
    let (announcement, incident, table) = match update.subject {
        UpdateSubject::Announcement(id) => (Some(integer(id)), None, "announcements"),
        UpdateSubject::Incident(id) => (None, Some(integer(id)), "incidents"),
    };
    let id = announcement.or(incident);
    let statement = db.prepare_cached(&format!("SELECT ended FROM {table} WHERE id = $1")).await?;
    let Some(row) = db.query_opt(&statement, &[&id]).await? else { return Ok(UpdateOutcome::NoSubject) };
    let ended: Option<Time> = row.column(0)?;
    let is_resolved = update.phase == UpdatePhase::Resolved;
    if is_resolved && ended.is_none() && incident.is_some() {
        return Ok(UpdateOutcome::NotOver);
    }
    let sql = "SELECT count(*) FROM history_updates WHERE announcement = $1 OR incident = $2";
    let statement = db.prepare_cached(sql).await?;
    let known: i64 = db.query_one(&statement, &[&announcement, &incident]).await?.try_get(0)?;
    if known >= i64::from(MOST_UPDATES) {
        return Ok(UpdateOutcome::TooMany);
    }
    let sql = "INSERT INTO history_updates (id, announcement, incident, phase, text, posted)
        SELECT coalesce(max(id), 0) + 1, $1, $2, $3, $4, $5 FROM history_updates";
    execute(db, sql, &[&announcement, &incident, &update.phase.stored(), &update.text, &now.stored()]).await?;
    if is_resolved && announcement.is_some() {
        let sql = "UPDATE announcements SET ended = $2 WHERE id = $1 AND ended IS NULL AND (ends IS NULL OR ends > $2)";
        execute(db, sql, &[&id, &now.stored()]).await?;
    }
    topics.push(Topic::History);
    Ok(UpdateOutcome::Posted)
}

/// Reschedules maintenance; `false` if there is none with this number, or it is marked as over.
pub(super) async fn reschedule(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    id: u64,
    window: MaintenanceWindow,
    now: Time,
) -> Sql<bool> {
    let sql = "UPDATE announcements SET begins = $2, ends = $3, rescheduled = $4
        WHERE id = $1 AND ended IS NULL AND begins IS NOT NULL";
    let (begins, ends, now) = (window.begins.stored(), window.ends.stored(), now.stored());
    Ok(change(db, topics, sql, &[&integer(id), &begins, &ends, &now]).await? > 0)
}
