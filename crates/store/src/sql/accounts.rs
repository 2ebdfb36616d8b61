//! What is stored about a user with a session: profile, grant and the provider's list.

use domain::sign_in::{Lease, StoredLease, is_account_unused};
use domain::{Snowflake, Time, User};

use super::{ChangedTopics, Database, Result, revocations, values};
use crate::columns::{json, list_without, listed};
use crate::{Account, SealedGrant, StoredList, Topic};

pub(crate) async fn account<D: Database>(db: &D, user: Snowflake) -> Result<Option<Account>, D> {
    let sql = "SELECT grant_sealed, grant_version, list, list_fetched, list_version, username, name, avatar
        FROM users WHERE id = ?1";
    let Some(row) = db.query_first(sql, &values![user]).await? else { return Ok(None) };
    let list = match (row.get::<Option<String>>(2)?, row.get(3)?) {
        (Some(text), Some(fetched)) => Some(StoredList { fetched, guilds: listed(&text) }),
        _ => None,
    };
    Ok(Some(Account {
        user: User { id: user, username: row.get(5)?, name: row.get(6)?, avatar: row.get(7)? },
        grant: row.get::<Option<_>>(0)?.map(SealedGrant),
        grant_version: row.get(1)?,
        list,
        list_version: row.get(4)?,
    }))
}

/// Makes sure that the user has a row with this profile, and changes nothing else in it.
pub(crate) async fn save_profile<D: Database>(db: &D, user: &User) -> Result<(), D> {
    let version = new_version(db).await?;
    let sql = format!(
        "INSERT INTO users (id, username, name, avatar, grant_version, list_version)
        VALUES (?1, ?2, ?3, ?4, {version}, {version})
        ON CONFLICT (id) DO UPDATE SET username = ?2, name = ?3, avatar = ?4"
    );
    db.execute(&sql, &values![user.id, user.username, user.name, user.avatar]).await.map(drop)
}

pub(crate) async fn has_grant<D: Database>(db: &D, user: Snowflake) -> Result<bool, D> {
    let sql = "SELECT 1 FROM users WHERE id = ?1 AND grant_sealed IS NOT NULL";
    Ok(db.query_first(sql, &values![user]).await?.is_some())
}

/// Gives the user a new grant, whose session is about to be opened.
pub(crate) async fn save_grant<D: Database>(db: &D, user: Snowflake, grant: &SealedGrant) -> Result<(), D> {
    let version = new_version(db).await?;
    let sql = format!(
        "UPDATE users SET grant_sealed = ?2, grant_version = {version}, signing_in = 0, refresh_until = NULL
        WHERE id = ?1"
    );
    db.execute(&sql, &values![user, grant.0]).await.map(drop)
}

/// How often to check again a lease that someone else keeps changing.
const LEASE_TRIES: usize = 5;

/// Leases a grant to whoever refreshes it. Those who have to wait ask repeatedly: that takes no lock and writes nothing, so no
/// standby has to confirm it.
pub(crate) async fn lease_grant<D: Database>(
    db: &D,
    user: Snowflake,
    grant_version: u64,
    now: Time,
    until: Time,
) -> Result<Lease, D> {
    for _ in 0..LEASE_TRIES {
        let sql = "SELECT grant_version, refresh_until FROM users WHERE id = ?1";
        let stored = match db.query_first(sql, &values![user]).await? {
            Some(row) => Some(StoredLease { grant_version: row.get(0)?, until: row.get(1)? }),
            None => None,
        };
        let lease = Lease::decide(stored, grant_version, now);
        let Some(StoredLease { grant_version, until: known }) = stored.filter(|_| lease == Lease::Mine) else {
            return Ok(lease);
        };
        // If two replicas read the same row, the second one changes nothing, and reads again.
        let sql = "UPDATE users SET refresh_until = ?4
            WHERE id = ?1 AND grant_version = ?2 AND refresh_until IS NOT DISTINCT FROM ?3";
        if db.execute(sql, &values![user, grant_version, known, until]).await? > 0 {
            return Ok(lease);
        }
    }
    // It keeps changing.
    Ok(Lease::Busy)
}

