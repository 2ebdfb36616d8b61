//! Which time to trust. The system's clock can be set wrong: by a person, a virtual machine, a bad time server. Trusting it at
//! once would end every session and revoke every grant. Ticks only move forward, so a clock that moves against them was set.
//! Until the new time has held for a while, or a second clock confirms it, the old time continues by the ticks. Whether
//! anything may be deleted because its time is over is a separate, stricter question.

use std::time::Duration;

use super::Time;
use crate::saturating;

/// A clock that moves by more than this against the ticks was set. Two clocks that are further apart than this disagree.
pub const STEP: Duration = Duration::from_mins(1);

/// How long a new time must hold before it is trusted without a second clock, and before anything expires by it. Startup counts
/// as a new time.
pub const STANDING: Duration = Duration::from_mins(5);

/// What a second clock, like the database's, says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// There is no second clock.
    Absent,
    /// It did not answer.
    Silent,
    Says(Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockEvent {
    Stepped {
        /// By this many milliseconds.
        millis: i64,
        /// Whether the new time is trusted immediately.
        is_followed: bool,
    },
    /// It is back at the trusted time.
    Returned,
    /// The new time has held long enough, and is trusted now.
    Believed,
    /// The second clock shows the new time too, so it is trusted now.
    Confirmed,
    /// The second clock is this many milliseconds ahead of it.
    Disputed(i64),
    /// The second clock agrees with it again.
    Agreed,
}

/// Watches a clock. Times are kept as their distance from the ticks, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedTime {
    believed: i64,
    /// The clock's own time at the last check.
    shown: i64,
    /// Since when it shows that, in ticks.
    since: Duration,
    /// Whether any time has held long enough since startup. Until then, each new one is trusted.
    has_settled: bool,
    /// Since when a time holds that was trusted early, in ticks. Nothing expires by it yet.
    held_since: Option<Duration>,
    is_disputed: bool,
}

impl TrustedTime {
    /// A clock about which only its time is known.
    pub fn at_start(shown: Time, ticks: Duration) -> Self {
        Self { has_settled: false, held_since: Some(ticks), ..Self::settled(shown, ticks) }
    }

    /// A clock whose time has held for long.
    pub fn settled(shown: Time, ticks: Duration) -> Self {
        let shown = distance(shown, ticks);
        Self { believed: shown, shown, since: ticks, has_settled: true, held_since: None, is_disputed: false }
    }

    /// The trusted time as its distance from the ticks, for [`believed_time`].
    pub fn distance(&self) -> i64 {
        self.believed
    }

    /// Whether what has expired by this clock may be deleted.
    pub fn may_expire(&self) -> bool {
        self.held_since.is_none() && !self.is_disputed && is_near(self.shown, self.believed)
    }

    /// Checks the clock, which shows this time, and the second one.
    pub fn look(&mut self, shown: Time, ticks: Duration, witness: Witness) -> Vec<ClockEvent> {
        let mut events = Vec::new();
        let (before, was_near) = (self.shown, is_near(self.shown, self.believed));
        self.shown = distance(shown, ticks);
        let has_stepped = !is_near(self.shown, before);
        if has_stepped {
            self.since = ticks;
        }
        let has_stood = has_stood(self.since, ticks);
        if is_near(self.shown, self.believed) {
            events.extend((!was_near).then_some(ClockEvent::Returned));
            self.believed = self.shown;
        } else {
            let advice = self.advice(ticks, witness);
            let is_followed =
                !self.has_settled || advice == WitnessAdvice::Follow || (advice == WitnessAdvice::Wait && has_stood);
            if has_stepped {
                events.push(ClockEvent::Stepped { millis: self.shown.saturating_sub(before), is_followed });
            } else if is_followed {
                events.push(if advice == WitnessAdvice::Follow { ClockEvent::Confirmed } else { ClockEvent::Believed });
            }
            if is_followed {
                self.believed = self.shown;
                if advice == WitnessAdvice::Follow || !has_stood {
                    self.held_since = Some(ticks);
                }
            }
        }
        self.has_settled |= has_stood;
        events.extend(self.hear(shown, witness));
        self.hold(ticks, witness);
        events
    }

    /// Which of the two times the second clock supports, when the one shown isn't the trusted one.
    fn advice(&self, ticks: Duration, witness: Witness) -> WitnessAdvice {
        match witness {
            Witness::Absent => WitnessAdvice::Wait,
            Witness::Silent => WitnessAdvice::Keep,
            Witness::Says(time) => {
                let time = distance(time, ticks);
                if is_near(time, self.shown) && !is_near(time, self.believed) {
                    WitnessAdvice::Follow
                } else if time.abs_diff(self.believed) < time.abs_diff(self.shown) {
                    WitnessAdvice::Keep
                } else {
                    WitnessAdvice::Wait
                }
            }
        }
    }

    /// Keeps holding what would expire, or stops.
    fn hold(&mut self, ticks: Duration, witness: Witness) {
        let Some(since) = self.held_since else { return };
        if self.is_disputed {
            // Whichever of the two was wrong, the time holds from the moment they agree.
            self.held_since = Some(ticks);
        } else if witness != Witness::Silent && has_stood(since, ticks) {
            self.held_since = None;
        }
    }

    fn hear(&mut self, shown: Time, witness: Witness) -> Option<ClockEvent> {
        let was_disputed = self.is_disputed;
        match witness {
            Witness::Absent => self.is_disputed = false,
            Witness::Silent => {}
            Witness::Says(time) => self.is_disputed = time.apart(shown) > STEP,
        }
        match (was_disputed, self.is_disputed, witness) {
            (false, true, Witness::Says(time)) => Some(ClockEvent::Disputed(
                saturating::to_i64(time.millis()).saturating_sub(saturating::to_i64(shown.millis())),
            )),
            (true, false, _) => Some(ClockEvent::Agreed),
            _ => None,
        }
    }
}

/// What the second clock means for a new time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WitnessAdvice {
    Follow,
    /// It may be right; wait and see whether it holds.
    Wait,
    /// The old time is better.
    Keep,
}

/// The time to use when the clock shows this: its own, or the trusted one if it was set.
pub fn believed_time(shown: Time, ticks: Duration, distance_believed: i64) -> Time {
    if is_near(distance(shown, ticks), distance_believed) {
        return shown;
    }
    let believed = millis_of(ticks).saturating_add(distance_believed);
    Time::from_millis(u64::try_from(believed).unwrap_or_default())
}

fn distance(time: Time, ticks: Duration) -> i64 {
    saturating::to_i64(time.millis()).saturating_sub(millis_of(ticks))
}

fn has_stood(since: Duration, ticks: Duration) -> bool {
    ticks.saturating_sub(since) >= STANDING
}

fn is_near(one: i64, other: i64) -> bool {
    u128::from(one.abs_diff(other)) <= STEP.as_millis()
}

fn millis_of(span: Duration) -> i64 {
    saturating::to_i64(span.as_millis())
}

#[cfg(test)]
mod tests;
