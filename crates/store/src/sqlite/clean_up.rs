//! Removes what no read can see any more.

use rusqlite::Connection;

use super::database::run;
use super::staging::LocalStaging;
use super::writer::ChangedTopics;
use crate::sql::{Database as _, clean_up, instances, readable};

/// Checks about `batch` rows and removes those that nobody can see. Returns how many it checked: 0 when all is done.
pub(super) fn clean_up(
    connection: &Connection,
    topics: &mut ChangedTopics,
    staging: &LocalStaging,
    batch: usize,
) -> rusqlite::Result<usize> {
    run(instances::forget(connection))?;
    give_up_abandoned(connection, staging)?;
    run(clean_up::sweep(connection, topics, batch))
}

/// Discards snapshots that were being staged by a process that is gone. If it is still alive, it finds out at its next line.
fn give_up_abandoned(connection: &Connection, staging: &LocalStaging) -> rusqlite::Result<()> {
    let staged = run(connection.query("SELECT id FROM staged_snapshots", &[]))?;
    let staged: Vec<i64> = readable!("staged snapshot", staged, |row| row.get(0));
    for snapshot in staged.into_iter().filter(|snapshot| !staging.has(*snapshot)) {
        connection.prepare_cached("DELETE FROM staged_snapshots WHERE id = ?1")?.execute([snapshot])?;
        run(clean_up::sweep_whole(connection, &[snapshot]))?;
    }
    Ok(())
}
