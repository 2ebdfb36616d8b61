//! The bot's history. Only one transaction at a time writes it, across all replicas.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use domain::Time;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::recording::{HistoryBounds, IncidentStep, day_of, incident_step, may_record, troubled_minutes};
use domain::history::update::{NewUpdate, Update, UpdateOutcome, UpdateSubject};
use domain::history::{Announcement, BotState, Day, History, Incident, Minute, Observation};
use domain::retention::MOST_INCIDENTS;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::announcements;
use super::columns::{Column as _, ReadColumn as _, Whole, integer, readable, unsigned};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::{ChangedTopics, Pace, Read};
use crate::history::{HistoryStore, Recorded};
use crate::{Result, Topic};

#[async_trait]
impl HistoryStore for Postgres {
    async fn history(&self) -> Result<History> {
        self.executor.read((), Read::Snapshot(|db, ()| Box::pin(load(db)))).await
    }

    async fn record(
        &self,
        seen: Observation,
        minute: Option<Minute>,
        unchanged: Option<Time>,
        may_delete: bool,
    ) -> Result<Recorded> {
        let arguments = (seen, minute, unchanged, may_delete);
        let work = self.executor.write(Pace::Quick, arguments, |db, topics, (seen, minute, unchanged, may_delete)| {
            Box::pin(record(db, topics, seen, minute.as_ref(), *unchanged, *may_delete))
        });
        work.await
    }

    async fn announce(&self, notice: Notice, now: Time) -> Result<u64> {
        let work = self.executor.write(Pace::Quick, (notice, now), |db, topics, (notice, now)| {
            Box::pin(announcements::announce(db, topics, notice, *now))
        });
        work.await
    }

    async fn end_announcement(&self, id: u64, now: Time) -> Result<bool> {
        let work = self.executor.write(Pace::Quick, (id, now), |db, topics, (id, now)| {
            let sql =
                "UPDATE announcements SET ended = $2 WHERE id = $1 AND ended IS NULL AND (ends IS NULL OR ends > $2)";
            Box::pin(async move { Ok(change(db, topics, sql, &[&integer(*id), &now.stored()]).await? > 0) })
        });
        work.await
    }

    async fn reschedule_announcement(&self, id: u64, window: MaintenanceWindow, now: Time) -> Result<bool> {
        let work = self.executor.write(Pace::Quick, (id, window, now), |db, topics, (id, window, now)| {
            Box::pin(announcements::reschedule(db, topics, *id, *window, *now))
        });
        work.await
    }

    async fn update_happening(&self, update: NewUpdate, now: Time) -> Result<UpdateOutcome> {
        let work = self.executor.write(Pace::Quick, (update, now), |db, topics, (update, now)| {
            Box::pin(announcements::update(db, topics, update, *now))
        });
        work.await
    }

    async fn replace_history(&self, history: History) -> Result<()> {
        let work =
            self.executor.write(Pace::Quick, history, |db, topics, history| Box::pin(replace(db, topics, history)));
        work.await
    }

    async fn remove_announcement(&self, id: u64) -> Result<bool> {
        let work = self.executor.write(Pace::Quick, id, |db, topics, id| {
            let sql = "DELETE FROM announcements WHERE id = $1";
            Box::pin(async move { Ok(change(db, topics, sql, &[&integer(*id)]).await? > 0) })
        });
        work.await
    }
}

async fn load(db: &impl GenericClient) -> Sql<History> {
    let read = futures_util::try_join!(
        minutes(db),
        days(db),
        incidents(db),
        announcements::announcements(db),
        announcements::updates(db)
    )?;
    let (minutes, days, incidents, announcements, updates) = read;
    Ok(History { minutes, days, incidents, announcements, updates })
}

async fn minutes(db: &impl GenericClient) -> Sql<Vec<Minute>> {
    let sql = "SELECT begins, state, latency FROM history_minutes ORDER BY begins";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("minute of the history", &db.query(&statement, &[]).await?, minute))
}

fn minute(row: &Row) -> Sql<Minute> {
    Ok(Minute { begins: row.column(0)?, state: row.column(1)?, latency: row.try_get(2)? })
}

async fn days(db: &impl GenericClient) -> Sql<Vec<Day>> {
    let statement = db.prepare_cached("SELECT begins, up, partial, down FROM history_days ORDER BY begins").await?;
    Ok(readable("day of the history", &db.query(&statement, &[]).await?, |row| {
        let (Whole(up), Whole(partial), Whole(down)) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        Ok(Day { begins: row.column(0)?, up, partial, down })
    }))
}

async fn incidents(db: &impl GenericClient) -> Sql<Vec<Incident>> {
    let sql = "SELECT id, worst, began, ended, shards, shard_count FROM incidents ORDER BY id DESC";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("incident", &db.query(&statement, &[]).await?, incident))
}

