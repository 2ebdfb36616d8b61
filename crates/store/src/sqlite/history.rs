use async_trait::async_trait;
use domain::Time;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::recording::{HistoryBounds, IncidentStep, day_of, incident_step, may_record, troubled_minutes};
use domain::history::update::{NewUpdate, Update, UpdateOutcome, UpdateSubject};
use domain::history::{Announcement, BotState, Day, History, Incident, Minute, Observation};
use domain::retention::MOST_INCIDENTS;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use super::announcements;
use super::columns::{Column as _, ReadColumn as _, integer, readable, unsigned};
use super::writer::ChangedTopics;
use crate::history::{HistoryStore, Recorded};
use crate::{Result, Topic};

#[async_trait]
impl HistoryStore for Sqlite {
    async fn history(&self) -> Result<History> {
        self.readers.read(load).await
    }

    async fn record(
        &self,
        seen: Observation,
        minute: Option<Minute>,
        unchanged: Option<Time>,
        may_delete: bool,
    ) -> Result<Recorded> {
        self.writer
            .write(move |connection, topics| record(connection, topics, &seen, minute.as_ref(), unchanged, may_delete))
            .await
    }

    async fn announce(&self, notice: Notice, now: Time) -> Result<u64> {
        self.writer.write(move |connection, topics| announcements::announce(connection, topics, &notice, now)).await
    }

    async fn end_announcement(&self, id: u64, now: Time) -> Result<bool> {
        let sql = "UPDATE announcements SET ended = ?2 WHERE id = ?1 AND ended IS NULL AND (ends IS NULL OR ends > ?2)";
        self.writer
            .write(move |connection, topics| {
                let ended = connection.prepare_cached(sql)?.execute(params![integer(id), now.stored()])?;
                topics.push(Topic::History);
                Ok(ended > 0)
            })
            .await
    }

    async fn reschedule_announcement(&self, id: u64, window: MaintenanceWindow, now: Time) -> Result<bool> {
        self.writer
            .write(move |connection, topics| announcements::reschedule(connection, topics, id, window, now))
            .await
    }

    async fn update_happening(&self, update: NewUpdate, now: Time) -> Result<UpdateOutcome> {
        self.writer.write(move |connection, topics| announcements::update(connection, topics, &update, now)).await
    }

    async fn replace_history(&self, history: History) -> Result<()> {
        self.writer.write(move |connection, topics| replace(connection, topics, &history)).await
    }

    async fn remove_announcement(&self, id: u64) -> Result<bool> {
        let sql = "DELETE FROM announcements WHERE id = ?1";
        self.writer
            .write(move |connection, topics| {
                let removed = connection.prepare_cached(sql)?.execute([integer(id)])?;
                topics.push(Topic::History);
                Ok(removed > 0)
            })
            .await
    }
}

fn load(connection: &Connection) -> rusqlite::Result<History> {
    Ok(History {
        minutes: minutes(connection)?,
        days: days(connection)?,
        incidents: incidents(connection)?,
        announcements: announcements::announcements(connection)?,
        updates: announcements::updates(connection)?,
    })
}

fn minutes(connection: &Connection) -> rusqlite::Result<Vec<Minute>> {
    let sql = "SELECT begins, state, latency FROM history_minutes ORDER BY begins";
    let mut statement = connection.prepare_cached(sql)?;
    readable("minute of the history", statement.query_map([], minute)?)
}

fn minute(row: &Row<'_>) -> rusqlite::Result<Minute> {
    Ok(Minute { begins: row.column(0)?, state: row.column(1)?, latency: row.get(2)? })
}

fn days(connection: &Connection) -> rusqlite::Result<Vec<Day>> {
    let mut statement =
        connection.prepare_cached("SELECT begins, up, partial, down FROM history_days ORDER BY begins")?;
    let read =
        |row: &Row<'_>| Ok(Day { begins: row.column(0)?, up: row.get(1)?, partial: row.get(2)?, down: row.get(3)? });
    readable("day of the history", statement.query_map([], read)?)
}

