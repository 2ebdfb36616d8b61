//! Vacuuming rewrites the whole file. `secure_delete` overwrites what is deleted, but SQLite may leave copies of rows behind that it
//! has moved between pages, and releases before it was always on left whole free pages. After a vacuum nothing of either is left.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::file::{configure_writer, connect};
use super::migrations;
use crate::{Result, StoreError};

/// The `application_id` of a file that has only ever been written with `secure_delete`, or was vacuumed since ("BCO1").
const MARK: i64 = 0x4243_4F31;
/// What a vacuum needs beside twice the file's size.
const SPARE: u64 = 16 << 20;
/// How much of a file a slow disk vacuums in a second.
const BYTES_PER_SECOND: u64 = 30_000_000;

/// What a vacuum of a file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumNeeds {
    /// The file's size in bytes.
    pub size: u64,
    /// How much room is left on its disk, if that is known.
    pub free: Option<u64>,
    /// Whether nothing is left in the file of what releases before `secure_delete` have deleted.
    pub is_done: bool,
}

impl VacuumNeeds {
    /// How many bytes it needs on the file's disk for a while: a copy, and the write-ahead log.
    pub fn room(&self) -> u64 {
        self.size.saturating_mul(2).saturating_add(SPARE)
    }

    /// Whether there is that much.
    pub fn has_room(&self) -> bool {
        self.free.is_none_or(|free| free >= self.room())
    }

    /// About how many seconds it takes on a slow disk.
    pub fn seconds(&self) -> u64 {
        1 + self.size / BYTES_PER_SECOND
    }
}

/// Marks a new file, in which nothing was deleted yet.
pub(super) fn mark(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "application_id", MARK)
}

/// Whether nothing is left in the file of what an older release has deleted.
pub(super) fn is_marked(connection: &Connection) -> rusqlite::Result<bool> {
    connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0)).map(|found| found == MARK)
}

/// What a vacuum takes; `None` if the file is not there or not a store of ours.
pub(crate) async fn vacuum_needs(path: PathBuf) -> Result<Option<VacuumNeeds>> {
    run(move || {
        let Some(size) = std::fs::metadata(&path).ok().map(|file| file.len()).filter(|size| *size > 0) else {
            return Ok(None);
        };
        let connection = connect(&path)?;
        let is_ours = matches!(usize::try_from(migrations::version(&connection)?), Ok(1..=migrations::NEWEST));
        let room = rustix::fs::statvfs(folder(&path)).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        Ok(if is_ours { Some(VacuumNeeds { size, free: room, is_done: is_marked(&connection)? }) } else { None })
    })
    .await
}

/// Vacuums the file and empties its log. Others may read and write it meanwhile; those who write wait.
pub(crate) async fn vacuum(path: PathBuf) -> Result<()> {
    run(move || {
        let connection = connect(&path)?;
        configure_writer(&connection)?;
        // The copy goes where the room was counted, not into a folder for temporary files that may be memory.
        let folder = folder(&path).to_str().map(ToOwned::to_owned);
        connection.pragma_update(None, "temp_store_directory", folder.unwrap_or_default())?;
        let vacuumed = connection.execute_batch("VACUUM");
        connection.pragma_update(None, "temp_store_directory", "")?;
        vacuumed?;
        // Until then the log holds pages from before.
        let is_held: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if is_held {
            return Err(StoreError::Busy("a long read keeps the write-ahead log from being emptied".to_owned()));
        }
        Ok(mark(&connection)?)
    })
    .await
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

async fn run<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| StoreError::Failed("the vacuum panicked".to_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacuum_needs_twice_the_size_and_a_little() {
        let needs = |size, free| VacuumNeeds { size, free, is_done: false };
        assert!(needs(1 << 30, Some((2 << 30) + SPARE)).has_room());
        assert!(!needs(1 << 30, Some((2 << 30) + SPARE - 1)).has_room());
        assert!(needs(1 << 30, None).has_room(), "it is tried where nobody knows");
        assert_eq!((needs(0, None).seconds(), needs(3_000_000_000, None).seconds()), (1, 101));
    }
}
