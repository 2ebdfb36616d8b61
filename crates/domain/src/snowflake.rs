//! The provider's IDs: 64-bit numbers that travel as decimal text, because a JavaScript number cannot hold them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The ID of a user, guild or role. It is never zero and fits a signed 64-bit column (the top bit is a timestamp in 2084).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Snowflake(u64);

/// The text is not a canonical snowflake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an ID is 1 to 19 digits, without a sign or a leading zero")]
pub struct NotASnowflake;

impl Snowflake {
    /// Replaces a user who was forgotten. The provider never assigns it, because its IDs contain the time they were created.
    pub const NOBODY: Self = Self(1);

    pub fn new(number: u64) -> Option<Self> {
        (number != 0 && i64::try_from(number).is_ok()).then_some(Self(number))
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Snowflake {
    type Err = NotASnowflake;

    fn from_str(text: &str) -> Result<Self, NotASnowflake> {
        let canonical =
            (1..=19).contains(&text.len()) && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        if !canonical {
            return Err(NotASnowflake);
        }
        text.parse().ok().and_then(Self::new).ok_or(NotASnowflake)
    }
}

impl fmt::Display for Snowflake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Snowflake {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Snowflake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not `&str`, because a JSON string with an escape cannot be borrowed.
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_text_is_an_id() {
        for good in ["1", "80351110224678912", "9223372036854775807"] {
            assert_eq!(good.parse::<Snowflake>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in
            ["", "0", "01", "+1", "-1", " 1", "1 ", "1.0", "9223372036854775808", "18446744073709551616", "٣", "1e3"]
        {
            assert_eq!(bad.parse::<Snowflake>(), Err(NotASnowflake), "{bad:?}");
        }
    }

    #[test]
    fn travels_as_text_beyond_two_to_the_53() {
        let id: Snowflake = serde_json::from_str("\"9007199254740993\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"9007199254740993\"");
        assert!(serde_json::from_str::<Snowflake>("9007199254740993").is_err());
    }
}
