//! Keeps a repeated log line to one per span of time and subject, in a table of bounded size.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

/// How many subjects are remembered. Beyond that, new ones say nothing until others' spans are over.
const SUBJECTS: usize = 1_024;

/// Lets a line of each subject pass once per span.
pub struct LogThrottle<S> {
    span: Duration,
    passed: Mutex<HashMap<S, Duration>>,
}

impl<S: Clone + Eq + Hash> LogThrottle<S> {
    /// One line per subject and this span.
    pub fn new(span: Duration) -> Self {
        Self { span, passed: Mutex::default() }
    }

    /// Takes the subject's line for the span that begins `now`, in ticks of the clock; `false` if it was taken before.
    pub fn take(&self, subject: &S, now: Duration) -> bool {
        let mut passed = self.passed.lock();
        let fresh = |at: Duration| now.saturating_sub(at) < self.span;
        if passed.get(subject).is_some_and(|at| fresh(*at)) {
            return false;
        }
        if passed.len() >= SUBJECTS {
            passed.retain(|_, at| fresh(*at));
        }
        if passed.len() >= SUBJECTS && !passed.contains_key(subject) {
            return false;
        }
        passed.insert(subject.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_span_and_subject_and_no_more_than_the_table_holds() {
        let throttle = LogThrottle::new(Duration::from_mins(1));
        let at = Duration::from_secs;
        assert!(throttle.take(&0, at(0)) && throttle.take(&1, at(5)));
        assert!(!throttle.take(&0, at(59)));
        assert!(throttle.take(&0, at(60)) && !throttle.take(&1, at(60)));
        let taken = (10..10 + 2 * SUBJECTS).filter(|subject| throttle.take(subject, at(61))).count();
        assert_eq!(taken, SUBJECTS - 2);
        assert_eq!(throttle.passed.lock().len(), SUBJECTS);
        assert!(throttle.take(&5000, at(200)), "the others' spans are over");
    }
}
