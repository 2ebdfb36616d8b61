//! What is watched while the service runs.

use async_trait::async_trait;
use rusqlite::Connection;

use super::Sqlite;
use super::columns::unsigned;
use crate::domain::Time;
use crate::metrics::StoreMetrics;
use crate::store::Result;
use crate::store::watch::{StoreLoad, StoreWatch};

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

    async fn session_count(&self) -> Result<u64> {
        let sql = "SELECT count(*) FROM sessions";
        self.readers.read(move |connection| connection.query_row(sql, [], |row| row.get(0)).map(unsigned)).await
    }
}

/// The value differs from the stored one each time: SQLite does not write a page on which nothing changes.
fn write_probe(connection: &Connection, now: Time) -> rusqlite::Result<()> {
    let sql = "INSERT INTO probe (id, at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET at = max(at + 1, excluded.at)";
    connection.prepare_cached(sql)?.execute([i64::try_from(now.millis()).unwrap_or(0)]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::store::tests::{NOW, TestFolder, new_freshness};

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
