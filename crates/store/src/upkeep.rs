//! What operators need from the store besides the service's own work: which keys are in use, and what is stored about whom.

use domain::audit::{AuditEntry, AuditKind};
use domain::{Snowflake, Time};

use super::person_places::PLACES;
use super::postgres::Pace::{Feed, Long};
use super::sql::{audit, forget, upkeep};
use super::store::{read, transact};
use super::{Result, SealedGrant, Store};

/// Nobody has more keys than this; if there are more, grants must be damaged.
pub(super) const MOST_KEYS: i64 = 1_000;

impl Store {
    /// How many grants each key encrypted, by the key's ID, including those waiting to be revoked; `""` stands for grants
    /// that name no key. SQLite has an index for this. PostgreSQL reads the rows of all users, without their lists, within
    /// a read or write may wait for its turn, so call this once in a while, not on every request.
    pub async fn grants_by_key(&self) -> Result<Vec<(String, u64)>> {
        read!(self, Statement, (), |db| upkeep::grants_by_key(db))
    }

    /// The next grants of this kind after this user, in the order of user IDs; empty at the end.
    pub async fn sealed_grants(
        &self,
        kind: GrantKind,
        after: Option<Snowflake>,
        batch: usize,
    ) -> Result<Vec<HeldGrant>> {
        read!(self, Statement, (kind, after, batch), |db| upkeep::sealed_grants(db, *kind, *after, *batch))
    }

    /// Replaces grants with the same grants encrypted with another key. A grant that was refreshed or ended since it was read
    /// stays as it is. Returns how many were replaced.
    pub async fn replace_sealed(&self, kind: GrantKind, resealed: Vec<Resealed>) -> Result<usize> {
        transact!(self, Long, (kind, resealed), |db, _topics| upkeep::replace_sealed(db, *kind, resealed))
    }

    pub async fn holdings(&self) -> Result<Holdings> {
        read!(self, Statement, (), |db| upkeep::holdings(db))
    }

    /// What mentions a user outside their account.
    pub async fn traces(&self, user: Snowflake) -> Result<PersonTraces> {
        read!(self, Statement, (user), |db| forget::traces(db, *user))
    }

    /// Forgets a user: ends their sessions, has their grant revoked, and removes or replaces their ID and name everywhere,
    /// except where a block needs it. What the bot sends about them from now on is stored without their name, until they sign
    /// in again.
    pub async fn forget(&self, user: Snowflake, now: Time) -> Result<Erased> {
        transact!(self, Feed, (user, now), |db, topics| forget::forget(db, topics, *user, *now))
    }

    /// Adds rows to the audit. With bounds, also deletes those that are too old or too many of their kind, which reads every row.
    pub async fn write_audit(&self, entries: Vec<AuditEntry>, bounds: Option<AuditBounds>) -> Result<()> {
        transact!(self, Long, (entries, bounds), |db, _topics| audit::write(db, entries, *bounds))
    }

    /// The latest matching rows of the audit, oldest first.
    pub async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>> {
        read!(self, Statement, (filter), |db| audit::read(db, filter))
    }
}

/// How much of the audit is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditBounds {
    /// The total number of rows; each kind gets its quota.
    pub rows: u64,
    /// Older rows are deleted.
    pub before: Time,
    /// The clock's time that `before` was counted back from.
    pub now: Time,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// No older rows.
    pub since: Time,
    /// Only rows about one of these, if set.
    pub persons: Option<Vec<String>>,
    /// Only rows of this kind, if set.
    pub kind: Option<AuditKind>,
    pub limit: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    pub schema: u64,
    pub size: u64,
    pub users: u64,
    pub sessions: u64,
    /// When the oldest of them was opened.
    pub oldest_session: Option<Time>,
    /// When the newest of them was opened.
    pub newest_session: Option<Time>,
    /// Grants waiting to be revoked at the provider.
    pub to_revoke: u64,
    pub blocked: u64,
    pub forgotten: u64,
    /// Active bot keys.
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

/// What mentions a user outside their account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonTraces {
    /// Entries of the team's roster.
    pub roster: u64,
    /// Feedback entries they submitted.
    pub feedback: u64,
    pub owned_guilds: u64,
    pub staff_guilds: u64,
    /// Subscriptions they pay for: one or none.
    pub subscriptions: u64,
    pub is_blocked: bool,
    /// Whether a grant of theirs is waiting to be revoked at the provider.
    pub has_grant_to_revoke: bool,
    /// Audit rows that name them.
    pub audit: u64,
    /// When they were forgotten.
    pub forgotten: Option<Time>,
    /// Every table that mentions them, and how often, including the account's own tables.
    pub tables: Vec<(&'static str, u64)>,
}

impl PersonTraces {
    /// From the counts in each of the [`PLACES`].
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
            has_grant_to_revoke: false,
            audit: of("audit"),
            forgotten: None,
            tables: tables.iter().copied().filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// How much was removed when a user was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Sessions that have ended.
    pub sessions: u64,
    /// Roster entries that were removed.
    pub roster: u64,
    /// Feedback entries that no longer have an author.
    pub feedback: u64,
    /// Guilds whose owner is no longer known, including those in snapshots being staged.
    pub owned_guilds: u64,
    /// Guilds where they are no longer staff, including those in snapshots being staged.
    pub staff_guilds: u64,
    /// Subscriptions that were removed: one or none.
    pub subscriptions: u64,
    /// Audit rows that no longer name them.
    pub audit: u64,
}

impl Erased {
    /// Adds this many rows of a table; tables without a count of their own are ignored.
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

/// Where an encrypted grant is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// For a user with a session.
    InUse,
    /// For a user without a session: waiting to be revoked at the provider.
    ToRevoke,
}

/// An encrypted grant and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldGrant {
    pub user: Snowflake,
    pub sealed: SealedGrant,
}

/// A grant encrypted with another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resealed {
    pub old: HeldGrant,
    pub sealed: SealedGrant,
}
