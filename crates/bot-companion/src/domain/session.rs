//! A session: what a token stands for, and when it ends.

use std::fmt;
use std::time::Duration;

use super::{Snowflake, Time};

/// The public name of a session, by which its owner can end it. It is no secret and not derived from the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Length of an id in characters.
    pub const LENGTH: usize = 16;

    /// The id with this text, if it has the shape of one.
    pub fn parse(text: &str) -> Option<Self> {
        let shaped = text.len() == Self::LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        shaped.then(|| Self(text.to_owned()))
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One login of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its public name.
    pub id: SessionId,
    /// Whose it is.
    pub user: Snowflake,
    /// When it began.
    pub created: Time,
    /// When it was last used; may lag by a minute or two, because it is written lazily.
    pub last_seen: Time,
    /// The client's `User-Agent`, cut to 256 bytes.
    pub agent: String,
}

/// How long sessions live.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Ends a session that was not used for this long.
    pub idle: Duration,
    /// Ends every session after this long.
    pub absolute: Duration,
    /// How many one user may have: a new one ends the one least recently used.
    pub per_user: usize,
}

impl SessionLimits {
    /// When a session with these times ends.
    pub fn end(&self, created: Time, last_seen: Time) -> Time {
        last_seen.after(self.idle).min(created.after(self.absolute))
    }
}

/// The first bytes of a user agent that fit the bound, cut between characters.
pub fn cut_agent(agent: &str) -> &str {
    &agent[..agent.floor_char_boundary(256)]
}
