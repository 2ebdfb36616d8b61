//! The schema, one numbered file per step. A step that was released is never edited; the next one is added below it.

use rusqlite::{Connection, TransactionBehavior};

use crate::schema_version::{self, COPY_POSITION};
use crate::{Result, StoreError};

use super::columns::integer;
use super::vacuum;

/// Step `n` brings the schema from version `n` to `n + 1`.
const STEPS: &[&str] = &[
    include_str!("0001_start.sql"),
    include_str!("0002_feed.sql"),
    include_str!("0003_refresh.sql"),
    include_str!("0004_instances.sql"),
    include_str!("0005_revocations.sql"),
    include_str!("0006_stats.sql"),
    include_str!("0007_upkeep.sql"),
    include_str!("0008_history.sql"),
];

pub(super) const NEWEST: usize = STEPS.len();

/// Brings the database to the newest schema, all or nothing. Whether it is a new one.
pub(super) fn run(connection: &mut Connection) -> Result<bool> {
    // Immediate, so that of two processes that start at once one waits for the other.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = usize::try_from(version(&transaction)?).unwrap_or(usize::MAX);
    let Some(pending) = STEPS.get(version..) else {
        return Err(schema_version::newer_release(version, STEPS.len()));
    };
    refuse_something_else(&transaction)?;
    for step in pending {
        transaction.execute_batch(step)?;
    }
    if version == 0 {
        vacuum::mark(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", integer(STEPS.len() as u64))?;
    transaction.commit()?;
    Ok(version == 0)
}

/// The schema's version; 0 where there is none.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Makes sure that the schema is this release's, without changing anything.
pub(super) fn expect_current(connection: &Connection) -> Result<()> {
    schema_version::expect_version(version(connection)?, STEPS.len())
}

/// The version that this release makes.
pub(super) const fn newest() -> usize {
    STEPS.len()
}

/// Refuses a database that has tables and none of our versions.
pub(super) fn refuse_something_else(connection: &Connection) -> Result<()> {
    if version(connection)? == 0 && !is_empty(connection)? {
        return Err(StoreError::Failed("the file is a database of something else; name another path".to_owned()));
    }
    Ok(())
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// Refuses a file into which a copy was not finished.
pub(super) fn refuse_unfinished_copy(connection: &Connection) -> Result<()> {
    schema_version::refuse_unfinished_copy(has_unfinished_copy(connection)?)
}

pub(super) fn has_unfinished_copy(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = ?1")?.exists([COPY_POSITION])
}
