//! How often pages of members may be requested: one budget for all of the process's listings.
//!
//! The bot's processes share the platform's rate limit, and the bot's own requests come first. So each process uses its shards'
//! share, and all listings slow down when the platform rate limits the bot.

use std::time::Duration;

/// After this time without another limit, pages are requested at the full rate again.
const RECOVERY: Duration = Duration::from_mins(1);
/// Each limit halves the budget, down to a sixteenth.
const MOST_HALVINGS: i32 = 4;
/// Listings continue at this rate at least.
const LONGEST_INTERVAL: Duration = Duration::from_hours(1);

/// When the next page may be asked for.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    next: Duration,
    limited_until: Duration,
    halvings: i32,
}

impl Budget {
    /// When the next page may be asked for.
    pub(crate) fn next_page(&self) -> Duration {
        self.next.max(self.limited_until)
    }

    /// Until when the platform rate limits the bot, as far as it has said.
    pub(crate) fn limited_until(&self) -> Duration {
        self.limited_until
    }

    /// Records that a page is requested now, at this rate of pages per second.
    pub(crate) fn spend(&mut self, now: Duration, rate: f64) {
        self.recover(now);
        let interval = Duration::try_from_secs_f64(self.slowdown() / rate).unwrap_or(LONGEST_INTERVAL);
        self.next = now + interval.min(LONGEST_INTERVAL);
    }

    /// The platform rate limits the bot for this long. If the bot is already waiting, this only extends the wait.
    pub(crate) fn limit(&mut self, now: Duration, time: Duration) {
        self.recover(now);
        if now >= self.limited_until {
            self.halvings = (self.halvings + 1).min(MOST_HALVINGS);
        }
        self.limited_until = self.limited_until.max(now + time);
    }

    fn recover(&mut self, now: Duration) {
        if now >= self.limited_until + RECOVERY {
            self.halvings = 0;
        }
    }

    /// By what factor the rate is reduced.
    pub(crate) fn slowdown(&self) -> f64 {
        2f64.powi(self.halvings)
    }
}

/// The pages per second for a process with this many of the bot's shards.
pub(crate) fn share(rate: f64, own: usize, all: u32) -> f64 {
    let all = all.max(1);
    let own = u32::try_from(own).unwrap_or(all).clamp(1, all);
    rate * f64::from(own) / f64::from(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_process_takes_the_share_of_its_shards() {
        for (own, all, rate) in [(1, 1, 10.0), (1, 4, 2.5), (4, 4, 10.0), (0, 4, 2.5), (3, 0, 10.0), (9, 4, 10.0)] {
            assert!((share(10.0, own, all) - rate).abs() < 1e-9, "{own} of {all}");
        }
    }

    #[test]
    fn listings_never_stop_for_ever() {
        for rate in [1e-300, f64::MIN_POSITIVE, 0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            let mut budget = Budget::default();
            budget.spend(SECOND, rate);
            assert!(budget.next_page() <= SECOND + LONGEST_INTERVAL, "{rate}");
        }
    }

    #[test]
    fn the_minute_begins_when_the_wait_is_over() {
        let mut budget = Budget::default();
        budget.limit(SECOND, 100 * SECOND);
        budget.spend(160 * SECOND, 1.0);
        assert_eq!(budget.next_page(), 162 * SECOND, "half as often");
        budget.spend(162 * SECOND, 1.0);
        assert_eq!(budget.next_page(), 163 * SECOND, "as often as at first");
    }

    /// A limit during a wait can extend it but never shortens it.
    #[test]
    fn a_wait_is_never_cut_short() {
        let mut budget = Budget::default();
        budget.limit(SECOND, 10 * SECOND);
        budget.limit(2 * SECOND, SECOND);
        assert_eq!(budget.next_page(), 11 * SECOND);
        budget.limit(3 * SECOND, 20 * SECOND);
        assert_eq!(budget.next_page(), 23 * SECOND);
        budget.spend(23 * SECOND, 1.0);
        assert_eq!(budget.next_page(), 25 * SECOND, "all of that halved the rate once");
    }
}
