//! Inspects the file without changing it.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::database::run;
use super::file::{blocking, connect_read_only};
use super::migrations;
use crate::sql::upkeep;
use crate::{Integrity, Result, StoreError, StoreLook, schema_version};

/// A larger file is not checked, because that would take more than a few seconds, and slow down a running service's disk.
const MOST_CHECKED: u64 = 256 << 20;

/// Inspects the file; `None` if there is none.
pub(crate) async fn look(path: PathBuf) -> Result<Option<StoreLook>> {
    blocking("looking at it", move || look_now(&path)).await
}

/// How many grants each key encrypted; `None` if there is no file, or one with another schema.
pub(crate) async fn grants_in_file(path: PathBuf) -> Result<Option<Vec<(String, u64)>>> {
    blocking("looking at it", move || {
        let Some((connection, schema)) = open(&path)? else { return Ok(None) };
        let is_current = usize::try_from(schema) == Ok(crate::migrations::NEWEST);
        Ok(if is_current { Some(run(upkeep::grants_by_key(&connection))?) } else { None })
    })
    .await
}

/// Whether the file has the schema of an unreleased version.
pub(crate) fn is_unreleased(path: &Path) -> bool {
    let version = |connection: Connection| connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let found = connect_read_only(path).ok().and_then(|connection| version(connection).ok());
    found.is_some_and(schema_version::is_unreleased)
}

/// The file and the version of its schema, if it exists.
fn open(path: &Path) -> Result<Option<(Connection, i64)>> {
    if !path.exists() {
        return Ok(None);
    }
    let connection = connect_read_only(path)?;
    let schema = migrations::version(&connection)?;
    migrations::refuse_something_else(&connection)?;
    Ok(Some((connection, schema)))
}

fn look_now(path: &Path) -> Result<Option<StoreLook>> {
    let Some((connection, schema)) = open(path)? else { return Ok(None) };
    let newest = crate::migrations::NEWEST;
    let integrity = quick_check(&connection, path)?;
    // The rest of a damaged file may not be readable.
    let is_sound = !matches!(integrity, Integrity::Damaged(_));
    let content =
        if is_sound && usize::try_from(schema) == Ok(newest) { Some(run(upkeep::content(&connection))?) } else { None };
    Ok(Some(StoreLook { schema, newest, server: None, content, integrity: Some(integrity) }))
}

/// Has SQLite check the whole file, unless that would take long.
fn quick_check(connection: &Connection, path: &Path) -> Result<Integrity> {
    // An unknown size is no reason to skip the check.
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    if size > MOST_CHECKED {
        return Ok(Integrity::TooLarge(size));
    }
    // Damage is reported as text or, in the worst case, as an error.
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(StoreError::from) {
        Ok(text) if text == "ok" => Ok(Integrity::Sound),
        Ok(text) | Err(StoreError::Damaged(text)) => Ok(Integrity::Damaged(text)),
        Err(other) => Err(other),
    }
}
