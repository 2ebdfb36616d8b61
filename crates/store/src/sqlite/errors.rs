//! What an error of SQLite, or of its file, means, and what to do about it.

use std::io;

use rusqlite::{ErrorCode, ffi};

use crate::StoreError;

impl From<rusqlite::Error> for StoreError {
    /// The error's text names tables and columns, never values.
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        let is_undone = error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_ROLLBACK);
        let text = match code.and_then(remedy) {
            _ if is_undone => {
                format!(
                    "{error}; a restore was interrupted: run it again, or start the service, which undoes what it has written"
                )
            }
            Some(remedy) => format!("{error}; {remedy}"),
            None => error.to_string(),
        };
        match code {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(text),
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::OutOfMemory) => {
                Self::Unavailable(text)
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(text),
            _ => Self::Failed(text),
        }
    }
}

fn remedy(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::CannotOpen => {
            "check that the file and its folder exist and that the service's user can read and write both"
        }
        ErrorCode::PermissionDenied => {
            "let the service's user read and write the file and its folder (chown, chmod 600)"
        }
        ErrorCode::ReadOnly => {
            "the service's user must be able to write to the file and its folder: check owner and mode, and that the file system \
             is not mounted read-only"
        }
        ErrorCode::DiskFull => "free some space on its disk",
        ErrorCode::SystemIoFailure => "the disk failed or is full: check the system log, and free some space",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            "another process holds it: find out which with `fuser`, and stop it if it shouldn't be running"
        }
        ErrorCode::NotADatabase => "the file is not an SQLite database: correct store.url, or restore a backup",
        ErrorCode::DatabaseCorrupt => {
            "the file is damaged: check it with `bot-companion check --live`, then salvage it or restore a backup (see CompanionStoreDamaged in the documentation, under Alerts)"
        }
        _ => return None,
    })
}

/// What to do about a file that cannot be created.
pub(super) fn file_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "let the service's user write to its folder, or name another one in store.url"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only: name another folder in store.url; under systemd with ProtectSystem=, one of StateDirectory="
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "part of the path is a file, not a folder: correct store.url"
        }
        io::ErrorKind::IsADirectory => "it is a folder: add the name of a file in it to store.url",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space on its disk",
        _ => "correct store.url, or what keeps the service's user from writing there",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_meaning_and_remedy() {
        for (code, kind, text) in [
            (ffi::SQLITE_CANTOPEN, "unavailable", "can read and write both"),
            (ffi::SQLITE_PERM, "failed", "chmod 600"),
            (ffi::SQLITE_READONLY, "failed", "mounted read-only"),
            (ffi::SQLITE_READONLY_DBMOVED, "failed", "check owner and mode"),
            (ffi::SQLITE_READONLY_ROLLBACK, "failed", "a restore was interrupted"),
            (ffi::SQLITE_FULL, "unavailable", "free some space"),
            (ffi::SQLITE_IOERR_WRITE, "unavailable", "the system log"),
            (ffi::SQLITE_BUSY, "busy", "another process holds it"),
            (ffi::SQLITE_LOCKED, "busy", "fuser"),
            (ffi::SQLITE_NOTADB, "damaged", "not an SQLite database: correct store.url"),
            (ffi::SQLITE_CORRUPT, "damaged", "restore a backup"),
            (ffi::SQLITE_CORRUPT_INDEX, "damaged", "check --live"),
        ] {
            let error = StoreError::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            let said = error.at("/data/a.db").to_string();
            assert!(said.contains(kind) && said.contains(": /data/a.db: ") && said.contains(text), "{code}: {said}");
        }
        let other = StoreError::from(rusqlite::Error::QueryReturnedNoRows).to_string();
        assert_eq!(other, "the store failed: Query returned no rows");
    }

    #[test]
    fn a_file_that_cannot_be_made_has_a_remedy() {
        for (kind, text) in [
            (io::ErrorKind::PermissionDenied, "let the service's user write"),
            (io::ErrorKind::ReadOnlyFilesystem, "StateDirectory="),
            (io::ErrorKind::NotADirectory, "is a file, not a folder"),
            (io::ErrorKind::IsADirectory, "add the name of a file"),
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::Other, "correct store.url"),
        ] {
            assert!(file_remedy(&kind.into()).contains(text), "{kind}");
        }
    }
}
