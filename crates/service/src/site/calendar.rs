//! Times on pages. The server doesn't know a visitor's time zone: it writes UTC, and `assets/times.js` shows each `<time>` in the visitor's
//! zone, with UTC on hover.

use domain::Time;
use maud::{Markup, html};

use super::words::Words;

/// A date and a time of day, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CalendarTime {
    /// `2026`
    pub(super) year: String,
    /// From 0 for January.
    pub(super) month: usize,
    /// From 1.
    pub(super) day: u8,
    /// `23:17:59`
    time: String,
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
            time: time.get(..8).unwrap_or_default().to_owned(),
        }
    }

    fn is_same_day(&self, other: &Self) -> bool {
        (&self.year, self.month, self.day) == (&other.year, other.month, other.day)
    }
}

/// How much of a time to show. `assets/times.js` has the same formats.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeFormat {
    /// "23:17"
    Clock,
    /// "23:17:59"
    Seconds,
    /// "15 Nov, 23:17" in the year of this moment, else "15 Nov 2025, 23:17".
    Moment(Time),
    /// "15 Nov 2026, 23:17"
    Date,
    /// The end of something that began then: "23:17" on the same day, "15 Nov, 23:17" in the same year, else with the year.
    EndOf(Time),
}

impl TimeFormat {
    const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Seconds => "seconds",
            Self::Moment(_) => "moment",
            Self::Date => "date",
            Self::EndOf(_) => "end",
        }
    }

    /// The time in UTC, without "UTC".
    pub(super) fn text(self, words: &Words, time: Time) -> String {
        let at = CalendarTime::of(time);
        let clock = at.time.get(..5).unwrap_or_default();
        let is_in_year_of = |other: Time| at.year == CalendarTime::of(other).year;
        match self {
            Self::Clock => clock.to_owned(),
            Self::EndOf(began) if at.is_same_day(&CalendarTime::of(began)) => clock.to_owned(),
            Self::Moment(other) | Self::EndOf(other) if is_in_year_of(other) => {
                format!("{}, {clock}", (words.status.day)(&at))
            }
            Self::Moment(_) | Self::EndOf(_) | Self::Date => format!("{}, {clock}", (words.status.date)(&at)),
            Self::Seconds => at.time,
        }
    }

    /// "15 Nov, 23:17 UTC"
    pub(super) fn utc(self, words: &Words, time: Time) -> String {
        self.text(words, time) + " UTC"
    }

    /// The element with the time in UTC, until the script shows it in the visitor's zone.
    pub(super) fn element(self, words: &Words, time: Time) -> Markup {
        self.element_with(time, &self.utc(words, time))
    }

    /// The same, if something next to it says UTC.
    pub(super) fn element_with(self, time: Time, text: &str) -> Markup {
        let began = if let Self::EndOf(began) = self { Some(began.iso8601()) } else { None };
        html! { time datetime=(time.iso8601()) data-format=(self.name()) data-began=[began] { (text) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Language;

    /// 2026-11-05T23:17:59Z
    const TIME: Time = Time::from_seconds(1_793_920_679);

    #[test]
    fn a_moment_has_a_date_and_a_time() {
        let expected = CalendarTime { year: "2026".to_owned(), month: 10, day: 5, time: "23:17:59".to_owned() };
        assert_eq!(CalendarTime::of(TIME), expected);
        assert_eq!(CalendarTime::of(Time::default()).month, 0);
    }

    #[test]
    fn a_time_is_written_in_utc_until_the_script_knows_the_zone() {
        let day_before = Time::from_seconds(TIME.seconds() - 86_400);
        let year_before = Time::from_seconds(TIME.seconds() - 365 * 86_400);
        for (format, english, german) in [
            (TimeFormat::Clock, "23:17 UTC", "23:17 UTC"),
            (TimeFormat::Seconds, "23:17:59 UTC", "23:17:59 UTC"),
            (TimeFormat::Moment(day_before), "5 Nov, 23:17 UTC", "5. Nov., 23:17 UTC"),
            (TimeFormat::Moment(year_before), "5 Nov 2026, 23:17 UTC", "5. Nov. 2026, 23:17 UTC"),
            (TimeFormat::Date, "5 Nov 2026, 23:17 UTC", "5. Nov. 2026, 23:17 UTC"),
            (TimeFormat::EndOf(TIME), "23:17 UTC", "23:17 UTC"),
            (TimeFormat::EndOf(day_before), "5 Nov, 23:17 UTC", "5. Nov., 23:17 UTC"),
            (TimeFormat::EndOf(year_before), "5 Nov 2026, 23:17 UTC", "5. Nov. 2026, 23:17 UTC"),
        ] {
            assert_eq!(format.utc(Language::English.words(), TIME), english);
            assert_eq!(format.utc(Language::German.words(), TIME), german);
        }
        let element = TimeFormat::EndOf(day_before).element(Language::English.words(), TIME).into_string();
        let expected = "<time datetime=\"2026-11-05T23:17:59Z\" data-format=\"end\" data-began=\"2026-11-04T23:17:59Z\">5 Nov, 23:17 \
                        UTC</time>";
        assert_eq!(element, expected);
    }
}
