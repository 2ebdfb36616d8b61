//! `SQLite` as a [`Database`] of the shared SQL.

use domain::feed::GuildTotals;
use domain::{Guild, Snowflake};
use futures_util::FutureExt;
use rusqlite::types::{ToSqlOutput, Type, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::{coverage, staging, subscriptions};
use crate::backup::value::CellValue;
use crate::columns::json;
use crate::sql::{Around, Covered, Database, Lock, Row, Unreadable, Value, Words};

impl Database for Connection {
    type Error = rusqlite::Error;

    const WORDS: Words = Words {
        among: Around("IN (SELECT value FROM json_each(", "))"),
        covered: Around(
            "(SELECT value AS guild FROM json_each(",
            ")) AS asked CROSS JOIN feed_shards AS cover
                ON (cover.shard_count, cover.shard_id) = (SELECT shard_count, shard_id FROM counts CROSS JOIN feed_shards
                    ON shard_count = count AND shard_id = coalesce((asked.guild >> 22) % nullif(count, 0), 0)
                    ORDER BY committed DESC LIMIT 1)",
        ),
        one_of: Around("IN (", ")"),
        for_update: "",
        for_share: "",
        skip_locked: "",
        clock: "NULL",
        ordinal: "rowid",
        sequence: Some("rowid"),
        counter: "SELECT value FROM counter",
        to_json: "",
        elements: Around("json_each(", ")"),
        new_version: (Some("UPDATE counter SET value = value + 1"), "(SELECT value FROM counter)"),
        grants_by_key: "SELECT CAST(grant_key AS BLOB), count(*) FROM
                (SELECT grant_key FROM users WHERE grant_key IS NOT NULL
                UNION ALL SELECT grant_key FROM revocations WHERE grant_key IS NOT NULL)
            GROUP BY grant_key ORDER BY grant_key LIMIT ?1",
        abandoned: "id NOT IN (SELECT id FROM staged_here)",
        touch: "",
        size: "(SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)",
        schema: "(SELECT user_version FROM pragma_user_version)",
    };

    async fn execute(&self, sql: &str, values: &[Value<'_>]) -> rusqlite::Result<usize> {
        bound(self, sql, values)?.raw_execute()
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> rusqlite::Result<Vec<Row>> {
        let mut statement = bound(self, sql, values)?;
        let columns = statement.column_count();
        let (mut found, mut rows) = (statement.raw_query(), Vec::new());
        while let Some(row) = found.next()? {
            rows.push(Row(cells(row, columns)?));
        }
        Ok(rows)
    }

    async fn lock(&self, _lock: Lock) -> rusqlite::Result<()> {
        Ok(())
    }

    async fn try_lock(&self, _lock: Lock) -> rusqlite::Result<bool> {
        Ok(true)
    }

    async fn covered(&self, guilds: &[Snowflake]) -> rusqlite::Result<Vec<Covered>> {
        coverage::covered(self, guilds)
    }

    async fn stage_guilds(&self, snapshot: i64, guilds: &[&Guild], _: &[Snowflake]) -> rusqlite::Result<GuildTotals> {
        staging::stage_guilds(self, snapshot, guilds).await
    }

    async fn insert_staff(&self, snapshot: i64, guild: &Guild) -> rusqlite::Result<()> {
        staging::insert_staff(&mut self.prepare_cached(staging::STAFF)?, snapshot, guild)
    }

    async fn replace_subscriptions(&self, snapshot: i64) -> rusqlite::Result<()> {
        subscriptions::replace_from(self, snapshot)
    }
}

/// The outcome of shared work. On `SQLite` it never waits.
pub(crate) fn run<T>(work: impl Future<Output = rusqlite::Result<T>>) -> rusqlite::Result<T> {
    work.now_or_never().unwrap_or_else(|| {
        let why = "work on the database waits for something else";
        Err(rusqlite::Error::ToSqlConversionFailure(why.into()))
    })
}

/// The prepared statement with its parameters.
fn bound<'a>(connection: &'a Connection, sql: &str, values: &[Value<'_>]) -> rusqlite::Result<CachedStatement<'a>> {
    let mut statement = connection.prepare_cached(sql)?;
    let count = statement.parameter_count();
    let values = values.get(..count).ok_or(rusqlite::Error::InvalidParameterCount(values.len(), count))?;
    for (index, value) in (1..).zip(values) {
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(statement)
}

/// What is in this many columns of a row.
pub(super) fn cells(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Vec<CellValue>> {
    (0..columns).map(|column| row.get_ref(column).map(cell)).collect()
}

fn cell(value: ValueRef<'_>) -> CellValue {
    match value {
        ValueRef::Null => CellValue::Null,
        ValueRef::Integer(number) => CellValue::Integer(number),
        ValueRef::Real(number) => CellValue::Real(number),
        // Damaged text is not text.
        ValueRef::Text(text) => match str::from_utf8(text) {
            Ok(text) => CellValue::Text(text.to_owned()),
            Err(_) => CellValue::Bytes(text.to_vec()),
        },
        ValueRef::Blob(bytes) => CellValue::Bytes(bytes.to_vec()),
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Boolean(truth) => ValueRef::Integer(i64::from(*truth)),
            Self::Texts(texts) => return Ok(ToSqlOutput::from(json(texts))),
            Self::Integers(numbers) => return Ok(ToSqlOutput::from(json(numbers))),
        }))
    }
}

impl From<Unreadable> for rusqlite::Error {
    fn from(error: Unreadable) -> Self {
        Self::FromSqlConversionFailure(error.column, Type::Null, error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Unreadable, values};

    #[test]
    fn a_future_that_waits_is_an_error() {
        assert!(run(std::future::pending::<rusqlite::Result<()>>()).is_err());
    }

    #[test]
    fn a_parameter_is_found_by_its_number() {
        let connection = Connection::open_in_memory().unwrap();
        let read = |sql, values: &[Value<'_>]| run(Database::query_one(&connection, sql, values));
        let row = read("SELECT ?2, ?1, ?2, ?3", &values!["a", 7_u64, vec!["b", "c"]]).unwrap();
        assert_eq!((row.get(0), row.get(1), row.get(2)), (Ok(7_u64), Ok("a".to_owned()), Ok(7_u64)));
        assert_eq!(row.get(3), Ok(r#"["b","c"]"#.to_owned()));
        assert!(read("SELECT ?2", &values![1_i64]).is_err(), "there is no second one");
    }

    #[test]
    fn damaged_text_is_unreadable_and_not_an_error_of_the_query() {
        let connection = Connection::open_in_memory().unwrap();
        let row = run(Database::query_one(&connection, "SELECT CAST(x'ff' AS TEXT)", &[])).unwrap();
        let text: Result<String, Unreadable> = row.get(0);
        assert_eq!(text.unwrap_err().to_string(), "column 0 is not a text");
    }
}
