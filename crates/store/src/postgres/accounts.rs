//! What is stored about a user with a session: profile, grant and the provider's list.

use deadpool_postgres::{GenericClient, Transaction};
use domain::sign_in::{Lease, StoredLease, is_account_unused};
use domain::{Snowflake, Time, User};

use super::columns::{Column as _, ReadColumn as _, integer, json, list_without, listed, unsigned};
use super::errors::Sql;
use super::revocations;
use super::work::ChangedTopics;
use crate::{Account, SealedGrant, StoredList, Topic};

pub(super) async fn account(db: &impl GenericClient, user: Snowflake) -> Sql<Option<Account>> {
    let sql = "SELECT grant_sealed, grant_version, list, list_fetched, list_version, username, name, avatar
        FROM users WHERE id = $1";
    let statement = db.prepare_cached(sql).await?;
    let Some(row) = db.query_opt(&statement, &[&user.stored()]).await? else { return Ok(None) };
    let list = match (row.try_get::<_, Option<String>>(2)?, row.column(3)?) {
        (Some(text), Some(fetched)) => Some(StoredList { fetched, guilds: listed(&text) }),
        _ => None,
    };
    Ok(Some(Account {
        user: User { id: user, username: row.try_get(5)?, name: row.try_get(6)?, avatar: row.column(7)? },
        grant: row.try_get::<_, Option<Vec<u8>>>(0)?.map(SealedGrant),
        grant_version: unsigned(row.try_get(1)?),
        list,
        list_version: unsigned(row.try_get(4)?),
    }))
}

/// Makes sure that the user has a row with this profile, and changes nothing else in it.
pub(super) async fn save_profile(db: &Transaction<'_>, user: &User) -> Sql<()> {
    let sql = "INSERT INTO users (id, username, name, avatar, grant_version, list_version)
        VALUES ($1, $2, $3, $4, nextval('versions'), nextval('versions'))
        ON CONFLICT (id) DO UPDATE SET username = $2, name = $3, avatar = $4";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user.id.stored(), &user.username, &user.name, &user.avatar.stored()]).await?;
    Ok(())
}

pub(super) async fn has_grant(db: &Transaction<'_>, user: Snowflake) -> Sql<bool> {
    let statement = db.prepare_cached("SELECT 1 FROM users WHERE id = $1 AND grant_sealed IS NOT NULL").await?;
    Ok(db.query_opt(&statement, &[&user.stored()]).await?.is_some())
}

/// Gives the user a new grant, whose session is about to be opened.
pub(super) async fn save_grant(db: &Transaction<'_>, user: Snowflake, grant: &SealedGrant) -> Sql<()> {
    let sql =
        "UPDATE users SET grant_sealed = $2, grant_version = nextval('versions'), signing_in = 0, refresh_until = NULL
        WHERE id = $1";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user.stored(), &grant.0]).await?;
    Ok(())
}

/// How often to check again a lease that someone else keeps changing.
const LEASE_TRIES: usize = 5;

/// Leases a grant to whoever refreshes it. Those who have to wait ask repeatedly: that takes no lock and writes nothing, so no
/// standby has to confirm it.
pub(super) async fn lease_grant(
    db: &Transaction<'_>,
    user: Snowflake,
    grant_version: u64,
    now: Time,
    until: Time,
) -> Sql<Lease> {
    for _ in 0..LEASE_TRIES {
        let statement = db.prepare_cached("SELECT grant_version, refresh_until FROM users WHERE id = $1").await?;
        let stored = match db.query_opt(&statement, &[&user.stored()]).await? {
            Some(row) => Some(StoredLease { grant_version: unsigned(row.try_get(0)?), until: row.column(1)? }),
            None => None,
        };
        let lease = Lease::decide(stored, grant_version, now);
        let Some(StoredLease { grant_version, until: known }) = stored.filter(|_| lease == Lease::Mine) else {
            return Ok(lease);
        };
        // If two replicas read the same row, the second one changes nothing, and reads again.
        let sql = "UPDATE users SET refresh_until = $4
            WHERE id = $1 AND grant_version = $2 AND refresh_until IS NOT DISTINCT FROM $3";
        let statement = db.prepare_cached(sql).await?;
        if db.execute(&statement, &[&user.stored(), &integer(grant_version), &known.stored(), &until.stored()]).await?
            > 0
        {
            return Ok(lease);
        }
    }
    // It keeps changing.
    Ok(Lease::Busy)
}

