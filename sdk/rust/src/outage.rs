//! Failures in a row, and when to log them.

use std::time::Duration;

/// Who has sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Sender,
    Heartbeat,
    /// The sender's heartbeat before a snapshot: its failures count for the sender, its success for both.
    Introduction,
}

impl Channel {
    fn index(self) -> usize {
        usize::from(self == Self::Heartbeat)
    }
}

/// Whether the service can be reached.
#[derive(Default)]
pub(crate) struct Outage {
    /// Consecutive failures, by channel.
    failures: [u32; 2],
    /// Channels that have failed in this outage.
    has_failed: [bool; 2],
    since: Duration,
    is_key_refused: bool,
}

impl Outage {
    pub(crate) fn is_on(&self) -> bool {
        self.has_failed.contains(&true)
    }

    /// Counts one more consecutive failure; returns how many there are.
    pub(crate) fn count(&mut self, channel: Channel) -> u32 {
        let failures = &mut self.failures[channel.index()];
        *failures = failures.saturating_add(1);
        *failures
    }

    /// The service does not respond properly. Returns whether this starts an outage.
    pub(crate) fn begin(&mut self, channel: Channel, now: Duration) -> bool {
        let is_first = !self.is_on();
        if is_first {
            self.since = now;
            self.is_key_refused = false;
        }
        self.has_failed[channel.index()] = true;
        is_first
    }

    /// The service refuses the key. Returns whether this is the first time in this outage.
    pub(crate) fn refuse_key(&mut self) -> bool {
        !std::mem::replace(&mut self.is_key_refused, true)
    }

    /// The service has answered. Returns how long the outage lasted, if this ends it, which is when every channel that has
    /// failed gets an answer again.
    pub(crate) fn succeed(&mut self, channel: Channel, now: Duration) -> Option<Duration> {
        let was_on = self.is_on();
        let answered = if channel == Channel::Introduction { 0..2 } else { channel.index()..channel.index() + 1 };
        self.failures[answered.clone()].fill(0);
        self.has_failed[answered].fill(false);
        (was_on && !self.is_on()).then(|| now.saturating_sub(self.since))
    }
}
