//! What a store has to do to be the source or the destination of a copy.

use async_trait::async_trait;

use super::statements::RowFilter;
use super::tables::Table;
use super::value::Row;
use crate::store::Result;

/// One of the two stores.
#[async_trait]
pub(in crate::store) trait Side: Send {
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
}

/// How far a copy has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Position {
    /// The fingerprint of the source.
    pub(in crate::store) source: String,
    /// How many tables are whole.
    pub(in crate::store) tables: i64,
    /// The key up to which the next table has come, encoded.
    pub(in crate::store) after: Option<Vec<u8>>,
    /// How many rows that makes.
    pub(in crate::store) rows: i64,
}
