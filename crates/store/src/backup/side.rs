//! What a store must implement to be backed up, or to restore a backup.

use async_trait::async_trait;
use domain::Time;
use domain::forgotten::UserHash;

use super::format::TableHeader;
use super::tables::Table;
use super::value::Row;
use crate::{Result, StoreError};

#[async_trait]
pub(crate) trait Side: Send {
    /// Which of the two schemas it has. Only SQLite can store every character.
    fn is_sqlite(&self) -> bool;
    /// Freezes reads: they see the store as of now, until this is called again.
    async fn freeze(&mut self) -> Result<()>;
    /// The last number drawn for a version or a snapshot.
    async fn counter(&mut self) -> Result<i64>;
    /// How many rows to back up.
    async fn count(&mut self, table: &'static Table) -> Result<u64>;
    /// The next of these rows after this key, in its order; none at the end.
    async fn read(&mut self, table: &'static Table, after: Option<Row>) -> Result<Vec<Row>>;
    /// Begins the one transaction that replaces everything, and creates the tables of a new store. Nobody else may use it. Returns
    /// a table with rows that an unused store does not have, if any.
    async fn begin(&mut self) -> Result<Option<&'static str>>;
    /// Leaves nothing but empty tables of this version of the schema.
    async fn make_room(&mut self, version: usize) -> Result<()>;
    /// The columns of a table that can be written.
    async fn columns(&mut self, table: &str) -> Result<Vec<String>>;
    /// Writes rows, matched by the names of their columns.
    async fn put(&mut self, table: &TableHeader, rows: Vec<Row>) -> Result<()>;
    /// Migrates the tables to the newest schema and commits.
    async fn commit(&mut self, end: RestoreEnd) -> Result<()>;
}

/// Goes through a table's rows, batch by batch, to back them up.
pub(super) struct Batches {
    table: &'static Table,
    after: Option<Row>,
}

impl Batches {
    pub(super) fn of(table: &'static Table) -> Self {
        Self { table, after: None }
    }

    /// The next rows; `None` at the end.
    pub(super) async fn next(&mut self, side: &mut dyn Side) -> Result<Option<Vec<Row>>> {
        let rows = side.read(self.table, self.after.take()).await?;
        self.after = rows.last().and_then(|last| last.get(..self.table.key)).map(<[_]>::to_vec);
        Ok(self.after.is_some().then_some(rows))
    }
}

/// The last steps after all rows.
#[derive(Clone, Debug)]
pub(crate) struct RestoreEnd {
    /// The version of the schema that the rows are in.
    pub(crate) version: usize,
    /// The last number that counts as drawn.
    pub(crate) counter: i64,
    /// If set, all sessions end, and their grants are revoked from then on.
    pub(crate) end_sessions: Option<Time>,
    /// Users who were forgotten after the backup, and when.
    pub(crate) forgotten: Vec<(UserHash, Time)>,
}

/// The message for a store that is in use and so is left alone.
pub(crate) fn in_use(by: &str) -> StoreError {
    StoreError::Failed(format!(
        "the store is in use{by}, and nothing was changed: stop the service and all its replicas"
    ))
}
