//! What must survive a restart. [`Store`] is what a store does, in terms of the domain; `values` are its parameters and
//! results besides the domain's own. Its work is in `sql`: it looks things up, lets the domain decide, and writes the result, in
//! one transaction. `sqlite` and `postgres` run that work, and `columns` are the values that they share.
//! [`open`] alone decides which of them to use. [`freshness`] invalidates caches. [`backup`] is the only way that data leaves or
//! enters a store.

pub mod backup;
mod columns;
pub mod freshness;
mod history;
mod look;
mod migrations;
mod person_places;
mod postgres;
mod schema_version;
mod sql;
mod sqlite;
mod starting;
mod store;
#[cfg(test)]
mod tests;
mod totals_change;
mod upkeep;
mod values;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
// `freshness` takes its atomics from here; the concurrency model (`tests/faults/shuttle`) replaces them with shuttle's.
use std::sync::atomic;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

pub use domain::feed::{BatchOutcome, Committed, UnownedEvents};
pub use domain::sign_in::{Admission, Claim, GrantSaved, Lease};
pub use freshness::{Freshness, Topic};
pub use history::Recorded;
pub use look::{Integrity, ServerLook, StoreContent, StoreLook, grants_in_file, look, look_at_server};
pub use sqlite::VacuumNeeds;
use starting::StoreLocation;
pub use store::Store;
pub use upkeep::{AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Holdings, PersonTraces, Resealed};
pub use values::{
    Account, BlockedUser, BotKey, CodeHash, Revocation, Sample, SealedGrant, SnapshotId, StoredList, Swept,
};
pub use watch::{StoreBytes, StoreLoad};

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or is closing; trying again later may help.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// It is reachable but has too much to do; trying again later may help.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// It failed in a way that trying again cannot fix.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Stored data cannot be read the way it was written; an operator has to salvage or restore it.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// The same with its location in front: a path, or a database and its hosts.
    #[must_use]
    pub(crate) fn at(self, place: &str) -> Self {
        let placed = |why: String| if why.starts_with(place) { why } else { format!("{place}: {why}") };
        match self {
            Self::Unavailable(why) => Self::Unavailable(placed(why)),
            Self::Busy(why) => Self::Busy(placed(why)),
            Self::Failed(why) => Self::Failed(placed(why)),
            Self::Damaged(why) => Self::Damaged(placed(why)),
        }
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// `sqlite:PATH` or `postgres://…`; it may contain a password.
    pub url: SecretString,
    /// How long a read or write may wait for its turn.
    pub wait: Duration,
    /// The most connections to a database server.
    pub connections: usize,
    /// How long to keep trying to open it.
    pub start_wait: Duration,
}

/// The file of the store, if it is one.
pub fn local_file(url: &SecretString) -> Option<PathBuf> {
    url.expose_secret().strip_prefix("sqlite:").map(PathBuf::from)
}

/// Whether replicas can share the store. If so, they must also share the keys that encrypt its contents.
pub fn needs_shared_keys(url: &SecretString) -> bool {
    local_file(url).is_none()
}

pub fn kind(url: &SecretString) -> &'static str {
    if local_file(url).is_some() { "SQLite" } else { "PostgreSQL" }
}

/// Where the store is, for people: the path of its file, or the database and its hosts. Nothing else from the URL.
pub fn location(url: &SecretString) -> String {
    match local_file(url) {
        Some(path) => sqlite::location(&path),
        None => postgres::location(url),
    }
}

/// Where the data, or the connection to it, is not as safe as it should be, and how to fix that.
pub fn cautions(url: &SecretString) -> Vec<String> {
    match local_file(url) {
        Some(path) => sqlite::cautions(&path),
        None => postgres::cautions(url),
    }
}

/// Whether an SQLite file can be written where it is; the text warns of low disk space. Changes nothing.
pub fn look_at_place(url: &SecretString) -> Result<Option<String>> {
    local_file(url).map_or(Ok(None), |path| sqlite::look_at_place(&path))
}

/// What is wrong with a store's URL, if anything.
pub fn check(url: &SecretString) -> std::result::Result<(), String> {
    match url.expose_secret().split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => Ok(()),
        Some(("postgres" | "postgresql", _)) => postgres::check(url),
        _ => Err("write `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`".to_owned()),
    }
}

/// Whether this file is a store of an unreleased version, which no release can use.
pub fn is_unreleased(path: &Path) -> bool {
    sqlite::is_unreleased(path)
}

/// What a vacuum of the store's file needs; `None` if the store isn't a file, or not ours yet.
pub async fn vacuum_needs(url: &SecretString) -> Result<Option<VacuumNeeds>> {
    match local_file(url) {
        Some(path) => sqlite::vacuum_needs(path).await.map_err(|error| error.at(&location(url))),
        None => Ok(None),
    }
}

/// Rewrites the store's file, so that no deleted data is left in it. Writes have to wait.
pub async fn vacuum(url: &SecretString) -> Result<()> {
    match local_file(url) {
        Some(path) => sqlite::vacuum(path).await.map_err(|error| error.at(&location(url))),
        None => Ok(()),
    }
}

/// Opens the store at the URL, creating and migrating it as needed. Waits for one that is not ready yet.
pub async fn open(options: StoreOptions, freshness: Arc<Freshness>) -> Result<Arc<Store>> {
    open_as(Access::ReadWrite, options, freshness).await
}

/// Opens the store at the URL for a read-only command. Nothing is created or migrated, and the database itself refuses every
/// write.
pub async fn open_read_only(options: StoreOptions, freshness: Arc<Freshness>) -> Result<Arc<Store>> {
    open_as(Access::ReadOnly, options, freshness).await
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

async fn open_as(access: Access, options: StoreOptions, freshness: Arc<Freshness>) -> Result<Arc<Store>> {
    check(&options.url).map_err(StoreError::Failed)?;
    let store: Store = match local_file(&options.url) {
        Some(path) => {
            let name = location(&options.url);
            let open = || sqlite::Sqlite::open(path.clone(), access, options.wait, Arc::clone(&freshness));
            starting::keep_trying(options.start_wait, StoreLocation::File(&name), open).await?.into()
        }
        None => postgres::Postgres::open(&options, access, freshness).await?.into(),
    };
    Ok(Arc::new(store))
}
