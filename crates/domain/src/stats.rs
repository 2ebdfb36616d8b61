//! The public totals.

use crate::saturating;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Guilds that have the bot.
    pub guilds: u64,
    /// Their members, added up.
    pub members: u64,
    /// The bot's shards, as shown in the status.
    pub shards: u64,
    pub ratings: Ratings,
}

/// The ratings of all feedback entries, shown or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratings {
    pub count: u64,
    pub sum: u64,
}

impl Ratings {
    /// The average with two decimals; `None` if there are no ratings.
    pub fn average(self) -> Option<f64> {
        let (count, sum) = (u128::from(self.count), u128::from(self.sum));
        let hundredths = (sum * 100 + count / 2).checked_div(count)?;
        // Ratings are at most 5, so this is at most 500 unless the sum was tampered with.
        Some(f64::from(saturating::to_u32(hundredths)) / 100.0)
    }
}

/// How a feedback change affects the ratings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RatingsChange {
    /// The change in their number.
    pub count: i64,
    /// The change in their sum.
    pub sum: i64,
}

impl RatingsChange {
    /// An entry had one rating and now has another; no rating means no entry.
    pub fn of(before: Option<i64>, after: Option<i64>) -> Self {
        let count = |rating: Option<i64>| i64::from(rating.is_some());
        Self { count: count(after) - count(before), sum: after.unwrap_or(0) - before.unwrap_or(0) }
    }

    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl std::ops::AddAssign for RatingsChange {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.sum += more.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_has_two_decimals() {
        let table = [
            (0, 0, None),
            (0, 7, None),
            (1, 5, Some(5.0)),
            (2, 9, Some(4.5)),
            (3, 14, Some(4.67)),
            (3, 13, Some(4.33)),
            (8, 33, Some(4.13)),
            (200, 901, Some(4.51)),
            (1_000_000, 4_999_999, Some(5.0)),
            (u64::MAX, u64::MAX, Some(1.0)),
        ];
        for (count, sum, average) in table {
            assert_eq!(Ratings { count, sum }.average(), average, "{sum} of {count}");
        }
    }

    #[test]
    fn what_a_change_does_to_the_ratings() {
        let table = [
            (None, None, (0, 0)),
            (None, Some(4), (1, 4)),
            (Some(4), Some(4), (0, 0)),
            (Some(4), Some(1), (0, -3)),
            (Some(4), None, (-1, -4)),
        ];
        let mut all = RatingsChange::default();
        for (before, after, (count, sum)) in table {
            let change = RatingsChange::of(before, after);
            assert_eq!(change, RatingsChange { count, sum }, "{before:?} {after:?}");
            assert_eq!(change.is_nothing(), before == after);
            all += change;
        }
        assert_eq!(all, RatingsChange { count: 0, sum: -3 });
    }
}
