//! PostgreSQL as a [`Database`] of the shared SQL.

use std::error::Error;

use bytes::BytesMut;
use deadpool_postgres::{ClientWrapper, StatementCache, Transaction};
use domain::feed::GuildTotals;
use domain::{Guild, Snowflake};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};

use super::errors::{Sql, SqlError};
use super::{bulk_insert, locks, subscriptions};
use crate::backup::value::CellValue;
use crate::columns::{Column as _, json};
use crate::sql::{Around, Database, Lock, Row, Value, Words, values};

const WORDS: Words = Words {
    among: Around("= ANY (", ")"),
    covered: Around(
        "unnest(",
        "::bigint[]) AS asked (guild) CROSS JOIN LATERAL
            (SELECT shard.* FROM counts CROSS JOIN LATERAL (SELECT * FROM feed_shards WHERE shard_count = count
                AND shard_id = coalesce((asked.guild >> 22) % nullif(count, 0), 0) LIMIT 1) AS shard
            ORDER BY committed DESC LIMIT 1) AS cover",
    ),
    one_of: Around("= ANY (ARRAY (", "))"),
    for_update: " FOR UPDATE",
    for_share: " FOR SHARE",
    skip_locked: " FOR UPDATE SKIP LOCKED",
    clock: "(extract(epoch FROM now()) * 1000)::bigint",
    ordinal: "ordinal",
    sequence: None,
    counter: "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM versions",
    to_json: "::jsonb",
    elements: Around("json_array_elements(CAST(", " AS TEXT)::json)"),
    new_version: (None, "nextval('versions')"),
    // The length of the key's ID, then the ID.
    grants_by_key: "SELECT CASE WHEN length(sealed) > 0 AND get_byte(sealed, 0) BETWEEN 1 AND 32
                THEN substring(sealed FROM 2 FOR get_byte(sealed, 0)) ELSE '' END AS key, count(*)
        FROM (SELECT grant_sealed AS sealed FROM users WHERE grant_sealed IS NOT NULL
            UNION ALL SELECT grant_sealed FROM revocations WHERE grant_sealed IS NOT NULL) AS grants
        GROUP BY key ORDER BY key LIMIT ?1",
    // A locked one is receiving lines right now.
    abandoned: "id IN (SELECT id FROM staged_snapshots
        WHERE touched < clock_timestamp() - make_interval(secs => ?1) FOR UPDATE SKIP LOCKED)",
    touch: ", touched = clock_timestamp()",
    size: "pg_database_size(current_database())",
    schema: "(SELECT version FROM schema_version)",
};

/// A connection. If a transaction has begun on it, what is done here is part of it.
pub(crate) struct Connection<'a> {
    pub(super) client: &'a Client,
    statements: &'a StatementCache,
}

impl<'a> From<&'a ClientWrapper> for Connection<'a> {
    fn from(client: &'a ClientWrapper) -> Self {
        Self { client, statements: &client.statement_cache }
    }
}

impl<'a> From<&'a Transaction<'_>> for Connection<'a> {
    fn from(transaction: &'a Transaction<'_>) -> Self {
        Self { client: transaction.client(), statements: &transaction.statement_cache }
    }
}

impl Connection<'_> {
    /// The prepared statement. PostgreSQL's own name for `?1` is `$1`.
    async fn prepare(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        self.statements.prepare(self.client, &sql.replace('?', "$")).await
    }
}

impl Database for Connection<'_> {
    type Error = SqlError;

    const WORDS: Words = WORDS;

    async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Sql<usize> {
        let statement = self.prepare(sql).await?;
        let changed = self.client.execute(&statement, &references(values)).await?;
        // No statement changes more rows than fit.
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Sql<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        let rows = self.client.query(&statement, &references(values)).await?;
        Ok(rows.iter().map(|row| cells(row).map(Row)).collect::<Result<_, _>>()?)
    }

    async fn lock(&self, lock: Lock) -> Sql<()> {
        let (class, key) = locks::key(lock);
        let sql = "SELECT pg_advisory_xact_lock(?1::bigint::int, ?2::bigint::int)";
        self.execute(sql, &values![class, key]).await.map(drop)
    }

    async fn try_lock(&self, lock: Lock) -> Sql<bool> {
        let (class, key) = locks::key(lock);
        let sql = "SELECT pg_try_advisory_xact_lock(?1::bigint::int, ?2::bigint::int)";
        Ok(self.query_one(sql, &values![class, key]).await?.get(0)?)
    }

    async fn stage_guilds(&self, snapshot: i64, guilds: &[&Guild], ids: &[Snowflake]) -> Sql<GuildTotals> {
        bulk_insert::stage(self, snapshot, guilds, ids).await
    }

    async fn insert_staff(&self, snapshot: i64, guild: &Guild) -> Sql<()> {
        let staff: Vec<_> = guild.staff.iter().flatten().map(|(user, roles)| (user.stored(), json(roles))).collect();
        if staff.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO guild_staff (snapshot, guild, \"user\", roles)
            SELECT ?1, ?2, CAST(value ->> 0 AS BIGINT), value ->> 1 FROM json_array_elements(CAST(?3 AS TEXT)::json)";
        self.execute(sql, &values![snapshot, guild.id, json(&staff)]).await.map(drop)
    }

    async fn replace_subscriptions(&self, snapshot: i64) -> Sql<()> {
        subscriptions::replace_from(self.client, snapshot).await
    }
}

fn references<'a>(values: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// What is in a row.
pub(super) fn cells(row: &tokio_postgres::Row) -> Result<Vec<CellValue>, tokio_postgres::Error> {
    let cells = (0..row.len())
        .map(|column| Ok(row.try_get::<_, Option<Cell>>(column)?.map_or(CellValue::Null, |Cell(cell)| cell)));
    cells.collect()
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
