//! Which time to believe. The system's clock can be set wrong: by a person, a virtual machine, a bad time server. Whoever believes it at
//! once ends every session and revokes every grant. Ticks only go forward, so a clock that moves against them was set. Until the new
//! time has stood for a while, the old time goes on by the ticks, and nothing is deleted because its time is over.

use std::time::Duration;

use super::Time;

/// A clock that moves by more than this against the ticks was set. Two clocks that are further apart than this disagree.
pub const STEP: Duration = Duration::from_mins(1);

/// How long a new time must stand before it is believed. A start counts as a new time.
pub const STANDING: Duration = Duration::from_mins(5);

/// What a second clock, such as the database's, says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// There is no second clock.
    Absent,
    /// It could not be asked.
    Silent,
    /// Its time.
    Says(Time),
}

/// What was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockEvent {
    /// The clock was set, by this many milliseconds.
    Stepped(i64),
    /// It is back at the time that is believed.
    Returned,
    /// The new time has stood long enough, and is believed now.
    Believed,
    /// The second clock is this many milliseconds ahead of it.
    Disputed(i64),
    /// The second clock agrees with it again.
    Agreed,
}

/// Watches a clock. Times are kept as their distance from the ticks, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedTime {
    /// The time that is believed.
    believed: i64,
    /// The clock's own time, when it was last looked at.
    shown: i64,
    /// Since when it shows that, in ticks.
    since: Duration,
    /// Whether any time has stood long enough since the start.
    has_settled: bool,
    /// Whether the second clock disagrees.
    is_disputed: bool,
}

impl TrustedTime {
    /// A clock of which nothing is known but its time.
    pub fn at_start(shown: Time, ticks: Duration) -> Self {
        let shown = distance(shown, ticks);
        Self { believed: shown, shown, since: ticks, has_settled: false, is_disputed: false }
    }

    /// A clock that has stood for long.
    pub fn settled(shown: Time, ticks: Duration) -> Self {
        Self { has_settled: true, ..Self::at_start(shown, ticks) }
    }

    /// The time that is believed, as its distance from the ticks: for [`believed_time`].
    pub fn distance(&self) -> i64 {
        self.believed
    }

    /// Whether what is over by this clock may be deleted.
    pub fn may_expire(&self) -> bool {
        self.has_settled && !self.is_disputed && is_near(self.shown, self.believed)
    }

    /// Looks at the clock, which shows this time, and at the second one.
    pub fn look(&mut self, shown: Time, ticks: Duration, witness: Witness) -> Vec<ClockEvent> {
        let mut events = Vec::new();
        let (before, was_near) = (self.shown, is_near(self.shown, self.believed));
        self.shown = distance(shown, ticks);
        let is_back = self.has_settled && is_near(self.shown, self.believed);
        if !is_near(self.shown, before) {
            self.since = ticks;
            if !is_back {
                events.push(ClockEvent::Stepped(self.shown.saturating_sub(before)));
            }
        }
        events.extend(self.hear(shown, witness));
        if self.is_disputed {
            // Whoever of the two was wrong, the time stands from the moment on which they agree.
            self.since = ticks;
        }
        let has_stood = !self.is_disputed && witness != Witness::Silent && ticks.saturating_sub(self.since) >= STANDING;
        if is_back {
            events.extend((!was_near).then_some(ClockEvent::Returned));
            self.believed = self.shown;
        } else if !self.has_settled {
            self.believed = self.shown;
            self.has_settled = has_stood;
        } else if has_stood {
            events.push(ClockEvent::Believed);
            self.believed = self.shown;
        }
        events
    }

    fn hear(&mut self, shown: Time, witness: Witness) -> Option<ClockEvent> {
        let was_disputed = self.is_disputed;
        match witness {
            Witness::Absent => self.is_disputed = false,
            Witness::Silent => {}
            Witness::Says(time) => self.is_disputed = time.apart(shown) > STEP,
        }
        match (was_disputed, self.is_disputed, witness) {
            (false, true, Witness::Says(time)) => {
                Some(ClockEvent::Disputed(millis(time.millis()).saturating_sub(millis(shown.millis()))))
            }
            (true, false, _) => Some(ClockEvent::Agreed),
            _ => None,
        }
    }
}

