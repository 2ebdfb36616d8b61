//! The SQL that both databases understand, and the work around it, written once. It runs on a [`Database`]: a transaction, or a
//! connection that only reads.
//!
//! What differs is in `sqlite` and `postgres`: how the lines of snapshots are written, because PostgreSQL loads them in bulk, where
//! SQLite writes one after the other; and how work is run: a queue and one writer, or a pool and notifications.

pub(crate) mod accounts;
pub(crate) mod announcements;
pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod clean_up;
pub(crate) mod clock;
pub(crate) mod coverage;
pub(crate) mod feed;
pub(crate) mod feed_state;
pub(crate) mod feedback;
pub(crate) mod forget;
pub(crate) mod forgotten;
pub(crate) mod guilds;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod instances;
pub(crate) mod keys;
mod lock;
pub(crate) mod probe;
pub(crate) mod revocations;
mod row;
pub(crate) mod sessions;
pub(crate) mod sign_in;
pub(crate) mod snapshots;
pub(crate) mod subscriptions;
pub(crate) mod team;
pub(crate) mod totals;
pub(crate) mod upkeep;
mod value;

use domain::feed::GuildTotals;
use domain::{Guild, Snowflake};

use crate::Topic;

pub(crate) use self::coverage::{Cover, Covered};
pub(crate) use self::lock::Lock;
pub(crate) use self::row::{FromCell, Row, Unreadable, readable, without_unreadable};
pub(crate) use self::value::{ToValue, Value, values};

/// What a write has changed. It only counts if the write succeeds.
pub(crate) type ChangedTopics = Vec<Topic>;

/// What is read from a row.
pub(crate) type Read<T> = std::result::Result<T, Unreadable>;
pub(crate) type Result<T, D> = std::result::Result<T, <D as Database>::Error>;

/// What the shared work needs from a database. A statement's parameters are `?1`, `?2` and so on; each is prepared once per
/// connection. SQLite's futures are ready at once.
pub(crate) trait Database: Sized {
    type Error: From<Unreadable>;
    const WORDS: Words;

    /// Runs a statement, and returns how many rows it changed.
    async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, Self>;

    /// All rows that a statement returns.
    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Self>;

    /// Waits for a lock that lasts until the transaction ends. SQLite has one writer, and so needs none.
    async fn lock(&self, lock: Lock) -> Result<(), Self>;

    /// Takes a lock if it is free.
    async fn try_lock(&self, lock: Lock) -> Result<bool, Self>;

    /// Which snapshots cover these guilds. One query, or on SQLite, where it would need temporary tables, a look-up each.
    async fn covered(&self, guilds: &[Snowflake]) -> Result<Vec<Covered>, Self> {
        coverage::covered(self, guilds).await
    }

    /// Adds guilds with these IDs to a snapshot that is being staged. Returns what it already had of them, which they replace.
    async fn stage_guilds(&self, snapshot: i64, guilds: &[&Guild], ids: &[Snowflake]) -> Result<GuildTotals, Self>;

    /// Adds a guild's staff to a snapshot. PostgreSQL sends them at once; on SQLite, a row each is cheaper.
    async fn insert_staff(&self, snapshot: i64, guild: &Guild) -> Result<(), Self>;

    /// Replaces all subscriptions with those staged under this number. PostgreSQL writes only the differences.
    async fn replace_subscriptions(&self, snapshot: i64) -> Result<(), Self>;

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
    pub(crate) among: Around,
    /// Before and after the parameter of some guilds: a table with each of them as `asked.guild`, joined with the row of
    /// `feed_shards` that covers it as `cover`; needs the table `counts` of the shard counts. At most one row covers a guild under
    /// each count, and each is looked up by its key, instead of going through every shard for every guild.
    pub(crate) covered: Around,
    /// Before and after a query of some rows: whether a column's value is in its result. On PostgreSQL it becomes an array, which
    /// is built once; a plain subquery may run again for every row, and then its limit limits nothing.
    pub(crate) one_of: Around,
    /// After a query: nobody changes its rows before the transaction ends. `for_share` lets others do the same.
    pub(crate) for_update: &'static str,
    pub(crate) for_share: &'static str,
    /// After a query: the same, without the rows that someone else has locked.
    pub(crate) skip_locked: &'static str,
    /// The database's own time, in milliseconds, if it has a clock.
    pub(crate) clock: &'static str,
    /// The column by which rows are in the order in which they were added.
    pub(crate) ordinal: &'static str,
    /// The name of a column of the kind `Sequence`, if it isn't its own.
    pub(crate) sequence: Option<&'static str>,
    /// The last number drawn for a version or a snapshot.
    pub(crate) counter: &'static str,
    /// After a column of text: it is JSON.
    pub(crate) to_json: &'static str,
    /// Before and after the parameter of a JSON array: a table with its elements in the column `value`.
    pub(crate) elements: Around,
    /// A number that was never used before, and what has to run before it.
    pub(crate) new_version: (Option<&'static str>, &'static str),
    /// How many grants each key encrypted, with the key's ID as bytes, up to a number of keys.
    pub(crate) grants_by_key: &'static str,
    /// Which staged snapshots were left by a process that is gone, given how many seconds one may be silent. If it is still alive,
    /// it finds out at its next line.
    pub(crate) abandoned: &'static str,
    /// Sets when a snapshot was last staged, after another column that is set.
    pub(crate) touch: &'static str,
    /// The size of the database in bytes.
    pub(crate) size: &'static str,
    /// The version of its schema.
    pub(crate) schema: &'static str,
}

/// Words before and after something.
pub(crate) struct Around(pub(crate) &'static str, pub(crate) &'static str);

impl Around {
    pub(crate) fn put(&self, inside: &str) -> String {
        format!("{}{inside}{}", self.0, self.1)
    }
}
