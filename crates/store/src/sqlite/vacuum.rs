//! Vacuuming rewrites the whole file. `secure_delete` overwrites deleted data, but SQLite may leave copies of rows behind when
//! it moves them between pages. A vacuum removes them.

use std::path::{Path, PathBuf};

use super::file::{blocking, configure_writer, connect};
use super::migrations;
use crate::{Result, StoreError};

/// What a vacuum needs besides twice the file's size.
const SPARE: u64 = 16 << 20;
/// How much of a file a slow disk vacuums in a second.
const BYTES_PER_SECOND: u64 = 30_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumNeeds {
    pub size: u64,
    /// The free space on its disk, if known.
    pub free: Option<u64>,
}

impl VacuumNeeds {
    /// How many bytes it temporarily needs on the file's disk: a copy, and the write-ahead log.
    pub fn room(&self) -> u64 {
        self.size.saturating_mul(2).saturating_add(SPARE)
    }

    pub fn has_room(&self) -> bool {
        self.free.is_none_or(|free| free >= self.room())
    }

    /// Roughly how many seconds it takes on a slow disk.
    pub fn seconds(&self) -> u64 {
        1 + self.size / BYTES_PER_SECOND
    }
}

/// What a vacuum needs; `None` if the file does not exist or is not our store.
pub(crate) async fn vacuum_needs(path: PathBuf) -> Result<Option<VacuumNeeds>> {
    blocking("the vacuum", move || {
        let Some(size) = std::fs::metadata(&path).ok().map(|file| file.len()).filter(|size| *size > 0) else {
            return Ok(None);
        };
        let connection = connect(&path)?;
        let is_ours =
            crate::migrations::STEPS.expect_known(migrations::version(&connection)?).is_ok_and(|found| found > 0);
        let room = rustix::fs::statvfs(folder(&path)).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        Ok(is_ours.then_some(VacuumNeeds { size, free: room }))
    })
    .await
}

/// Vacuums the file and empties its log. Others can read it in the meantime; writes have to wait.
pub(crate) async fn vacuum(path: PathBuf) -> Result<()> {
    blocking("the vacuum", move || {
        let connection = connect(&path)?;
        configure_writer(&connection)?;
        // The copy goes where the space was checked, not into a temporary folder that may be in memory.
        let folder = folder(&path).to_str().map(ToOwned::to_owned);
        connection.pragma_update(None, "temp_store_directory", folder.unwrap_or_default())?;
        let vacuumed = connection.execute_batch("VACUUM");
        connection.pragma_update(None, "temp_store_directory", "")?;
        vacuumed?;
        // Until then the log contains pages from before.
        let is_held: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if is_held {
            return Err(StoreError::Busy("a long read keeps the write-ahead log from being emptied".to_owned()));
        }
        Ok(())
    })
    .await
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacuum_needs_twice_the_size_and_a_little() {
        let needs = |size, free| VacuumNeeds { size, free };
        assert!(needs(1 << 30, Some((2 << 30) + SPARE)).has_room());
        assert!(!needs(1 << 30, Some((2 << 30) + SPARE - 1)).has_room());
        assert!(needs(1 << 30, None).has_room(), "it is tried where nobody knows");
        assert_eq!((needs(0, None).seconds(), needs(3_000_000_000, None).seconds()), (1, 101));
    }
}