/// The time to go by, where the clock shows this: its own, or the one that is believed if it was set.
pub fn believed_time(shown: Time, ticks: Duration, distance_believed: i64) -> Time {
    if is_near(distance(shown, ticks), distance_believed) {
        return shown;
    }
    let believed = millis_of(ticks).saturating_add(distance_believed);
    Time::from_millis(u64::try_from(believed).unwrap_or_default())
}

fn distance(time: Time, ticks: Duration) -> i64 {
    millis(time.millis()).saturating_sub(millis_of(ticks))
}

fn is_near(one: i64, other: i64) -> bool {
    u128::from(one.abs_diff(other)) <= STEP.as_millis()
}

fn millis(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn millis_of(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::ClockEvent::{Agreed, Believed, Disputed, Returned, Stepped};
    use super::*;

    const START: Time = Time::from_seconds(1_000_000);
    const TEN_DAYS: i64 = 864_000;

    /// A clock, the second one, and the seconds that have passed.
    struct Clocks {
        watch: TrustedTime,
        ticks: u64,
        set: i64,
        witness: Option<i64>,
    }

    impl Clocks {
        fn new(watch: fn(Time, Duration) -> TrustedTime) -> Self {
            Self { watch: watch(START, Duration::ZERO), ticks: 0, set: 0, witness: None }
        }

        fn time(&self, set: i64) -> Time {
            Time::from_seconds((START.seconds() + self.ticks).checked_add_signed(set).unwrap())
        }

        /// Lets so many seconds pass, then looks.
        fn after(&mut self, seconds: u64) -> Vec<ClockEvent> {
            self.ticks += seconds;
            let witness = self.witness.map_or(Witness::Absent, |set| Witness::Says(self.time(set)));
            self.watch.look(self.time(self.set), Duration::from_secs(self.ticks), witness)
        }

        /// How far the time that is believed is from the true one, in seconds.
        fn error(&self) -> i64 {
            let ticks = Duration::from_secs(self.ticks);
            let believed = believed_time(self.time(self.set), ticks, self.watch.distance());
            millis(believed.seconds()) - millis(self.time(0).seconds())
        }
    }

    #[test]
    fn a_clock_that_is_set_and_set_back_changes_nothing() {
        for set in [TEN_DAYS, -TEN_DAYS, 61, -61] {
            let mut clocks = Clocks::new(TrustedTime::settled);
            clocks.set = set;
            assert_eq!(clocks.error(), 0, "not even before it is looked at");
            assert_eq!(clocks.after(5), [Stepped(set * 1_000)]);
            for _ in 0..14 {
                assert_eq!(clocks.after(5), [], "it is told once");
                assert_eq!((clocks.error(), clocks.watch.may_expire()), (0, false));
            }
            clocks.set = 0;
            assert_eq!(clocks.after(5), [Returned]);
            assert_eq!((clocks.error(), clocks.watch.may_expire()), (0, true));
        }
    }

    #[test]
    fn a_new_time_is_believed_once_it_has_stood() {
        for set in [TEN_DAYS, -TEN_DAYS] {
            let mut clocks = Clocks::new(TrustedTime::settled);
            clocks.after(5);
            clocks.set = set;
            assert_eq!(clocks.after(5), [Stepped(set * 1_000)]);
            assert_eq!(clocks.after(299), []);
            assert_eq!((clocks.error(), clocks.watch.may_expire()), (0, false));
            assert_eq!(clocks.after(1), [Believed]);
            assert_eq!((clocks.error(), clocks.watch.may_expire()), (set, true));
        }
    }

    #[test]
    fn a_clock_that_is_set_again_begins_to_stand_again() {
        let mut clocks = Clocks::new(TrustedTime::settled);
        clocks.set = TEN_DAYS;
        clocks.after(5);
        clocks.after(200);
        clocks.set = 2 * TEN_DAYS;
        assert_eq!(clocks.after(5), [Stepped(TEN_DAYS * 1_000)]);
        assert_eq!(clocks.after(299), []);
        assert_eq!(clocks.after(1), [Believed]);
    }

    #[test]
    fn small_corrections_are_followed_at_once() {
        let mut clocks = Clocks::new(TrustedTime::settled);
        for round in 1..=10 {
            clocks.set = 60 * round;
            assert_eq!(clocks.error(), clocks.set);
            assert_eq!(clocks.after(5), []);
            assert!(clocks.watch.may_expire());
        }
    }

    #[test]
    fn after_a_start_the_clock_is_followed_and_nothing_expires_until_it_has_stood() {
        let mut clocks = Clocks::new(TrustedTime::at_start);
        assert_eq!(clocks.after(200), []);
        assert!(!clocks.watch.may_expire());
        // The time server corrects it.
        clocks.set = -TEN_DAYS;
        assert_eq!(clocks.after(5), [Stepped(-TEN_DAYS * 1_000)]);
        assert_eq!((clocks.error(), clocks.watch.may_expire()), (-TEN_DAYS, false));
        assert_eq!(clocks.after(299), []);
        assert!(!clocks.watch.may_expire());
        assert_eq!(clocks.after(1), []);
        assert!(clocks.watch.may_expire());
    }

    #[test]
    fn a_new_time_that_the_second_clock_disputes_is_not_believed() {
        let mut clocks = Clocks::new(TrustedTime::settled);
        clocks.witness = Some(30);
        assert_eq!(clocks.after(5), []);
        clocks.set = TEN_DAYS;
        assert_eq!(clocks.after(5), [Stepped(TEN_DAYS * 1_000), Disputed((30 - TEN_DAYS) * 1_000)]);
        assert_eq!(clocks.after(3_600), []);
        assert_eq!((clocks.error(), clocks.watch.may_expire()), (0, false));
        // So it was the second one that was wrong.
        clocks.witness = Some(TEN_DAYS);
        assert_eq!(clocks.after(5), [Agreed]);
        assert_eq!(clocks.after(294), []);
        assert!(!clocks.watch.may_expire());
        assert_eq!(clocks.after(6), [Believed]);
        assert_eq!((clocks.error(), clocks.watch.may_expire()), (TEN_DAYS, true));
    }

    #[test]
    fn a_second_clock_that_is_wrong_holds_expiry_and_not_the_time() {
        let mut clocks = Clocks::new(TrustedTime::settled);
        clocks.witness = Some(TEN_DAYS);
        assert_eq!(clocks.after(5), [Disputed(TEN_DAYS * 1_000)]);
        assert_eq!((clocks.error(), clocks.watch.may_expire()), (0, false));
        clocks.witness = Some(-60);
        assert_eq!(clocks.after(5), [Agreed]);
        assert!(clocks.watch.may_expire());
    }

    #[test]
    fn a_second_clock_that_cannot_be_asked_confirms_nothing() {
        let mut clocks = Clocks::new(TrustedTime::settled);
        let later = |clocks: &Clocks| (clocks.time(TEN_DAYS), Duration::from_secs(clocks.ticks));
        let (shown, ticks) = later(&clocks);
        assert_eq!(clocks.watch.look(shown, ticks, Witness::Silent), [Stepped(TEN_DAYS * 1_000)]);
        clocks.ticks = 3_600;
        let (shown, ticks) = later(&clocks);
        assert_eq!(clocks.watch.look(shown, ticks, Witness::Silent), []);
        assert!(!clocks.watch.may_expire());
        assert_eq!(clocks.watch.look(shown, ticks, Witness::Says(shown)), [Believed]);
    }

    #[test]
    fn no_time_is_too_far_away() {
        let mut watch = TrustedTime::settled(Time::default(), Duration::MAX);
        for (shown, ticks) in [(u64::MAX, Duration::ZERO), (0, Duration::MAX), (u64::MAX, Duration::MAX)] {
            let shown = Time::from_millis(shown);
            watch.look(shown, ticks, Witness::Says(Time::default()));
            believed_time(shown, ticks, watch.distance());
        }
    }
}
