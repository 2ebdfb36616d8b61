//! How domain values are stored in `SQLite`'s columns.

use domain::feed::{InstanceId, Life};
use rusqlite::Row;
use rusqlite::types::{FromSql, Type};

use crate::columns::warn_broken;
pub(super) use crate::columns::{Column, grants, grants_text, integer, json, roles, unsigned};

/// Reads values of the domain from the columns of a row.
pub(super) trait ReadColumn {
    /// The value in this column.
    fn column<T: Column<Stored: FromSql>>(&self, index: usize) -> rusqlite::Result<T>;
}

impl ReadColumn for Row<'_> {
    fn column<T: Column<Stored: FromSql>>(&self, index: usize) -> rusqlite::Result<T> {
        let stored = self.get(index)?;
        T::restored(stored).ok_or_else(|| {
            let why = format!("not a {}", T::NAME);
            let kind = self.get_ref(index).map_or(Type::Null, |value| value.data_type());
            rusqlite::Error::FromSqlConversionFailure(index, kind, why.into())
        })
    }
}

/// Whether only this row cannot be read, and the database itself is fine.
pub(super) fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

/// The rows of a list, without those that cannot be read.
pub(super) fn readable<T>(what: &str, rows: impl Iterator<Item = rusqlite::Result<T>>) -> rusqlite::Result<Vec<T>> {
    let mut read = Vec::new();
    for row in rows {
        match row {
            Ok(row) => read.push(row),
            Err(error) if is_unreadable(&error) => {
                warn_broken!(what, %error, "left out a stored row that cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Reads an instance from the columns of its key and its name.
pub(super) fn instance(row: &Row<'_>, first: usize) -> rusqlite::Result<InstanceId> {
    let (key, name): (String, String) = (row.get(first)?, row.get(first + 1)?);
    InstanceId::parse(&key, &name).ok_or_else(|| {
        let problem = "not the name of an instance".into();
        rusqlite::Error::FromSqlConversionFailure(first + 1, rusqlite::types::Type::Text, problem)
    })
}

/// Reads the columns of `feed_instances` and `reported`, from this index on; `None` if there is no row.
pub(super) fn life(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Life>> {
    let (Some(first_seen), Some(last_call)) = (row.column(first)?, row.column(first + 2)?) else { return Ok(None) };
    let (reported_start, last_heartbeat) = (row.column(first + 1)?, row.column(first + 3)?);
    Ok(Some(Life { first_seen, reported_start, last_call, last_heartbeat }))
}
