//! What an operator asks of the store beside the service's own work: which keys are in use, what it holds, and of whom.

use async_trait::async_trait;
use domain::audit::{AuditEntry, AuditKind};
use domain::{Snowflake, Time};

use super::person_places::PLACES;
use super::{Result, SealedGrant};

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
    async fn holdings(&self) -> Result<Holdings>;
    /// What names a user and is not part of their account.
    async fn traces(&self, user: Snowflake) -> Result<PersonTraces>;
    /// Forgets a user: ends their sessions, has their grant revoked, and removes or replaces their id and name wherever they stand,
    /// except where a block needs it. What the bot sends of them from now on is stored without their name, until they sign in again.
    async fn forget(&self, user: Snowflake, now: Time) -> Result<Erased>;
    /// Adds rows to the audit. With bounds, also deletes those that are too old or too many of their kind, which reads every row.
    async fn write_audit(&self, entries: Vec<AuditEntry>, bounds: Option<AuditBounds>) -> Result<()>;
    /// The latest rows of the audit that fit, the oldest of them first.
    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>>;
}

/// How much of the audit is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditBounds {
    /// So many rows, of each kind its quota.
    pub rows: u64,
    /// None that is older.
    pub before: Time,
}

/// Which rows of the audit are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// None that is older.
    pub since: Time,
    /// Those about one of these, if they are named.
    pub persons: Option<Vec<String>>,
    /// Those of this kind, if it is named.
    pub kind: Option<AuditKind>,
    /// At most so many.
    pub limit: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The version of its schema.
    pub schema: u64,
    /// Its size in bytes.
    pub size: u64,
    pub users: u64,
    pub sessions: u64,
    /// When the oldest of them was opened.
    pub oldest_session: Option<Time>,
    /// When the newest of them was opened.
    pub newest_session: Option<Time>,
    /// Grants that wait to be revoked at the provider.
    pub to_revoke: u64,
    pub blocked: u64,
    /// Users who were forgotten.
    pub forgotten: u64,
    /// Bot keys that work.
    pub good_keys: u64,
    /// Bot keys that were revoked.
    pub revoked_keys: u64,
    pub audit: u64,
    /// When the oldest of them was written.
    pub oldest_audit: Option<Time>,
    /// When the newest of them was written.
    pub newest_audit: Option<Time>,
    /// When the oldest feedback was submitted.
    pub oldest_feedback: Option<Time>,
    /// When the newest feedback was submitted.
    pub newest_feedback: Option<Time>,
}

/// What names a user and is not part of their account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonTraces {
    /// Entries of the team's roster.
    pub roster: u64,
    /// Feedback entries that they have submitted.
    pub feedback: u64,
    pub owned_guilds: u64,
    pub staff_guilds: u64,
    /// Subscriptions that they pay: one or none.
    pub subscriptions: u64,
    pub is_blocked: bool,
    /// Whether a grant of theirs waits to be revoked at the provider.
    pub is_to_revoke: bool,
    /// Rows of the audit that name them.
    pub audit: u64,
    /// Since when they are forgotten.
    pub forgotten: Option<Time>,
    /// Every table that names them, and how often; the account's own tables, too.
    pub tables: Vec<(&'static str, u64)>,
}

impl PersonTraces {
    /// Of what was counted in each of the [`PLACES`].
    pub(super) fn counted(counts: &[u64]) -> Self {
        let tables: Vec<_> = PLACES.iter().map(|place| place.table).zip(counts.iter().copied()).collect();
        let of = |name: &str| tables.iter().find(|(table, _)| *table == name).map_or(0, |(_, count)| *count);
        Self {
            roster: of("team"),
            feedback: of("feedback"),
            owned_guilds: of("guilds"),
            staff_guilds: of("guild_staff"),
            subscriptions: of("subscriptions"),
            is_blocked: of("blocked_users") > 0,
            is_to_revoke: false,
            audit: of("audit"),
            forgotten: None,
            tables: tables.iter().copied().filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// How much was forgotten of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Sessions that have ended.
    pub sessions: u64,
    /// Entries of the team's roster that are gone.
    pub roster: u64,
    /// Feedback entries that have no author any more.
    pub feedback: u64,
    /// Guilds whose owner is not known any more; those of snapshots that are being staged count, too.
    pub owned_guilds: u64,
    /// Guilds in which they are not staff any more; the same.
    pub staff_guilds: u64,
    /// Subscriptions that are gone: one or none.
    pub subscriptions: u64,
    /// Rows of the audit that do not name them any more.
    pub audit: u64,
}

impl Erased {
    /// Counts rows of this table; those of others are not told apart.
    pub(super) fn add(&mut self, table: &str, rows: u64) {
        let counted = match table {
            "sessions" => &mut self.sessions,
            "team" => &mut self.roster,
            "feedback" => &mut self.feedback,
            "guilds" => &mut self.owned_guilds,
            "guild_staff" => &mut self.staff_guilds,
            "subscriptions" => &mut self.subscriptions,
            "audit" => &mut self.audit,
            _ => return,
        };
        *counted += rows;
    }
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
    pub user: Snowflake,
    pub sealed: SealedGrant,
}

/// A grant under another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resealed {
    pub old: HeldGrant,
    pub sealed: SealedGrant,
}
