//! Failures in a row, and when they are worth a word.

use std::time::Duration;

/// Who has sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Sender,
    Heartbeat,
}

/// Whether the service can be reached.
#[derive(Default)]
pub(crate) struct Outage {
    /// Failures in a row, by channel.
    failures: [u32; 2],
    /// Channels that have failed in this outage.
    has_failed: [bool; 2],
    since: Duration,
}

impl Outage {
    pub(crate) fn is_on(&self) -> bool {
        self.has_failed.contains(&true)
    }

    /// One more failure in a row; gives how many.
    pub(crate) fn count(&mut self, channel: Channel) -> u32 {
        let failures = &mut self.failures[channel as usize];
        *failures = failures.saturating_add(1);
        *failures
    }

    /// The service does not serve. Says whether an outage begins with that.
    pub(crate) fn begin(&mut self, channel: Channel, now: Duration) -> bool {
        let is_first = !self.is_on();
        if is_first {
            self.since = now;
        }
        self.has_failed[channel as usize] = true;
        is_first
    }

    /// The service has answered. Gives how long the outage was, if it ends with that: when every channel that has
    /// failed was answered again.
    pub(crate) fn succeed(&mut self, channel: Channel, now: Duration) -> Option<Duration> {
        self.failures[channel as usize] = 0;
        if !self.is_on() {
            return None;
        }
        self.has_failed[channel as usize] = false;
        (!self.is_on()).then(|| now.saturating_sub(self.since))
    }
}
