//! Untrusted JSON as borrowed values, and how fields are read from it. An invalid field gives a [`Reason`].

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::{Snowflake, Time, picture, text};

/// Why a line is refused: one short sentence that names the field and says what to send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Reason(String);

impl Reason {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The same, for a field within this one.
    pub(super) fn within(self, outer: impl fmt::Display) -> Self {
        Self(format!("{outer}: {}", self.0))
    }
}

/// The end of the year 9999; anything beyond was meant as milliseconds.
const LAST_SECOND: f64 = 253_402_300_799.0;
const URL_BOUND: usize = 512;

/// A value. Texts without escapes are borrowed from the line.
#[derive(Clone, Debug)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Map(Fields<'a>),
}

/// An object's fields; if a name appears twice, the last one counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

/// A line's object.
pub(super) fn object(line: &[u8]) -> Result<Fields<'_>, Reason> {
    match serde_json::from_slice(line) {
        Ok(Json::Map(fields)) => Ok(fields),
        Ok(_) => Err(Reason::new("A line must be a JSON object.")),
        Err(error) => Err(not_json(&error)),
    }
}

/// The line isn't JSON. The error's own text could repeat the input; the column is enough to find it.
pub(super) fn not_json(error: &serde_json::Error) -> Reason {
    Reason::new(format!("The line is not valid JSON (column {}).", error.column()))
}

/// The beginning of an untrusted text, escaped.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 40;
    let cut: String = text.chars().take(SHOWN).collect();
    format!("`{}{}`", cut.escape_debug(), if cut.len() < text.len() { "…" } else { "" })
}

impl<'a> Fields<'a> {
    /// Replaces a field.
    pub(super) fn set(&mut self, name: Cow<'a, str>, value: Json<'a>) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value));
    }

    /// The field, if it is present and not null.
    pub(super) fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.given(name).filter(|value| !matches!(value, Json::Null))
    }

    /// The field, if it is present.
    pub(super) fn given(&self, name: &str) -> Option<&Json<'a>> {
        self.0.iter().rev().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    pub(super) fn id(&self, name: &str) -> Result<Snowflake, Reason> {
        self.get(name).and_then(Json::id).ok_or_else(|| wrong(name, "an id as a string of digits"))
    }

    /// A text with that many characters.
    pub(super) fn text(&self, name: &str, length: RangeInclusive<usize>) -> Result<&str, Reason> {
        self.get(name)
            .and_then(Json::text)
            .filter(|text| length.contains(&text.chars().count()))
            .ok_or_else(|| wrong(name, format_args!("text of {} to {} characters", length.start(), length.end())))
    }

    /// A whole number.
    pub(super) fn whole<T>(&self, name: &str, range: RangeInclusive<T>) -> Result<T, Reason>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        let number = self.get(name).and_then(Json::whole).and_then(|number| T::try_from(number).ok());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| wrong(name, format_args!("a whole number from {} to {}", range.start(), range.end())))
    }

    /// A whole number; absent is zero.
    pub(super) fn count(&self, name: &str, most: u64) -> Result<u64, Reason> {
        if self.get(name).is_none() { Ok(0) } else { self.whole(name, 0..=most) }
    }

    /// A boolean; absent is false.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Reason> {
        match self.get(name) {
            None => Ok(false),
            Some(Json::Bool(value)) => Ok(*value),
            Some(_) => Err(wrong(name, "true or false")),
        }
    }

    /// Epoch seconds, possibly fractional.
    pub(super) fn time(&self, name: &str) -> Result<Time, Reason> {
        let number = self.get(name).and_then(Json::number).filter(|seconds| (0.0..=LAST_SECOND).contains(seconds));
        let seconds = number.ok_or_else(|| wrong(name, "a time in epoch seconds"))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be within the years")]
        Ok(Time::from_millis((seconds * 1000.0).round() as u64))
    }

    pub(super) fn list(&self, name: &str, most: usize) -> Result<&[Json<'a>], Reason> {
        match self.get(name) {
            Some(Json::List(items)) if items.len() <= most => Ok(items),
            _ => Err(wrong(name, format_args!("a list of at most {most}"))),
        }
    }

    pub(super) fn ids(&self, name: &str, most: usize) -> Result<Vec<Snowflake>, Reason> {
        ids(self.list(name, most)?).ok_or_else(|| wrong(name, "a list of ids, each a string of digits"))
    }

    /// An object that maps IDs to something, if it is present.
    pub(super) fn by_id<T>(
        &self,
        name: &str,
        most: usize,
        mut read: impl FnMut(Snowflake, &Json<'a>) -> Result<T, Reason>,
    ) -> Result<Option<Vec<(Snowflake, T)>>, Reason> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let Json::Map(fields) = value else { return Err(wrong(name, "an object whose names are ids")) };
        if fields.0.len() > most {
            return Err(wrong(name, format_args!("an object with at most {most} entries")));
        }
        let pairs = fields.0.iter().map(|(key, value)| {
            let id = key.parse().map_err(|_| wrong(name, "an object whose names are ids, strings of digits"))?;
            Ok((id, read(id, value)?))
        });
        pairs.collect::<Result<_, _>>().map(Some)
    }

    /// An image: a hash, an https URL, or nothing.
    pub(super) fn picture(&self, name: &str) -> Result<Option<&str>, Reason> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let fits = |text: &&str| {
            let url = text.starts_with("https://")
                && text.len() <= URL_BOUND
                && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte));
            url || picture::is_hash(text)
        };
        value.text().filter(fits).map(Some).ok_or_else(|| wrong(name, "a picture's hash, an https URL or null"))
    }
}

/// The IDs in a list, if it contains nothing else.
pub(super) fn ids(items: &[Json<'_>]) -> Option<Vec<Snowflake>> {
    items.iter().map(Json::id).collect()
}

pub(super) fn wrong(name: &str, wanted: impl fmt::Display) -> Reason {
    Reason(format!("`{name}` must be {wanted}."))
}

impl Json<'_> {
    fn id(&self) -> Option<Snowflake> {
        self.text()?.parse().ok()
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn whole(&self) -> Option<i64> {
        if let Self::Whole(number) = self { Some(*number) } else { None }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "times, ages and latencies lie far below 2^53, and more is out of every range"
            )]
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor { skips_contents: false })
    }
}

/// A value that takes little memory: the contents of a list or an object are skipped.
pub(super) struct Scalar<'a>(pub(super) Json<'a>);

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor { skips_contents: true }).map(Self)
    }
}

struct JsonVisitor {
    skips_contents: bool,
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        #[expect(clippy::cast_precision_loss, reason = "no field takes a whole number as large as this")]
        Ok(i64::try_from(value).map_or(Json::Number(value as f64), Json::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        // U+0000, which not every store can hold, can only be written as an escape, so a borrowed text has none.
        Ok(Json::Text(Cow::Owned(text::storable(value).into_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while self.skips_contents && items.next_element::<IgnoredAny>()?.is_some() {}
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json<'de>, A::Error> {
        let mut fields = Vec::new();
        while self.skips_contents && entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        while let Some((Name(name), value)) = entries.next_entry()? {
            fields.push((name, value));
        }
        Ok(Json::Map(Fields(fields)))
    }
}

/// A field's name; serde's own `Cow` is never borrowed.
pub(super) struct Name<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Json::deserialize(deserializer)? {
            Json::Text(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a field's name is text")),
        }
    }
}
