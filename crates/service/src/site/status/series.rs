//! The history in as many pieces as the charts show. Their number is fixed, and pieces without data are unknown.

use std::time::Duration;

use domain::Time;
use domain::history::recording::day_of;
use domain::history::{BotState, Day, History, Minute};
use domain::saturating;

use crate::site::numbers::percent;
use crate::site::words::Words;

pub(super) const DAY_MINUTES: u32 = 1_440;
const DAY: Duration = Duration::from_hours(24);

/// A piece of the last 24 hours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ChartBucket {
    pub(super) begins: Time,
    /// How many of its minutes are known; none for a gap.
    pub(super) known: u32,
    /// The worst of them.
    pub(super) worst: Option<BotState>,
    /// Milliseconds, averaged over the minutes that have a latency.
    pub(super) latency: Option<f64>,
}

/// This many pieces of this length, oldest first; `now` is in the last. They begin at whole multiples of their length.
pub(super) fn buckets(minutes: &[Minute], now: Time, span: Duration, count: usize) -> Vec<ChartBucket> {
    let millis = saturating::millis(span).max(1);
    let last = now.millis() / millis;
    let first = last.saturating_sub(saturating::to_u64(count).saturating_sub(1));
    let mut sums = vec![(0.0, 0_u32); count];
    let mut buckets: Vec<ChartBucket> = (first..)
        .take(count)
        .map(|index| ChartBucket { begins: Time::from_millis(index * millis), known: 0, worst: None, latency: None })
        .collect();
    for minute in minutes {
        let index = (minute.begins.millis() / millis).checked_sub(first).and_then(|index| usize::try_from(index).ok());
        let Some((bucket, sum)) = index.and_then(|index| buckets.get_mut(index).zip(sums.get_mut(index))) else {
            continue;
        };
        bucket.known += 1;
        bucket.worst = bucket.worst.max(Some(minute.state));
        if let Some(latency) = minute.latency.filter(|latency| latency.is_finite() && *latency >= 0.0) {
            *sum = (sum.0 + latency, sum.1 + 1);
            bucket.latency = Some(sum.0 / f64::from(sum.1));
        }
    }
    buckets
}

/// This many days, oldest first, ending with today; a day without data has no minutes.
pub(super) fn days(known: &[Day], now: Time, count: u64) -> Vec<Day> {
    let day = saturating::millis(DAY);
    let today = now.millis() / day;
    (0..count)
        .rev()
        .map(|ago| {
            let begins = Time::from_millis(today.saturating_sub(ago) * day);
            let found = known.binary_search_by_key(&begins, |day| day.begins).ok().and_then(|index| known.get(index));
            found.cloned().unwrap_or(Day { begins, up: 0, partial: 0, down: 0 })
        })
        .collect()
}

/// The days from the first recorded one on. Earlier days aren't gaps: the service wasn't running yet.
pub(super) fn since_first_known(days: &[Day]) -> &[Day] {
    let first = days.iter().position(|day| known_minutes(day) > 0).unwrap_or(days.len());
    days.get(first..).unwrap_or_default()
}

/// When the history began, if that was within the minutes that are kept.
pub(super) fn began(history: &History) -> Option<Time> {
    let (first, day) = (history.minutes.first()?.begins, history.days.first()?.begins);
    (day >= day_of(first)).then_some(first)
}

pub(super) fn known_minutes(day: &Day) -> u32 {
    day.up.saturating_add(day.partial).saturating_add(day.down)
}

/// How many minutes of a day have passed without data.
pub(super) fn unknown_minutes(day: &Day, now: Time) -> u32 {
    passed_minutes(day, now).saturating_sub(known_minutes(day))
}

pub(super) fn passed_minutes(day: &Day, now: Time) -> u32 {
    saturating::to_u32(now.since(day.begins).as_secs() / 60).min(DAY_MINUTES)
}

/// For how much of these days' recorded time every shard was up, as "99.98%". It is rounded down: a single minute short of a
/// hundred percent must show.
pub(super) fn percent_up(days: &[Day], words: &Words) -> Option<String> {
    let sum = |part: fn(&Day) -> u32| days.iter().map(|day| u64::from(part(day))).sum::<u64>();
    let (up, known) = (sum(|day| day.up), sum(known_minutes));
    (up * 10_000).checked_div(known).map(|hundredths| percent(hundredths, words))
}