fn incidents(connection: &Connection) -> rusqlite::Result<Vec<Incident>> {
    let sql = "SELECT id, worst, began, ended, shards, shard_count FROM incidents ORDER BY id DESC";
    let mut statement = connection.prepare_cached(sql)?;
    readable("incident", statement.query_map([], incident)?)
}

fn incident(row: &Row<'_>) -> rusqlite::Result<Incident> {
    Ok(Incident {
        id: unsigned(row.get(0)?),
        worst: row.column(1)?,
        began: row.column(2)?,
        ended: row.column(3)?,
        shards: row.get(4)?,
        shard_count: row.get(5)?,
    })
}

fn record(
    connection: &Connection,
    topics: &mut ChangedTopics,
    seen: &Observation,
    minute: Option<&Minute>,
    unchanged: Option<Time>,
    may_delete: bool,
) -> rusqlite::Result<Recorded> {
    let known = newest(connection)?;
    if !may_record(seen.at, known, unchanged) {
        return Ok(Recorded::refused(known));
    }
    let open = "SELECT id, worst, began, ended, shards, shard_count FROM incidents WHERE ended IS NULL";
    let open = connection.prepare_cached(open)?.query_row([], incident).optional()?;
    let step = incident_step(open.as_ref(), seen);
    take(connection, step)?;
    let is_new = match minute {
        Some(minute) => add_minute(connection, &minute.after_incident(latest_incident(connection)?.as_ref()))?,
        None => false,
    };
    let mut is_changed = is_new || step != IncidentStep::Stays;
    for begins in troubled_minutes(seen) {
        is_changed |= worsen_minute(connection, &Minute { begins, state: seen.state, latency: None })?;
    }
    if is_new && may_delete {
        delete_old(connection, HistoryBounds::at(seen.at))?;
    }
    if is_changed {
        topics.push(Topic::History);
    }
    Ok(Recorded { is_accepted: true, newest: newest(connection)?, incident: step })
}

fn newest(connection: &Connection) -> rusqlite::Result<Option<Time>> {
    connection.prepare_cached("SELECT max(begins) FROM history_minutes")?.query_row([], |row| row.column(0))
}

/// Returns whether it is new. If so, it counts towards its day.
fn add_minute(connection: &Connection, minute: &Minute) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO history_minutes (begins, state, latency) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    let Minute { begins, state, latency } = minute;
    if connection.prepare_cached(sql)?.execute(params![begins.stored(), state.stored(), latency])? == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO history_days (begins, up, partial, down) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (begins) DO UPDATE SET up = up + ?2, partial = partial + ?3, down = down + ?4";
    let counts = [BotState::Up, BotState::Partial, BotState::Down].map(|counted| i64::from(counted == *state));
    connection.prepare_cached(sql)?.execute(params![day_of(*begins).stored(), counts[0], counts[1], counts[2]])?;
    Ok(true)
}

/// Records that the bot was not up in a minute, whether or not it was recorded before. Returns whether that is new.
fn worsen_minute(connection: &Connection, troubled: &Minute) -> rusqlite::Result<bool> {
    if add_minute(connection, troubled)? {
        return Ok(true);
    }
    let sql = "SELECT begins, state, latency FROM history_minutes WHERE begins = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let known = readable("minute of the history", statement.query_map([troubled.begins.stored()], minute)?)?.pop();
    let Some(known) = known.filter(|known| known.state < troubled.state) else { return Ok(false) };
    let Minute { begins, state, latency } = known.worsened(troubled.state);
    let sql = "UPDATE history_minutes SET state = ?2, latency = ?3 WHERE begins = ?1";
    connection.prepare_cached(sql)?.execute(params![begins.stored(), state.stored(), latency])?;
    let (from, to) = (known.state.name(), state.name());
    let sql = format!("UPDATE history_days SET {from} = {from} - 1, {to} = {to} + 1 WHERE begins = ?1 AND {from} > 0");
    connection.prepare_cached(&sql)?.execute([day_of(begins).stored()])?;
    Ok(true)
}

fn latest_incident(connection: &Connection) -> rusqlite::Result<Option<Incident>> {
    let sql = "SELECT id, worst, began, ended, shards, shard_count FROM incidents ORDER BY id DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(readable("incident", statement.query_map([], incident)?)?.pop())
}

