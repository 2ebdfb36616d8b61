//! A look at the file that changes nothing.

use std::path::{Path, PathBuf};

use super::file::connect_read_only;
use super::{health, migrations, upkeep};
use crate::store::{Result, StoreContent, StoreError, StoreLook};

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
    let content = if usize::try_from(schema) == Ok(newest) {
        Some(StoreContent { grants_by_key: upkeep::grants_by_key(&connection)?, health: health::load(&connection)? })
    } else {
        None
    };
    Ok(Some(StoreLook { schema, newest, server: None, content }))
}
