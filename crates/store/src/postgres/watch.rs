//! What is monitored while the service runs.

use async_trait::async_trait;
use domain::Time;
use telemetry::metrics::StoreMetrics;

use super::Postgres;
use super::work::{Pace, Read};
use crate::Result;
use crate::columns::{Column as _, unsigned};
use crate::watch::{BACKUP_ROW, PROBE_ROW, StoreBytes, StoreLoad, StoreWatch};

#[async_trait]
impl StoreWatch for Postgres {
    fn metrics(&self) -> &StoreMetrics {
        self.executor.metrics()
    }

    fn load(&self) -> StoreLoad {
        self.executor.load()
    }

    async fn probe_read(&self) -> Result<()> {
        let read = Read::Statement(|db, (): &()| {
            Box::pin(async {
                let statement = db.prepare_cached("SELECT count(*) FROM probe").await?;
                db.query_one(&statement, &[]).await?;
                Ok(())
            })
        });
        self.executor.read((), read).await
    }

    async fn probe_write(&self, now: Time) -> Result<()> {
        let at = now.stored();
        self.executor
            .write(Pace::Quick, at, |db, _, at| {
                Box::pin(async move {
                    let sql = "INSERT INTO probe (id, at) VALUES ($1, $2)
                        ON CONFLICT (id) DO UPDATE SET at = greatest(probe.at + 1, excluded.at)";
                    let statement = db.prepare_cached(sql).await?;
                    db.execute(&statement, &[&PROBE_ROW, at]).await?;
                    Ok(())
                })
            })
            .await
    }

    async fn bytes(&self) -> Result<StoreBytes> {
        let read = Read::Statement(|db, (): &()| {
            Box::pin(async {
                let statement = db.prepare_cached("SELECT pg_database_size(current_database())").await?;
                // Only a superuser may read the server's log.
                Ok(StoreBytes { database: unsigned(db.query_one(&statement, &[]).await?.get(0)), log: None })
            })
        });
        self.executor.read((), read).await
    }

    async fn note_backup(&self, at: Time) -> Result<()> {
        let at = at.stored();
        self.executor
            .write(Pace::Quick, at, |db, _, at| {
                Box::pin(async move {
                    let sql = "INSERT INTO probe (id, at) VALUES ($1, $2)
                        ON CONFLICT (id) DO UPDATE SET at = excluded.at";
                    let statement = db.prepare_cached(sql).await?;
                    db.execute(&statement, &[&BACKUP_ROW, at]).await?;
                    Ok(())
                })
            })
            .await
    }

    async fn last_backup(&self) -> Result<Option<Time>> {
        let read = Read::Statement(|db, (): &()| {
            Box::pin(async {
                let statement = db.prepare_cached("SELECT at FROM probe WHERE id = $1").await?;
                let row = db.query_opt(&statement, &[&BACKUP_ROW]).await?;
                Ok(row.map(|row| Time::from_millis(unsigned(row.get(0)))))
            })
        });
        self.executor.read((), read).await
    }

    async fn session_count(&self) -> Result<u64> {
        let read = Read::Statement(|db, (): &()| {
            Box::pin(async {
                let statement = db.prepare_cached("SELECT count(*) FROM sessions").await?;
                Ok(unsigned(db.query_one(&statement, &[]).await?.get(0)))
            })
        });
        self.executor.read((), read).await
    }
}
