//! Inspects a store without changing anything: creates no file, no table, no row. For `check --live`.

use std::time::Duration;

use domain::Health;
use secrecy::SecretString;

use super::{Result, local_file, location, postgres, sqlite};

#[derive(Clone, Debug)]
pub struct StoreLook {
    /// The version of the schema; 0 if there is none yet.
    pub schema: i64,
    /// This release's version.
    pub newest: usize,
    /// What a database server allows this role; `None` for a file.
    pub server: Option<ServerLook>,
    /// Its contents; only if the schema is this release's.
    pub content: Option<StoreContent>,
    /// Whether its file is damaged, if it is one.
    pub integrity: Option<Integrity>,
}

/// Whether a file is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// SQLite's `quick_check` found no damage.
    Sound,
    /// The first problem it found.
    Damaged(String),
    /// Not checked, because the file has this many bytes.
    TooLarge(u64),
}

/// What a database server allows the role of `store.url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLook {
    pub role: String,
    /// The schema for new tables; `None` if there is none.
    pub schema: Option<String>,
    /// Whether the role may create tables there.
    pub may_create: bool,
    /// How many connections the role can have, and which server option limits them.
    pub connections: (i64, &'static str),
}

/// The contents of a store that matter to a check.
#[derive(Clone, Debug)]
pub struct StoreContent {
    /// How many grants each key encrypted, by the key's ID.
    pub grants_by_key: Vec<(String, u64)>,
    pub health: Health,
}

/// What the database server allows, if it answers within `limit`; `None` if the store is a file.
pub async fn look_at_server(url: &SecretString, limit: Duration) -> Result<Option<ServerLook>> {
    if local_file(url).is_some() {
        return Ok(None);
    }
    postgres::look_at_server(url, limit).await.map(Some).map_err(|error| error.at(&location(url)))
}

/// How many grants each key encrypted, by the key's ID; `None` unless the store is a file with this release's schema. Reads
/// nothing else, so it is cheap.
pub async fn grants_in_file(url: &SecretString) -> Result<Option<Vec<(String, u64)>>> {
    let Some(path) = local_file(url) else { return Ok(None) };
    sqlite::grants_in_file(path).await.map_err(|error| error.at(&location(url)))
}

/// Inspects a store within `limit`; `None` if it is a file that does not exist yet.
pub async fn look(url: &SecretString, limit: Duration) -> Result<Option<StoreLook>> {
    let looked = match local_file(url) {
        Some(path) => sqlite::look(path).await,
        None => postgres::look(url, limit).await.map(Some),
    };
    looked.map_err(|error| error.at(&location(url)))
}
