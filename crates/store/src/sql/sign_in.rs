//! Code claims, new grants and sessions, and blocked users.

use domain::sign_in::{Admission, Claim, GrantSaved, StoredClaim, takes_back_grant};
use domain::{Session, Snowflake, Time, TokenHash, User, retention};

use super::{ChangedTopics, Database, Lock, Result, accounts, forgotten, readable, revocations, sessions, values};
use crate::columns::{claim_user, json};
use crate::{BlockedUser, CodeHash, SealedGrant, Topic};

pub(crate) async fn claim<D: Database>(db: &D, code: CodeHash, now: Time, until: Time) -> Result<Claim, D> {
    let CodeHash(hash) = code;
    db.lock(Lock::Code([hash[0], hash[1], hash[2], hash[3]])).await?;
    let sql = "SELECT settled, \"user\", until FROM code_claims WHERE hash = ?1";
    let stored = match db.query_first(sql, &values![hash]).await? {
        Some(row) => {
            let user = row.get::<Option<String>>(1)?.as_deref().and_then(claim_user);
            Some(StoredClaim { is_settled: row.get(0)?, user, until: row.get(2)? })
        }
        None => None,
    };
    let claim = Claim::decide(stored, now);
    if claim == Claim::Mine {
        let sql = "INSERT INTO code_claims (hash, settled, \"user\", until) VALUES (?1, false, NULL, ?2)
            ON CONFLICT (hash) DO UPDATE SET settled = false, \"user\" = NULL, until = excluded.until";
        db.execute(sql, &values![hash, until]).await?;
    }
    Ok(claim)
}

pub(crate) async fn settle<D: Database>(db: &D, code: CodeHash, user: Option<&User>, until: Time) -> Result<(), D> {
    let sql = "INSERT INTO code_claims (hash, settled, \"user\", until) VALUES (?1, true, ?2, ?3)
        ON CONFLICT (hash) DO UPDATE SET settled = true, \"user\" = excluded.\"user\", until = excluded.until";
    db.execute(sql, &values![code.0, user.map(json), until]).await.map(drop)
}

pub(crate) async fn release<D: Database>(db: &D, code: CodeHash) -> Result<(), D> {
    db.execute("DELETE FROM code_claims WHERE hash = ?1 AND NOT settled", &values![code.0]).await.map(drop)
}

/// Removes claims that ended long ago, and returns how many.
pub(crate) async fn forget_claims<D: Database>(db: &D, now: Time, batch: usize) -> Result<usize, D> {
    let words = D::WORDS;
    let ended = format!("SELECT hash FROM code_claims WHERE until < ?1 LIMIT ?2{}", words.skip_locked);
    let sql = format!("DELETE FROM code_claims WHERE hash {}", words.one_of.put(&ended));
    db.execute(&sql, &values![retention::claims_ended_before(now), batch]).await
}

pub(crate) async fn save_grant<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: &User,
    grant: &SealedGrant,
    now: Time,
    verified: Option<u32>,
) -> Result<GrantSaved, D> {
    db.lock(Lock::User(user.id)).await?;
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

pub(crate) async fn open_session<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: &User,
    token: TokenHash,
    session: &Session,
    most: usize,
) -> Result<Admission, D> {
    db.lock(Lock::User(user.id)).await?;
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
    db.execute("UPDATE users SET signing_in = NULL WHERE id = ?1", &values![user.id]).await?;
    let sql = "INSERT INTO sessions (token_hash, id, user_id, created, last_seen, agent)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let Session { id, created, last_seen, agent, .. } = session;
    db.execute(sql, &values![token.0, id, user.id, created, last_seen, agent]).await?;
    topics.push(Topic::SessionsOf(user.id));
    sessions::end_surplus(db, topics, user.id, token, most).await?;
    Ok(admission)
}

async fn is_blocked<D: Database>(db: &D, user: Snowflake) -> Result<bool, D> {
    Ok(db.query_first("SELECT 1 FROM blocked_users WHERE user_id = ?1", &values![user]).await?.is_some())
}

/// Records that a user is blocked; [`sessions::block`] ends their sessions.
pub(crate) async fn block<D: Database>(db: &D, blocked: &BlockedUser) -> Result<(), D> {
    let sql = "INSERT INTO blocked_users (user_id, reason, since) VALUES (?1, ?2, ?3)
        ON CONFLICT (user_id) DO UPDATE SET reason = excluded.reason, since = excluded.since";
    db.execute(sql, &values![blocked.user, blocked.reason, blocked.since]).await.map(drop)
}

pub(crate) async fn unblock<D: Database>(db: &D, user: Snowflake) -> Result<bool, D> {
    Ok(db.execute("DELETE FROM blocked_users WHERE user_id = ?1", &values![user]).await? > 0)
}

pub(crate) async fn blocked<D: Database>(db: &D) -> Result<Vec<BlockedUser>, D> {
    let rows = db.query("SELECT user_id, reason, since FROM blocked_users ORDER BY since DESC, user_id", &[]).await?;
    Ok(readable!("blocked user", rows, |row| {
        Ok(BlockedUser { user: row.get(0)?, reason: row.get(1)?, since: row.get(2)? })
    }))
}
