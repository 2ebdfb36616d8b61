//! One code, one exchange; and who may come in.

use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};
use tracing::warn;

use crate::domain::{Session, Snowflake, Time, TokenHash, User};
use crate::store::{Admission, BlockedUser, Claim, CodeHash, GrantSaved, SealedGrant, Topic};

use super::columns::{integer, json, readable};
use super::errors::Sql;
use super::locks::{Lock, lock};
use super::work::Touched;
use super::{accounts, revocations, sessions};

/// How long a claim outlives its end. A code that comes back even later is refused by the provider.
const KEPT: Duration = Duration::from_mins(10);

pub(super) async fn claim(db: &Transaction<'_>, code: CodeHash, now: Time, until: Time) -> Sql<Claim> {
    let CodeHash(hash) = code;
    lock(db, Lock::Code([hash[0], hash[1], hash[2], hash[3]])).await?;
    let statement = db.prepare_cached("SELECT settled, \"user\", until FROM code_claims WHERE hash = $1").await?;
    if let Some(row) = db.query_opt(&statement, &[&hash.as_slice()]).await? {
        let (settled, user, end) = (row.try_get(0)?, row.try_get::<_, Option<String>>(1)?, row.try_get::<_, Time>(2)?);
        match (settled, now < end) {
            (false, true) => return Ok(Claim::Running),
            // Whoever exchanged it is gone, and nobody knows how far they came: the code is spent.
            (false, false) => return Ok(Claim::Settled(None)),
            (true, true) => return Ok(Claim::Settled(user.as_deref().and_then(read_user))),
            (true, false) => {}
        }
    }
    let sql = "INSERT INTO code_claims (hash, settled, \"user\", until) VALUES ($1, false, NULL, $2)
        ON CONFLICT (hash) DO UPDATE SET settled = false, \"user\" = NULL, until = excluded.until";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&hash.as_slice(), &until]).await?;
    Ok(Claim::Mine)
}

pub(super) async fn settle(db: &Transaction<'_>, code: CodeHash, user: Option<&User>, until: Time) -> Sql<()> {
    let sql = "INSERT INTO code_claims (hash, settled, \"user\", until) VALUES ($1, true, $2, $3)
        ON CONFLICT (hash) DO UPDATE SET settled = true, \"user\" = excluded.\"user\", until = excluded.until";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&code.0.as_slice(), &user.map(json), &until]).await?;
    Ok(())
}

pub(super) async fn release(db: &Transaction<'_>, code: CodeHash) -> Sql<()> {
    let statement = db.prepare_cached("DELETE FROM code_claims WHERE hash = $1 AND NOT settled").await?;
    db.execute(&statement, &[&code.0.as_slice()]).await?;
    Ok(())
}

/// Forgets claims that ended long ago; gives how many.
pub(super) async fn forget_claims(db: &Transaction<'_>, now: Time, batch: usize) -> Sql<usize> {
    // An array is made once; a plain subquery may be run again for every row, and then its limit holds for nothing.
    let sql = "DELETE FROM code_claims WHERE hash = ANY (ARRAY
        (SELECT hash FROM code_claims WHERE until < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))";
    let statement = db.prepare_cached(sql).await?;
    let forgotten = db.execute(&statement, &[&now.before(KEPT), &integer(batch as u64)]).await?;
    Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
}

pub(super) async fn save_grant(
    db: &Transaction<'_>,
    touched: &mut Touched,
    user: &User,
    grant: &SealedGrant,
    now: Time,
    verified: Option<u32>,
) -> Sql<GrantSaved> {
    lock(db, Lock::User(user.id)).await?;
    if is_blocked(db, user.id).await? {
        // A blocked user has no session, so nothing else hangs on the grant that was just made.
        revocations::add(db, user.id, grant, now).await?;
        return Ok(GrantSaved::Blocked);
    }
    if let Some(refused) = GrantSaved::refused(revocations::stage(db, user.id, now).await?, verified) {
        return Ok(refused);
    }
    revocations::cancel(db, user.id).await?;
    accounts::save_profile(db, user).await?;
    accounts::save_grant(db, user.id, grant).await?;
    touched.push(Topic::Id(user.id));
    Ok(GrantSaved::Saved)
}

pub(super) async fn open_session(
    db: &Transaction<'_>,
    touched: &mut Touched,
    user: &User,
    token: TokenHash,
    session: &Session,
    most: usize,
) -> Sql<Admission> {
    lock(db, Lock::User(user.id)).await?;
    if is_blocked(db, user.id).await? {
        return Ok(Admission::Blocked);
    }
    accounts::save_profile(db, user).await?;
    // Another session of this sign-in may have come and gone, and the grant with it.
    if accounts::lacks_grant(db, user.id).await?
        && let Some(grant) = revocations::take_back(db, user.id).await?
    {
        accounts::save_grant(db, user.id, &grant).await?;
        touched.push(Topic::Id(user.id));
    }
    let statement = db.prepare_cached("UPDATE users SET signing_in = NULL WHERE id = $1").await?;
    db.execute(&statement, &[&user.id]).await?;
    let sql = "INSERT INTO sessions (token_hash, id, user_id, created, last_seen, agent)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let statement = db.prepare_cached(sql).await?;
    let Session { id, created, last_seen, agent, .. } = session;
    db.execute(&statement, &[&token.0.as_slice(), id, &user.id, created, last_seen, agent]).await?;
    sessions::end_surplus(db, touched, user.id, token, most).await?;
    Ok(Admission::Admitted)
}

async fn is_blocked(db: &Transaction<'_>, user: Snowflake) -> Sql<bool> {
    let statement = db.prepare_cached("SELECT 1 FROM blocked_users WHERE user_id = $1").await?;
    Ok(db.query_opt(&statement, &[&user]).await?.is_some())
}

/// Notes that a user is blocked; ending their sessions is another's work.
pub(super) async fn block(db: &Transaction<'_>, blocked: &BlockedUser) -> Sql<()> {
    let sql = "INSERT INTO blocked_users (user_id, reason, since) VALUES ($1, $2, $3)
        ON CONFLICT (user_id) DO UPDATE SET reason = excluded.reason, since = excluded.since";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&blocked.user, &blocked.reason, &blocked.since]).await?;
    Ok(())
}

pub(super) async fn unblock(db: &Transaction<'_>, user: Snowflake) -> Sql<bool> {
    let statement = db.prepare_cached("DELETE FROM blocked_users WHERE user_id = $1").await?;
    Ok(db.execute(&statement, &[&user]).await? > 0)
}

pub(super) async fn blocked(db: &impl GenericClient) -> Sql<Vec<BlockedUser>> {
    let sql = "SELECT user_id, reason, since FROM blocked_users ORDER BY since DESC, user_id";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[]).await?;
    Ok(readable("blocked user", &rows, |row| {
        Ok(BlockedUser { user: row.try_get(0)?, reason: row.try_get(1)?, since: row.try_get(2)? })
    }))
}

/// A settled claim whose user cannot be read counts as one without a user: the code is spent either way.
fn read_user(text: &str) -> Option<User> {
    serde_json::from_str(text).inspect_err(|_| warn!("ignored the stored user of a code claim")).ok()
}
