use async_trait::async_trait;
use domain::Time;
use domain::history::announcement::Notice;
use domain::history::recording::{HistoryBounds, IncidentStep, day_of, incident_step, may_record};
use domain::history::{Announcement, BotState, Day, History, Incident, Minute, Observation};
use domain::retention::{MOST_ANNOUNCEMENTS, MOST_INCIDENTS};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
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
        self.writer.write(move |connection, topics| announce(connection, topics, &notice, now)).await
    }

    async fn end_announcement(&self, id: u64, now: Time) -> Result<bool> {
        let sql = "UPDATE announcements SET ended = ?2 WHERE id = ?1 AND ended IS NULL";
        self.writer
            .write(move |connection, topics| {
                let ended = connection.prepare_cached(sql)?.execute(params![integer(id), now.stored()])?;
                topics.push(Topic::History);
                Ok(ended > 0)
            })
            .await
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
        announcements: announcements(connection)?,
    })
}

fn minutes(connection: &Connection) -> rusqlite::Result<Vec<Minute>> {
    let sql = "SELECT begins, state, latency FROM history_minutes ORDER BY begins";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| Ok(Minute { begins: row.column(0)?, state: row.column(1)?, latency: row.get(2)? });
    readable("minute of the history", statement.query_map([], read)?)
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

fn announcements(connection: &Connection) -> rusqlite::Result<Vec<Announcement>> {
    let sql = "SELECT id, title, text, posted, ended FROM announcements ORDER BY id DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(Announcement {
            id: unsigned(row.get(0)?),
            title: row.get(1)?,
            text: row.get(2)?,
            posted: row.column(3)?,
            ended: row.column(4)?,
        })
    };
    readable("announcement", statement.query_map([], read)?)
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
    let is_new = match minute {
        Some(minute) => add_minute(connection, minute)?,
        None => false,
    };
    if is_new && may_delete {
        delete_old(connection, HistoryBounds::at(seen.at))?;
    }
    let open = "SELECT id, worst, began, ended, shards, shard_count FROM incidents WHERE ended IS NULL";
    let open = connection.prepare_cached(open)?.query_row([], incident).optional()?;
    let step = incident_step(open.as_ref(), seen);
    take(connection, step)?;
    if is_new || step != IncidentStep::Stays {
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

fn announce(connection: &Connection, topics: &mut ChangedTopics, notice: &Notice, now: Time) -> rusqlite::Result<u64> {
    let sql = "INSERT INTO announcements (id, title, text, posted, ended)
        SELECT coalesce(max(id), 0) + 1, ?1, ?2, ?3, NULL FROM announcements RETURNING id";
    let mut statement = connection.prepare_cached(sql)?;
    let id = statement.query_row(params![notice.title, notice.text, now.stored()], |row| row.get(0))?;
    let sql = "DELETE FROM announcements WHERE id <= (SELECT id FROM announcements ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    connection.prepare_cached(sql)?.execute([MOST_ANNOUNCEMENTS])?;
    topics.push(Topic::History);
    Ok(unsigned(id))
}
