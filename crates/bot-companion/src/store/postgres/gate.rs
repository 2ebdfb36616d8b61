//! Keeps work away from a database that cannot be reached, so that nobody waits for it in vain. Now and then one piece of work is
//! let through; the first that succeeds opens the gate for all.

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Clock;

/// How often somebody may try.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) struct Gate {
    /// When the next may try, while it is shut.
    shut_until: Mutex<Option<Duration>>,
    /// The network does not care for a clock that a test turns.
    clock: Clock,
}

impl Default for Gate {
    fn default() -> Self {
        Self::by(Clock::system())
    }
}

impl Gate {
    fn by(clock: Clock) -> Self {
        Self { shut_until: Mutex::default(), clock }
    }

    /// Whether this piece of work may try.
    pub(super) fn lets_in(&self) -> bool {
        let mut shut_until = self.shut_until.lock();
        match *shut_until {
            None => true,
            Some(until) if self.clock.ticks() < until => false,
            Some(_) => {
                // Others wait for what becomes of this one.
                *shut_until = Some(self.clock.ticks() + PAUSE);
                true
            }
        }
    }

    /// The database could not be reached.
    pub(super) fn failed(&self) {
        *self.shut_until.lock() = Some(self.clock.ticks() + PAUSE);
    }

    /// The database has answered.
    pub(super) fn passed(&self) {
        let mut shut_until = self.shut_until.lock();
        if shut_until.is_some() {
            *shut_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Time;

    #[test]
    fn one_tries_for_all_until_it_succeeds() {
        let clock = Clock::manual(Time::from_seconds(1));
        let gate = Gate::by(clock.clone());
        assert!(gate.lets_in() && gate.lets_in());
        gate.failed();
        assert!(!gate.lets_in());
        clock.advance(PAUSE);
        assert!(gate.lets_in() && !gate.lets_in());
        clock.advance(PAUSE);
        assert!(gate.lets_in() && !gate.lets_in());
        gate.passed();
        assert!(gate.lets_in() && gate.lets_in());
    }
}
