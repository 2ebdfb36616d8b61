//! The bot's processes: their names, and what the service knows about their lifetime.

use crate::Time;
use crate::health::is_silent;

/// The name of one start of one bot process: 1 to 64 characters of `[A-Za-z0-9_-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceName(String);

impl InstanceName {
    /// The name with this text, if it is valid.
    pub fn parse(text: &str) -> Option<Self> {
        let shaped = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        shaped.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One start of one bot process. The same name under another key is another instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId {
    /// The ID of the key it uses.
    pub key: String,
    pub name: InstanceName,
}

impl InstanceId {
    /// The instance with this name under this key, if the name is valid.
    pub fn parse(key: &str, name: &str) -> Option<Self> {
        Some(Self { key: key.to_owned(), name: InstanceName::parse(name)? })
    }
}

/// When an instance counts as started: never after the service first saw it, because its clock may be wrong.
pub fn counted_start(said: Time, first_seen: Time) -> Time {
    said.min(first_seen)
}

/// What the service knows about an instance's lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub first_seen: Time,
    /// When it started, according to its heartbeats.
    pub reported_start: Option<Time>,
    pub last_call: Time,
    /// When its last heartbeat came; old ones may be forgotten.
    pub last_heartbeat: Option<Time>,
}

impl Life {
    /// When it counts as started. Without a heartbeat, that is when it was first seen.
    pub fn started(&self) -> Time {
        self.reported_start.map_or(self.first_seen, |said| counted_start(said, self.first_seen))
    }

    /// Whether it was active in the last 90 seconds.
    pub fn is_living(&self, now: Time) -> bool {
        let last = self.last_heartbeat.map_or(self.last_call, |heartbeat| heartbeat.max(self.last_call));
        !is_silent(last, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_up_to_64_letters_digits_and_marks() {
        let longest = "x".repeat(64);
        for good in ["a", "A-1_b", &longest] {
            assert_eq!(InstanceName::parse(good).unwrap().as_str(), good);
            assert_eq!(InstanceId::parse("key", good).map(|id| (id.key, id.name.0)), Some(("key".into(), good.into())));
        }
        for bad in ["", "a b", "a.b", "é", &"x".repeat(65)] {
            assert_eq!(InstanceName::parse(bad), None, "{bad}");
            assert_eq!(InstanceId::parse("key", bad), None, "{bad}");
        }
    }

    #[test]
    fn an_instance_started_when_it_says_but_not_after_it_was_first_seen_and_lives_while_it_calls() {
        const NOW: Time = Time::from_seconds(1_000);
        // First seen, reported start, last call, last heartbeat; when it counts as started, and whether it is alive.
        for (first_seen, reported_start, last_call, last_heartbeat, started, is_living) in [
            (500, None, 990, None, 500, true),
            (500, Some(400), 990, None, 400, true),
            (500, Some(600), 990, None, 500, true),
            (500, None, 911, None, 500, true),
            (500, None, 910, None, 500, false),
            (500, None, 910, Some(911), 500, true),
            (500, None, 911, Some(910), 500, true),
            (500, None, 800, Some(910), 500, false),
        ] {
            let life = Life {
                first_seen: Time::from_seconds(first_seen),
                reported_start: reported_start.map(Time::from_seconds),
                last_call: Time::from_seconds(last_call),
                last_heartbeat: last_heartbeat.map(Time::from_seconds),
            };
            assert_eq!((life.started(), life.is_living(NOW)), (Time::from_seconds(started), is_living), "{life:?}");
        }
    }
}
