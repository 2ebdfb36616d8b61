//! The embedded store: one `SQLite` file. One thread writes and commits in groups, and a few connections read at the same time.

pub(super) mod backup;
mod coverage;
mod database;
mod errors;
mod file;
mod look;
pub(super) mod migrations;
mod place;
mod readers;
mod staging;
mod subscriptions;
#[cfg(test)]
mod tests;
mod vacuum;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use telemetry::metrics::StoreMetrics;

pub(super) use self::database::run;
use self::file::{FileIdentity, blocking, configure_writer, connect, connect_read_only, create, log_of};
pub(super) use self::file::{cautions, location};
pub(super) use self::look::{grants_in_file, is_unreleased, look};
pub(super) use self::place::look_at_place;
use self::readers::Readers;
pub use self::vacuum::VacuumNeeds;
pub(super) use self::vacuum::{vacuum, vacuum_needs};
use self::writer::Writer;
use super::watch::{StoreBytes, StoreLoad};
use super::{Access, Freshness, Result, StoreError, schema_version};

const READERS: usize = 4;

pub(super) struct Sqlite {
    pub(super) writer: Writer,
    pub(super) readers: Readers,
    pub(super) metrics: Arc<StoreMetrics>,
    path: PathBuf,
}

impl Sqlite {
    /// Opens the file. For a read-only command it is opened as is: SQLite refuses every write, and no file is created next to it.
    /// Otherwise it is created and migrated as needed.
    pub(super) async fn open(path: PathBuf, access: Access, wait: Duration, freshness: Arc<Freshness>) -> Result<Self> {
        let open = move || {
            let connections = match access {
                Access::ReadWrite => connections(&path),
                Access::ReadOnly => read_only_connections(&path),
            };
            let opened = connections.and_then(|connections| Self::start(&path, connections, wait, freshness));
            opened.map_err(|error| error.at(&location(&path)))
        };
        blocking("opening it", open).await
    }

    /// Starts with the connection that writes and those that read. On a file opened to be read, the first one never gets anything to
    /// write; if it did, it would refuse.
    fn start(
        path: &Path,
        (writer, readers): (Connection, Vec<Connection>),
        wait: Duration,
        freshness: Arc<Freshness>,
    ) -> Result<Self> {
        let (metrics, clock, file) =
            (Arc::<StoreMetrics>::default(), freshness.clock().clone(), FileIdentity::of(path)?);
        Ok(Self {
            writer: Writer::start(writer, file, location(path), wait, freshness, Arc::clone(&metrics))?,
            readers: Readers::new(readers, location(path), wait, Arc::clone(&metrics), clock),
            metrics,
            path: path.to_owned(),
        })
    }

    pub(super) fn load(&self) -> StoreLoad {
        let (in_use, idle) = self.readers.in_use_and_idle();
        StoreLoad { in_use, idle, queued_writes: self.metrics.queue.get(), circuit_open: false }
    }

    pub(super) async fn bytes(&self) -> Result<StoreBytes> {
        let (database, log) = (self.path.clone(), log_of(&self.path));
        let sizes = blocking("looking at the file", move || {
            let database =
                std::fs::metadata(&database).map_err(|error| StoreError::Unavailable(error.to_string()))?.len();
            // The log is created with the first write.
            Ok(StoreBytes { database, log: Some(std::fs::metadata(log).map_or(0, |data| data.len())) })
        });
        sizes.await.map_err(|error| error.at(&location(&self.path)))
    }

    pub(super) async fn close(&self) {
        // Readers first, because the last checkpoint cannot pass a running read.
        self.readers.close().await;
        self.writer.close().await;
    }
}

fn connections(path: &Path) -> Result<(Connection, Vec<Connection>)> {
    create(path)?;
    let mut writer = connect(path)?;
    // Nothing in a file that turns out not to be ours is changed before this.
    if migrations::run(&mut writer, crate::migrations::STEPS)? {
        schema_version::log_new_store(&location(path));
    }
    configure_writer(&writer)?;
    writer.execute_batch(staging::REMEMBER)?;
    let reader = || {
        let connection = connect(path)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    Ok((writer, (0..READERS).map(|_| reader()).collect::<Result<_>>()?))
}

fn read_only_connections(path: &Path) -> Result<(Connection, Vec<Connection>)> {
    let first = connect_read_only(path)?;
    migrations::refuse_something_else(&first)?;
    crate::migrations::STEPS.expect_readable(migrations::version(&first)?)?;
    Ok((first, (0..READERS).map(|_| connect_read_only(path)).collect::<Result<_>>()?))
}
