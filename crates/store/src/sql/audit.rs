//! The audit log.

use domain::audit::{self, AuditEntry, AuditKind};
use domain::forgotten::UserHash;

use super::{Database, Result, ToValue, clock, forgotten, values};
use crate::upkeep::{AuditBounds, AuditFilter};

/// Adds rows and, given bounds, deletes those that are too old or too many.
pub(crate) async fn write<D: Database>(db: &D, entries: &[AuditEntry], bounds: Option<AuditBounds>) -> Result<(), D> {
    let sql = "INSERT INTO audit (at, kind, person, key, address, request, detail, count)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for AuditEntry { at, kind, person, key, network, request, detail, count } in entries {
        // They may have been forgotten while the row waited to be written.
        let person = match person.as_deref().and_then(|id| id.parse().ok()) {
            Some(user) if forgotten::contains(db, user).await? => Some(UserHash::of(user).in_audit()),
            _ => person.clone(),
        };
        db.execute(sql, &values![at, kind.name(), person, key, network, request, detail, count]).await?;
    }
    match bounds {
        Some(bounds) => trim(db, bounds).await,
        None => Ok(()),
    }
}

async fn trim<D: Database>(db: &D, bounds: AuditBounds) -> Result<(), D> {
    if clock::ahead_by(db, bounds.now).await?.is_none() {
        db.execute("DELETE FROM audit WHERE at < ?1", &values![bounds.before]).await?;
    }
    let mut counts = Vec::new();
    for row in db.query("SELECT kind, count(*) FROM audit GROUP BY kind", &[]).await? {
        // A kind from a newer release has no quota here; its rows are only deleted for their age.
        let Ok(kind) = row.get::<String>(0)?.parse() else { continue };
        counts.push((kind, row.get(1)?));
    }
    let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE kind = ?1 ORDER BY id LIMIT ?2)";
    for (kind, surplus) in audit::surplus(&counts, bounds.rows) {
        db.execute(sql, &values![kind.name(), surplus]).await?;
    }
    Ok(())
}

/// The latest matching rows, oldest first.
pub(crate) async fn read<D: Database>(db: &D, filter: &AuditFilter) -> Result<Vec<AuditEntry>, D> {
    let persons =
        filter.persons.as_ref().map_or_else(String::new, |_| format!("AND person {}", D::WORDS.among.put("?4")));
    let sql = format!(
        "SELECT at, kind, person, key, address, request, detail, count FROM audit
        WHERE at >= ?1 {persons} AND (CAST(?2 AS TEXT) IS NULL OR kind = ?2)
        ORDER BY at DESC, id DESC LIMIT ?3"
    );
    let kind = filter.kind.map(AuditKind::name);
    let mut values = values![filter.since, kind, filter.limit].to_vec();
    values.extend(filter.persons.as_ref().map(ToValue::value));
    let mut found = Vec::new();
    for row in db.query(&sql, &values).await? {
        // A newer release may know more kinds.
        let Ok(kind) = row.get::<String>(1)?.parse() else { continue };
        found.push(AuditEntry {
            at: row.get(0)?,
            kind,
            person: row.get(2)?,
            key: row.get(3)?,
            network: row.get(4)?,
            request: row.get(5)?,
            detail: row.get(6)?,
            count: row.get(7)?,
        });
    }
    found.reverse();
    Ok(found)
}
