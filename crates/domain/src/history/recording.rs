//! What is written about the bot's state: which minute, whether at all, and what is too old.

use std::time::Duration;

use super::super::Time;
use super::super::retention::{HISTORY_KEPT, MINUTES_KEPT};
use super::{BotState, Incident, Minute, Observation};
use crate::saturating;

const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// How far the newest recorded minute may be from the one to record, either way, without further checks: as far as the clocks
/// of replicas may differ, or as long as a short restart takes.
const AGREEMENT: Duration = Duration::from_mins(2);

/// How long the newest recorded minute must have been unchanged before a replica whose clock is further away may record: by
/// then nobody else does, so there is no other clock to disagree with.
pub const ALONE_AFTER: Duration = Duration::from_mins(2);

pub fn minute_of(time: Time) -> Time {
    begin(time, MINUTE)
}

pub fn day_of(time: Time) -> Time {
    begin(time, DAY)
}

fn begin(time: Time, span: Duration) -> Time {
    let span = saturating::millis(span);
    Time::from_millis(time.millis() / span * span)
}

/// The last minute that ended before this moment. It is the one to record: for the current one, nobody knows yet how it
/// continues, or whether a replica will see its end. Also, a clock that is a little ahead records nothing that has not
/// happened.
fn ended_minute(now: Time) -> Time {
    minute_of(now).before(MINUTE)
}

/// The minute to record, if the replica that saw this was watching during it.
pub fn minute_to_record(seen: &Observation, watching_since: Time) -> Option<Minute> {
    let begins = ended_minute(seen.at);
    let is_seen = watching_since < begins.after(MINUTE);
    is_seen.then_some(Minute { begins, state: seen.state, latency: seen.latency })
}

/// The most minutes that one observation corrects. It takes less time to notice silence, even for a replica that may only record
/// two minutes after its start.
const MOST_TROUBLED: usize = 10;

/// The ended minutes in which the bot was silent for at least half of the time, according to an observation. Silence is only noticed
/// after 90 seconds, so these minutes may have been recorded as up, or not at all. Correcting them makes uptime and incidents count
/// the same time.
pub fn troubled_minutes(seen: &Observation) -> Vec<Time> {
    if seen.state == BotState::Up {
        return Vec::new();
    }
    let ended = std::iter::successors(Some(ended_minute(seen.at)), |minute| {
        (*minute > Time::default()).then(|| minute.before(MINUTE))
    });
    ended.take(MOST_TROUBLED).take_while(|minute| has_half(*minute, seen.since, seen.at)).collect()
}

/// Whether at least half of a minute is in this span.
fn has_half(minute: Time, from: Time, to: Time) -> bool {
    minute.after(MINUTE).min(to).since(minute.max(from)) >= MINUTE / 2
}

impl Minute {
    /// The minute, corrected for the latest incident: if it covered at least half of the minute, the minute counts as part of it, even
    /// if the bot is up again by the time the minute is recorded.
    #[must_use]
    pub fn after_incident(&self, latest: Option<&Incident>) -> Self {
        let covering =
            latest.filter(|incident| incident.ended.is_some_and(|ended| has_half(self.begins, incident.began, ended)));
        covering.map_or_else(|| self.clone(), |incident| self.worsened(incident.worst))
    }

    /// The minute in this state, unless its own is worse.
    #[must_use]
    pub fn worsened(&self, state: BotState) -> Self {
        let state = state.max(self.state);
        // A bot that was down had no latency.
        Self { state, latency: self.latency.filter(|_| state != BotState::Down), ..*self }
    }
}

/// Whether an observation `at` this moment, by the observer's own clock, may be written. A clock that is far from the newest
/// minute is probably wrong, and would fill the future with minutes and delete the past. If the newest minute has not changed
/// for a while (`unchanged`, see [`ALONE_AFTER`]), there is nobody with another clock, for example because the service was
/// stopped.
pub fn may_record(at: Time, newest: Option<Time>, unchanged: Option<Time>) -> bool {
    newest.is_none_or(|newest| ended_minute(at).apart(newest) <= AGREEMENT || unchanged == Some(newest))
}

/// What is too old, or too far in the future, after an observation at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Minutes before this are deleted.
    pub minutes_from: Time,
    /// Minutes after this were written by a wrong clock, and are deleted.
    pub minutes_to: Time,
    /// Days before this are deleted.
    pub days_from: Time,
    /// Days after this are deleted, for the same reason.
    pub days_to: Time,
    /// Incidents that ended before this are deleted.
    pub incidents_from: Time,
}

