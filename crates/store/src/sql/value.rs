//! The parameters of statements.

use std::borrow::Cow;

use domain::Snowflake;

use crate::backup::value::CellValue;
use crate::columns::{Column, integer};

/// A parameter, in a form that both databases store alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    Boolean(bool),
    /// An array; SQLite reads it as JSON.
    Texts(Vec<&'a str>),
    Integers(Vec<i64>),
}

/// What can be a parameter.
pub(crate) trait ToValue {
    fn value(&self) -> Value<'_>;
}

/// The parameters of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        [$($crate::sql::ToValue::value(&$value)),*]
    };
}
pub(crate) use values;

/// Writes a type as a parameter.
macro_rules! to_value {
    ($type:ty, $value:ident => $stored:expr) => {
        impl ToValue for $type {
            fn value(&self) -> Value<'_> {
                let $value = self;
                $stored
            }
        }
    };
}

to_value!(i64, number => Value::Integer(*number));
to_value!(u64, number => Value::Integer(integer(*number)));
to_value!(u32, number => Value::Integer((*number).into()));
to_value!(u8, number => Value::Integer((*number).into()));
to_value!(usize, number => Value::Integer(integer(*number as u64)));
to_value!(f64, number => Value::Real(*number));
to_value!(bool, truth => Value::Boolean(*truth));
to_value!(str, text => Value::Text(text.into()));
to_value!(String, text => Value::Text(text.into()));
to_value!([u8; 32], bytes => Value::Bytes(bytes));
to_value!(Vec<u8>, bytes => Value::Bytes(bytes));
to_value!(Vec<&str>, texts => Value::Texts(texts.clone()));
to_value!([i64], numbers => Value::Integers(numbers.to_vec()));
to_value!([u64], numbers => Value::Integers(numbers.iter().copied().map(integer).collect()));
to_value!([Snowflake], ids => Value::Integers(ids.iter().map(Column::stored).collect()));
to_value!(Vec<Snowflake>, ids => ids.as_slice().value());
to_value!(Vec<String>, texts => Value::Texts(texts.iter().map(String::as_str).collect()));

impl<T: ToValue + ?Sized> ToValue for &T {
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::value)
    }
}

impl ToValue for CellValue {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Real(number) => Value::Real(*number),
            Self::Text(text) => text.value(),
            Self::Bytes(bytes) => bytes.value(),
            Self::Boolean(truth) => Value::Boolean(*truth),
        }
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}
