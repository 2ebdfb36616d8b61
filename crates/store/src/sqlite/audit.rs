//! The audit log.

use domain::audit::{self, AuditEntry, AuditKind};
use domain::forgotten::UserHash;
use rusqlite::{Connection, params};

use super::columns::{Column as _, ReadColumn as _, integer, json, unsigned};
use super::forget;
use crate::upkeep::{AuditBounds, AuditFilter};

/// Adds rows and, given bounds, deletes those that are too old or too many.
pub(super) fn write(
    connection: &Connection,
    entries: &[AuditEntry],
    bounds: Option<AuditBounds>,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO audit (at, kind, person, key, address, request, detail, count)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut insert = connection.prepare_cached(sql)?;
    for AuditEntry { at, kind, person, key, network, request, detail, count } in entries {
        // They may have been forgotten while the row waited to be written.
        let person = match person.as_deref().and_then(|id| id.parse().ok()) {
            Some(user) if forget::is_forgotten(connection, user)? => Some(UserHash::of(user).in_audit()),
            _ => person.clone(),
        };
        insert.execute(params![at.stored(), kind.name(), person, key, network, request, detail, integer(*count)])?;
    }
    bounds.map_or(Ok(()), |bounds| trim(connection, bounds))
}

fn trim(connection: &Connection, bounds: AuditBounds) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM audit WHERE at < ?1")?.execute([bounds.before.stored()])?;
    let mut statement = connection.prepare_cached("SELECT kind, count(*) FROM audit GROUP BY kind")?;
    let mut found = statement.query([])?;
    let mut counts = Vec::new();
    while let Some(row) = found.next()? {
        // A kind from a newer release has no quota here; its rows are only deleted for their age.
        let Ok(kind) = row.get::<_, String>(0)?.parse() else { continue };
        counts.push((kind, unsigned(row.get(1)?)));
    }
    let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE kind = ?1 ORDER BY id LIMIT ?2)";
    let mut delete = connection.prepare_cached(sql)?;
    for (kind, surplus) in audit::surplus(&counts, bounds.rows) {
        delete.execute(params![kind.name(), integer(surplus)])?;
    }
    Ok(())
}

/// The latest matching rows, oldest first.
pub(super) fn read(connection: &Connection, filter: &AuditFilter) -> rusqlite::Result<Vec<AuditEntry>> {
    let sql = "SELECT at, kind, person, key, address, request, detail, count FROM audit
        WHERE at >= ?1 AND (?2 IS NULL OR person IN (SELECT value FROM json_each(?2))) AND (?3 IS NULL OR kind = ?3)
        ORDER BY at DESC, id DESC LIMIT ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let persons = filter.persons.as_ref().map(json);
    let kind = filter.kind.map(AuditKind::name);
    let mut found = statement.query(params![filter.since.stored(), persons, kind, filter.limit])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        // A newer release may know more kinds.
        let Ok(kind) = row.get::<_, String>(1)?.parse() else { continue };
        rows.push(AuditEntry {
            at: row.column(0)?,
            kind,
            person: row.get(2)?,
            key: row.get(3)?,
            network: row.get(4)?,
            request: row.get(5)?,
            detail: row.get(6)?,
            count: unsigned(row.get(7)?),
        });
    }
    rows.reverse();
    Ok(rows)
}
