//! Code claims, new grants and sessions, and blocked users.

use deadpool_postgres::{GenericClient, Transaction};
use domain::sign_in::{Admission, Claim, GrantSaved, StoredClaim, takes_back_grant};
use domain::{Session, Snowflake, Time, TokenHash, User, retention};

use super::columns::{Column as _, ReadColumn as _, changed, claim_user, integer, json, readable};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::ChangedTopics;
use super::{accounts, revocations, sessions};
use crate::sql::forgotten;
use crate::{BlockedUser, CodeHash, SealedGrant, Topic};

pub(super) async fn claim(db: &Transaction<'_>, code: CodeHash, now: Time, until: Time) -> Sql<Claim> {
    let CodeHash(hash) = code;
    lock(db, Lock::Code([hash[0], hash[1], hash[2], hash[3]])).await?;
    let statement = db.prepare_cached("SELECT settled, \"user\", until FROM code_claims WHERE hash = $1").await?;
    let stored = match db.query_opt(&statement, &[&hash.as_slice()]).await? {
        Some(row) => {
            let user = row.try_get::<_, Option<&str>>(1)?.and_then(claim_user);
            Some(StoredClaim { is_settled: row.try_get(0)?, user, until: row.column(2)? })
        }
        None => None,
    };
    let claim = Claim::decide(stored, now);
    if claim == Claim::Mine {
        let sql = "INSERT INTO code_claims (hash, settled, \"user\", until) VALUES ($1, false, NULL, $2)
            ON CONFLICT (hash) DO UPDATE SET settled = false, \"user\" = NULL, until = excluded.until";
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&hash.as_slice(), &until.stored()]).await?;
    }
    Ok(claim)
}

pub(super) async fn settle(db: &Transaction<'_>, code: CodeHash, user: Option<&User>, until: Time) -> Sql<()> {
    let sql = "INSERT INTO code_claims (hash, settled, \"user\", until) VALUES ($1, true, $2, $3)
        ON CONFLICT (hash) DO UPDATE SET settled = true, \"user\" = excluded.\"user\", until = excluded.until";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&code.0.as_slice(), &user.map(json), &until.stored()]).await?;
    Ok(())
}

pub(super) async fn release(db: &Transaction<'_>, code: CodeHash) -> Sql<()> {
    let statement = db.prepare_cached("DELETE FROM code_claims WHERE hash = $1 AND NOT settled").await?;
    db.execute(&statement, &[&code.0.as_slice()]).await?;
    Ok(())
}

/// Removes claims that ended long ago, and returns how many.
pub(super) async fn forget_claims(db: &Transaction<'_>, now: Time, batch: usize) -> Sql<usize> {
    // An array is built once; a plain subquery may run again for every row, and then its limit limits nothing.
    let sql = "DELETE FROM code_claims WHERE hash = ANY (ARRAY
        (SELECT hash FROM code_claims WHERE until < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))";
    let statement = db.prepare_cached(sql).await?;
    let forgotten =
        db.execute(&statement, &[&retention::claims_ended_before(now).stored(), &integer(batch as u64)]).await?;
    Ok(changed(forgotten))
}

pub(super) async fn save_grant(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: &User,
    grant: &SealedGrant,
    now: Time,
    verified: Option<u32>,
) -> Sql<GrantSaved> {
    lock(db, Lock::User(user.id)).await?;
    let revocation = revocations::stored(db, user.id).await?.map(|stored| stored.stage(now));
    let saved = GrantSaved::decide(is_blocked(db, user.id).await?, revocation, verified);
    match saved {
        // A blocked user has no session, so nothing else needs the new grant.
        GrantSaved::Blocked => revocations::add(db, user.id, grant, now).await?,
        GrantSaved::Saved => {
            revocations::cancel(db, user.id).await?;
            forgotten::remove(db, user.id).await?;
            accounts::save_profile(db, user).await?;
            accounts::save_grant(db, user.id, grant).await?;
            topics.push(Topic::Id(user.id));
        }
        GrantSaved::RevocationRunning | GrantSaved::RevocationSent { .. } => {}
    }
    Ok(saved)
}

pub(super) async fn open_session(
    db: &Transaction<'_>,
    topics: &mut ChangedTopics,
    user: &User,
    token: TokenHash,
    session: &Session,
    most: usize,
) -> Sql<Admission> {
    lock(db, Lock::User(user.id)).await?;
    let admission = Admission::decide(is_blocked(db, user.id).await?);
    if admission == Admission::Blocked {
        return Ok(admission);
    }
    accounts::save_profile(db, user).await?;
    let has_grant = accounts::has_grant(db, user.id).await?;
    // Usually there is a grant, so no revocation needs to be looked up. Its row is not locked, because a sweep may have it.
    let revocation = if has_grant { None } else { revocations::find(db, user.id).await? };
    if takes_back_grant(has_grant, revocation)
        && let Some(found) = revocation
        && let Some(grant) = revocations::take_back(db, user.id, found).await?
    {
        accounts::save_grant(db, user.id, &grant).await?;
        topics.push(Topic::Id(user.id));
    }
    let statement = db.prepare_cached("UPDATE users SET signing_in = NULL WHERE id = $1").await?;
    db.execute(&statement, &[&user.id.stored()]).await?;
    let sql = "INSERT INTO sessions (token_hash, id, user_id, created, last_seen, agent)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let statement = db.prepare_cached(sql).await?;
    let Session { id, created, last_seen, agent, .. } = session;
    db.execute(
        &statement,
        &[&token.0.as_slice(), &id.stored(), &user.id.stored(), &created.stored(), &last_seen.stored(), agent],
    )
    .await?;
    topics.push(Topic::SessionsOf(user.id));
    sessions::end_surplus(db, topics, user.id, token, most).await?;
    Ok(admission)
}

async fn is_blocked(db: &Transaction<'_>, user: Snowflake) -> Sql<bool> {
    let statement = db.prepare_cached("SELECT 1 FROM blocked_users WHERE user_id = $1").await?;
    Ok(db.query_opt(&statement, &[&user.stored()]).await?.is_some())
}

/// Records that a user is blocked; [`sessions::block`] ends their sessions.
pub(super) async fn block(db: &Transaction<'_>, blocked: &BlockedUser) -> Sql<()> {
    let sql = "INSERT INTO blocked_users (user_id, reason, since) VALUES ($1, $2, $3)
        ON CONFLICT (user_id) DO UPDATE SET reason = excluded.reason, since = excluded.since";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&blocked.user.stored(), &blocked.reason, &blocked.since.stored()]).await?;
    Ok(())
}

pub(super) async fn unblock(db: &Transaction<'_>, user: Snowflake) -> Sql<bool> {
    let statement = db.prepare_cached("DELETE FROM blocked_users WHERE user_id = $1").await?;
    Ok(db.execute(&statement, &[&user.stored()]).await? > 0)
}

pub(super) async fn blocked(db: &impl GenericClient) -> Sql<Vec<BlockedUser>> {
    let sql = "SELECT user_id, reason, since FROM blocked_users ORDER BY since DESC, user_id";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[]).await?;
    Ok(readable("blocked user", &rows, |row| {
        Ok(BlockedUser { user: row.column(0)?, reason: row.try_get(1)?, since: row.column(2)? })
    }))
}
