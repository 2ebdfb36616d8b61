use deadpool_postgres::{GenericClient, Transaction};
use domain::audit::{self, AuditEntry, AuditKind};
use domain::forgotten::UserHash;

use super::columns::{Column as _, ReadColumn as _, integer, unsigned};
use super::errors::Sql;
use super::forget;
use crate::upkeep::{AuditBounds, AuditFilter};

/// Adds rows and, given bounds, deletes those that are too old or too many.
pub(super) async fn write(db: &Transaction<'_>, entries: &[AuditEntry], bounds: Option<AuditBounds>) -> Sql<()> {
    let sql = "INSERT INTO audit (at, kind, person, key, address, request, detail, count)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let statement = db.prepare_cached(sql).await?;
    for AuditEntry { at, kind, person, key, network, request, detail, count } in entries {
        // They may have been forgotten while the row waited to be written.
        let person = match person.as_deref().and_then(|id| id.parse().ok()) {
            Some(user) if forget::is_forgotten(db, user).await? => Some(UserHash::of(user).in_audit()),
            _ => person.clone(),
        };
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
            [&at.stored(), &kind.name(), &person, key, network, request, detail, &integer(*count)];
        db.execute(&statement, &row).await?;
    }
    match bounds {
        Some(bounds) => trim(db, bounds).await,
        None => Ok(()),
    }
}

async fn trim(db: &Transaction<'_>, bounds: AuditBounds) -> Sql<()> {
    let statement = db.prepare_cached("DELETE FROM audit WHERE at < $1").await?;
    db.execute(&statement, &[&bounds.before.stored()]).await?;
    let statement = db.prepare_cached("SELECT kind, count(*) FROM audit GROUP BY kind").await?;
    let mut counts = Vec::new();
    for row in db.query(&statement, &[]).await? {
        // A kind from a newer release has no quota here; its rows are only deleted for their age.
        let Ok(kind) = row.try_get::<_, &str>(0)?.parse() else { continue };
        counts.push((kind, unsigned(row.try_get(1)?)));
    }
    let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE kind = $1 ORDER BY id LIMIT $2)";
    let statement = db.prepare_cached(sql).await?;
    for (kind, surplus) in audit::surplus(&counts, bounds.rows) {
        db.execute(&statement, &[&kind.name(), &integer(surplus)]).await?;
    }
    Ok(())
}

/// The latest matching rows, oldest first.
pub(super) async fn read(db: &impl GenericClient, filter: &AuditFilter) -> Sql<Vec<AuditEntry>> {
    let sql = "SELECT at, kind, person, key, address, request, detail, count FROM audit
        WHERE at >= $1 AND ($2::text[] IS NULL OR person = ANY ($2)) AND ($3::text IS NULL OR kind = $3)
        ORDER BY at DESC, id DESC LIMIT $4";
    let statement = db.prepare_cached(sql).await?;
    let kind = filter.kind.map(AuditKind::name);
    let rows =
        db.query(&statement, &[&filter.since.stored(), &filter.persons, &kind, &i64::from(filter.limit)]).await?;
    let mut found = Vec::new();
    for row in &rows {
        // A newer release may know more kinds.
        let Ok(kind) = row.try_get::<_, &str>(1)?.parse() else { continue };
        found.push(AuditEntry {
            at: row.column(0)?,
            kind,
            person: row.try_get(2)?,
            key: row.try_get(3)?,
            network: row.try_get(4)?,
            request: row.try_get(5)?,
            detail: row.try_get(6)?,
            count: unsigned(row.try_get(7)?),
        });
    }
    found.reverse();
    Ok(found)
}