fn incident(row: &Row) -> Sql<Incident> {
    let (Whole(shards), Whole(shard_count)) = (row.try_get(4)?, row.try_get(5)?);
    Ok(Incident {
        id: unsigned(row.try_get(0)?),
        worst: row.column(1)?,
        began: row.column(2)?,
        ended: row.column(3)?,
        shards,
        shard_count,
    })
}

async fn record(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    seen: &Observation,
    minute: Option<&Minute>,
    unchanged: Option<Time>,
    may_delete: bool,
) -> Sql<Recorded> {
    lock(db, Lock::History).await?;
    let known = newest(db).await?;
    if !may_record(seen.at, known, unchanged) {
        return Ok(Recorded::refused(known));
    }
    let open = "SELECT id, worst, began, ended, shards, shard_count FROM incidents WHERE ended IS NULL";
    let statement = db.prepare_cached(open).await?;
    let open = db.query_opt(&statement, &[]).await?.as_ref().map(incident).transpose()?;
    let step = incident_step(open.as_ref(), seen);
    take(db, step).await?;
    let is_new = match minute {
        Some(minute) => add_minute(db, &minute.after_incident(latest_incident(db).await?.as_ref())).await?,
        None => false,
    };
    let mut is_changed = is_new || step != IncidentStep::Stays;
    for begins in troubled_minutes(seen) {
        is_changed |= worsen_minute(db, &Minute { begins, state: seen.state, latency: None }).await?;
    }
    if is_new && may_delete {
        delete_old(db, HistoryBounds::at(seen.at)).await?;
    }
    if is_changed {
        topics.push(Topic::History);
    }
    Ok(Recorded { is_accepted: true, newest: newest(db).await?, incident: step })
}

async fn newest(db: &Transaction<'_>) -> Sql<Option<Time>> {
    let statement = db.prepare_cached("SELECT max(begins) FROM history_minutes").await?;
    Ok(db.query_one(&statement, &[]).await?.column(0)?)
}

/// Whether it was not recorded yet, in which case it counts for its day.
async fn add_minute(db: &Transaction<'_>, minute: &Minute) -> Sql<bool> {
    let sql = "INSERT INTO history_minutes (begins, state, latency) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let Minute { begins, state, latency } = minute;
    if execute(db, sql, &[&begins.stored(), &state.stored(), latency]).await? == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO history_days AS stored (begins, up, partial, down) VALUES ($1, $2, $3, $4)
        ON CONFLICT (begins) DO UPDATE
        SET up = stored.up + $2, partial = stored.partial + $3, down = stored.down + $4";
    let [up, partial, down] =
        [BotState::Up, BotState::Partial, BotState::Down].map(|counted| i64::from(counted == *state));
    execute(db, sql, &[&day_of(*begins).stored(), &up, &partial, &down]).await?;
    Ok(true)
}

/// Records that the bot was not up in a minute, whether or not it was recorded before. Returns whether that is new.
async fn worsen_minute(db: &Transaction<'_>, troubled: &Minute) -> Sql<bool> {
    if add_minute(db, troubled).await? {
        return Ok(true);
    }
    let sql = "SELECT begins, state, latency FROM history_minutes WHERE begins = $1";
    let statement = db.prepare_cached(sql).await?;
    let known =
        readable("minute of the history", &db.query(&statement, &[&troubled.begins.stored()]).await?, minute).pop();
    let Some(known) = known.filter(|known| known.state < troubled.state) else { return Ok(false) };
    let Minute { begins, state, latency } = known.worsened(troubled.state);
    let sql = "UPDATE history_minutes SET state = $2, latency = $3 WHERE begins = $1";
    execute(db, sql, &[&begins.stored(), &state.stored(), &latency]).await?;
    let (from, to) = (known.state.name(), state.name());
    let sql = format!("UPDATE history_days SET {from} = {from} - 1, {to} = {to} + 1 WHERE begins = $1 AND {from} > 0");
    execute(db, &sql, &[&day_of(begins).stored()]).await?;
    Ok(true)
}

async fn latest_incident(db: &Transaction<'_>) -> Sql<Option<Incident>> {
    let sql = "SELECT id, worst, began, ended, shards, shard_count FROM incidents ORDER BY id DESC LIMIT 1";
    let statement = db.prepare_cached(sql).await?;
    Ok(readable("incident", &db.query(&statement, &[]).await?, incident).pop())
}