fn delete_old(connection: &Connection, bounds: HistoryBounds) -> rusqlite::Result<()> {
    let delete =
        |sql: &str, from: Time, to: Time| connection.prepare_cached(sql)?.execute([from.stored(), to.stored()]);
    let HistoryBounds { minutes_from, minutes_to, days_from, days_to, incidents_from } = bounds;
    delete("DELETE FROM history_minutes WHERE begins < ?1 OR begins > ?2", minutes_from, minutes_to)?;
    delete("DELETE FROM history_days WHERE begins < ?1 OR begins > ?2", days_from, days_to)?;
    connection.prepare_cached("DELETE FROM incidents WHERE ended < ?1")?.execute([incidents_from.stored()])?;
    Ok(())
}

/// Writes what happens to the open incident.
fn take(connection: &Connection, step: IncidentStep) -> rusqlite::Result<()> {
    match step {
        IncidentStep::Stays => {}
        IncidentStep::Opens { worst, began, shards, shard_count } => {
            let sql = "INSERT INTO incidents (id, worst, began, ended, shards, shard_count)
                SELECT coalesce(max(id), 0) + 1, ?1, ?2, NULL, ?3, ?4 FROM incidents";
            connection.prepare_cached(sql)?.execute(params![worst.stored(), began.stored(), shards, shard_count])?;
            let sql = "DELETE FROM incidents WHERE id <= (SELECT id FROM incidents ORDER BY id DESC LIMIT 1 OFFSET ?1)";
            connection.prepare_cached(sql)?.execute([MOST_INCIDENTS])?;
        }
        IncidentStep::Worsens { worst, shards, shard_count } => {
            let sql = "UPDATE incidents SET worst = ?1, shards = ?2, shard_count = ?3 WHERE ended IS NULL";
            connection.prepare_cached(sql)?.execute(params![worst.stored(), shards, shard_count])?;
        }
        IncidentStep::Ends(ended) => {
            connection
                .prepare_cached("UPDATE incidents SET ended = ?1 WHERE ended IS NULL")?
                .execute([ended.stored()])?;
        }
    }
    Ok(())
}

fn replace(connection: &Connection, topics: &mut ChangedTopics, history: &History) -> rusqlite::Result<()> {
    for table in ["history_updates", "announcements", "incidents", "history_days", "history_minutes"] {
        connection.execute(&format!("DELETE FROM {table}"), [])?;
    }
    let sql = "INSERT INTO history_minutes (begins, state, latency) VALUES (?1, ?2, ?3)";
    for Minute { begins, state, latency } in &history.minutes {
        connection.prepare_cached(sql)?.execute(params![begins.stored(), state.stored(), latency])?;
    }
    let sql = "INSERT INTO history_days (begins, up, partial, down) VALUES (?1, ?2, ?3, ?4)";
    for Day { begins, up, partial, down } in &history.days {
        connection.prepare_cached(sql)?.execute(params![begins.stored(), up, partial, down])?;
    }
    let sql = "INSERT INTO incidents (id, worst, began, ended, shards, shard_count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for Incident { id, worst, began, ended, shards, shard_count } in &history.incidents {
        let values = params![integer(*id), worst.stored(), began.stored(), ended.stored(), shards, shard_count];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    let sql = "INSERT INTO announcements (id, title, text, posted, ended, begins, ends, rescheduled) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for Announcement { id, title, text, posted, ended, window, rescheduled } in &history.announcements {
        let (begins, ends) = (window.map(|window| window.begins.stored()), window.map(|window| window.ends.stored()));
        let values =
            params![integer(*id), title, text, posted.stored(), ended.stored(), begins, ends, rescheduled.stored()];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    let sql =
        "INSERT INTO history_updates (id, announcement, incident, phase, text, posted) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for Update { id, subject, phase, text, posted } in &history.updates {
        let (announcement, incident) = match subject {
            UpdateSubject::Announcement(id) => (Some(integer(*id)), None),
            UpdateSubject::Incident(id) => (None, Some(integer(*id))),
        };
        let values = params![integer(*id), announcement, incident, phase.stored(), text, posted.stored()];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    topics.push(Topic::History);
    Ok(())
}