/// Runs of neighbours that satisfy a condition: where each begins, and its length.
pub(super) fn runs<T>(items: &[T], holds: impl Fn(&T) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, _) in items.iter().enumerate().filter(|(_, item)| holds(item)) {
        match runs.last_mut() {
            Some((begin, length)) if *begin + *length == index => *length += 1,
            _ => runs.push((index, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Language;

    const QUARTER: Duration = Duration::from_mins(15);
    /// 2027-01-15T08:00:00Z
    const NOW: Time = Time::from_seconds(1_800_000_000);

    fn minute(ago: u64, state: BotState, latency: Option<f64>) -> Minute {
        Minute { begins: NOW.before(Duration::from_mins(ago)), state, latency }
    }

    #[test]
    fn a_day_has_96_quarters_whatever_is_stored() {
        for minutes in [
            Vec::new(),
            (0..1_440).rev().map(|ago| minute(ago, BotState::Up, Some(40.0))).collect(),
            // Older than a day, and from a clock that is ahead.
            vec![
                minute(1_440, BotState::Down, None),
                Minute { begins: NOW.after(QUARTER), ..minute(0, BotState::Down, None) },
            ],
        ] {
            let buckets = buckets(&minutes, NOW, QUARTER, 96);
            assert_eq!(buckets.len(), 96);
            assert_eq!(buckets[95].begins, NOW, "08:00 begins a quarter");
            assert_eq!(buckets[0].begins, NOW.before(QUARTER * 95));
            let known: u32 = buckets.iter().map(|bucket| bucket.known).sum();
            // One minute of the last quarter has begun.
            assert_eq!(known, if minutes.len() == 1_440 { 95 * 15 + 1 } else { 0 });
        }
        assert_eq!(buckets(&[], Time::default(), QUARTER, 4).len(), 4);
    }

    #[test]
    fn a_quarter_has_the_mean_of_what_is_known_and_the_worst_that_was() {
        let minutes = [
            minute(30, BotState::Up, Some(30.0)),
            minute(29, BotState::Partial, Some(50.0)),
            minute(28, BotState::Up, Some(f64::NAN)),
            minute(15, BotState::Down, None),
        ];
        let buckets = buckets(&minutes, NOW, QUARTER, 4);
        let seen: Vec<_> = buckets.iter().map(|bucket| (bucket.known, bucket.worst, bucket.latency)).collect();
        let expected = [
            (0, None, None),
            (3, Some(BotState::Partial), Some(40.0)),
            (1, Some(BotState::Down), None),
            (0, None, None),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn days_of_which_nothing_is_known_are_empty_and_never_down() {
        // Midnight, 8 hours before.
        let today = NOW.before(Duration::from_hours(8));
        let known = [
            Day { begins: today.before(DAY * 2), up: 1_438, partial: 1, down: 1 },
            Day { begins: today, up: 100, partial: 0, down: 0 },
        ];
        let days = days(&known, NOW, 90);
        assert_eq!(days.len(), 90);
        assert_eq!(days.iter().filter(|day| known_minutes(day) == 0).count(), 88);
        assert!(days.iter().all(|day| day.down <= 1));
        assert_eq!((&days[87], &days[89]), (&known[0], &known[1]));
        assert_eq!(unknown_minutes(&days[89], NOW), 380, "the rest of today is not unknown, it is to come");
        assert_eq!(unknown_minutes(&days[88], NOW), 1_440);
        assert_eq!(unknown_minutes(&days[87], NOW), 0);
    }

    #[test]
    fn a_history_starts_with_what_is_known_first() {
        let today = NOW.before(Duration::from_hours(8));
        let day = |ago: u32, up| Day { begins: today.before(DAY * ago), up, partial: 0, down: 0 };
        let known = [day(5, 0), day(3, 7), day(0, 100)];
        let days = days(&known, NOW, 90);
        let shown = since_first_known(&days);
        assert_eq!((shown.len(), &shown[0], &shown[1]), (4, &known[1], &day(2, 0)), "a gap after it is one");
        assert_eq!(since_first_known(&days[..80]), [], "nothing is known");

        let minutes = vec![minute(30, BotState::Up, None), minute(10, BotState::Up, None)];
        let history = |days: &[Day]| History { minutes: minutes.clone(), days: days.to_vec(), ..History::default() };
        assert_eq!(began(&history(&[day(0, 2)])), Some(minutes[0].begins));
        assert_eq!(began(&history(&[day(1, 2), day(0, 2)])), None, "it began before");
        assert_eq!(began(&History::default()), None);
    }

    #[test]
    fn percents_are_of_the_known_minutes_and_rounded_down() {
        let day = |up, partial, down| Day { begins: NOW, up, partial, down };
        for (days, expected) in [
            (vec![], None),
            (vec![day(0, 0, 0)], None),
            (vec![day(1, 0, 0), day(0, 0, 0)], Some("100%")),
            (vec![day(1_440, 0, 0); 89].into_iter().chain([day(1_439, 0, 1)]).collect(), Some("99.99%")),
            (vec![day(1, 1, 1)], Some("33.33%")),
            (vec![day(0, 0, 5)], Some("0.00%")),
        ] {
            assert_eq!(percent_up(&days, Language::English.words()).as_deref(), expected);
        }
        let half = percent_up(&[day(1, 1, 0)], Language::German.words());
        assert_eq!(half.as_deref(), Some("50,00\u{202f}%"));
    }

    #[test]
    fn neighbours_make_runs() {
        assert_eq!(runs(&[0, 1, 1, 0, 1], |item| *item == 1), [(1, 2), (4, 1)]);
        assert_eq!(runs(&[] as &[u8], |_| true), []);
    }
}
