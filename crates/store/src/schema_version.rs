//! What both stores say about schema versions.

use tracing::info;

use super::{Result, StoreError};

/// A new store is fine at the first start. At any other, someone is missing their data.
pub(super) fn log_new_store(location: &str) {
    info!(
        target: "bot_companion::new_store",
        location,
        "created a new, empty store; if it should contain data, stop the service and check store.url and its volume"
    );
}

/// The version, unless this release does not know it, in which case the schema is left alone.
pub(super) fn expect_known(found: i64, newest: usize) -> Result<usize> {
    usize::try_from(found).ok().filter(|version| *version <= newest).ok_or_else(|| {
        StoreError::Failed(format!(
            "the database has schema version {found}, but this release only supports up to {newest}: it was written by a \
             newer release; run that one, or restore a backup"
        ))
    })
}

/// Read-only commands do not migrate: they refuse the schema of another release.
pub(super) fn expect_readable(found: i64, newest: usize) -> Result<()> {
    match expect_known(found, newest)? {
        found if found == newest => Ok(()),
        0 => Err(StoreError::Failed("it is not a store of this service".to_owned())),
        found => Err(StoreError::Failed(format!(
            "the database has schema version {found}, but this release reads version {newest}. Read-only commands do not \
             migrate it: start this release's service once, which does, or use the release that wrote it"
        ))),
    }
}

/// Backups are only made from, and restored to, this release's schema.
pub(super) fn expect_version(found: i64, newest: usize) -> Result<()> {
    if found == 0 {
        return Err(StoreError::Failed("it is not a store of this service".to_owned()));
    }
    if usize::try_from(found) == Ok(newest) {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "it has the schema of another release (version {found}, and this release has {newest}): start this release's service \
         on it once, or use the release that wrote it"
    )))
}

/// Whether one of the steps creates this table.
pub(super) fn makes(steps: &[&str], table: &str) -> bool {
    let made = format!("CREATE TABLE {table} (");
    steps.iter().any(|step| step.contains(&made))
}

/// Versions of the two schemas with the same tables and columns: SQLite's, then PostgreSQL's. Each new step adds a pair.
pub(super) const EQUAL: [(usize, usize); 7] = [(3, 1), (4, 2), (5, 3), (6, 4), (7, 5), (8, 6), (9, 7)];
