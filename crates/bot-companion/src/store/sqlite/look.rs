//! A look at the file that changes nothing.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::file::connect_read_only;
use super::{health, migrations, upkeep, vacuum};
use crate::store::{FileLook, Integrity, Result, StoreContent, StoreError, StoreLook};

/// A larger file is not checked: that would take more than a few seconds, and the disk of a running service.
const MOST_CHECKED: u64 = 256 << 20;

/// Looks at the file; `None` if there is none.
pub(in crate::store) async fn look(path: PathBuf) -> Result<Option<StoreLook>> {
    let looked = tokio::task::spawn_blocking(move || look_now(&path)).await;
    looked.map_err(|_| StoreError::Failed("looking at it panicked".to_owned()))?
}

fn look_now(path: &Path) -> Result<Option<StoreLook>> {
    if !path.exists() {
        return Ok(None);
    }
    let connection = connect_read_only(path)?;
    let (schema, newest) = (migrations::version(&connection)?, migrations::newest());
    migrations::refuse_something_else(&connection)?;
    migrations::refuse_unfinished_copy(&connection)?;
    let integrity = quick_check(&connection, path)?;
    let file = Some(FileLook { needs_vacuum: schema > 0 && !vacuum::is_marked(&connection)?, integrity });
    // Of a damaged file the rest may not be readable.
    let is_sound = !matches!(file, Some(FileLook { integrity: Integrity::Damaged(_), .. }));
    let content = if is_sound && usize::try_from(schema) == Ok(newest) {
        Some(StoreContent { grants_by_key: upkeep::grants_by_key(&connection)?, health: health::load(&connection)? })
    } else {
        None
    };
    Ok(Some(StoreLook { schema, newest, server: None, content, file }))
}

/// Has SQLite go through the whole file, unless that would take long.
fn quick_check(connection: &Connection, path: &Path) -> Result<Integrity> {
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    if size > MOST_CHECKED {
        return Ok(Integrity::TooLarge(size));
    }
    // Damage is a row of text, or with the worst of it an error.
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(StoreError::from) {
        Ok(text) if text == "ok" => Ok(Integrity::Sound),
        Ok(text) | Err(StoreError::Damaged(text)) => Ok(Integrity::Damaged(text)),
        Err(other) => Err(other),
    }
}
