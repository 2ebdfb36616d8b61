//! What the operator tells visitors: announcements, maintenance, and updates to them and to incidents.

use domain::Time;
use domain::history::Announcement;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, Update, UpdateOutcome, UpdatePhase, UpdateSubject};
use domain::retention::{MOST_ANNOUNCEMENTS, MOST_UPDATES};

use super::{ChangedTopics, Database, Lock, Result, Value, readable, values};
use crate::Topic;

/// Ends an announcement that is not over.
const END: &str = "UPDATE announcements SET ended = ?2 WHERE id = ?1 AND ended IS NULL AND (ends IS NULL OR ends > ?2)";

pub(crate) async fn announcements<D: Database>(db: &D) -> Result<Vec<Announcement>, D> {
    let sql = "SELECT id, title, text, posted, ended, begins, ends, rescheduled FROM announcements ORDER BY id DESC";
    Ok(readable!("announcement", db.query(sql, &[]).await?, |row| {
        let (begins, ends): (Option<Time>, Option<Time>) = (row.get(5)?, row.get(6)?);
        Ok(Announcement {
            id: row.get(0)?,
            title: row.get(1)?,
            text: row.get(2)?,
            posted: row.get(3)?,
            ended: row.get(4)?,
            window: begins.zip(ends).map(|(begins, ends)| MaintenanceWindow { begins, ends }),
            rescheduled: row.get(7)?,
        })
    }))
}

pub(crate) async fn updates<D: Database>(db: &D) -> Result<Vec<Update>, D> {
    let sql = "SELECT id, announcement, incident, phase, text, posted FROM history_updates ORDER BY id";
    let read = readable!("update", db.query(sql, &[]).await?, |row| {
        let incident = row.get::<Option<u64>>(2)?.map(UpdateSubject::Incident);
        let subject = row.get::<Option<u64>>(1)?.map(UpdateSubject::Announcement).or(incident);
        let (id, phase, text, posted) = (row.get(0)?, row.get(3)?, row.get(4)?, row.get(5)?);
        Ok(subject.map(|subject| Update { id, subject, phase, text, posted }))
    });
    Ok(read.into_iter().flatten().collect())
}

pub(crate) async fn announce<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    notice: &Notice,
    now: Time,
) -> Result<u64, D> {
    db.lock(Lock::History).await?;
    let sql = "INSERT INTO announcements (id, title, text, posted, ended, begins, ends)
        SELECT coalesce(max(id), 0) + 1, ?1, ?2, ?3, NULL, ?4, ?5 FROM announcements RETURNING id";
    let (begins, ends) = (notice.window.map(|window| window.begins), notice.window.map(|window| window.ends));
    let row = db.query_one(sql, &values![notice.title, notice.text, now, begins, ends]).await?;
    let sql = "DELETE FROM announcements WHERE id <= (SELECT id FROM announcements ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    change(db, topics, sql, &values![MOST_ANNOUNCEMENTS]).await?;
    Ok(row.get(0)?)
}

pub(crate) async fn update<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    update: &NewUpdate,
    now: Time,
) -> Result<UpdateOutcome, D> {
    db.lock(Lock::History).await?;
    let (announcement, incident, table) = match update.subject {
        UpdateSubject::Announcement(id) => (Some(id), None, "announcements"),
        UpdateSubject::Incident(id) => (None, Some(id), "incidents"),
    };
    let id = announcement.or(incident);
    let subject = db.query_first(&format!("SELECT ended FROM {table} WHERE id = ?1"), &values![id]).await?;
    let Some(row) = subject else { return Ok(UpdateOutcome::NoSubject) };
    let ended: Option<Time> = row.get(0)?;
    let is_resolved = update.phase == UpdatePhase::Resolved;
    if is_resolved && ended.is_none() && incident.is_some() {
        return Ok(UpdateOutcome::NotOver);
    }
    let sql = "SELECT count(*) FROM history_updates WHERE announcement = ?1 OR incident = ?2";
    let known: u64 = db.query_one(sql, &values![announcement, incident]).await?.get(0)?;
    if known >= MOST_UPDATES.into() {
        return Ok(UpdateOutcome::TooMany);
    }
    let sql = "INSERT INTO history_updates (id, announcement, incident, phase, text, posted)
        SELECT coalesce(max(id), 0) + 1, ?1, ?2, ?3, ?4, ?5 FROM history_updates";
    db.execute(sql, &values![announcement, incident, update.phase, update.text, now]).await?;
    if is_resolved && announcement.is_some() {
        db.execute(END, &values![id, now]).await?;
    }
    topics.push(Topic::History);
    Ok(UpdateOutcome::Posted)
}

pub(crate) async fn end<D: Database>(db: &D, topics: &mut ChangedTopics, id: u64, now: Time) -> Result<bool, D> {
    change(db, topics, END, &values![id, now]).await
}

/// Reschedules maintenance; `false` if there is none with this number, or it is marked as over.
pub(crate) async fn reschedule<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    id: u64,
    window: MaintenanceWindow,
    now: Time,
) -> Result<bool, D> {
    let sql = "UPDATE announcements SET begins = ?2, ends = ?3, rescheduled = ?4
        WHERE id = ?1 AND ended IS NULL AND begins IS NOT NULL";
    change(db, topics, sql, &values![id, window.begins, window.ends, now]).await
}

pub(crate) async fn remove<D: Database>(db: &D, topics: &mut ChangedTopics, id: u64) -> Result<bool, D> {
    change(db, topics, "DELETE FROM announcements WHERE id = ?1", &values![id]).await
}

/// Returns whether it changed anything.
async fn change<D: Database>(db: &D, topics: &mut ChangedTopics, sql: &str, values: &[Value<'_>]) -> Result<bool, D> {
    let changed = db.execute(sql, values).await? > 0;
    topics.push(Topic::History);
    Ok(changed)
}
