//! Limits on sizes and times. The defaults suit every bot.

use std::time::Duration;

/// Every limit of the feed, under the names that all SDKs share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The time between heartbeats.
    pub heartbeat_interval: Duration,
    /// How long the first change waits for others to share its request.
    pub gather_time: Duration,
    /// The most lines in one events request.
    pub batch_lines: usize,
    /// The most bytes in one events request, before compression.
    pub batch_bytes: usize,
    /// The most bytes in a line. A longer one is not sent; in a snapshot, its guild is sent as unavailable.
    pub line_bytes: usize,
    /// The most waiting changes. Beyond that, every shard is sent as a whole instead.
    pub changes: usize,
    /// The most waiting feedback entries. Further ones are refused, and their result says so.
    pub feedback: usize,
    /// The most feedback lines in one events request, so that feedback does not hold up changes.
    pub feedback_lines: usize,
    /// After any line about a guild, its member count alone is not sent for this long.
    pub member_count_interval: Duration,
    /// The time between checks of subscriptions, team, and whether the service still has everything.
    pub refresh_interval: Duration,
    /// The time limit for one callback.
    pub callback_timeout: Duration,
    /// How long to wait before calling a failed callback again.
    pub callback_retry: Duration,
    /// Guilds whose callbacks run at the same time.
    pub callbacks_at_once: usize,
    /// Pages of members per second, for all of the bot's processes together; each process uses its shards' share. It must be
    /// a finite number above 0, or the feed does not start.
    pub listing_rate: f64,
    /// The delay after the first failed listing of members; doubles with each failure.
    pub listing_retry: Duration,
    /// The longest delay after a failed listing of members.
    pub longest_listing_retry: Duration,
    /// How often a list of subscriptions is sent. If the last try is refused too, none are sent until the callback returns
    /// something else.
    pub subscription_tries: u32,
    /// A request without progress for this long has failed.
    pub stall_timeout: Duration,
    /// A snapshot whose lines come slowly still sends what it has at least this often.
    pub flush_interval: Duration,
    /// The delay after the first failed request; doubles with each failure.
    pub first_retry: Duration,
    /// The longest delay after a failed request.
    pub longest_retry: Duration,
    /// A longer `Retry-After` is shortened to this.
    pub longest_retry_after: Duration,
    /// The time limit for closing.
    pub close_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(15),
            gather_time: Duration::from_millis(500),
            batch_lines: 500,
            batch_bytes: 1024 * 1024,
            line_bytes: 1024 * 1024,
            changes: 20_000,
            feedback: 1_000,
            feedback_lines: 100,
            member_count_interval: Duration::from_mins(1),
            refresh_interval: Duration::from_mins(5),
            callback_timeout: Duration::from_secs(15),
            callback_retry: Duration::from_mins(1),
            callbacks_at_once: 16,
            listing_rate: 10.0,
            listing_retry: Duration::from_secs(5),
            longest_listing_retry: Duration::from_mins(5),
            subscription_tries: 5,
            stall_timeout: Duration::from_secs(30),
            flush_interval: Duration::from_secs(5),
            first_retry: Duration::from_secs(1),
            longest_retry: Duration::from_mins(1),
            longest_retry_after: Duration::from_hours(1),
            close_timeout: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Checks the limits; the error says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.listing_rate.is_finite() && self.listing_rate > 0.0 {
            return Ok(());
        }
        Err(format!(
            "limits.listing_rate is {}: it must be a number of pages per second above 0, like {}",
            self.listing_rate,
            Self::default().listing_rate
        ))
    }

    /// The delay after the n-th failure in a row. Half of it is random, so that many processes do not retry in step.
    pub(crate) fn retry_delay(&self, failures: u32, random: f64) -> Duration {
        let factor = 2u32.saturating_pow(failures.saturating_sub(1));
        let delay = self.first_retry.saturating_mul(factor).min(self.longest_retry);
        delay / 2 + (delay / 2).mul_f64(random)
    }

    /// The delay that a `Retry-After` header asks for, in seconds or as a date.
    pub(crate) fn asked_delay(&self, header: &str, epoch: f64, random: f64) -> Option<Duration> {
        let seconds = header.trim().parse().ok().or_else(|| Some((http_date(header)? - epoch).max(0.0)))?;
        let longest = self.longest_retry_after;
        let asked = Duration::try_from_secs_f64(seconds).ok()?.min(longest);
        Some(asked + asked.min(Duration::from_secs(1)).mul_f64(random))
    }

    /// The delay after the n-th failed listing in a row.
    pub(crate) fn listing_delay(&self, failures: u32) -> Duration {
        let factor = 2u32.saturating_pow(failures.saturating_sub(1));
        self.listing_retry.saturating_mul(factor).min(self.longest_listing_retry)
    }
}

/// Epoch seconds of a date like `Tue, 14 Nov 2023 22:13:20 GMT`, the only form that HTTP still writes.
fn http_date(text: &str) -> Option<f64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_ascii_whitespace().skip(1);
    let day: i64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = i64::try_from(MONTHS.iter().position(|one| *one == month)?).ok()? + 1;
    let year: i64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut time = words.next()?.splitn(3, ':').map(|part| part.parse::<u32>().ok());
    let (hours, minutes, seconds) = (time.next()??, time.next()??, time.next()??);
    // Years begin in March here, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let days = u32::try_from(days).ok()?;
    Some(f64::from(days) * 86_400.0 + f64::from(hours) * 3_600.0 + f64::from(minutes) * 60.0 + f64::from(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
            ("Tue, 14 Nov 2023 22:13:20 GMT", 1_700_000_000.0),
            ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000.0),
            ("Fri, 01 Mar 2024 00:00:01 GMT", 1_709_251_201.0),
        ] {
            assert_eq!(http_date(text), Some(seconds), "{text}");
        }
        for text in ["", "soon", "Tue, 14 Nov", "Tue, 14 Nov 2023 22:13 GMT", "Tue, 14 Foo 2023 22:13:20 GMT"] {
            assert_eq!(http_date(text), None, "{text}");
        }
    }
}
