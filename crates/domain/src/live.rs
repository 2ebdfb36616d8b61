//! Live updates: which parts of the API a client should reload, and when a stream may say so.

use std::time::Duration;

/// The shortest time between two events of a stream.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two events about the status, unless the bot came up or went down: heartbeats change it all the
/// time.
const STATUS_INTERVAL: Duration = Duration::from_secs(15);
/// After this long without data a comment is sent, so that proxies do not consider the stream dead.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// Parts of the API that a client may have to reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveTopics(u8);

impl LiveTopics {
    pub const NONE: Self = Self(0);
    /// `GET /`
    pub const STATUS: Self = Self(1);
    /// `GET /team`
    pub const TEAM: Self = Self(1 << 1);
    /// `GET /feedback`
    pub const FEEDBACK: Self = Self(1 << 2);
    /// `GET /stats`
    pub const STATS: Self = Self(1 << 3);
    /// `GET /guilds` and below
    pub const GUILDS: Self = Self(1 << 4);
    /// `GET /sessions`
    pub const SESSIONS: Self = Self(1 << 5);
    /// `GET /me`
    pub const ME: Self = Self(1 << 6);
    /// Those that anyone may read.
    pub const PUBLIC: Self = Self(0b1111);
    /// Those of a user, and the public ones.
    pub const ALL: Self = Self(0b111_1111);

    const NAMES: [(Self, &'static str); 7] = [
        (Self::STATUS, "status"),
        (Self::TEAM, "team"),
        (Self::FEEDBACK, "feedback"),
        (Self::STATS, "stats"),
        (Self::GUILDS, "guilds"),
        (Self::SESSIONS, "sessions"),
        (Self::ME, "me"),
    ];

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names on the wire, in a fixed order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(topic, _)| self.has(*topic)).map(|(_, name)| name)
    }
}

/// What a stream should send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueMessage {
    Changed(LiveTopics),
    /// Nothing has changed, and the connection is alive.
    Comment,
}

/// When one stream may send what. Changes that come too early are merged and wait.
#[derive(Clone, Copy, Debug)]
pub struct StreamPace {
    pending: LiveTopics,
    /// Whether the status is worth an event right away, because the bot came up or went down.
    status_flipped: bool,
    last_event: Duration,
    last_status: Duration,
    last_bytes: Duration,
}

impl StreamPace {
    /// For a stream whose first event, at `now`, names everything.
    pub const fn new(now: Duration) -> Self {
        Self { pending: LiveTopics::NONE, status_flipped: false, last_event: now, last_status: now, last_bytes: now }
    }

    /// Records a change.
    pub const fn note(&mut self, changed: LiveTopics, status_flipped: bool) {
        self.pending = self.pending.with(changed);
        self.status_flipped |= status_flipped;
    }

    /// What to send at `now`, if anything; it counts as sent.
    pub fn take_due(&mut self, now: Duration) -> Option<DueMessage> {
        let since = |then: Duration| now.saturating_sub(then);
        let status_may_wait = !self.status_flipped && since(self.last_status) < STATUS_INTERVAL;
        let due = if status_may_wait { self.pending.without(LiveTopics::STATUS) } else { self.pending };
        if !due.is_empty() && since(self.last_event) >= EVENT_INTERVAL {
            self.pending = self.pending.without(due);
            if due.has(LiveTopics::STATUS) {
                (self.last_status, self.status_flipped) = (now, false);
            }
            (self.last_event, self.last_bytes) = (now, now);
            return Some(DueMessage::Changed(due));
        }
        if since(self.last_bytes) >= COMMENT_INTERVAL {
            self.last_bytes = now;
            return Some(DueMessage::Comment);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn names_stand_in_a_fixed_order() {
        let names: Vec<_> = LiveTopics::ALL.names().collect();
        assert_eq!(names, ["status", "team", "feedback", "stats", "guilds", "sessions", "me"]);
        assert_eq!(LiveTopics::PUBLIC.names().count(), 4);
        assert_eq!(LiveTopics::ME.with(LiveTopics::TEAM).names().collect::<Vec<_>>(), ["team", "me"]);
        assert_eq!(LiveTopics::NONE.names().count(), 0);
    }

    #[test]
    fn events_are_a_second_apart_and_merge_what_came_meanwhile() {
        let mut pace = StreamPace::new(at(5000));
        pace.note(LiveTopics::TEAM, false);
        assert_eq!(pace.take_due(at(5999)), None);
        pace.note(LiveTopics::GUILDS, false);
        assert_eq!(pace.take_due(at(6000)), Some(DueMessage::Changed(LiveTopics::TEAM.with(LiveTopics::GUILDS))));
        assert_eq!(pace.take_due(at(9000)), None, "said once");
    }

    #[test]
    fn the_status_waits_unless_the_bot_has_come_up_or_gone_down() {
        let mut pace = StreamPace::new(at(0));
        pace.note(LiveTopics::STATUS, false);
        assert_eq!(pace.take_due(at(14_999)), None);
        assert_eq!(pace.take_due(at(15_000)), Some(DueMessage::Changed(LiveTopics::STATUS)));
        pace.note(LiveTopics::STATUS.with(LiveTopics::STATS), false);
        assert_eq!(
            pace.take_due(at(16_000)),
            Some(DueMessage::Changed(LiveTopics::STATS)),
            "the others do not wait for it"
        );
        pace.note(LiveTopics::STATUS, true);
        assert_eq!(pace.take_due(at(16_500)), None, "but a second it waits");
        assert_eq!(pace.take_due(at(17_000)), Some(DueMessage::Changed(LiveTopics::STATUS)));
        pace.note(LiveTopics::STATUS, false);
        assert_eq!(pace.take_due(at(31_999)), None);
        assert_eq!(pace.take_due(at(32_000)), Some(DueMessage::Changed(LiveTopics::STATUS)));
    }

    #[test]
    fn a_comment_is_sent_after_15_seconds_without_a_byte() {
        let mut pace = StreamPace::new(at(0));
        assert_eq!(pace.take_due(at(14_999)), None);
        assert_eq!(pace.take_due(at(15_000)), Some(DueMessage::Comment));
        pace.note(LiveTopics::TEAM, false);
        assert_eq!(pace.take_due(at(20_000)), Some(DueMessage::Changed(LiveTopics::TEAM)));
        assert_eq!(pace.take_due(at(34_999)), None, "an event is a sign of life, too");
        assert_eq!(pace.take_due(at(35_000)), Some(DueMessage::Comment));
    }
}
