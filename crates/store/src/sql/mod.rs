//! The SQL that both databases understand, and the work around it, written once. It runs on a [`Database`]: a transaction, or a
//! connection that only reads. What truly differs is in `sqlite` and `postgres`.

pub(crate) mod announcements;
pub(crate) mod audit;
pub(crate) mod forgotten;
pub(crate) mod history;
pub(crate) mod keys;
mod lock;
mod row;
pub(crate) mod store;
pub(crate) mod team;
mod value;

use crate::Topic;

pub(crate) use self::lock::Lock;
pub(crate) use self::row::{FromCell, Row, Unreadable, readable};
pub(crate) use self::value::{ToValue, Value, values};

/// What a write has changed. It only counts if the write succeeds.
pub(crate) type ChangedTopics = Vec<Topic>;

pub(crate) type Result<T, D> = std::result::Result<T, <D as Database>::Error>;

/// What the shared work needs from a database. A statement's parameters are `$1`, `$2` and so on; each is prepared once per
/// connection. SQLite's futures are ready at once.
pub(crate) trait Database {
    type Error: From<Unreadable>;
    const WORDS: Words;

    /// Runs a statement, and returns how many rows it changed.
    async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, Self>;

    /// All rows that a statement returns.
    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Self>;

    /// Waits for a lock that lasts until the transaction ends. SQLite has one writer, and so needs none.
    async fn lock(&self, lock: Lock) -> Result<(), Self>;

    /// The first row that a statement returns, if any.
    async fn query_first(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, Self> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// The row of a statement that always returns one.
    async fn query_one(&self, sql: &str, values: &[Value<'_>]) -> Result<Row, Self> {
        Ok(self.query_first(sql, values).await?.ok_or(Unreadable::NO_ROW)?)
    }
}

/// Where the databases have different words for one thing.
pub(crate) struct Words {
    /// Before and after an array's parameter: whether a column's value is in it.
    pub(crate) among: (&'static str, &'static str),
    /// After a query: nobody changes its rows before the transaction ends.
    pub(crate) for_share: &'static str,
    /// The column by which rows are in the order in which they were added.
    pub(crate) ordinal: &'static str,
}

impl Words {
    /// Whether the value before it is in the array with this parameter.
    pub(crate) fn among(&self, parameter: &str) -> String {
        let (before, after) = self.among;
        format!("{before}{parameter}{after}")
    }
}