async fn delete_old(db: &Transaction<'_>, bounds: HistoryBounds) -> Sql<()> {
    let HistoryBounds { minutes_from, minutes_to, days_from, days_to, incidents_from } = bounds;
    let sql = "DELETE FROM history_minutes WHERE begins < $1 OR begins > $2";
    execute(db, sql, &[&minutes_from.stored(), &minutes_to.stored()]).await?;
    execute(db, "DELETE FROM history_days WHERE begins < $1 OR begins > $2", &[&days_from.stored(), &days_to.stored()])
        .await?;
    execute(db, "DELETE FROM incidents WHERE ended < $1", &[&incidents_from.stored()]).await?;
    Ok(())
}

async fn take(db: &Transaction<'_>, step: IncidentStep) -> Sql<()> {
    match step {
        IncidentStep::Stays => {}
        IncidentStep::Opens { worst, began, shards, shard_count } => {
            let sql = "INSERT INTO incidents (id, worst, began, ended, shards, shard_count)
                SELECT coalesce(max(id), 0) + 1, $1, $2, NULL, $3, $4 FROM incidents";
            execute(db, sql, &[&worst.stored(), &began.stored(), &i64::from(shards), &i64::from(shard_count)]).await?;
            let sql = "DELETE FROM incidents WHERE id <= (SELECT id FROM incidents ORDER BY id DESC LIMIT 1 OFFSET $1)";
            execute(db, sql, &[&i64::from(MOST_INCIDENTS)]).await?;
        }
        IncidentStep::Worsens { worst, shards, shard_count } => {
            let sql = "UPDATE incidents SET worst = $1, shards = $2, shard_count = $3 WHERE ended IS NULL";
            execute(db, sql, &[&worst.stored(), &i64::from(shards), &i64::from(shard_count)]).await?;
        }
        IncidentStep::Ends(ended) => {
            execute(db, "UPDATE incidents SET ended = $1 WHERE ended IS NULL", &[&ended.stored()]).await?;
        }
    }
    Ok(())
}

/// Runs a statement that changes the history, and returns how many rows it changed.
pub(super) async fn change(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Sql<u64> {
    let changed = execute(db, sql, values).await?;
    topics.push(Topic::History);
    Ok(changed)
}

pub(super) async fn execute(db: &Transaction<'_>, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Sql<u64> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, values).await?)
}

async fn replace(db: &Transaction<'_>, topics: &mut ChangedTopics, history: &History) -> Sql<()> {
    lock(db, Lock::History).await?;
    for table in ["history_updates", "announcements", "incidents", "history_days", "history_minutes"] {
        execute(db, &format!("DELETE FROM {table}"), &[]).await?;
    }
    let (mut begins, mut states, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    for minute in &history.minutes {
        begins.push(minute.begins.stored());
        states.push(minute.state.stored());
        latencies.push(minute.latency);
    }
    let sql = "INSERT INTO history_minutes (begins, state, latency) SELECT * FROM unnest($1::bigint[], $2::text[], $3::float8[])";
    execute(db, sql, &[&begins, &states, &latencies]).await?;
    let sql = "INSERT INTO history_days (begins, up, partial, down) VALUES ($1, $2, $3, $4)";
    for Day { begins, up, partial, down } in &history.days {
        execute(db, sql, &[&begins.stored(), &i64::from(*up), &i64::from(*partial), &i64::from(*down)]).await?;
    }
    let sql = "INSERT INTO incidents (id, worst, began, ended, shards, shard_count) VALUES ($1, $2, $3, $4, $5, $6)";
    for Incident { id, worst, began, ended, shards, shard_count } in &history.incidents {
        let (shards, shard_count) = (i64::from(*shards), i64::from(*shard_count));
        let (began, ended) = (began.stored(), ended.stored());
        execute(db, sql, &[&integer(*id), &worst.stored(), &began, &ended, &shards, &shard_count]).await?;
    }
    let sql = "INSERT INTO announcements (id, title, text, posted, ended, begins, ends, rescheduled) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    for Announcement { id, title, text, posted, ended, window, rescheduled } in &history.announcements {
        let (begins, ends) = (window.map(|window| window.begins.stored()), window.map(|window| window.ends.stored()));
        let (posted, ended, rescheduled) = (posted.stored(), ended.stored(), rescheduled.stored());
        execute(db, sql, &[&integer(*id), title, text, &posted, &ended, &begins, &ends, &rescheduled]).await?;
    }
    let sql =
        "INSERT INTO history_updates (id, announcement, incident, phase, text, posted) VALUES ($1, $2, $3, $4, $5, $6)";
    for Update { id, subject, phase, text, posted } in &history.updates {
        let (announcement, incident) = match subject {
            UpdateSubject::Announcement(id) => (Some(integer(*id)), None),
            UpdateSubject::Incident(id) => (None, Some(integer(*id))),
        };
        let (phase, posted) = (phase.stored(), posted.stored());
        execute(db, sql, &[&integer(*id), &announcement, &incident, &phase, text, &posted]).await?;
    }
    topics.push(Topic::History);
    Ok(())
}
