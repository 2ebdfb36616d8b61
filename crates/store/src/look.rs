//! A look at a store that changes nothing: no file is made, no table, no row. For `check --live`.

use std::time::Duration;

use domain::Health;
use secrecy::SecretString;

use super::{Result, local_file, location, postgres, sqlite};

#[derive(Clone, Debug)]
pub struct StoreLook {
    /// The version of the schema; 0 where there is none yet.
    pub schema: i64,
    /// The version that this release makes.
    pub newest: usize,
    /// What a database server allows this role; `None` for a file.
    pub server: Option<ServerLook>,
    /// What is in it; only where the schema is this release's.
    pub content: Option<StoreContent>,
    /// What its file is like, if it is one.
    pub file: Option<FileLook>,
}

/// What the file of a store is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLook {
    pub integrity: Integrity,
    /// Whether an older release may have left in it what was deleted.
    pub needs_vacuum: bool,
}

/// Whether a file is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// SQLite's `quick_check` found nothing.
    Sound,
    /// The first thing that it found.
    Damaged(String),
    /// It was not asked: the file has so many bytes.
    TooLarge(u64),
}

/// What a database server allows the role of `store.url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLook {
    pub role: String,
    /// The schema in which tables are made; `None` if there is none.
    pub schema: Option<String>,
    /// Whether the role may make tables there.
    pub may_create: bool,
    /// How many connections the role can have, and the setting of the server that says so.
    pub connections: (i64, &'static str),
}

/// What is in a store, as far as a check is interested.
#[derive(Clone, Debug)]
pub struct StoreContent {
    /// How many grants are sealed with each key, by the key's id.
    pub grants_by_key: Vec<(String, u64)>,
    pub health: Health,
}

/// What the database server allows, asked for `limit` at most; `None` if the store is a file.
pub async fn look_at_server(url: &SecretString, limit: Duration) -> Result<Option<ServerLook>> {
    if local_file(url).is_some() {
        return Ok(None);
    }
    postgres::look_at_server(url, limit).await.map(Some).map_err(|error| error.at(&location(url)))
}

/// How many grants are sealed with each key, by the key's id; `None` unless the store is a file with the schema of this release.
/// It reads no more than that, so it costs little.
pub async fn grants_in_file(url: &SecretString) -> Result<Option<Vec<(String, u64)>>> {
    let Some(path) = local_file(url) else { return Ok(None) };
    sqlite::grants_in_file(path).await.map_err(|error| error.at(&location(url)))
}

/// Looks at a store, for `limit` at most; `None` if it is a file that is not there yet.
pub async fn look(url: &SecretString, limit: Duration) -> Result<Option<StoreLook>> {
    let looked = match local_file(url) {
        Some(path) => sqlite::look(path).await,
        None => postgres::look(url, limit).await.map(Some),
    };
    looked.map_err(|error| error.at(&location(url)))
}
