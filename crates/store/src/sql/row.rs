//! A row, whichever database it is from.

use std::fmt;

use crate::backup::value::CellValue;
use crate::columns::unsigned;

/// The columns of a row, in the order of its statement.
pub(crate) struct Row(pub(crate) Vec<CellValue>);

impl Row {
    /// The value in this column.
    pub(crate) fn get<T: FromCell>(&self, column: usize) -> Result<T, Unreadable> {
        self.0.get(column).and_then(T::from_cell).ok_or(Unreadable { column, expected: T::NAME })
    }
}

/// A column holds something that we never write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) column: usize,
    expected: &'static str,
}

impl Unreadable {
    /// There is no row, where there always is one.
    pub(super) const NO_ROW: Self = Self { column: 0, expected: "row" };
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} is not a {}", self.column, self.expected)
    }
}

impl std::error::Error for Unreadable {}

/// The rows of a list, without those that cannot be read. Each list warns for itself: one that is read all the time does not hide
/// another.
macro_rules! readable {
    ($what:literal, $rows:expr, $read:expr) => {
        $crate::sql::without_unreadable($rows, $read, |error| {
            $crate::columns::warn_broken!(what = $what, %error, "left out a stored row that cannot be read");
        })
    };
}
pub(crate) use readable;

/// See [`readable`].
pub(crate) fn without_unreadable<T>(
    rows: impl IntoIterator<Item = Row>,
    read: impl Fn(&Row) -> Result<T, Unreadable>,
    warn: impl Fn(&Unreadable),
) -> Vec<T> {
    rows.into_iter().filter_map(|row| read(&row).inspect_err(&warn).ok()).collect()
}

/// What can be read from a column.
pub(crate) trait FromCell: Sized {
    /// Its name in messages when it cannot be read.
    const NAME: &'static str;

    fn from_cell(cell: &CellValue) -> Option<Self>;
}

/// Reads a type from the kinds of cells that are its own.
macro_rules! from_cell {
    ($type:ty, $name:literal, $($cell:pat => $value:expr),+) => {
        impl FromCell for $type {
            const NAME: &'static str = $name;

            fn from_cell(cell: &CellValue) -> Option<Self> {
                match cell {
                    $($cell => $value,)+
                    _ => None,
                }
            }
        }
    };
}

from_cell!(i64, "number", CellValue::Integer(number) => Some(*number));
from_cell!(u64, "number", CellValue::Integer(number) => Some(unsigned(*number)));
from_cell!(u32, "small number", CellValue::Integer(number) => (*number).try_into().ok());
from_cell!(u8, "small number", CellValue::Integer(number) => (*number).try_into().ok());
from_cell!(f64, "real number", CellValue::Real(number) => Some(*number));
from_cell!(bool, "truth value", CellValue::Boolean(truth) => Some(*truth), CellValue::Integer(number) => Some(*number != 0));
from_cell!(String, "text", CellValue::Text(text) => Some(text.clone()));
from_cell!(Vec<u8>, "byte string", CellValue::Bytes(bytes) => Some(bytes.clone()));
from_cell!([u8; 32], "hash", CellValue::Bytes(bytes) => bytes.as_slice().try_into().ok());

impl<T: FromCell> FromCell for Option<T> {
    const NAME: &'static str = T::NAME;

    fn from_cell(cell: &CellValue) -> Option<Self> {
        match cell {
            CellValue::Null => Some(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}