/// Replaces a refreshed grant. The version changes, so that a slow request with the old tokens does not blame the new ones.
pub(crate) async fn replace_grant<D: Database>(
    db: &D,
    user: Snowflake,
    grant_version: u64,
    grant: &SealedGrant,
) -> Result<Option<u64>, D> {
    let version = new_version(db).await?;
    let sql = format!(
        "UPDATE users SET grant_sealed = ?3, grant_version = {version}, refresh_until = NULL
        WHERE id = ?1 AND grant_version = ?2 RETURNING grant_version"
    );
    let replaced = db.query_first(&sql, &values![user, grant_version, grant.0]).await?;
    Ok(replaced.map(|row| row.get(0)).transpose()?)
}

pub(crate) async fn save_list<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: Snowflake,
    list_version: u64,
    list: &StoredList,
) -> Result<bool, D> {
    let version = new_version(db).await?;
    let sql = format!(
        "UPDATE users SET list = ?3, list_fetched = ?4, list_version = {version} WHERE id = ?1 AND list_version = ?2"
    );
    let saved = db.execute(&sql, &values![user, list_version, json(&list.guilds), list.fetched]).await? > 0;
    if saved {
        topics.push(Topic::Id(user));
    }
    Ok(saved)
}

/// Removes a guild from the user's list. The version changes even if there is no list yet, because one may be on its way.
pub(crate) async fn forget_guild<D: Database>(db: &D, user: Snowflake, guild: Snowflake) -> Result<(), D> {
    let sql = format!("SELECT list FROM users WHERE id = ?1{}", D::WORDS.for_update);
    let Some(row) = db.query_first(&sql, &values![user]).await? else { return Ok(()) };
    let list = row.get::<Option<String>>(0)?.map(|text| list_without(&text, guild));
    let version = new_version(db).await?;
    let sql = format!("UPDATE users SET list = ?2, list_version = {version} WHERE id = ?1");
    db.execute(&sql, &values![user, list]).await.map(drop)
}

/// Drops the user's row if nothing needs it any more.
pub(crate) async fn drop_if_unused<D: Database>(db: &D, user: Snowflake, now: Time) -> Result<(), D> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE user_id = ?1), signing_in IS NOT NULL
        FROM users WHERE id = ?1";
    match db.query_first(sql, &values![user]).await? {
        Some(row) if is_account_unused(row.get(0)?, row.get(1)?) => drop_and_revoke(db, user, now).await,
        Some(_) | None => Ok(()),
    }
}

/// Drops the user's row, and has its grant revoked at the provider after a while.
pub(crate) async fn drop_and_revoke<D: Database>(db: &D, user: Snowflake, now: Time) -> Result<(), D> {
    match drop_row(db, user).await? {
        Some(grant) => revocations::add(db, user, &grant, now).await,
        None => Ok(()),
    }
}

/// Drops the user's row, which no session may refer to any more, and returns its grant.
pub(crate) async fn drop_row<D: Database>(db: &D, user: Snowflake) -> Result<Option<SealedGrant>, D> {
    let row = db.query_first("DELETE FROM users WHERE id = ?1 RETURNING grant_sealed", &values![user]).await?;
    let grant: Option<Option<Vec<u8>>> = row.map(|row| row.get(0)).transpose()?;
    Ok(grant.flatten().map(SealedGrant))
}

/// The SQL of a number that was never used before, for the next statement.
pub(super) async fn new_version<D: Database>(db: &D) -> Result<&'static str, D> {
    let (before, version) = D::WORDS.new_version;
    if let Some(sql) = before {
        db.execute(sql, &[]).await?;
    }
    Ok(version)
}
