//! A log throttle: what happens often is reported the first time, then at most once per minute, with how often it happened.

use std::time::Duration;

use parking_lot::Mutex;

const EVERY: Duration = Duration::from_mins(1);

/// One kind of event that may come in floods.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<Flood>);

#[derive(Debug, Default)]
struct Flood {
    /// When the next report may be made, in the clock's ticks.
    next: Duration,
    unreported: u64,
}

impl Throttle {
    /// Counts an event. `Some` if it is to be reported now: how many there were since the last report, this one included.
    pub fn count(&self, now: Duration) -> Option<u64> {
        let mut flood = self.0.lock();
        flood.unreported = flood.unreported.saturating_add(1);
        flood.report(now)
    }

    /// How many events wait for a report, if it may be made now: a flood that has ended is told to its end.
    pub fn rest(&self, now: Duration) -> Option<u64> {
        self.0.lock().report(now)
    }
}

impl Flood {
    fn report(&mut self, now: Duration) -> Option<u64> {
        if now < self.next || self.unreported == 0 {
            return None;
        }
        self.next = now + EVERY;
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_at_once_then_one_report_per_minute_with_the_count() {
        let throttle = Throttle::default();
        let at = Duration::from_secs;
        assert_eq!(throttle.count(at(5)), Some(1));
        for second in 6..65 {
            assert_eq!(throttle.count(at(second)), None);
        }
        assert_eq!(throttle.count(at(65)), Some(60));
        assert_eq!(throttle.count(at(66)), None);
        assert_eq!(throttle.rest(at(124)), None);
        assert_eq!(throttle.rest(at(125)), Some(1));
        assert_eq!(throttle.rest(at(4000)), None, "nothing new");
        assert_eq!(throttle.count(at(4000)), Some(1));
    }
}
