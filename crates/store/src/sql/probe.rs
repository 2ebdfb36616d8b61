//! The table `probe`: what the health probe wrote, and when the last backup was taken. And the size of the database.

use domain::Time;

use super::{Database, Result, values};

/// The rows of the table, by ID.
const PROBE: i64 = 1;
const BACKUP: i64 = 2;

pub(crate) async fn read<D: Database>(db: &D) -> Result<(), D> {
    db.query_one("SELECT count(*) FROM probe", &[]).await.map(drop)
}

/// The value is different each time, because SQLite does not write a page that has not changed.
pub(crate) async fn write<D: Database>(db: &D, now: Time) -> Result<(), D> {
    let sql = "INSERT INTO probe (id, at) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE
        SET at = CASE WHEN probe.at < excluded.at THEN excluded.at ELSE probe.at + 1 END";
    db.execute(sql, &values![PROBE, now]).await.map(drop)
}

pub(crate) async fn note_backup<D: Database>(db: &D, at: Time) -> Result<(), D> {
    let sql = "INSERT INTO probe (id, at) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET at = excluded.at";
    db.execute(sql, &values![BACKUP, at]).await.map(drop)
}

pub(crate) async fn last_backup<D: Database>(db: &D) -> Result<Option<Time>, D> {
    let row = db.query_first("SELECT at FROM probe WHERE id = ?1", &values![BACKUP]).await?;
    Ok(row.map(|row| row.get(0)).transpose()?)
}

/// In bytes.
pub(crate) async fn size<D: Database>(db: &D) -> Result<u64, D> {
    Ok(db.query_one(&format!("SELECT {}", D::WORDS.size), &[]).await?.get(0)?)
}
