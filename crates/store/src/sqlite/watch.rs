//! What is monitored while the service runs.

use async_trait::async_trait;
use domain::Time;
use rusqlite::{Connection, params};
use telemetry::metrics::StoreMetrics;

use super::database::run;
use super::{Sqlite, location};
use crate::columns::{Column as _, unsigned};
use crate::sql::{Database as _, values};
use crate::watch::{BACKUP_ROW, PROBE_ROW, StoreBytes, StoreLoad, StoreWatch};
use crate::{Result, StoreError};

#[async_trait]
impl StoreWatch for Sqlite {
    fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }

    fn load(&self) -> StoreLoad {
        let (in_use, idle) = self.readers.in_use_and_idle();
        StoreLoad { in_use, idle, queued_writes: self.metrics.queue.get(), circuit_open: false }
    }

    async fn probe_read(&self) -> Result<()> {
        self.readers.read(|connection| connection.query_row("SELECT count(*) FROM probe", [], |_| Ok(()))).await
    }

    async fn probe_write(&self, now: Time) -> Result<()> {
        self.writer.write(move |connection, _| write_probe(connection, now)).await
    }

    async fn bytes(&self) -> Result<StoreBytes> {
        let (database, mut log) = (self.path.clone(), self.path.clone().into_os_string());
        log.push("-wal");
        let sizes = tokio::task::spawn_blocking(move || {
            let database = std::fs::metadata(&database).map_err(|error| error.to_string())?.len();
            // The log is created with the first write.
            Ok(StoreBytes { database, log: Some(std::fs::metadata(log).map_or(0, |data| data.len())) })
        });
        let sizes = sizes.await.unwrap_or_else(|_| Err("looking at the file panicked".to_owned()));
        sizes.map_err(|why| StoreError::Unavailable(why).at(&location(&self.path)))
    }

    async fn note_backup(&self, at: Time) -> Result<()> {
        let sql = "INSERT INTO probe (id, at) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET at = excluded.at";
        let note =
            move |connection: &Connection| connection.prepare_cached(sql)?.execute(params![BACKUP_ROW, at.stored()]);
        self.writer.write(move |connection, _| note(connection).map(drop)).await
    }

    async fn last_backup(&self) -> Result<Option<Time>> {
        let sql = "SELECT at FROM probe WHERE id = ?1";
        self.readers
            .read(move |connection| {
                let row = run(connection.query_first(sql, &values![BACKUP_ROW]))?;
                Ok(row.map(|row| row.get(0)).transpose()?)
            })
            .await
    }

    async fn session_count(&self) -> Result<u64> {
        let sql = "SELECT count(*) FROM sessions";
        self.readers.read(move |connection| connection.query_row(sql, [], |row| row.get(0)).map(unsigned)).await
    }
}

/// The value is different each time, because SQLite does not write a page that has not changed.
fn write_probe(connection: &Connection, now: Time) -> rusqlite::Result<()> {
    let sql = "INSERT INTO probe (id, at) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET at = max(at + 1, excluded.at)";
    connection.prepare_cached(sql)?.execute(params![PROBE_ROW, now.stored()]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::tests::{NOW, TestFolder, new_freshness};

    use super::*;

    #[tokio::test]
    async fn each_probe_is_written_to_the_log_even_if_no_time_has_passed() {
        let folder = TestFolder::new();
        let (path, freshness) = (folder.path("probe.db"), new_freshness());
        let wait = std::time::Duration::from_mins(1);
        let store = Sqlite::open(path.clone(), wait, Arc::clone(&freshness)).await.unwrap();
        let log = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
        let mut before = log();
        for _ in 0..3 {
            store.probe_write(NOW).await.unwrap();
            assert!(log() > before, "nothing was written");
            before = log();
        }
    }
}
