//! What both stores say about the version of a schema, and about a copy into it that is not finished.

use tracing::info;

use super::{Result, StoreError};

/// A new store is fine at the first start. At any other, somebody looks for their data.
pub(super) fn tell_of_new_store(location: &str) {
    info!(
        target: "bot_companion::new_store",
        location,
        "made a new, empty store; if there should be data in it, stop the service and see whether store.url and its volume are right"
    );
}

/// The table in the destination of `store copy` that says how far the copy has come; it is there until the copy is finished.
pub(super) const COPY_POSITION: &str = "store_copy";

/// An unfinished copy is not a store.
pub(super) fn refuse_unfinished_copy(is_unfinished: bool) -> Result<()> {
    if !is_unfinished {
        return Ok(());
    }
    Err(StoreError::Failed(
        "a copy into this database was not finished: run `bot-companion store copy` again, with the same --from and --to"
            .to_owned(),
    ))
}

/// Why a schema that this release does not know is left alone.
pub(super) fn newer_release(found: usize, newest: usize) -> StoreError {
    StoreError::Failed(format!(
        "the database has schema version {found}, but this release knows only up to {newest}: it was written by a newer \
         release; run that one, or restore a backup"
    ))
}

/// Commands that only read do not migrate: they refuse the schema of another release.
pub(super) fn expect_readable(found: i64, newest: usize) -> Result<()> {
    match usize::try_from(found) {
        Ok(found) if found == newest => Ok(()),
        Ok(0) => Err(StoreError::Failed("it is not a store of this service".to_owned())),
        Ok(found) if found < newest => Err(StoreError::Failed(format!(
            "the database has schema version {found}, and this release reads version {newest}. A command that only reads changes \
             nothing: start the service of this release once, which updates the database, or use the release that wrote it"
        ))),
        found => Err(newer_release(found.unwrap_or(usize::MAX), newest)),
    }
}

/// Only what this release wrote is copied, and only to where it can read it.
pub(super) fn expect_version(found: i64, newest: usize) -> Result<()> {
    if found == 0 {
        return Err(StoreError::Failed("it is not a store of this service".to_owned()));
    }
    if usize::try_from(found) == Ok(newest) {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "it has the schema of another release (version {found}, and this release has {newest}): start the service of this \
         release on it once, or copy with the release that wrote it"
    )))
}
