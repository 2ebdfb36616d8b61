//! The schema, one numbered file per step. A released step is never edited; the next one is added below it.

use rusqlite::{Connection, TransactionBehavior};

use super::vacuum;
use crate::{Result, StoreError, schema_version};

/// Step `n` migrates the schema from version `n` to `n + 1`.
const STEPS: &[&str] = &[
    include_str!("0001_start.sql"),
    include_str!("0002_feed.sql"),
    include_str!("0003_refresh.sql"),
    include_str!("0004_instances.sql"),
    include_str!("0005_revocations.sql"),
    include_str!("0006_stats.sql"),
    include_str!("0007_upkeep.sql"),
    include_str!("0008_history.sql"),
    include_str!("0009_updates.sql"),
];

pub(crate) const NEWEST: usize = STEPS.len();

/// Migrates the database to the newest schema, all or nothing. Returns whether it is new.
pub(super) fn run(connection: &mut Connection) -> Result<bool> {
    // Immediate, so that if two processes start at the same time, one waits for the other.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = schema_version::expect_known(version(&transaction)?, NEWEST)?;
    refuse_something_else(&transaction)?;
    take_steps(&transaction, version, NEWEST)?;
    if version == 0 {
        vacuum::mark(&transaction)?;
    }
    transaction.commit()?;
    Ok(version == 0)
}

/// Migrates the schema from one version to another, in the caller's transaction.
pub(super) fn take_steps(connection: &Connection, from: usize, to: usize) -> rusqlite::Result<()> {
    for step in STEPS.iter().take(to).skip(from) {
        connection.execute_batch(step)?;
    }
    connection.execute_batch(&format!("PRAGMA user_version = {to}"))
}

/// The steps that lead to a version; all of them for one that this release does not know.
pub(crate) fn steps_to(version: usize) -> &'static [&'static str] {
    STEPS.get(..version).unwrap_or(STEPS)
}

/// The schema's version; 0 if there is none.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Makes sure that the schema is this release's, without changing anything.
pub(super) fn expect_current(connection: &Connection) -> Result<()> {
    schema_version::expect_version(version(connection)?, NEWEST)
}

/// Refuses a database that has tables but none of our versions.
pub(super) fn refuse_something_else(connection: &Connection) -> Result<()> {
    if version(connection)? == 0 && !is_empty(connection)? {
        return Err(StoreError::Failed("the file is a database of something else; name another path".to_owned()));
    }
    Ok(())
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}
