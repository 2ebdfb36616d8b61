//! How domain values are stored in `SQLite`'s columns.

use rusqlite::Row;
use rusqlite::types::{FromSql, Type};

use crate::columns::warn_broken;
pub(super) use crate::columns::{
    Column, claim_user, grants, grants_text, integer, json, list_without, listed, roles, unsigned,
};

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
