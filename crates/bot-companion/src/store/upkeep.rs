//! What an operator asks of the store beside the service's own work: what is sealed with which key.

use async_trait::async_trait;

use super::Result;

/// Of more keys than this nobody makes sense: the grants must be damaged.
pub(super) const MOST_KEYS: i64 = 1_000;

/// The operator's side of a store. Its methods can be called on every [`super::Store`].
#[async_trait]
pub trait Upkeep: Send + Sync + 'static {
    /// How many grants are sealed with each key, by the key's id, those that wait to be revoked included; `""` stands for those
    /// that name no key. The embedded store has an index for it; the database server reads the rows of all users, without their
    /// lists, for `store.wait` at most. So this is for once in a while, not for every request.
    async fn grants_by_key(&self) -> Result<Vec<(String, u64)>>;
}