impl HistoryBounds {
    pub fn at(now: Time) -> Self {
        Self {
            minutes_from: minute_of(now).before(MINUTES_KEPT),
            minutes_to: minute_of(now).after(AGREEMENT),
            // The current day is one of those that are kept.
            days_from: day_of(now).before(HISTORY_KEPT.saturating_sub(DAY)),
            days_to: day_of(now).after(DAY),
            incidents_from: now.before(HISTORY_KEPT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middle of a minute, and of a day.
    const NOW: Time = Time::from_seconds(20_000 * 86_400 + 12 * 3_600 + 30);

    fn ago(seconds: u64) -> Time {
        NOW.before(Duration::from_secs(seconds))
    }

    fn seen(state: BotState, silent: u32, shard_count: u32, since: Time) -> Observation {
        Observation { at: NOW, state, latency: Some(5.0), silent, shard_count, since }
    }

    #[test]
    fn the_minute_that_has_ended_is_recorded_by_those_who_watched_in_it() {
        let up = seen(BotState::Up, 0, 1, NOW);
        for (watching, expected) in [(100_000, true), (90, true), (31, true), (30, false), (0, false)] {
            let minute = minute_to_record(&up, ago(watching));
            let ended = Minute { begins: ago(90), state: BotState::Up, latency: Some(5.0) };
            assert_eq!(minute, expected.then_some(ended), "{watching}");
        }
        assert_eq!((minute_of(ago(30)), minute_of(ago(31))), (ago(30), ago(90)));
        assert_eq!(day_of(NOW), Time::from_seconds(20_000 * 86_400));
        assert_eq!(day_of(Time::from_seconds(5)), Time::default());
        let first = Observation { at: Time::from_seconds(5), ..up };
        assert_eq!(minute_to_record(&first, Time::default()).unwrap().begins, Time::default(), "not before 1970");
    }

    #[test]
    fn minutes_that_the_bot_was_silent_for_at_least_half_of_are_not_up() {
        // It is 30 seconds past. How long it has been silent, and when the minutes began, in seconds before now.
        for (silent, expected) in [
            (59, &[][..]),
            (60, &[90]),
            (90, &[90]),
            (119, &[90]),
            (120, &[90, 150]),
            (200, &[90, 150, 210]),
            (100_000, &[90, 150, 210, 270, 330, 390, 450, 510, 570, 630]),
        ] {
            for state in [BotState::Partial, BotState::Down] {
                let minutes = troubled_minutes(&seen(state, 1, 4, ago(silent)));
                assert_eq!(minutes, expected.iter().map(|seconds| ago(*seconds)).collect::<Vec<_>>(), "{silent}");
            }
            assert_eq!(troubled_minutes(&seen(BotState::Up, 0, 4, ago(silent))), []);
        }
        let first = Observation { at: Time::from_seconds(5), ..seen(BotState::Down, 1, 1, Time::default()) };
        assert_eq!(troubled_minutes(&first), [], "nothing is before 1970");
    }

    #[test]
    fn any_incident_leaves_a_minute_that_is_not_up() {
        for second in 0..120 {
            let at = NOW.after(Duration::from_secs(second));
            let down = Observation { at, ..seen(BotState::Down, 1, 1, at.before(Duration::from_secs(90))) };
            assert!(!troubled_minutes(&down).is_empty(), "{second}");
        }
    }

    #[test]
    fn a_minute_that_an_incident_covered_is_not_up_even_if_the_bot_is_by_now() {
        use BotState::{Down, Partial, Up};
        let incident = |worst, began, ended: Option<u64>| Incident {
            id: 1,
            worst,
            began: ago(began),
            ended: ended.map(ago),
            shards: 1,
            shard_count: 1,
        };
        let minute = |state, latency| Minute { begins: ago(90), state, latency };
        for (state, latest, expected) in [
            (Up, None, (Up, Some(5.0))),
            (Up, Some(incident(Down, 500, Some(61))), (Up, Some(5.0))),
            (Up, Some(incident(Down, 500, Some(60))), (Down, None)),
            (Up, Some(incident(Partial, 500, Some(10))), (Partial, Some(5.0))),
            (Up, Some(incident(Down, 59, Some(10))), (Up, Some(5.0))),
            // While an incident is ongoing, what was observed is more precise than its worst state.
            (Partial, Some(incident(Down, 500, None)), (Partial, Some(5.0))),
        ] {
            let counted = minute(state, Some(5.0)).after_incident(latest.as_ref());
            assert_eq!(counted, minute(expected.0, expected.1), "{latest:?}");
        }
    }

    #[test]
    fn a_clock_that_is_far_from_the_newest_minute_records_only_when_nobody_else_does() {
        let minutes = |minutes: u64| ago(90).before(Duration::from_mins(minutes));
        let ahead = ago(90).after(Duration::from_hours(24 * 365));
        // The newest minute, the one that has not changed for a while, and whether a write is accepted.
        for (newest, unchanged, accepted) in [
            (None, None, true),
            (Some(minutes(0)), None, true),
            (Some(minutes(2)), None, true),
            (Some(ago(90).after(AGREEMENT)), None, true),
            (Some(minutes(3)), None, false),
            (Some(minutes(3)), Some(minutes(4)), false),
            (Some(minutes(3)), Some(minutes(3)), true),
            (Some(minutes(60 * 24 * 30)), Some(minutes(60 * 24 * 30)), true),
            (Some(ahead), None, false),
            (Some(ahead), Some(minutes(1)), false),
            (Some(ahead), Some(ahead), true),
        ] {
            assert_eq!(may_record(NOW, newest, unchanged), accepted, "{newest:?} {unchanged:?}");
        }
    }

    #[test]
    fn what_is_kept_is_a_day_of_minutes_and_ninety_days() {
        let bounds = HistoryBounds::at(NOW);
        assert_eq!(bounds.minutes_from, Time::from_seconds(19_999 * 86_400 + 12 * 3_600));
        assert_eq!(bounds.minutes_to, ago(30).after(AGREEMENT));
        assert_eq!(bounds.days_from, Time::from_seconds((20_000 - 89) * 86_400));
        assert_eq!(bounds.days_to, Time::from_seconds(20_001 * 86_400));
        assert_eq!(bounds.incidents_from, NOW.before(Duration::from_hours(90 * 24)));
    }
}
