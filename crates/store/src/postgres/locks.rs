//! Locks that last for a transaction, as advisory locks of the database.

use deadpool_postgres::{GenericClient, Transaction};

use super::errors::Sql;
pub(super) use crate::sql::Lock;

/// Waits for the lock, which is released when the transaction ends.
pub(super) async fn lock(db: &impl GenericClient, lock: Lock) -> Sql<()> {
    let (class, key) = key(lock);
    let statement = db.prepare_cached("SELECT pg_advisory_xact_lock($1::int, $2::int)").await?;
    db.execute(&statement, &[&class, &key]).await?;
    Ok(())
}

/// Takes the lock if it is free.
pub(super) async fn try_lock(db: &Transaction<'_>, lock: Lock) -> Sql<bool> {
    let (class, key) = key(lock);
    let statement = db.prepare_cached("SELECT pg_try_advisory_xact_lock($1::int, $2::int)").await?;
    Ok(db.query_one(&statement, &[&class, &key]).await?.try_get(0)?)
}

fn key(lock: Lock) -> (i32, i32) {
    let (class, key) = match lock {
        Lock::Feed => (1, 0),
        Lock::Health => (2, 0),
        Lock::User(user) => (3, user.get() >> 12),
        Lock::CleanUp => (5, 0),
        Lock::History => (6, 0),
        Lock::Code(hash) => (4, u64::from(u32::from_be_bytes(hash))),
    };
    // Two locks that share a key only cost a needless wait.
    let [.., a, b, c, d] = key.to_be_bytes();
    (0x0062_6300 + class, i32::from_be_bytes([a, b, c, d]))
}
