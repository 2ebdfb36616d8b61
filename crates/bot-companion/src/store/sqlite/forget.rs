//! What is stored of one person, and how it is forgotten.

use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::forgotten::UserHash;
use crate::domain::{Snowflake, Time};
use crate::store::Topic;
use crate::store::upkeep::{Erased, PersonTraces};

use super::columns::unsigned;
use super::writer::ChangedTopics;
use super::{sessions, subscriptions};

/// Whether a user was forgotten, and has not signed in since.
pub(super) fn is_forgotten(connection: &Connection, user: Snowflake) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM forgotten_users WHERE user_hash = ?1")?.exists([UserHash::of(user).0])
}

/// A user who signs in wants to be known again.
pub(super) fn lift(connection: &Connection, user: Snowflake) -> rusqlite::Result<()> {
    let sql = "DELETE FROM forgotten_users WHERE user_hash = ?1";
    connection.prepare_cached(sql)?.execute([UserHash::of(user).0]).map(drop)
}

/// What names a user and is not part of their account.
pub(super) fn traces(connection: &Connection, user: Snowflake) -> rusqlite::Result<PersonTraces> {
    let count = |sql: &str| connection.prepare_cached(sql)?.query_row([user], |row| row.get(0)).map(unsigned);
    let since: Option<Time> = connection
        .prepare_cached("SELECT since FROM forgotten_users WHERE user_hash = ?1")?
        .query_row([UserHash::of(user).0], |row| row.get(0))
        .optional()?;
    let audit = connection
        .prepare_cached("SELECT count(*) FROM audit WHERE person = ?1")?
        .query_row([user.to_string()], |row| row.get(0))
        .map(unsigned)?;
    Ok(PersonTraces {
        roster: count("SELECT count(*) FROM team WHERE discord_id = ?1")?,
        feedback: count("SELECT count(*) FROM feedback WHERE submitter_id = ?1")?,
        owned_guilds: count("SELECT count(DISTINCT id) FROM guilds WHERE owner = ?1")?,
        staff_guilds: count("SELECT count(DISTINCT guild) FROM guild_staff WHERE user = ?1")?,
        subscriptions: count("SELECT count(*) FROM subscriptions WHERE userid = ?1")?,
        is_blocked: count("SELECT count(*) FROM blocked_users WHERE user_id = ?1")? > 0,
        is_to_revoke: count("SELECT count(*) FROM revocations WHERE user_id = ?1 AND grant_sealed IS NOT NULL")? > 0,
        audit,
        forgotten: since,
    })
}

/// Forgets a user. What is to be revoked at the provider names them until that is done.
pub(super) fn forget(
    connection: &Connection,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> rusqlite::Result<Erased> {
    // What is deleted now is overwritten in the file, too.
    connection.pragma_update(None, "secure_delete", true)?;
    let erased = erase(connection, topics, user, now);
    connection.pragma_update(None, "secure_delete", false)?;
    erased
}

fn erase(connection: &Connection, topics: &mut ChangedTopics, user: Snowflake, now: Time) -> rusqlite::Result<Erased> {
    let hash = UserHash::of(user);
    let run = |sql: &str| connection.prepare_cached(sql)?.execute([user]).map(|rows| rows as u64);
    let sessions = sessions::end_all_and_drop(connection, topics, user, now)? as u64;
    let roster = run("DELETE FROM team WHERE discord_id = ?1")?;
    let sql =
        "UPDATE feedback SET submitter_id = ?2, submitter_username = '', submitter_name = '', submitter_avatar = ''
        WHERE submitter_id = ?1";
    let feedback = connection.prepare_cached(sql)?.execute([user, Snowflake::NOBODY])? as u64;
    let staff_guilds = run("DELETE FROM guild_staff WHERE user = ?1")?;
    let owned = "UPDATE guilds SET owner = ?2 WHERE owner = ?1";
    let owned_guilds = connection.prepare_cached(owned)?.execute([user, Snowflake::NOBODY])? as u64;
    run("DELETE FROM staged_subscriptions WHERE userid = ?1")?;
    let subscriptions: i64 = connection
        .prepare_cached("SELECT count(*) FROM subscriptions WHERE userid = ?1")?
        .query_row([user], |row| row.get(0))?;
    subscriptions::remove(connection, topics, user)?;
    let claims = "UPDATE code_claims SET user = NULL WHERE user IS NOT NULL AND user ->> 'id' = ?1";
    connection.prepare_cached(claims)?.execute([user.to_string()])?;
    let sql = "UPDATE audit SET person = ?2 WHERE person = ?1";
    let audit = connection.prepare_cached(sql)?.execute([user.to_string(), hash.in_audit()])? as u64;
    let sql = "INSERT INTO forgotten_users (user_hash, since) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![hash.0, now])?;
    topics.push(Topic::Everything);
    Ok(Erased { sessions, roster, feedback, owned_guilds, staff_guilds, subscriptions: unsigned(subscriptions), audit })
}
