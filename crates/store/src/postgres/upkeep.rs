//! What operators need besides the service's own work.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use domain::audit::AuditEntry;
use domain::{Snowflake, Time};

use super::columns::{Column as _, ReadColumn as _, changed, integer, unsigned};
use super::errors::Sql;
use super::work::{Pace, Read};
use super::{Postgres, forget};
use crate::sql::audit;
use crate::upkeep::{
    AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Holdings, MOST_KEYS, PersonTraces, Resealed, Upkeep,
};
use crate::{Result, SealedGrant};

#[async_trait]
impl Upkeep for Postgres {
    async fn grants_by_key(&self) -> Result<Vec<(String, u64)>> {
        self.executor.read((), Read::Statement(|db, ()| Box::pin(grants_by_key(db)))).await
    }

    async fn sealed_grants(&self, kind: GrantKind, after: Option<Snowflake>, batch: usize) -> Result<Vec<HeldGrant>> {
        let read = Read::Statement(|db, (kind, after, batch)| Box::pin(sealed_grants(db, *kind, *after, *batch)));
        self.executor.read((kind, after, batch), read).await
    }

    async fn replace_sealed(&self, kind: GrantKind, resealed: Vec<Resealed>) -> Result<usize> {
        let work = self.executor.write(Pace::Long, (kind, resealed), |db, _topics, (kind, resealed)| {
            Box::pin(replace_sealed(db, *kind, resealed))
        });
        work.await
    }

    async fn holdings(&self) -> Result<Holdings> {
        self.executor.read((), Read::Statement(|db, ()| Box::pin(holdings(db)))).await
    }

    async fn traces(&self, user: Snowflake) -> Result<PersonTraces> {
        self.executor.read(user, Read::Statement(|db, user| Box::pin(forget::traces(db, *user)))).await
    }

    async fn forget(&self, user: Snowflake, now: Time) -> Result<Erased> {
        let work = self.executor.write(Pace::Feed, (user, now), |db, topics, (user, now)| {
            Box::pin(forget::forget(db, topics, *user, *now))
        });
        work.await
    }

    async fn write_audit(&self, entries: Vec<AuditEntry>, bounds: Option<AuditBounds>) -> Result<()> {
        let work = self.executor.write(Pace::Long, (entries, bounds), |db, _topics, (entries, bounds)| {
            Box::pin(audit::write(db, entries, *bounds))
        });
        work.await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>> {
        self.executor.read(filter, Read::Statement(|db, filter| Box::pin(audit::read(db, filter)))).await
    }
}

pub(super) async fn grants_by_key(db: &impl GenericClient) -> Sql<Vec<(String, u64)>> {
    // The length of the key's ID, then the ID. As bytes, because a damaged grant may begin with anything.
    let sql = "SELECT CASE WHEN length(sealed) > 0 AND get_byte(sealed, 0) BETWEEN 1 AND 32
                THEN substring(sealed FROM 2 FOR get_byte(sealed, 0)) ELSE '' END AS key, count(*)
        FROM (SELECT grant_sealed AS sealed FROM users WHERE grant_sealed IS NOT NULL
            UNION ALL SELECT grant_sealed FROM revocations WHERE grant_sealed IS NOT NULL) AS grants
        GROUP BY key ORDER BY key LIMIT $1";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&MOST_KEYS]).await?;
    let found = rows.iter().map(|row| {
        let key: &[u8] = row.try_get(0)?;
        Ok((String::from_utf8_lossy(key).into_owned(), unsigned(row.try_get(1)?)))
    });
    found.collect()
}

async fn sealed_grants(
    db: &impl GenericClient,
    kind: GrantKind,
    after: Option<Snowflake>,
    batch: usize,
) -> Sql<Vec<HeldGrant>> {
    let sql = match kind {
        GrantKind::InUse => {
            "SELECT id, grant_sealed FROM users WHERE grant_sealed IS NOT NULL AND ($1::bigint IS NULL OR id > $1)
                ORDER BY id LIMIT $2"
        }
        GrantKind::ToRevoke => {
            "SELECT user_id, grant_sealed FROM revocations
                WHERE grant_sealed IS NOT NULL AND ($1::bigint IS NULL OR user_id > $1) ORDER BY user_id LIMIT $2"
        }
    };
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&after.stored(), &integer(batch as u64)]).await?;
    rows.iter().map(|row| Ok(HeldGrant { user: row.column(0)?, sealed: SealedGrant(row.try_get(1)?) })).collect()
}

async fn replace_sealed(db: &Transaction<'_>, kind: GrantKind, resealed: &[Resealed]) -> Sql<usize> {
    let sql = match kind {
        GrantKind::InUse => "UPDATE users SET grant_sealed = $3 WHERE id = $1 AND grant_sealed = $2",
        GrantKind::ToRevoke => "UPDATE revocations SET grant_sealed = $3 WHERE user_id = $1 AND grant_sealed = $2",
    };
    let statement = db.prepare_cached(sql).await?;
    let mut replaced = 0;
    for Resealed { old, sealed } in resealed {
        replaced += db.execute(&statement, &[&old.user.stored(), &old.sealed.0, &sealed.0]).await?;
    }
    Ok(changed(replaced))
}

async fn holdings(db: &impl GenericClient) -> Sql<Holdings> {
    let sql = "SELECT pg_database_size(current_database()),
        (SELECT count(*) FROM users), (SELECT count(*) FROM sessions), (SELECT min(created) FROM sessions),
        (SELECT max(created) FROM sessions), (SELECT count(*) FROM revocations WHERE grant_sealed IS NOT NULL),
        (SELECT count(*) FROM blocked_users), (SELECT count(*) FROM forgotten_users),
        (SELECT count(*) FROM bot_keys WHERE revoked IS NULL), (SELECT count(*) FROM bot_keys WHERE revoked IS NOT NULL),
        (SELECT count(*) FROM audit), (SELECT min(at) FROM audit), (SELECT max(at) FROM audit),
        (SELECT min(\"timestamp\") FROM feedback), (SELECT max(\"timestamp\") FROM feedback),
        (SELECT version FROM schema_version)";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_one(&statement, &[]).await?;
    let seconds = |seconds: Option<i64>| seconds.map(|seconds| Time::from_seconds(unsigned(seconds)));
    Ok(Holdings {
        schema: unsigned(row.try_get(15)?),
        size: unsigned(row.try_get(0)?),
        users: unsigned(row.try_get(1)?),
        sessions: unsigned(row.try_get(2)?),
        oldest_session: row.column(3)?,
        newest_session: row.column(4)?,
        to_revoke: unsigned(row.try_get(5)?),
        blocked: unsigned(row.try_get(6)?),
        forgotten: unsigned(row.try_get(7)?),
        good_keys: unsigned(row.try_get(8)?),
        revoked_keys: unsigned(row.try_get(9)?),
        audit: unsigned(row.try_get(10)?),
        oldest_audit: row.column(11)?,
        newest_audit: row.column(12)?,
        oldest_feedback: seconds(row.try_get(13)?),
        newest_feedback: seconds(row.try_get(14)?),
    })
}
