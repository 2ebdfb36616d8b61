//! What a store has to do to be the source or the destination of a copy.

use async_trait::async_trait;
use domain::Time;
use domain::forgotten::UserHash;

use super::statements::RowFilter;
use super::tables::Table;
use super::value::Row;
use crate::{Result, StoreError};

/// One of the two stores.
#[async_trait]
pub(crate) trait Side: Send {
    /// Whether it can store every character.
    fn takes_all_text(&self) -> bool;
    /// Marks the store with a number for as long as it is open; `false` if it had that mark already.
    async fn mark(&mut self, number: i64) -> Result<bool>;
    /// Freezes what is read: the store as it is at this moment, until this is called again.
    async fn freeze(&mut self) -> Result<()>;
    /// The last number that was drawn for a version or a snapshot.
    async fn counter(&mut self) -> Result<i64>;
    /// How many rows there are.
    async fn count(&mut self, table: &'static Table, filter: RowFilter) -> Result<u64>;
    /// The next rows after this key, in its order; none at the end.
    async fn read(&mut self, table: &'static Table, filter: RowFilter, after: Option<Row>) -> Result<Vec<Row>>;
    /// How far an unfinished copy into it has come.
    async fn position(&mut self) -> Result<Option<Position>>;
    /// A table with rows that nobody copied, if there is one.
    async fn find_own_data(&mut self) -> Result<Option<&'static str>>;
    /// Empties it, and notes where the copy begins.
    async fn begin(&mut self, position: Position) -> Result<()>;
    /// Writes rows and notes how far the copy has come with them, both or neither.
    async fn write(&mut self, table: &'static Table, rows: Vec<Row>, from: Position, to: Position) -> Result<()>;
    /// Goes on counting above this number, and forgets that it is a copy.
    async fn finish(&mut self, counter: i64) -> Result<()>;
    /// Begins the one transaction in which everything is replaced by a backup.
    async fn begin_restore(&mut self) -> Result<()>;
    /// Writes rows of a backup.
    async fn put_restored(&mut self, table: &'static Table, rows: Vec<Row>) -> Result<()>;
    /// Ends that transaction: all of it counts from now on.
    async fn commit_restore(&mut self, end: RestoreEnd) -> Result<()>;
}

/// What comes after the last row of a backup.
#[derive(Clone, Debug)]
pub(crate) struct RestoreEnd {
    /// The last number that counts as drawn.
    pub(crate) counter: i64,
    /// If it is a time, all sessions end, and the grants are to be revoked from then on.
    pub(crate) end_sessions: Option<Time>,
    /// Users who were forgotten since the backup.
    pub(crate) forgotten: Vec<UserHash>,
    /// The time.
    pub(crate) now: Time,
}

/// Why a store that somebody uses is left alone.
pub(crate) fn in_use(by: &str) -> StoreError {
    StoreError::Failed(format!(
        "the store is in use{by}, and nothing was changed: stop the service, all replicas of it"
    ))
}

/// How far a copy has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The fingerprint of the source.
    pub(crate) source: String,
    /// How many tables are whole.
    pub(crate) tables: i64,
    /// The key up to which the next table has come, encoded.
    pub(crate) after: Option<Vec<u8>>,
    /// How many rows that makes.
    pub(crate) rows: i64,
}
