//! PostgreSQL as a [`Database`] of the shared SQL.

use std::error::Error;

use bytes::BytesMut;
use deadpool_postgres::{GenericClient, Object, Transaction};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::errors::{Sql, SqlError};
use super::{locks, subscriptions};
use crate::backup::value::CellValue;
use crate::sql::{Database, Lock, Row, Value, Words};

const WORDS: Words = Words {
    among: ("= ANY (", ")"),
    covered: (
        "unnest(",
        "::bigint[]) AS asked (guild) CROSS JOIN LATERAL
            (SELECT shard.* FROM counts CROSS JOIN LATERAL (SELECT * FROM feed_shards WHERE shard_count = count
                AND shard_id = coalesce((asked.guild >> 22) % nullif(count, 0), 0) LIMIT 1) AS shard
            ORDER BY committed DESC LIMIT 1) AS cover",
    ),
    one_of: ("= ANY (ARRAY (", "))"),
    for_update: " FOR UPDATE",
    for_share: " FOR SHARE",
    skip_locked: " FOR UPDATE SKIP LOCKED",
    clock: "(extract(epoch FROM now()) * 1000)::bigint",
    ordinal: "ordinal",
    to_json: "::jsonb",
    elements: ("json_array_elements(CAST(", " AS TEXT)::json)"),
    new_version: (None, "nextval('versions')"),
    // The length of the key's ID, then the ID.
    grants_by_key: "SELECT CASE WHEN length(sealed) > 0 AND get_byte(sealed, 0) BETWEEN 1 AND 32
                THEN substring(sealed FROM 2 FOR get_byte(sealed, 0)) ELSE '' END AS key, count(*)
        FROM (SELECT grant_sealed AS sealed FROM users WHERE grant_sealed IS NOT NULL
            UNION ALL SELECT grant_sealed FROM revocations WHERE grant_sealed IS NOT NULL) AS grants
        GROUP BY key ORDER BY key LIMIT $1",
    size: "pg_database_size(current_database())",
    schema: "(SELECT version FROM schema_version)",
};

/// Alike for a transaction, and for a connection on which each statement sees its own state.
macro_rules! database {
    ($type:ty) => {
        impl Database for $type {
            type Error = SqlError;

            const WORDS: Words = WORDS;

            async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Sql<usize> {
                execute(self, sql, values).await
            }

            async fn query(&self, sql: &str, values: &[Value<'_>]) -> Sql<Vec<Row>> {
                query(self, sql, values).await
            }

            async fn lock(&self, lock: Lock) -> Sql<()> {
                locks::lock(self, lock).await
            }

            async fn replace_subscriptions(&self, snapshot: i64) -> Sql<()> {
                subscriptions::replace_from(self, snapshot).await
            }
        }
    };
}

database!(Object);
database!(Transaction<'_>);

async fn execute(db: &impl GenericClient, sql: &str, values: &[Value<'_>]) -> Sql<usize> {
    let statement = db.prepare_cached(sql).await?;
    let changed = db.execute(&statement, &references(values)).await?;
    // No statement changes more rows than fit.
    Ok(usize::try_from(changed).unwrap_or(usize::MAX))
}

async fn query(db: &impl GenericClient, sql: &str, values: &[Value<'_>]) -> Sql<Vec<Row>> {
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &references(values)).await?;
    Ok(rows.iter().map(row).collect::<Result<_, _>>()?)
}

fn references<'a>(values: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn row(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let cells = (0..row.len())
        .map(|column| Ok(row.try_get::<_, Option<Cell>>(column)?.map_or(CellValue::Null, |Cell(cell)| cell)));
    cells.collect::<Result<_, _>>().map(Row)
}

struct Cell(CellValue);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT8 => CellValue::Integer(i64::from_sql(ty, raw)?),
            Type::INT4 => CellValue::Integer(i32::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => CellValue::Real(f64::from_sql(ty, raw)?),
            Type::BYTEA => CellValue::Bytes(Vec::from_sql(ty, raw)?),
            Type::BOOL => CellValue::Boolean(bool::from_sql(ty, raw)?),
            _ => CellValue::Text(String::from_sql(ty, raw)?),
        }))
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::FLOAT8, Type::BYTEA, Type::BOOL, Type::TEXT].contains(ty)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql_checked(ty, out),
            Self::Real(number) => number.to_sql_checked(ty, out),
            Self::Text(text) => text.to_sql_checked(ty, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(ty, out),
            Self::Boolean(truth) => truth.to_sql_checked(ty, out),
            Self::Texts(texts) => texts.to_sql_checked(ty, out),
            Self::Integers(numbers) => numbers.to_sql_checked(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Each value checks its own.
        true
    }

    to_sql_checked!();
}
