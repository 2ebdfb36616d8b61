//! Migrates a file to the schema of this release.

use rusqlite::{Connection, TransactionBehavior};

use crate::migrations::Dialect;
use crate::schema_version::{self, Steps};
use crate::{Result, StoreError};

const DIALECT: Dialect = Dialect {
    mark: "@sqlite",
    words: [
        ("{number}", "INTEGER"),
        ("{flag}", "INTEGER"),
        ("{float}", "REAL"),
        ("{bytes}", "BLOB"),
        // Text for programs.
        ("{code}", "TEXT"),
        // A table by row, and one by its primary key.
        ("{plain}", "STRICT"),
        ("{sorted}", "STRICT, WITHOUT ROWID"),
    ],
};

/// Migrates the database to the newest schema, all or nothing. Returns whether it is new.
pub(crate) fn run(connection: &mut Connection, steps: Steps) -> Result<bool> {
    // Immediate, so that if two processes start at the same time, one waits for the other.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = steps.expect_known(version(&transaction)?)?;
    refuse_something_else(&transaction)?;
    take_steps(&transaction, steps, version, steps.newest())?;
    transaction.commit()?;
    Ok(version == 0)
}

/// Migrates the schema from one version to another, in the caller's transaction.
pub(super) fn take_steps(connection: &Connection, steps: Steps, from: usize, to: usize) -> rusqlite::Result<()> {
    for step in steps.between(from, to) {
        connection.execute_batch(&DIALECT.write(step))?;
    }
    connection.execute_batch(&format!("PRAGMA user_version = {to}"))
}

/// The schema's version; 0 if there is none.
pub(super) fn version(connection: &Connection) -> Result<i64> {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    schema_version::refuse_unreleased(version)?;
    Ok(version)
}

/// Makes sure that the schema is the newest of these, without changing anything.
pub(super) fn expect_newest(connection: &Connection, steps: Steps) -> Result<()> {
    steps.expect_newest(version(connection)?)
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
