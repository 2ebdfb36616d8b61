//! What is stored about one person, and how it is forgotten.

use deadpool_postgres::{GenericClient, Transaction};
use domain::forgotten::UserHash;
use domain::{Snowflake, Time};
use tokio_postgres::types::ToSql;

use super::columns::{Column as _, ReadColumn as _, unsigned};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::sessions;
use super::work::ChangedTopics;
use crate::Topic;
use crate::backup::value::CellValue;
use crate::person_places::{PLACES, PersonSql};
use crate::upkeep::{Erased, PersonTraces};

const SQL: PersonSql = PersonSql { parameter: '$', to_json: "::jsonb" };

/// What mentions a user outside their account.
pub(super) async fn traces(db: &impl GenericClient, user: Snowflake) -> Sql<PersonTraces> {
    let (counts, values) = SQL.counts(user);
    let sql = format!(
        "{counts}, EXISTS (SELECT 1 FROM revocations WHERE user_id = $1 AND grant_sealed IS NOT NULL),
            (SELECT since FROM forgotten_users WHERE user_hash = $3)"
    );
    let statement = db.prepare_cached(&sql).await?;
    let row = db.query_one(&statement, &references(&values)).await?;
    let counts = (0..PLACES.len()).map(|index| Ok(unsigned(row.try_get(index)?))).collect::<Sql<Vec<u64>>>()?;
    let (has_grant_to_revoke, forgotten) = (row.try_get(PLACES.len())?, row.column(PLACES.len() + 1)?);
    Ok(PersonTraces { has_grant_to_revoke, forgotten, ..PersonTraces::counted(&counts) })
}

/// Forgets a user. A grant to be revoked at the provider mentions them until that is done.
pub(super) async fn forget(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> Sql<Erased> {
    lock(db, Lock::Feed).await?;
    let mut erased = Erased::default();
    erased.add("sessions", sessions::end_all_and_drop(db, topics, user, now).await? as u64);
    for place in PLACES {
        if let Some((sql, values)) = SQL.forget(place, user) {
            erased.add(place.table, run(db, &sql, &references(&values)).await?);
        }
    }
    let tombstone = "INSERT INTO forgotten_users (user_hash, since) VALUES ($1, $2)
        ON CONFLICT (user_hash) DO UPDATE SET since = excluded.since";
    run(db, tombstone, &[&UserHash::of(user).0.as_slice(), &now.stored()]).await?;
    topics.push(Topic::Everything);
    Ok(erased)
}

fn references(values: &[CellValue]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

async fn run(db: &Transaction<'_>, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Sql<u64> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, values).await?)
}
