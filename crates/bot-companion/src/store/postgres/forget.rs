//! What is stored of one person, and how it is forgotten.

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;

use crate::domain::forgotten::UserHash;
use crate::domain::{Snowflake, Time};
use crate::store::Topic;
use crate::store::upkeep::{Erased, PersonTraces};

use super::columns::unsigned;
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::ChangedTopics;
use super::{sessions, subscriptions};

/// Whether a user was forgotten, and has not signed in since.
pub(super) async fn is_forgotten(db: &Transaction<'_>, user: Snowflake) -> Sql<bool> {
    let statement = db.prepare_cached("SELECT 1 FROM forgotten_users WHERE user_hash = $1").await?;
    Ok(db.query_opt(&statement, &[&UserHash::of(user).0.as_slice()]).await?.is_some())
}

/// A user who signs in wants to be known again.
pub(super) async fn lift(db: &Transaction<'_>, user: Snowflake) -> Sql<()> {
    run(db, "DELETE FROM forgotten_users WHERE user_hash = $1", &[&UserHash::of(user).0.as_slice()]).await.map(drop)
}

/// What names a user and is not part of their account.
pub(super) async fn traces(db: &impl GenericClient, user: Snowflake) -> Sql<PersonTraces> {
    let sql = "SELECT (SELECT count(*) FROM team WHERE discord_id = $1),
            (SELECT count(*) FROM feedback WHERE submitter_id = $1),
            (SELECT count(DISTINCT id) FROM guilds WHERE owner = $1),
            (SELECT count(DISTINCT guild) FROM guild_staff WHERE \"user\" = $1),
            (SELECT count(*) FROM subscriptions WHERE userid = $1),
            EXISTS (SELECT 1 FROM blocked_users WHERE user_id = $1),
            EXISTS (SELECT 1 FROM revocations WHERE user_id = $1 AND grant_sealed IS NOT NULL),
            (SELECT count(*) FROM audit WHERE person = $2),
            (SELECT since FROM forgotten_users WHERE user_hash = $3)";
    let statement = db.prepare_cached(sql).await?;
    let hash = UserHash::of(user);
    let row = db.query_one(&statement, &[&user, &user.to_string(), &hash.0.as_slice()]).await?;
    Ok(PersonTraces {
        roster: unsigned(row.try_get(0)?),
        feedback: unsigned(row.try_get(1)?),
        owned_guilds: unsigned(row.try_get(2)?),
        staff_guilds: unsigned(row.try_get(3)?),
        subscriptions: unsigned(row.try_get(4)?),
        is_blocked: row.try_get(5)?,
        is_to_revoke: row.try_get(6)?,
        audit: unsigned(row.try_get(7)?),
        forgotten: row.try_get(8)?,
    })
}

/// Forgets a user. What is to be revoked at the provider names them until that is done.
pub(super) async fn forget(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> Sql<Erased> {
    lock(db, Lock::Feed).await?;
    let hash = UserHash::of(user);
    let (id, person, nobody) = (user.to_string(), hash.in_audit(), Snowflake::NOBODY);
    let sessions = sessions::end_all_and_drop(db, topics, user, now).await? as u64;
    let anonymous =
        "UPDATE feedback SET submitter_id = $2, submitter_username = '', submitter_name = '', submitter_avatar = ''
        WHERE submitter_id = $1";
    let erased = Erased {
        sessions,
        roster: run(db, "DELETE FROM team WHERE discord_id = $1", &[&user]).await?,
        feedback: run(db, anonymous, &[&user, &nobody]).await?,
        staff_guilds: run(db, "DELETE FROM guild_staff WHERE \"user\" = $1", &[&user]).await?,
        owned_guilds: run(db, "UPDATE guilds SET owner = $2 WHERE owner = $1", &[&user, &nobody]).await?,
        subscriptions: {
            let statement = db.prepare_cached("SELECT count(*) FROM subscriptions WHERE userid = $1").await?;
            unsigned(db.query_one(&statement, &[&user]).await?.try_get(0)?)
        },
        audit: run(db, "UPDATE audit SET person = $2 WHERE person = $1", &[&id, &person]).await?,
    };
    subscriptions::remove(db, topics, user).await?;
    run(db, "DELETE FROM staged_subscriptions WHERE userid = $1", &[&user]).await?;
    let claims = "UPDATE code_claims SET \"user\" = NULL WHERE \"user\" IS NOT NULL AND \"user\"::jsonb ->> 'id' = $1";
    run(db, claims, &[&id]).await?;
    let tombstone = "INSERT INTO forgotten_users (user_hash, since) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    run(db, tombstone, &[&hash.0.as_slice(), &now]).await?;
    topics.push(Topic::Everything);
    Ok(erased)
}

async fn run(db: &Transaction<'_>, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Sql<u64> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, values).await?)
}
