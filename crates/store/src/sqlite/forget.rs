//! What is stored about one person, and how it is forgotten.

use domain::forgotten::UserHash;
use domain::{Snowflake, Time};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::columns::{Column as _, ReadColumn as _, unsigned};
use super::sessions;
use super::writer::ChangedTopics;
use crate::Topic;
use crate::person_places::{PLACES, PersonSql};
use crate::upkeep::{Erased, PersonTraces};

const SQL: PersonSql = PersonSql { parameter: '?', to_json: "" };

/// What mentions a user outside their account.
pub(super) fn traces(connection: &Connection, user: Snowflake) -> rusqlite::Result<PersonTraces> {
    let since: Option<Time> = connection
        .prepare_cached("SELECT since FROM forgotten_users WHERE user_hash = ?1")?
        .query_row([UserHash::of(user).0], |row| row.column(0))
        .optional()?;
    let has_grant_to_revoke = connection
        .prepare_cached("SELECT 1 FROM revocations WHERE user_id = ?1 AND grant_sealed IS NOT NULL")?
        .exists([user.stored()])?;
    let (sql, values) = SQL.counts(user);
    let counts = connection.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| {
        (0..PLACES.len()).map(|index| row.get(index).map(unsigned)).collect::<rusqlite::Result<Vec<u64>>>()
    })?;
    Ok(PersonTraces { has_grant_to_revoke, forgotten: since, ..PersonTraces::counted(&counts) })
}

/// Forgets a user. A grant to be revoked at the provider mentions them until that is done.
pub(super) fn forget(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> rusqlite::Result<Erased> {
    let mut erased = Erased::default();
    erased.add("sessions", sessions::end_all_and_drop(connection, topics, user, now)? as u64);
    for place in PLACES {
        if let Some((sql, values)) = SQL.forget(place, user) {
            erased.add(place.table, connection.prepare_cached(&sql)?.execute(params_from_iter(values))? as u64);
        }
    }
    let sql = "INSERT INTO forgotten_users (user_hash, since) VALUES (?1, ?2)
        ON CONFLICT (user_hash) DO UPDATE SET since = excluded.since";
    connection.prepare_cached(sql)?.execute(params![UserHash::of(user).0, now.stored()])?;
    topics.push(Topic::Everything);
    Ok(erased)
}
