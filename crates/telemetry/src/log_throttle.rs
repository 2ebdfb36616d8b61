//! A log throttle: frequent events are reported the first time, then at most once per minute with a count.

use std::collections::HashMap;
use std::hash::Hash;
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
    /// Counts an event. `Some` if it should be reported now: how many there were since the last report, including this one.
    pub fn count(&self, now: Duration) -> Option<u64> {
        let mut flood = self.0.lock();
        flood.unreported = flood.unreported.saturating_add(1);
        flood.report(now)
    }

    /// How many events wait for a report, if it may be made now, so that the end of a flood is reported too.
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

/// The same for each of many subjects. The number it remembers is limited; beyond that, new ones are not reported until the minute of
/// others is over.
#[derive(Debug)]
pub struct Throttles<S>(Mutex<HashMap<S, Flood>>);

const SUBJECTS: usize = 1_024;

impl<S> Default for Throttles<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Clone + Eq + Hash> Throttles<S> {
    /// Counts an event of this subject, like [`Throttle::count`].
    pub fn count(&self, subject: &S, now: Duration) -> Option<u64> {
        let mut floods = self.0.lock();
        if !floods.contains_key(subject) && floods.len() >= SUBJECTS {
            floods.retain(|_, flood| now < flood.next);
            if floods.len() >= SUBJECTS {
                return None;
            }
        }
        let flood = floods.entry(subject.clone()).or_default();
        flood.unreported = flood.unreported.saturating_add(1);
        flood.report(now)
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

    #[test]
    fn each_subject_has_its_own_count_and_there_is_a_bound_to_them() {
        let throttles = Throttles::default();
        let at = Duration::from_secs;
        assert_eq!((throttles.count(&0, at(0)), throttles.count(&1, at(5))), (Some(1), Some(1)));
        assert_eq!((throttles.count(&0, at(59)), throttles.count(&0, at(60))), (None, Some(2)));
        for subject in 2..SUBJECTS {
            assert_eq!(throttles.count(&subject, at(60)), Some(1));
        }
        assert_eq!(throttles.count(&SUBJECTS, at(60)), None, "no room");
        assert_eq!(throttles.count(&SUBJECTS, at(65)), Some(1), "the minute of one is over");
    }
}
