//! Which time to trust. The system's clock can be set wrong: by a person, a virtual machine, a bad time server. Trusting it at
//! once would end every session and revoke every grant. Ticks only move forward, so a clock that moves against them was set.
//! The new time counts once it has stood for five minutes. Until then, the old time continues by the ticks, and nothing is
//! deleted because its time is over.

use std::time::Duration;

use super::Time;
use crate::saturating;

/// A clock that moves by more than this against the ticks was set.
pub const STEP: Duration = Duration::from_mins(1);

/// How long a new time must stand before it is trusted, and before anything is deleted by it. Startup counts as a new time.
pub const STANDING: Duration = Duration::from_mins(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockEvent {
    /// It was set, by this many milliseconds.
    Stepped(i64),
    /// It is back at the trusted time.
    Returned,
    /// The new time has stood long enough, and is trusted now.
    Believed,
}

/// Watches a clock. Times are kept as their distance from the ticks, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedTime {
    trusted: i64,
    /// The clock's own time at the last check.
    shown: i64,
    /// Since when it shows that, in ticks; `None` if it has for long.
    since: Option<Duration>,
}

impl TrustedTime {
    /// A clock about which only its time is known.
    pub fn at_start(shown: Time, ticks: Duration) -> Self {
        Self { since: Some(ticks), ..Self::settled(shown, ticks) }
    }

    /// A clock whose time has stood for long.
    pub fn settled(shown: Time, ticks: Duration) -> Self {
        let shown = distance(shown, ticks);
        Self { trusted: shown, shown, since: None }
    }

    /// The trusted time as its distance from the ticks, for [`trusted_time`].
    pub fn distance(&self) -> i64 {
        self.trusted
    }

    /// Whether what is over by this clock may be deleted.
    pub fn may_delete(&self, ticks: Duration) -> bool {
        self.has_stood(ticks) && self.is_trusted()
    }

    /// Checks the clock, which shows this time.
    pub fn look(&mut self, shown: Time, ticks: Duration) -> Option<ClockEvent> {
        let (before, was_trusted) = (self.shown, self.is_trusted());
        self.shown = distance(shown, ticks);
        let has_stepped = !is_near(self.shown, before);
        if has_stepped {
            self.since = Some(ticks);
        }
        let (is_trusted, has_stood) = (self.is_trusted(), self.has_stood(ticks));
        if is_trusted || has_stood {
            self.trusted = self.shown;
        }
        if is_trusted {
            (!was_trusted).then_some(ClockEvent::Returned)
        } else if has_stood {
            Some(ClockEvent::Believed)
        } else {
            has_stepped.then(|| ClockEvent::Stepped(self.shown.saturating_sub(before)))
        }
    }

    fn is_trusted(&self) -> bool {
        is_near(self.shown, self.trusted)
    }

    fn has_stood(&self, ticks: Duration) -> bool {
        self.since.is_none_or(|since| ticks.saturating_sub(since) >= STANDING)
    }
}

/// The time to use when the clock shows this: its own, or the trusted one if it was set.
pub fn trusted_time(shown: Time, ticks: Duration, trusted_distance: i64) -> Time {
    if is_near(distance(shown, ticks), trusted_distance) {
        return shown;
    }
    let trusted = millis_of(ticks).saturating_add(trusted_distance);
    Time::from_millis(u64::try_from(trusted).unwrap_or_default())
}

fn distance(time: Time, ticks: Duration) -> i64 {
    saturating::to_i64(time.millis()).saturating_sub(millis_of(ticks))
}

fn is_near(one: i64, other: i64) -> bool {
    u128::from(one.abs_diff(other)) <= STEP.as_millis()
}

fn millis_of(span: Duration) -> i64 {
    saturating::to_i64(span.as_millis())
}

#[cfg(test)]
mod tests {
    use super::ClockEvent::{Believed, Returned, Stepped};
    use super::*;

