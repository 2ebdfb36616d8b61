//! The users who were forgotten, by their hashes.

use domain::forgotten::UserHash;
use domain::{Snowflake, Time};

use super::{Database, Result, values};

/// Whether a user was forgotten, and has not signed in since.
pub(crate) async fn contains<D: Database>(db: &D, user: Snowflake) -> Result<bool, D> {
    let sql = "SELECT 1 FROM forgotten_users WHERE user_hash = ?1";
    Ok(db.query_first(sql, &values![UserHash::of(user).0]).await?.is_some())
}

/// Adds a user, or the time when they were last forgotten.
pub(crate) async fn add<D: Database>(db: &D, user: UserHash, since: Time) -> Result<(), D> {
    let sql = "INSERT INTO forgotten_users (user_hash, since) VALUES (?1, ?2)
        ON CONFLICT (user_hash) DO UPDATE SET since = excluded.since";
    db.execute(sql, &values![user.0, since]).await.map(drop)
}

/// A user who signs in wants to be known again.
pub(crate) async fn remove<D: Database>(db: &D, user: Snowflake) -> Result<(), D> {
    db.execute("DELETE FROM forgotten_users WHERE user_hash = ?1", &values![UserHash::of(user).0]).await.map(drop)
}
