//! What operators need besides the service's own work.

use async_trait::async_trait;
use domain::audit::AuditEntry;
use domain::{Snowflake, Time};
use rusqlite::{Connection, params};

use super::columns::{Column as _, ReadColumn as _, integer, unsigned};
use super::database::run;
use super::{Sqlite, forget};
use crate::sql::audit;
use crate::upkeep::{
    AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Holdings, MOST_KEYS, PersonTraces, Resealed, Upkeep,
};
use crate::{Result, SealedGrant};

#[async_trait]
impl Upkeep for Sqlite {
    async fn grants_by_key(&self) -> Result<Vec<(String, u64)>> {
        self.readers.read(grants_by_key).await
    }

    async fn sealed_grants(&self, kind: GrantKind, after: Option<Snowflake>, batch: usize) -> Result<Vec<HeldGrant>> {
        self.readers.read(move |connection| sealed_grants(connection, kind, after, batch)).await
    }

    async fn replace_sealed(&self, kind: GrantKind, resealed: Vec<Resealed>) -> Result<usize> {
        self.writer.write(move |connection, _| replace_sealed(connection, kind, &resealed)).await
    }

    async fn holdings(&self) -> Result<Holdings> {
        self.readers.read(holdings).await
    }

    async fn traces(&self, user: Snowflake) -> Result<PersonTraces> {
        self.readers.read(move |connection| forget::traces(connection, user)).await
    }

    async fn forget(&self, user: Snowflake, now: Time) -> Result<Erased> {
        self.writer.write(move |connection, topics| forget::forget(connection, topics, user, now)).await
    }

    async fn write_audit(&self, entries: Vec<AuditEntry>, bounds: Option<AuditBounds>) -> Result<()> {
        self.writer.write(move |connection, _| run(audit::write(connection, &entries, bounds))).await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>> {
        self.readers.read(move |connection| run(audit::read(connection, &filter))).await
    }
}

pub(super) fn grants_by_key(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    // As bytes, because a damaged grant may begin with anything.
    let sql = "SELECT CAST(grant_key AS BLOB), count(*) FROM
            (SELECT grant_key FROM users WHERE grant_key IS NOT NULL
            UNION ALL SELECT grant_key FROM revocations WHERE grant_key IS NOT NULL)
        GROUP BY grant_key ORDER BY grant_key LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([MOST_KEYS], |row| {
        let key: Vec<u8> = row.get(0)?;
        Ok((String::from_utf8_lossy(&key).into_owned(), unsigned(row.get(1)?)))
    })?;
    rows.collect()
}

fn sealed_grants(
    connection: &Connection,
    kind: GrantKind,
    after: Option<Snowflake>,
    batch: usize,
) -> rusqlite::Result<Vec<HeldGrant>> {
    let sql = match kind {
        GrantKind::InUse => {
            "SELECT id, grant_sealed FROM users WHERE grant_sealed IS NOT NULL AND (?1 IS NULL OR id > ?1)
                ORDER BY id LIMIT ?2"
        }
        GrantKind::ToRevoke => {
            "SELECT user_id, grant_sealed FROM revocations
                WHERE grant_sealed IS NOT NULL AND (?1 IS NULL OR user_id > ?1) ORDER BY user_id LIMIT ?2"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![after.stored(), integer(batch as u64)], |row| {
        Ok(HeldGrant { user: row.column(0)?, sealed: SealedGrant(row.get(1)?) })
    })?;
    rows.collect()
}

fn replace_sealed(connection: &Connection, kind: GrantKind, resealed: &[Resealed]) -> rusqlite::Result<usize> {
    let sql = match kind {
        GrantKind::InUse => "UPDATE users SET grant_sealed = ?3 WHERE id = ?1 AND grant_sealed = ?2",
        GrantKind::ToRevoke => "UPDATE revocations SET grant_sealed = ?3 WHERE user_id = ?1 AND grant_sealed = ?2",
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut replaced = 0;
    for Resealed { old, sealed } in resealed {
        replaced += statement.execute(params![old.user.stored(), old.sealed.0, sealed.0])?;
    }
    Ok(replaced)
}

fn holdings(connection: &Connection) -> rusqlite::Result<Holdings> {
    let sql = "SELECT (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size),
        (SELECT count(*) FROM users), (SELECT count(*) FROM sessions), (SELECT min(created) FROM sessions),
        (SELECT max(created) FROM sessions), (SELECT count(*) FROM revocations WHERE grant_sealed IS NOT NULL),
        (SELECT count(*) FROM blocked_users), (SELECT count(*) FROM forgotten_users),
        (SELECT count(*) FROM bot_keys WHERE revoked IS NULL), (SELECT count(*) FROM bot_keys WHERE revoked IS NOT NULL),
        (SELECT count(*) FROM audit), (SELECT min(at) FROM audit), (SELECT max(at) FROM audit),
        (SELECT min(timestamp) FROM feedback), (SELECT max(timestamp) FROM feedback)";
    let schema = unsigned(connection.pragma_query_value(None, "user_version", |row| row.get(0))?);
    connection.query_row(sql, [], |row| {
        let seconds = |seconds: Option<i64>| seconds.map(|seconds| Time::from_seconds(unsigned(seconds)));
        Ok(Holdings {
            schema,
            size: unsigned(row.get(0)?),
            users: unsigned(row.get(1)?),
            sessions: unsigned(row.get(2)?),
            oldest_session: row.column(3)?,
            newest_session: row.column(4)?,
            to_revoke: unsigned(row.get(5)?),
            blocked: unsigned(row.get(6)?),
            forgotten: unsigned(row.get(7)?),
            good_keys: unsigned(row.get(8)?),
            revoked_keys: unsigned(row.get(9)?),
            audit: unsigned(row.get(10)?),
            oldest_audit: row.column(11)?,
            newest_audit: row.column(12)?,
            oldest_feedback: seconds(row.get(13)?),
            newest_feedback: seconds(row.get(14)?),
        })
    })
}
