//! A point in time as a calendar and a clock show it, in UTC: the pages are made on the server, which knows no visitor's time zone.

use domain::Time;

/// A date and a time of day, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CalendarTime {
    /// `2026`
    pub(super) year: String,
    /// From 0 for January.
    pub(super) month: usize,
    /// From 1.
    pub(super) day: u8,
    /// `23:17`
    pub(super) time: String,
}

impl CalendarTime {
    pub(super) fn of(time: Time) -> Self {
        let text = time.iso8601();
        let mut parts = text.split(['-', 'T', 'Z']);
        let mut next = || parts.next().unwrap_or_default();
        let (year, month, day, time) = (next().to_owned(), next(), next(), next());
        Self {
            year,
            month: month.parse::<usize>().unwrap_or(1).clamp(1, 12) - 1,
            day: day.parse().unwrap_or(1),
            time: time.get(..5).unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_a_date_and_a_time() {
        let expected = CalendarTime { year: "2026".to_owned(), month: 10, day: 5, time: "23:17".to_owned() };
        assert_eq!(CalendarTime::of(Time::from_seconds(1_793_920_679)), expected);
        assert_eq!(CalendarTime::of(Time::default()).month, 0);
    }
}