    const START: Time = Time::from_seconds(10_000_000);
    const TEN_DAYS: i64 = 864_000;

    /// One check: after how many more seconds, how far the clock is set by then, what is noticed, how far the trusted time is off
    /// then, and whether anything may be deleted.
    type Check = (u64, i64, Option<ClockEvent>, i64, bool);

    fn stepped(seconds: i64) -> ClockEvent {
        Stepped(seconds * 1_000)
    }

    fn play(case: &str, start: fn(Time, Duration) -> TrustedTime, checks: &[Check]) {
        let mut watch = start(START, Duration::ZERO);
        let mut seconds = 0;
        for (number, (passed, set, event, error, may_delete)) in checks.iter().enumerate() {
            seconds += passed;
            let (ticks, right) = (Duration::from_secs(seconds), START.seconds() + seconds);
            let shown = Time::from_seconds(right.checked_add_signed(*set).unwrap());
            let before = watch.distance();
            assert_eq!(watch.look(shown, ticks), *event, "{case}, check {number}");
            let trusted = saturating::to_i64(trusted_time(shown, ticks, watch.distance()).seconds());
            assert_eq!(trusted - saturating::to_i64(right), *error, "{case}, check {number}");
            assert_eq!(watch.may_delete(ticks), *may_delete, "{case}, check {number}");
            if matches!(event, Some(Stepped(_))) {
                assert_eq!(watch.distance(), before, "{case}: not even before it is looked at");
            }
        }
    }

    #[test]
    fn a_new_time_counts_once_it_has_stood_for_five_minutes_and_nothing_is_deleted_before() {
        for set in [TEN_DAYS, -TEN_DAYS, 61, -61] {
            play(
                "set",
                TrustedTime::settled,
                &[
                    (5, 0, None, 0, true),
                    (5, set, Some(stepped(set)), 0, false),
                    (5, set, None, 0, false),
                    (294, set, None, 0, false),
                    (1, set, Some(Believed), set, true),
                    (5, set, None, set, true),
                ],
            );
            play(
                "set back",
                TrustedTime::settled,
                &[
                    (5, set, Some(stepped(set)), 0, false),
                    (200, set, None, 0, false),
                    (5, 0, Some(Returned), 0, false),
                    (299, 0, None, 0, false),
                    (1, 0, None, 0, true),
                ],
            );
            play(
                "set again",
                TrustedTime::settled,
                &[
                    (5, set, Some(stepped(set)), 0, false),
                    (200, set, None, 0, false),
                    (5, 2 * set, Some(stepped(set)), 0, false),
                    (299, 2 * set, None, 0, false),
                    (1, 2 * set, Some(Believed), 2 * set, true),
                ],
            );
            play(
                "set right after a start",
                TrustedTime::at_start,
                &[
                    (200, 0, None, 0, false),
                    (5, set, Some(stepped(set)), 0, false),
                    (299, set, None, 0, false),
                    (1, set, Some(Believed), set, true),
                ],
            );
        }
    }

    #[test]
    fn nothing_is_deleted_for_five_minutes_after_a_start() {
        play(
            "start",
            TrustedTime::at_start,
            &[(0, 0, None, 0, false), (299, 0, None, 0, false), (1, 0, None, 0, true)],
        );
    }

    #[test]
    fn small_corrections_are_followed_at_once() {
        let checks: Vec<Check> = (1..=10).map(|round| (5, 60 * round, None, 60 * round, true)).collect();
        play("a minute each", TrustedTime::settled, &checks);
    }

    #[test]
    fn no_time_is_too_far_away() {
        let mut watch = TrustedTime::settled(Time::default(), Duration::MAX);
        for (shown, ticks) in [(u64::MAX, Duration::ZERO), (0, Duration::MAX), (u64::MAX, Duration::MAX)] {
            let shown = Time::from_millis(shown);
            watch.look(shown, ticks);
            trusted_time(shown, ticks, watch.distance());
        }
    }
}
