//! Whether the store's folder and files can be written and its disk has space. Changes nothing.

use std::io;
use std::path::{Path, PathBuf};

use runtime::file_access;
use rustix::fs::{Access, StatVfs, access, statvfs};
use rustix::io::Errno;

use super::errors::file_remedy;
use super::file::{beside, location, unusable};
use crate::{Result, StoreError};

/// The least that a start writes: the write-ahead log, its index, the key.
const LEAST_ROOM: u64 = 1 << 20;
/// As much as the write-ahead log may keep.
const LITTLE_ROOM: u64 = 64 << 20;

/// Checks the folder, files and disk. An error says why the store cannot be opened; the text warns of low disk space.
pub(crate) fn look_at_place(path: &Path) -> Result<Option<String>> {
    let looked = files(path).and_then(|()| folder(path)).and_then(|folder| {
        let disk = statvfs(&folder).ok();
        disk.map_or(Ok(None), |disk| room(&folder, &DiskRoom::from(&disk)))
    });
    looked.map_err(|error| error.at(&location(path)))
}

/// The database and SQLite's files next to it, if they exist.
fn files(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let file = beside(path, suffix);
        let allowed = match access(&file, Access::READ_OK | Access::WRITE_OK) {
            Ok(()) if file.is_dir() => Err(Errno::ISDIR),
            Ok(()) if !file.is_file() => {
                return Err(StoreError::Failed("it is a device or a pipe, not a file: correct store.url".to_owned()));
            }
            Err(Errno::NOENT) => Ok(()),
            asked => asked,
        };
        allowed.map_err(|error| unusable(&file, &error.into()))?;
    }
    Ok(())
}

/// The folder, or the nearest existing one above it.
fn folder(path: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut folder = whole.parent().unwrap_or(Path::new("/"));
    while let (Err(Errno::NOENT), Some(above)) = (access(folder, Access::EXISTS), folder.parent()) {
        folder = above;
    }
    if folder.is_file() {
        return Err(unusable(path, &Errno::NOTDIR.into()));
    }
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(folder.to_owned()),
        Err(error) => {
            let (error, owner) = (io::Error::from(error), file_access::owner_and_mode(folder));
            let (folder, remedy) = (folder.display(), file_remedy(&error));
            Err(StoreError::Failed(format!("the folder {folder} cannot be written: {error}: {owner}; {remedy}")))
        }
    }
}

/// The free space on a disk.
struct DiskRoom {
    bytes: u64,
    /// Whether another file can be created.
    has_inodes: bool,
    /// Some file systems do not count them.
    is_known: bool,
}

impl From<&StatVfs> for DiskRoom {
    fn from(disk: &StatVfs) -> Self {
        Self {
            bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            has_inodes: disk.f_files == 0 || disk.f_favail > 0,
            is_known: disk.f_blocks > 0,
        }
    }
}

fn room(folder: &Path, disk: &DiskRoom) -> Result<Option<String>> {
    let folder = folder.display();
    match disk {
        DiskRoom { is_known: false, .. } => Ok(None),
        DiskRoom { has_inodes: false, .. } => Err(StoreError::Unavailable(format!(
            "the disk of {folder} has no free inodes: remove some files (`df -i`)"
        ))),
        DiskRoom { bytes, .. } if *bytes < LEAST_ROOM => Err(StoreError::Unavailable(format!(
            "the disk of {folder} is full, with {} KB left: free some space (`df -h`)",
            bytes >> 10
        ))),
        DiskRoom { bytes, .. } if *bytes < LITTLE_ROOM => Ok(Some(format!(
            "the disk of {folder} is almost full, with {} MB left; once it is full, nobody can sign in: free some space",
            bytes >> 20
        ))),
        DiskRoom { .. } => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use test_support::TestFolder;

    use super::*;

    #[test]
    fn a_disk_is_full_before_nothing_is_left() {
        let of = |bytes: u64, has_inodes: bool, is_known: bool| {
            let found = room(Path::new("/data"), &DiskRoom { bytes, has_inodes, is_known });
            found.map_or_else(|error| error.to_string(), Option::unwrap_or_default)
        };
        for (bytes, has_inodes, is_known, part) in [
            (0, true, false, ""),
            (1 << 30, true, true, ""),
            (1 << 30, false, true, "no free inodes"),
            (0, true, true, "the disk of /data is full, with 0 KB left"),
            (LEAST_ROOM - 1, true, true, "full, with 1023 KB left"),
            (LEAST_ROOM, true, true, "almost full, with 1 MB left"),
            (LITTLE_ROOM, true, true, ""),
        ] {
            let said = of(bytes, has_inodes, is_known);
            assert!(said.contains(part) && said.is_empty() == part.is_empty(), "{bytes}: {said}");
        }
    }

    #[test]
    fn nothing_is_made_and_what_is_in_the_way_is_named() {
        let test = TestFolder::new();
        let said = |name: &str| look_at_place(&test.path(name)).map_err(|error| error.to_string());
        assert_eq!(said("data.db"), Ok(None));
        assert_eq!(said("a/b/data.db"), Ok(None), "the folders are made by the start");
        assert_eq!(std::fs::read_dir(test.root()).unwrap().count(), 0);
        std::fs::write(test.path("file"), "").unwrap();
        std::fs::create_dir(test.path("folder")).unwrap();
        for (name, part) in [("file/data.db", "part of the path is a file"), ("folder", "add the name of a file")] {
            let error = said(name).unwrap_err();
            assert!(error.contains(part) && error.contains(name), "{error}");
        }
    }
}
