//! Times on pages. The server doesn't know a visitor's time zone: it writes UTC, and `assets/times.js` shows each `<time>` in the visitor's
//! zone, with UTC on hover.

use domain::Time;
use maud::{Markup, html};

use super::words::Words;

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
        let (year, month, day) = time.date();
        let minutes = time.seconds() / 60;
        let clock = format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
        match self {
            Self::Clock => clock,
            Self::EndOf(began) if time.date() == began.date() => clock,
            Self::Moment(other) | Self::EndOf(other) if year == other.date().0 => {
                format!("{}, {clock}", (words.status.day)(month, day))
            }
            Self::Moment(_) | Self::EndOf(_) | Self::Date => {
                format!("{}, {clock}", (words.status.date)(year, month, day))
            }
            Self::Seconds => format!("{clock}:{:02}", time.seconds() % 60),
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
