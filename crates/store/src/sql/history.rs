//! The bot's history. Only one transaction at a time writes it, across all replicas.

use domain::Time;
use domain::history::incident::{self, IncidentStep};
use domain::history::recording::{HistoryBounds, day_of, may_record, troubled_minutes};
use domain::history::update::{Update, UpdateSubject};
use domain::history::{Announcement, BotState, Day, History, Incident, Minute, Observation};
use domain::retention::MOST_INCIDENTS;
use futures_util::future::try_join_all;

use super::{ChangedTopics, Database, Lock, Read, Result, Row, announcements, clock, readable, values};
use crate::Topic;
use crate::history::Recorded;

pub(crate) async fn load<D: Database>(db: &D) -> Result<History, D> {
    let read = futures_util::try_join!(
        minutes(db),
        days(db),
        incidents(db, i64::MAX),
        announcements::announcements(db),
        announcements::updates(db)
    )?;
    let (minutes, days, incidents, announcements, updates) = read;
    Ok(History { minutes, days, incidents, announcements, updates })
}

async fn minutes<D: Database>(db: &D) -> Result<Vec<Minute>, D> {
    let sql = "SELECT begins, state, latency FROM history_minutes ORDER BY begins";
    Ok(readable!("minute of the history", db.query(sql, &[]).await?, minute))
}

fn minute(row: &Row) -> Read<Minute> {
    Ok(Minute { begins: row.get(0)?, state: row.get(1)?, latency: row.get(2)? })
}

async fn days<D: Database>(db: &D) -> Result<Vec<Day>, D> {
    let rows = db.query("SELECT begins, up, partial, down FROM history_days ORDER BY begins", &[]).await?;
    Ok(readable!("day of the history", rows, |row| {
        Ok(Day { begins: row.get(0)?, up: row.get(1)?, partial: row.get(2)?, down: row.get(3)? })
    }))
}

/// The latest incidents first, up to a number.
async fn incidents<D: Database>(db: &D, most: i64) -> Result<Vec<Incident>, D> {
    let sql = "SELECT id, worst, began, ended, shards, shard_count FROM incidents ORDER BY id DESC LIMIT ?1";
    Ok(readable!("incident", db.query(sql, &values![most]).await?, incident))
}

fn incident(row: &Row) -> Read<Incident> {
    Ok(Incident {
        id: row.get(0)?,
        worst: row.get(1)?,
        began: row.get(2)?,
        ended: row.get(3)?,
        shards: row.get(4)?,
        shard_count: row.get(5)?,
    })
}

pub(crate) async fn record<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    seen: &Observation,
    minute: Option<&Minute>,
    unchanged: Option<Time>,
    may_delete: bool,
) -> Result<Recorded, D> {
    db.lock(Lock::History).await?;
    let known = newest(db).await?;
    if !may_record(seen.at, known, unchanged) {
        return Ok(Recorded::refused(known));
    }
    let open = "SELECT id, worst, began, ended, shards, shard_count FROM incidents WHERE ended IS NULL";
    let open = db.query_first(open, &[]).await?.as_ref().map(incident).transpose()?;
    let step = incident::step(open.as_ref(), seen);
    take(db, step).await?;
    let is_new = match minute {
        Some(minute) => add_minute(db, &minute.after_incident(incidents(db, 1).await?.first())).await?,
        None => false,
    };
    let mut is_changed = is_new || step != IncidentStep::Stays;
    for begins in troubled_minutes(seen) {
        is_changed |= worsen_minute(db, &Minute { begins, state: seen.state, latency: None }).await?;
    }
    if is_new && may_delete && clock::ahead_by(db, seen.at).await?.is_none() {
        delete_old(db, HistoryBounds::at(seen.at)).await?;
    }
    if is_changed {
        topics.push(Topic::History);
    }
    Ok(Recorded { is_accepted: true, newest: newest(db).await?, incident: step })
}

async fn newest<D: Database>(db: &D) -> Result<Option<Time>, D> {
    Ok(db.query_one("SELECT max(begins) FROM history_minutes", &[]).await?.get(0)?)
}

/// Returns whether it is new. If so, it counts towards its day.
async fn add_minute<D: Database>(db: &D, minute: &Minute) -> Result<bool, D> {
    let sql = "INSERT INTO history_minutes (begins, state, latency) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    let Minute { begins, state, latency } = minute;
    if db.execute(sql, &values![begins, state, latency]).await? == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO history_days AS stored (begins, up, partial, down) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (begins) DO UPDATE
        SET up = stored.up + ?2, partial = stored.partial + ?3, down = stored.down + ?4";
    let [up, partial, down] =
        [BotState::Up, BotState::Partial, BotState::Down].map(|counted| i64::from(counted == *state));
    db.execute(sql, &values![day_of(*begins), up, partial, down]).await?;
    Ok(true)
}

