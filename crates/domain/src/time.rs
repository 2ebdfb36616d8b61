//! A point in time. Rules take it as an argument; only `clock` knows the current time.

use std::time::Duration;

use crate::saturating;

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Seconds since 1970, with their fraction.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double exactly")]
    pub const fn fractional_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The year, the month and the day in UTC, each counted as people do.
    pub fn date(self) -> (u64, u64, u64) {
        // Eras of 400 years that begin on 1 March, so that a leap day is the last of its year.
        let days = self.seconds() / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (era * 400 + year_of_era + u64::from(month <= 2), month, day)
    }

    /// ISO 8601, in UTC, to the second: `2026-11-15T23:17:00Z`.
    pub fn iso8601(self) -> String {
        let (year, month, day) = self.date();
        let second = self.seconds() % 86_400;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// A time in ISO 8601, to the minute or to the second, in UTC or with an offset: `2026-11-15T23:17Z`, `2026-11-15T23:17:00+01:00`.
    pub fn from_iso8601(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once(['T', 't', ' '])?;
        let [year, month, day] = numbers(date, '-')?;
        let zone = rest.find(['Z', 'z', '+', '-'])?;
        let (clock, zone) = rest.split_at_checked(zone)?;
        let clock = if clock.len() == 5 { format!("{clock}:00") } else { clock.to_owned() };
        let [hour, minute, second] = numbers(&clock, ':')?;
        let offset = match zone {
            "Z" | "z" => 0,
            _ => {
                let [hours, minutes] = numbers(zone.get(1..)?, ':')?;
                let seconds =
                    i64::try_from(hours * 3_600 + minutes * 60).ok().filter(|_| hours < 24 && minutes < 60)?;
                if zone.starts_with('-') { -seconds } else { seconds }
            }
        };
        if !(1970..=9999).contains(&year)
            || !(1..=12).contains(&month)
            || day == 0
            || hour > 23
            || minute > 59
            || second > 59
        {
            return None;
        }
        // As in `date`: years that begin on 1 March.
        let year_from_march = year - u64::from(month <= 2);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days =
            year_from_march * 365 + year_from_march / 4 - year_from_march / 100 + year_from_march / 400 + day_of_year;
        let seconds = days.checked_sub(719_468)? * 86_400 + hour * 3_600 + minute * 60 + second;
        let utc = Self::from_seconds(seconds);
        // A day that the month doesn't have turns into another date.
        if !utc.iso8601().starts_with(date) {
            return None;
        }
        seconds.checked_add_signed(-offset).map(Self::from_seconds)
    }

    /// How long after `earlier` this is; zero if it isn't.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// How far apart the two are, whichever is earlier.
    pub const fn apart(self, other: Self) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }

    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(saturating::millis(span)))
    }

    /// That much earlier, but not before 1970.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(saturating::millis(span)))
    }
}

/// `N` numbers with separators in between. Each has two digits, except for a date's year, which has four.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[u64; N]> {
    let number = |(index, part): (usize, &str)| {
        let digits = if index == 0 && separator == '-' { 4 } else { 2 };
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    let numbers: Option<Vec<u64>> = text.split(separator).enumerate().map(number).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_iso_8601() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_794_784_620, "2026-11-15T23:17:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Time::from_seconds(seconds).iso8601(), text);
        }
        assert!(Time::from_millis(u64::MAX).iso8601().ends_with('Z'));
    }

    #[test]
    fn times_are_read_as_iso_8601() {
        for seconds in [0, 951_782_399, 951_782_400, 951_868_800, 1_735_689_599, 4_107_542_400, 253_402_300_799] {
            let time = Time::from_seconds(seconds);
            assert_eq!(Time::from_iso8601(&time.iso8601()), Some(time));
        }
        for (text, expected) in [
            ("2026-11-15T23:17Z", Some("2026-11-15T23:17:00Z")),
            ("2026-11-15 23:17z", Some("2026-11-15T23:17:00Z")),
            ("2026-11-15T23:17:30+01:00", Some("2026-11-15T22:17:30Z")),
            ("2026-11-15T23:17-05:30", Some("2026-11-16T04:47:00Z")),
            ("2024-02-29T00:00Z", Some("2024-02-29T00:00:00Z")),
            ("2026-02-29T00:00Z", None),
            ("2026-04-31T00:00Z", None),
            ("2026-13-01T00:00Z", None),
            ("2026-00-01T00:00Z", None),
            ("2026-11-15T24:00Z", None),
            ("2026-11-15T23:60Z", None),
            ("2026-11-15T23:17", None),
            ("2026-11-15", None),
            ("2026-11-15T23Z", None),
            ("26-11-15T23:17Z", None),
            ("+026-11-15T23:17Z", None),
            ("2026-11-15T23:17+25:00", None),
            ("1969-12-31T23:17Z", None),
            ("1970-01-01T00:00+01:00", None),
            ("tomorrow", None),
            ("", None),
            ("2026-11-15T23:17Zé", None),
            ("ééTéZ", None),
        ] {
            assert_eq!(Time::from_iso8601(text).map(Time::iso8601).as_deref(), expected, "{text}");
        }
    }
}
