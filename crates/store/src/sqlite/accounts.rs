//! What is stored about a user with a session: profile, grant and the provider's list.

use domain::sign_in::{Lease, StoredLease, is_account_unused};
use domain::{Snowflake, Time, User};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{Column as _, ReadColumn as _, integer, json, list_without, listed, unsigned};
use super::revocations;
use super::writer::ChangedTopics;
use crate::{Account, SealedGrant, StoredList, Topic};

pub(super) fn account(connection: &Connection, user: Snowflake) -> rusqlite::Result<Option<Account>> {
    let sql = "SELECT grant_sealed, grant_version, list, list_fetched, list_version, username, name, avatar
        FROM users WHERE id = ?1";
    connection
        .prepare_cached(sql)?
        .query_row([user.stored()], |row| {
            let list = match (row.get::<_, Option<String>>(2)?, row.column(3)?) {
                (Some(text), Some(fetched)) => Some(StoredList { fetched, guilds: listed(&text) }),
                _ => None,
            };
            Ok(Account {
                user: User { id: user, username: row.get(5)?, name: row.get(6)?, avatar: row.column(7)? },
                grant: row.get::<_, Option<Vec<u8>>>(0)?.map(SealedGrant),
                grant_version: unsigned(row.get(1)?),
                list,
                list_version: unsigned(row.get(4)?),
            })
        })
        .optional()
}

/// Makes sure that the user has a row with this profile, and changes nothing else in it.
pub(super) fn save_profile(connection: &Connection, user: &User) -> rusqlite::Result<()> {
    let updated = connection
        .prepare_cached("UPDATE users SET username = ?2, name = ?3, avatar = ?4 WHERE id = ?1")?
        .execute(params![user.id.stored(), user.username, user.name, user.avatar.stored()])?;
    if updated == 0 {
        let version = next_version(connection)?;
        let sql = "INSERT INTO users (id, username, name, avatar, grant_version, list_version)
            VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
        connection.prepare_cached(sql)?.execute(params![
            user.id.stored(),
            user.username,
            user.name,
            user.avatar.stored(),
            integer(version)
        ])?;
    }
    Ok(())
}

pub(super) fn has_grant(connection: &Connection, user: Snowflake) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM users WHERE id = ?1 AND grant_sealed IS NOT NULL")?.exists([user.stored()])
}

/// Gives the user a new grant, whose session is about to be opened.
pub(super) fn save_grant(connection: &Connection, user: Snowflake, grant: &SealedGrant) -> rusqlite::Result<()> {
    let version = next_version(connection)?;
    let sql =
        "UPDATE users SET grant_sealed = ?2, grant_version = ?3, signing_in = 0, refresh_until = NULL WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![user.stored(), grant.0, integer(version)]).map(drop)
}

/// Leases a grant to whoever refreshes it.
pub(super) fn lease_grant(
    connection: &Connection,
    user: Snowflake,
    grant_version: u64,
    now: Time,
    until: Time,
) -> rusqlite::Result<Lease> {
    let stored = connection
        .prepare_cached("SELECT grant_version, refresh_until FROM users WHERE id = ?1")?
        .query_row([user.stored()], |row| {
            Ok(StoredLease { grant_version: unsigned(row.get(0)?), until: row.column(1)? })
        })
        .optional()?;
    let lease = Lease::decide(stored, grant_version, now);
    if lease == Lease::Mine {
        let sql = "UPDATE users SET refresh_until = ?2 WHERE id = ?1";
        connection.prepare_cached(sql)?.execute(params![user.stored(), until.stored()])?;
    }
    Ok(lease)
}

/// Replaces a refreshed grant. The version changes, so that a slow request with the old tokens does not blame the new ones.
pub(super) fn replace_grant(
    connection: &Connection,
    user: Snowflake,
    grant_version: u64,
    grant: &SealedGrant,
) -> rusqlite::Result<Option<u64>> {
    let version = next_version(connection)?;
    let sql = "UPDATE users SET grant_sealed = ?3, grant_version = ?4, refresh_until = NULL
        WHERE id = ?1 AND grant_version = ?2";
    let replaced = connection.prepare_cached(sql)?.execute(params![
        user.stored(),
        integer(grant_version),
        grant.0,
        integer(version)
    ])?;
    Ok((replaced > 0).then_some(version))
}

pub(super) fn save_list(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    list_version: u64,
    list: &StoredList,
) -> rusqlite::Result<bool> {
    let version = next_version(connection)?;
    let sql = "UPDATE users SET list = ?3, list_fetched = ?4, list_version = ?5 WHERE id = ?1 AND list_version = ?2";
    let saved = connection.prepare_cached(sql)?.execute(params![
        user.stored(),
        integer(list_version),
        json(&list.guilds),
        list.fetched.stored(),
        integer(version)
    ])?;
    if saved > 0 {
        topics.push(Topic::Id(user));
    }
    Ok(saved > 0)
}

/// Removes a guild from the user's list. The version changes even if there is no list yet, because one may be on its way.
pub(super) fn forget_guild(connection: &Connection, user: Snowflake, guild: Snowflake) -> rusqlite::Result<()> {
    let stored: Option<Option<String>> = connection
        .prepare_cached("SELECT list FROM users WHERE id = ?1")?
        .query_row([user.stored()], |row| row.get(0))
        .optional()?;
    let Some(list) = stored else { return Ok(()) };
    let version = next_version(connection)?;
    connection
        .prepare_cached("UPDATE users SET list = ?2, list_version = ?3 WHERE id = ?1")?
        .execute(params![user.stored(), list.map(|text| list_without(&text, guild)), integer(version)])
        .map(drop)
}

/// Drops the user's row if nothing needs it any more.
pub(super) fn drop_if_unused(connection: &Connection, user: Snowflake, now: Time) -> rusqlite::Result<()> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE user_id = ?1), signing_in IS NOT NULL
        FROM users WHERE id = ?1";
    let needs =
        connection.prepare_cached(sql)?.query_row([user.stored()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match needs {
        Some((has_session, is_signing_in)) if is_account_unused(has_session, is_signing_in) => {
            drop_and_revoke(connection, user, now)
        }
        Some(_) | None => Ok(()),
    }
}

/// Drops the user's row, and has its grant revoked at the provider after a while.
pub(super) fn drop_and_revoke(connection: &Connection, user: Snowflake, now: Time) -> rusqlite::Result<()> {
    match drop_row(connection, user)? {
        Some(grant) => revocations::add(connection, user, &grant, now),
        None => Ok(()),
    }
}

/// Drops the user's row, which no session may refer to any more, and returns its grant.
pub(super) fn drop_row(connection: &Connection, user: Snowflake) -> rusqlite::Result<Option<SealedGrant>> {
    let grant: Option<Option<Vec<u8>>> = connection
        .prepare_cached("DELETE FROM users WHERE id = ?1 RETURNING grant_sealed")?
        .query_row([user.stored()], |row| row.get(0))
        .optional()?;
    Ok(grant.flatten().map(SealedGrant))
}

/// A number that was never used before.
pub(super) fn next_version(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("UPDATE counter SET value = value + 1 RETURNING value")?
        .query_row([], |row| row.get(0))
        .map(unsigned)
}
