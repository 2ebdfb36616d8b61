//! How domain values are stored in PostgreSQL's columns.

use std::error::Error;

use domain::feed::{InstanceId, Life};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, accepts};

use crate::columns::warn_broken;
pub(super) use crate::columns::{Column, grants, grants_text, ids, integer, json, roles, unsigned};

use super::errors::Sql;

type Converted<T> = Result<T, Box<dyn Error + Sync + Send>>;

/// Reads values of the domain from the columns of a row.
pub(super) trait ReadColumn {
    fn column<T: for<'a> Column<Stored: FromSql<'a>>>(&self, index: usize) -> Result<T, tokio_postgres::Error>;
}

impl ReadColumn for Row {
    fn column<T: for<'a> Column<Stored: FromSql<'a>>>(&self, index: usize) -> Result<T, tokio_postgres::Error> {
        self.try_get(index).map(|Restored(value)| value)
    }
}

/// A domain value, read from its stored form.
struct Restored<T>(T);

impl<'a, T: Column<Stored: FromSql<'a>>> FromSql<'a> for Restored<T> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Converted<Self> {
        Self::of(T::Stored::from_sql(ty, raw)?)
    }

    fn from_sql_null(ty: &Type) -> Converted<Self> {
        Self::of(T::Stored::from_sql_null(ty)?)
    }

    fn accepts(ty: &Type) -> bool {
        T::Stored::accepts(ty)
    }
}

impl<T: Column> Restored<T> {
    fn of(stored: T::Stored) -> Converted<Self> {
        T::restored(stored).map(Self).ok_or_else(|| format!("not a {}", T::NAME).into())
    }
}

/// A number of a type that is smaller than its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole<T>(pub(super) T);

impl<'a, T: TryFrom<i64>> FromSql<'a> for Whole<T> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Converted<Self> {
        T::try_from(i64::from_sql(ty, raw)?).map(Self).map_err(|_| "out of range".into())
    }

    accepts!(INT8);
}

/// The rows of a list, without those that cannot be read.
pub(super) fn readable<'a, T>(
    what: &str,
    rows: impl IntoIterator<Item = &'a Row>,
    read: impl Fn(&'a Row) -> Sql<T>,
) -> Vec<T> {
    let read = |row| {
        read(row).inspect_err(|error| warn_broken!(what, %error, "left out a stored row that cannot be read")).ok()
    };
    rows.into_iter().filter_map(read).collect()
}

/// Reads an instance from the columns of its key and its name.
pub(super) fn instance(row: &Row, first: usize) -> Sql<InstanceId> {
    Ok(InstanceId { key: row.try_get(first)?, name: row.column(first + 1)? })
}

/// Reads the columns of `feed_instances` and `reported`, from this index on; `None` if there is no row.
pub(super) fn life(row: &Row, first: usize) -> Sql<Option<Life>> {
    let (Some(first_seen), Some(last_call)) = (row.column(first)?, row.column(first + 2)?) else { return Ok(None) };
    let (reported_start, last_heartbeat) = (row.column(first + 1)?, row.column(first + 3)?);
    Ok(Some(Life { first_seen, reported_start, last_call, last_heartbeat }))
}
