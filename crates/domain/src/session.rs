//! A session: what a token stands for, and when it ends.

use std::fmt;
use std::time::Duration;

use super::{Snowflake, Time};

/// The public name of a session, which its owner can use to end it. It isn't a secret and not derived from the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    pub const LENGTH: usize = 16;

    /// The ID with this text, if it is valid.
    pub fn parse(text: &str) -> Option<Self> {
        let shaped = text.len() == Self::LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        shaped.then(|| Self(text.to_owned()))
    }

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
    pub id: SessionId,
    pub user: Snowflake,
    pub created: Time,
    /// When it was last used; may lag by a minute or two, because it is written lazily.
    pub last_seen: Time,
    /// The client's `User-Agent`, cut to 256 bytes.
    pub agent: String,
}

/// How long sessions live.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Ends a session that has been unused for this long.
    pub idle: Duration,
    /// Ends every session after this long.
    pub absolute: Duration,
    /// How many one user may have; a new one ends the least recently used.
    pub per_user: usize,
}

impl SessionLimits {
    pub fn end(&self, created: Time, last_seen: Time) -> Time {
        last_seen.after(self.idle).min(created.after(self.absolute))
    }
}

/// The first bytes of a user agent that fit the limit, cut between characters.
pub fn cut_agent(agent: &str) -> &str {
    &agent[..agent.floor_char_boundary(256)]
}

/// When a session began and was last used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTimes {
    pub created: Time,
    pub last_seen: Time,
}

/// Which of a user's other sessions, in the order they were opened, a new one ends so that there are `most` in total: the least
/// recently used, and among those the ones that began first.
pub fn surplus<T>(mut others: Vec<(T, SessionTimes)>, most: usize) -> Vec<T> {
    let ends = others.len().saturating_sub(most.saturating_sub(1));
    // Stable: among those that began at the same time, the ones opened first come first.
    others.sort_by_key(|(_, times)| (times.last_seen, times.created));
    others.into_iter().take(ends).map(|(session, _)| session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_sixteen_letters_and_digits() {
        let id = SessionId::parse("0123456789abcdEF").unwrap();
        assert_eq!((id.as_str(), id.to_string().as_str()), ("0123456789abcdEF", "0123456789abcdEF"));
        for bad in ["", "0123456789abcdE", "0123456789abcdEF0", "0123456789abcd_F", "0123456789abcdé"] {
            assert_eq!(SessionId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_session_ends_when_it_is_unused_and_at_the_latest_after_its_whole_time() {
        let limits = SessionLimits { idle: Duration::from_secs(10), absolute: Duration::from_secs(100), per_user: 1 };
        for (created, last_seen, end) in [(0, 0, 10), (0, 50, 60), (0, 90, 100), (0, 95, 100), (5, 95, 105)] {
            let [created, last_seen, end] = [created, last_seen, end].map(Time::from_seconds);
            assert_eq!(limits.end(created, last_seen), end, "{created:?} {last_seen:?}");
        }
    }

    #[test]
    fn an_agent_is_cut_between_characters() {
        let long = format!("{}é", "x".repeat(255));
        for (agent, kept) in [("", 0), ("curl/8", 6), (&"x".repeat(256), 256), (&"x".repeat(300), 256), (&long, 255)] {
            assert_eq!(cut_agent(agent), &agent[..kept]);
        }
    }

    #[test]
    fn a_new_session_ends_those_least_recently_used() {
        // Name, created, last seen; the new one is not among them.
        let sessions = [('a', 1, 90), ('b', 2, 20), ('c', 3, 50), ('d', 4, 50), ('e', 4, 50)];
        let table: &[(usize, usize, &str)] = &[
            (0, 3, ""),
            (2, 3, ""),
            (3, 3, "b"),
            (5, 5, "b"),
            (5, 4, "bc"),
            (5, 3, "bcd"),
            (5, 2, "bcde"),
            (5, 1, "bcdea"),
            (5, 0, "bcdea"),
            (5, usize::MAX, ""),
        ];
        for (first, most, ended) in table {
            let times = |created, last_seen| SessionTimes {
                created: Time::from_seconds(created),
                last_seen: Time::from_seconds(last_seen),
            };
            let others = sessions[..*first].iter().map(|(name, created, seen)| (*name, times(*created, *seen)));
            assert_eq!(surplus(others.collect(), *most).into_iter().collect::<String>(), *ended, "{first} {most}");
        }
    }
}
