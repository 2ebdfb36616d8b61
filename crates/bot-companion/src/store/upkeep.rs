//! What an operator asks of the store beside the service's own work: what is sealed with which key.

use async_trait::async_trait;

use super::{Result, SealedGrant};
use crate::domain::Snowflake;

/// Of more keys than this nobody makes sense: the grants must be damaged.
pub(super) const MOST_KEYS: i64 = 1_000;

/// The operator's side of a store. Its methods can be called on every [`super::Store`].
#[async_trait]
pub trait Upkeep: Send + Sync + 'static {
    /// How many grants are sealed with each key, by the key's id, those that wait to be revoked included; `""` stands for those
    /// that name no key. The embedded store has an index for it; the database server reads the rows of all users, without their
    /// lists, for `store.wait` at most. So this is for once in a while, not for every request.
    async fn grants_by_key(&self) -> Result<Vec<(String, u64)>>;
    /// The next grants of this kind after this user, in the order of the users; none at the end.
    async fn sealed_grants(&self, kind: GrantKind, after: Option<Snowflake>, batch: usize) -> Result<Vec<HeldGrant>>;
    /// Replaces grants by the same ones under another key, each only if it is still the one that was read: one that was refreshed
    /// or ended meanwhile stays as it is. Gives how many were replaced.
    async fn replace_sealed(&self, kind: GrantKind, resealed: Vec<Resealed>) -> Result<usize>;
}

/// Where a sealed grant is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Of a user who has a session.
    InUse,
    /// Of a user who has none any more: it waits to be revoked at the provider.
    ToRevoke,
}

/// A sealed grant and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldGrant {
    /// Whose.
    pub user: Snowflake,
    /// The provider's tokens.
    pub sealed: SealedGrant,
}

/// A grant under another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resealed {
    /// As it was read.
    pub old: HeldGrant,
    /// As it is to be stored.
    pub sealed: SealedGrant,
}
