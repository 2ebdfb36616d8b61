//! Which time is trusted, and whether anything may expire by it.

use super::ClockEvent::{Agreed, Believed, Confirmed, Disputed, Returned, Stepped};
use super::*;

const START: Time = Time::from_seconds(1_000_000);
const TEN_DAYS: i64 = 864_000;

fn kept(seconds: i64) -> ClockEvent {
    Stepped { millis: seconds * 1_000, is_followed: false }
}

fn followed(seconds: i64) -> ClockEvent {
    Stepped { millis: seconds * 1_000, is_followed: true }
}

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

    /// Lets this many seconds pass, then checks.
    fn after(&mut self, seconds: u64) -> Vec<ClockEvent> {
        self.ticks += seconds;
        let witness = self.witness.map_or(Witness::Absent, |set| Witness::Says(self.time(set)));
        self.watch.look(self.time(self.set), Duration::from_secs(self.ticks), witness)
    }

    /// How far the trusted time is from the true one, in seconds.
    fn error(&self) -> i64 {
        let ticks = Duration::from_secs(self.ticks);
        let believed = believed_time(self.time(self.set), ticks, self.watch.distance());
        saturating::to_i64(believed.seconds()) - saturating::to_i64(self.time(0).seconds())
    }
}

#[test]
fn a_clock_that_is_set_and_set_back_changes_nothing() {
    for set in [TEN_DAYS, -TEN_DAYS, 61, -61] {
        let mut clocks = Clocks::new(TrustedTime::settled);
        clocks.set = set;
        assert_eq!(clocks.error(), 0, "not even before it is looked at");
        assert_eq!(clocks.after(5), [kept(set)]);
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
        assert_eq!(clocks.after(5), [kept(set)]);
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
    assert_eq!(clocks.after(5), [kept(TEN_DAYS)]);
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
    assert_eq!(clocks.after(5), [followed(-TEN_DAYS)]);
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
    assert_eq!(clocks.after(5), [kept(TEN_DAYS), Disputed((30 - TEN_DAYS) * 1_000)]);
    assert_eq!(clocks.after(3_600), []);
    assert_eq!((clocks.error(), clocks.watch.may_expire()), (0, false));
    // So the second one was wrong.
    clocks.witness = Some(TEN_DAYS);
    assert_eq!(clocks.after(5), [Confirmed, Agreed]);
    assert_eq!((clocks.error(), clocks.watch.may_expire()), (TEN_DAYS, false));
    assert_eq!(clocks.after(299), []);
    assert!(!clocks.watch.may_expire());
    assert_eq!(clocks.after(1), []);
    assert_eq!((clocks.error(), clocks.watch.may_expire()), (TEN_DAYS, true));
}

#[test]
fn a_new_time_that_the_second_clock_confirms_is_believed_at_once_and_nothing_expires_until_it_has_stood() {
    // For example, a virtual machine that was paused for ten minutes; the second clock is rarely exactly the same.
    for (set, apart) in [(600, 0), (600, 59), (600, -59), (-600, 0), (TEN_DAYS, 30), (-TEN_DAYS, -30)] {
        let mut clocks = Clocks::new(TrustedTime::settled);
        clocks.witness = Some(0);
        assert_eq!(clocks.after(5), []);
        (clocks.set, clocks.witness) = (set, Some(set + apart));
        assert_eq!(clocks.after(5), [followed(set)]);
        for _ in 0..59 {
            assert_eq!((clocks.error(), clocks.watch.may_expire()), (set, false));
            assert_eq!(clocks.after(5), []);
        }
        assert!(!clocks.watch.may_expire());
        assert_eq!(clocks.after(5), []);
        assert_eq!((clocks.error(), clocks.watch.may_expire()), (set, true));
    }
}

#[test]
fn between_two_times_the_nearer_one_to_the_second_clock_wins() {
    // The jump, what the second clock shows, and how far the trusted time is from the true one in the end.
    for (set, witness, error) in [
        (600, 690, 600),
        (600, 510, 600),
        (-600, -690, -600),
        (TEN_DAYS, 2 * TEN_DAYS, TEN_DAYS),
        (600, 90, 0),
        (600, -90, 0),
        (TEN_DAYS, -TEN_DAYS, 0),
    ] {
        let mut clocks = Clocks::new(TrustedTime::settled);
        (clocks.set, clocks.witness) = (set, Some(witness));
        assert_eq!(clocks.after(5), [kept(set), Disputed((witness - set) * 1_000)]);
        assert_eq!(clocks.after(299), []);
        assert_eq!(clocks.error(), 0, "it is not near enough to be believed at once");
        assert_eq!(clocks.after(1) == [Believed], error != 0, "{set} {witness}");
        assert_eq!((clocks.error(), clocks.watch.may_expire()), (error, false), "{set} {witness}");
        clocks.after(3_600);
        assert_eq!((clocks.error(), clocks.watch.may_expire()), (error, false), "{set} {witness}");
    }
}

#[test]
fn after_a_start_in_a_dispute_a_new_time_is_not_believed_at_once_either() {
    let mut clocks = Clocks::new(TrustedTime::at_start);
    clocks.witness = Some(-90);
    assert_eq!(clocks.after(5), [Disputed(-90_000)]);
    assert_eq!(clocks.after(295), []);
    assert!(!clocks.watch.may_expire());
    clocks.set = TEN_DAYS;
    assert_eq!(clocks.after(5), [kept(TEN_DAYS)]);
    assert_eq!(clocks.after(3_600), []);
    assert_eq!((clocks.error(), clocks.watch.may_expire()), (0, false));
    (clocks.set, clocks.witness) = (0, Some(0));
    assert_eq!(clocks.after(5), [Returned, Agreed]);
    assert!(!clocks.watch.may_expire(), "they have not agreed for long");
    clocks.after(300);
    assert!(clocks.watch.may_expire());
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
    assert_eq!(clocks.watch.look(shown, ticks, Witness::Silent), [kept(TEN_DAYS)]);
    clocks.ticks = 3_600;
    let (shown, ticks) = later(&clocks);
    assert_eq!(clocks.watch.look(shown, ticks, Witness::Silent), []);
    assert!(!clocks.watch.may_expire());
    assert_eq!(clocks.watch.look(shown, ticks, Witness::Says(shown)), [Confirmed]);
    assert!(!clocks.watch.may_expire());
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