/// Replaces a refreshed grant. The version changes, so that a slow request with the old tokens does not blame the new ones.
pub(super) async fn replace_grant(
    db: &Transaction<'_>,
    user: Snowflake,
    grant_version: u64,
    grant: &SealedGrant,
) -> Sql<Option<u64>> {
    let sql = "UPDATE users SET grant_sealed = $3, grant_version = nextval('versions'), refresh_until = NULL
        WHERE id = $1 AND grant_version = $2 RETURNING grant_version";
    let statement = db.prepare_cached(sql).await?;
    let replaced = db.query_opt(&statement, &[&user.stored(), &integer(grant_version), &grant.0]).await?;
    Ok(replaced.map(|row| row.try_get(0)).transpose()?.map(unsigned))
}

pub(super) async fn save_list(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: Snowflake,
    list_version: u64,
    list: &StoredList,
) -> Sql<bool> {
    let sql = "UPDATE users SET list = $3, list_fetched = $4, list_version = nextval('versions')
        WHERE id = $1 AND list_version = $2";
    let statement = db.prepare_cached(sql).await?;
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&user.stored(), &integer(list_version), &json(&list.guilds), &list.fetched.stored()];
    let saved = db.execute(&statement, &row).await? > 0;
    if saved {
        topics.push(Topic::Id(user));
    }
    Ok(saved)
}

/// Removes a guild from the user's list. The version changes even if there is no list yet, because one may be on its way.
pub(super) async fn forget_guild(db: &Transaction<'_>, user: Snowflake, guild: Snowflake) -> Sql<()> {
    let statement = db.prepare_cached("SELECT list FROM users WHERE id = $1 FOR UPDATE").await?;
    let Some(row) = db.query_opt(&statement, &[&user.stored()]).await? else { return Ok(()) };
    let list = row.try_get::<_, Option<&str>>(0)?.map(|text| list_without(text, guild));
    let sql = "UPDATE users SET list = $2, list_version = nextval('versions') WHERE id = $1";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&user.stored(), &list]).await?;
    Ok(())
}

/// Drops the user's row if nothing needs it any more.
pub(super) async fn drop_if_unused(db: &Transaction<'_>, user: Snowflake, now: Time) -> Sql<()> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE user_id = $1), signing_in IS NOT NULL
        FROM users WHERE id = $1";
    let statement = db.prepare_cached(sql).await?;
    match db.query_opt(&statement, &[&user.stored()]).await? {
        Some(row) if is_account_unused(row.try_get(0)?, row.try_get(1)?) => drop_and_revoke(db, user, now).await,
        Some(_) | None => Ok(()),
    }
}

/// Drops the user's row, and has its grant revoked at the provider after a while.
pub(super) async fn drop_and_revoke(db: &Transaction<'_>, user: Snowflake, now: Time) -> Sql<()> {
    match drop_row(db, user).await? {
        Some(grant) => revocations::add(db, user, &grant, now).await,
        None => Ok(()),
    }
}

/// Drops the user's row, which no session may refer to any more, and returns its grant.
pub(super) async fn drop_row(db: &Transaction<'_>, user: Snowflake) -> Sql<Option<SealedGrant>> {
    let statement = db.prepare_cached("DELETE FROM users WHERE id = $1 RETURNING grant_sealed").await?;
    let Some(row) = db.query_opt(&statement, &[&user.stored()]).await? else { return Ok(None) };
    Ok(row.try_get::<_, Option<Vec<u8>>>(0)?.map(SealedGrant))
}