/// Records that the bot was not up in a minute, whether or not it was recorded before. Returns whether that is new.
async fn worsen_minute<D: Database>(db: &D, troubled: &Minute) -> Result<bool, D> {
    if add_minute(db, troubled).await? {
        return Ok(true);
    }
    let sql = "SELECT begins, state, latency FROM history_minutes WHERE begins = ?1";
    let known = readable!("minute of the history", db.query(sql, &values![troubled.begins]).await?, minute).pop();
    let Some(known) = known.filter(|known| known.state < troubled.state) else { return Ok(false) };
    let Minute { begins, state, latency } = known.worsened(troubled.state);
    let sql = "UPDATE history_minutes SET state = ?2, latency = ?3 WHERE begins = ?1";
    db.execute(sql, &values![begins, state, latency]).await?;
    let (from, to) = (known.state.name(), state.name());
    let sql = format!("UPDATE history_days SET {from} = {from} - 1, {to} = {to} + 1 WHERE begins = ?1 AND {from} > 0");
    db.execute(&sql, &values![day_of(begins)]).await?;
    Ok(true)
}

async fn delete_old<D: Database>(db: &D, bounds: HistoryBounds) -> Result<(), D> {
    let HistoryBounds { minutes_from, minutes_to, days_from, days_to, incidents_from } = bounds;
    // What is in the future by this replica's clock may be right if that clock is behind the database's.
    let future = format!("begins > ?2 AND begins > coalesce({}, 0)", D::WORDS.clock);
    let sql = format!("DELETE FROM history_minutes WHERE begins < ?1 OR ({future})");
    db.execute(&sql, &values![minutes_from, minutes_to]).await?;
    let sql = format!("DELETE FROM history_days WHERE begins < ?1 OR ({future})");
    db.execute(&sql, &values![days_from, days_to]).await?;
    db.execute("DELETE FROM incidents WHERE ended < ?1", &values![incidents_from]).await?;
    Ok(())
}

/// Writes what happens to the open incident.
async fn take<D: Database>(db: &D, step: IncidentStep) -> Result<(), D> {
    match step {
        IncidentStep::Stays => {}
        IncidentStep::Opens { worst, began, shards, shard_count } => {
            let sql = "INSERT INTO incidents (id, worst, began, ended, shards, shard_count)
                SELECT coalesce(max(id), 0) + 1, ?1, ?2, NULL, ?3, ?4 FROM incidents";
            db.execute(sql, &values![worst, began, shards, shard_count]).await?;
            let sql = "DELETE FROM incidents WHERE id <= (SELECT id FROM incidents ORDER BY id DESC LIMIT 1 OFFSET ?1)";
            db.execute(sql, &values![MOST_INCIDENTS]).await?;
        }
        IncidentStep::Worsens { worst, shards, shard_count } => {
            let sql = "UPDATE incidents SET worst = ?1, shards = ?2, shard_count = ?3 WHERE ended IS NULL";
            db.execute(sql, &values![worst, shards, shard_count]).await?;
        }
        IncidentStep::Ends(ended) => {
            db.execute("UPDATE incidents SET ended = ?1 WHERE ended IS NULL", &values![ended]).await?;
        }
    }
    Ok(())
}

pub(crate) async fn replace<D: Database>(db: &D, topics: &mut ChangedTopics, history: &History) -> Result<(), D> {
    db.lock(Lock::History).await?;
    for table in ["history_updates", "announcements", "incidents", "history_days", "history_minutes"] {
        db.execute(&format!("DELETE FROM {table}"), &[]).await?;
    }
    let sql = "INSERT INTO history_minutes (begins, state, latency) VALUES (?1, ?2, ?3)";
    // Sent at the same time, because there are many.
    let minutes = history
        .minutes
        .iter()
        .map(async |Minute { begins, state, latency }| db.execute(sql, &values![begins, state, latency]).await);
    try_join_all(minutes).await?;
    let sql = "INSERT INTO history_days (begins, up, partial, down) VALUES (?1, ?2, ?3, ?4)";
    for Day { begins, up, partial, down } in &history.days {
        db.execute(sql, &values![begins, up, partial, down]).await?;
    }
    let sql = "INSERT INTO incidents (id, worst, began, ended, shards, shard_count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for Incident { id, worst, began, ended, shards, shard_count } in &history.incidents {
        db.execute(sql, &values![id, worst, began, ended, shards, shard_count]).await?;
    }
    let sql = "INSERT INTO announcements (id, title, text, posted, ended, begins, ends, rescheduled)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for Announcement { id, title, text, posted, ended, window, rescheduled } in &history.announcements {
        let (begins, ends) = (window.map(|window| window.begins), window.map(|window| window.ends));
        db.execute(sql, &values![id, title, text, posted, ended, begins, ends, rescheduled]).await?;
    }
    let sql =
        "INSERT INTO history_updates (id, announcement, incident, phase, text, posted) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for Update { id, subject, phase, text, posted } in &history.updates {
        let (announcement, incident) = match subject {
            UpdateSubject::Announcement(id) => (Some(id), None),
            UpdateSubject::Incident(id) => (None, Some(id)),
        };
        db.execute(sql, &values![id, announcement, incident, phase, text, posted]).await?;
    }
    topics.push(Topic::History);
    Ok(())
}
