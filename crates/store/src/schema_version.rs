//! The versions of the schema: both stores number theirs alike.

use tracing::info;

use super::{Result, StoreError};

/// The version of the first released schema. Unreleased versions of the service used lower numbers.
pub(crate) const FIRST: usize = 10;

/// The steps to a store's schema: the first makes the tables of version [`FIRST`], and each of the others the next version. A
/// released step is never edited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps(pub(crate) &'static [&'static str]);

impl Steps {
    pub(crate) const fn newest(self) -> usize {
        FIRST + self.0.len() - 1
    }

    /// The steps from one version to another; version 0 is an empty store.
    pub(crate) fn between(self, from: usize, to: usize) -> impl Iterator<Item = &'static str> {
        let taken = |version: usize| (version + 1).saturating_sub(FIRST);
        self.0.iter().copied().take(taken(to)).skip(taken(from))
    }

    /// Whether this version of the schema has the table.
    pub(crate) fn makes(self, version: usize, table: &str) -> bool {
        let made = format!("CREATE TABLE {table} (");
        self.between(0, version).any(|step| step.contains(&made))
    }

    /// The version, unless this release does not know it, in which case the schema is left alone.
    pub(crate) fn expect_known(self, found: i64) -> Result<usize> {
        refuse_unreleased(found)?;
        let newest = self.newest();
        usize::try_from(found).ok().filter(|version| *version <= newest).ok_or_else(|| {
            StoreError::Failed(format!(
                "the database has schema version {found}, but this release only supports up to {newest}: it was written by \
                 a newer release; run that one, or restore a backup"
            ))
        })
    }

    /// Read-only commands do not migrate: they refuse the schema of another release.
    pub(crate) fn expect_readable(self, found: i64) -> Result<()> {
        let newest = self.newest();
        match self.expect_known(found)? {
            found if found == newest => Ok(()),
            0 => Err(StoreError::Failed("it is not a store of this service".to_owned())),
            found => Err(StoreError::Failed(format!(
                "the database has schema version {found}, but this release reads version {newest}. Read-only commands do not \
                 migrate it: start this release's service once, which does, or use the release that wrote it"
            ))),
        }
    }

    /// Backups are only made from, and restored to, this release's schema.
    pub(crate) fn expect_newest(self, found: i64) -> Result<()> {
        let newest = self.newest();
        if found == 0 {
            return Err(StoreError::Failed("it is not a store of this service".to_owned()));
        }
        if usize::try_from(found) == Ok(newest) {
            return Ok(());
        }
        Err(StoreError::Failed(format!(
            "it has the schema of another release (version {found}, and this release has {newest}): start this release's \
             service on it once, or use the release that wrote it"
        )))
    }
}

pub(crate) fn is_unreleased(version: i64) -> bool {
    usize::try_from(version).is_ok_and(|version| (1..FIRST).contains(&version))
}

/// Refuses a store that no release can open.
pub(crate) fn refuse_unreleased(found: i64) -> Result<()> {
    if !is_unreleased(found) {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "the database has schema version {found}: it was made by an unreleased version, and no release can use it; start \
         with an empty one"
    )))
}

/// A new store is fine at the first start. At any other, someone is missing their data.
pub(super) fn log_new_store(location: &str) {
    info!(
        target: "bot_companion::new_store",
        location,
        "created a new, empty store; if it should contain data, stop the service and check store.url and its volume"
    );
}
