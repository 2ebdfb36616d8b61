//! How values of the domain become columns of PostgreSQL and come back.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::domain::feed::InstanceName;
use crate::domain::history::BotState;
use crate::domain::{SessionId, Snowflake, Time};
use crate::store::columns::warn_broken;
pub(super) use crate::store::columns::{
    claim_user, grants, grants_text, integer, json, keys_text, list_without, listed, roles, team_keys, unsigned,
};

use super::errors::Sql;

/// The result of a conversion from or to a column.
type Converted<T> = Result<T, Box<dyn Error + Sync + Send>>;

/// Writes a type as the number or text that `$as` makes of it, and reads it back with `$from`.
macro_rules! column {
    ($type:ty, $inner:ty, $accepts:ident, $as:expr, $from:expr) => {
        impl ToSql for $type {
            fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Converted<IsNull> {
                ($as)(self).to_sql(ty, out)
            }

            accepts!($accepts);
            to_sql_checked!();
        }

        impl<'a> FromSql<'a> for $type {
            fn from_sql(ty: &Type, raw: &'a [u8]) -> Converted<Self> {
                let inner = <$inner>::from_sql(ty, raw)?;
                ($from)(inner).ok_or_else(|| concat!("not a ", stringify!($type)).into())
            }

            accepts!($accepts);
        }
    };
}

column!(Snowflake, i64, INT8, |id: &Snowflake| integer(id.get()), |number: i64| u64::try_from(number)
    .ok()
    .and_then(Snowflake::new));
column!(Time, i64, INT8, |time: &Time| integer(time.millis()), |millis: i64| Some(Time::from_millis(unsigned(millis))));
column!(SessionId, String, TEXT, SessionId::as_str, |text: String| SessionId::parse(&text));
column!(BotState, String, TEXT, |state: &BotState| state.name(), |name: String| BotState::parse(&name));
column!(InstanceName, String, TEXT, InstanceName::as_str, |text: String| InstanceName::parse(&text));

/// A number of a type that is smaller than its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole<T>(pub(super) T);

impl<'a, T: TryFrom<i64>> FromSql<'a> for Whole<T> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Converted<Self> {
        T::try_from(i64::from_sql(ty, raw)?).map(Self).map_err(|_| "out of range".into())
    }

    accepts!(INT8);
}

/// The rows of a list, less those that cannot be read.
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
