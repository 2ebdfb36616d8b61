//! The file opened by a read-only command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use telemetry::metrics::StoreMetrics;

use super::file::{FileIdentity, connect_read_only, location};
use super::migrations;
use super::readers::Readers;
use super::staging::LocalStaging;
use super::writer::Writer;
use super::{READERS, Sqlite};
use crate::{Freshness, Result, StoreError};

impl Sqlite {
    /// Opens the file as is. SQLite refuses every write, and no file is created next to it.
    pub(crate) async fn open_read_only(path: PathBuf, wait: Duration, freshness: Arc<Freshness>) -> Result<Self> {
        let opened = tokio::task::spawn_blocking(move || {
            Self::open_read_only_now(&path, wait, freshness).map_err(|error| error.at(&location(&path)))
        });
        opened.await.map_err(|_| StoreError::Failed("opening it panicked".to_owned()))?
    }

    fn open_read_only_now(path: &Path, wait: Duration, freshness: Arc<Freshness>) -> Result<Self> {
        let connection = connect_read_only(path)?;
        migrations::refuse_something_else(&connection)?;
        crate::migrations::STEPS.expect_readable(migrations::version(&connection)?)?;
        let readers = (0..READERS).map(|_| connect_read_only(path)).collect::<Result<_>>()?;
        let (metrics, clock) = (Arc::<StoreMetrics>::default(), freshness.clock().clone());
        Ok(Self {
            // It never gets anything to write; if it did, its connection would refuse.
            writer: Writer::start(
                connection,
                FileIdentity::of(path)?,
                location(path),
                wait,
                freshness,
                Arc::clone(&metrics),
            )?,
            readers: Readers::new(readers, location(path), wait, Arc::clone(&metrics), clock),
            staging: LocalStaging::default(),
            metrics,
            path: path.to_owned(),
        })
    }
}
