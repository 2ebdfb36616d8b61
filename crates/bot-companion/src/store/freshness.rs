//! Which answers kept in memory still hold.
//!
//! Everything that can change has a counter, found by hashing its name into a fixed table. A write adds one to the counters of
//! what it changed, after its commit and before its acknowledgement. A view notes the sum of the counters that its answer
//! depends on *before* it reads the store, and keeps the answer with it: as long as the sum is the same, nothing that the answer
//! was made of has changed. Counters only grow, so a sum never comes back. Two names that share a counter cost a needless
//! recomputation, never a stale answer, and the table's size does not depend on how much there is to know.
//!
//! Another process may change the store too, and then the store hears of it a little later. While it cannot hear, it is in doubt:
//! no answer in memory holds, all are read anew. If they cannot be read either, what held when the doubt began may stand in for a
//! minute.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::domain::Snowflake;

const SLOTS: usize = 1 << 16;
/// How long an answer may stand in for one that the store cannot give.
const STAND_IN: Duration = Duration::from_mins(1);
/// Stands for no doubt.
const NEVER: u64 = u64::MAX;

/// Something that answers are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A guild, or what is known of a user beyond their sessions: the provider's ids share one space.
    Id(Snowflake),
    /// The sessions of a user.
    SessionsOf(Snowflake),
    /// The team's roster.
    Team,
    /// The feedback entries.
    Feedback,
    /// The bot's health.
    Health,
    /// The bot keys.
    Keys,
    /// All of it: a change too large to be named.
    Everything,
}

/// The counters.
#[derive(Debug)]
pub struct Freshness {
    slots: Box<[AtomicU64]>,
    everything: AtomicU64,
    /// How often changes may have been missed.
    missed: AtomicU64,
    /// Since when it is in doubt, in milliseconds of the clock's ticks.
    doubt: AtomicU64,
    /// When the latest doubt began, whether it is over or not.
    latest_doubt: AtomicU64,
    clock: Clock,
}

/// The counters that one answer depends on.
#[derive(Clone, Debug, Default)]
pub struct Dependencies(Box<[u16]>);

/// The sum of an answer's counters at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    known: u64,
    missed: u64,
}

/// When an answer was last known to be right, in milliseconds of the clock's ticks.
#[derive(Debug)]
pub struct Moment(AtomicU64);

impl Clone for Moment {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Freshness {
    /// Nothing has changed yet, by this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            everything: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            doubt: AtomicU64::new(NEVER),
            latest_doubt: AtomicU64::new(NEVER),
            clock,
        }
    }

    /// Says that something has changed. Called after the commit and before the acknowledgement.
    pub fn touch(&self, topic: Topic) {
        if topic == Topic::Everything {
            return self.touch_everything();
        }
        self.touch_slot(slot(topic));
    }

    /// Says that something with this place in the table has changed.
    pub(super) fn touch_slot(&self, slot: u16) {
        self.slots[usize::from(slot)].fetch_add(1, Ordering::SeqCst);
    }

    /// Says that anything may have changed.
    pub fn touch_everything(&self) {
        self.everything.fetch_add(1, Ordering::SeqCst);
    }

    /// The present sum of these counters. Take it before reading what the answer is made of.
    pub fn mark(&self, dependencies: &Dependencies) -> Mark {
        let counters = dependencies.0.iter().map(|slot| self.slots[usize::from(*slot)].load(Ordering::SeqCst));
        let known = counters.fold(self.everything.load(Ordering::SeqCst), u64::wrapping_add);
        Mark { known, missed: self.missed.load(Ordering::SeqCst) }
    }

    /// Whether an answer with this mark is still right.
    pub fn holds(&self, dependencies: &Dependencies, mark: Mark) -> bool {
        !self.in_doubt() && self.mark(dependencies) == mark
    }

    /// Whether an answer with this mark may be shown though the store cannot be asked: nothing is known to have changed since,
    /// and it held until the doubt that is, or was the last, not long ago.
    pub fn may_stand_in(&self, dependencies: &Dependencies, mark: Mark) -> bool {
        let now = self.mark(dependencies);
        let began = self.latest_doubt.load(Ordering::SeqCst);
        let recent = u128::from(self.now().saturating_sub(began)) <= STAND_IN.as_millis();
        let held = if self.in_doubt() {
            now.missed == mark.missed && recent
        } else {
            now.missed == mark.missed || now.missed == mark.missed + 1 && recent
        };
        now.known == mark.known && held
    }

    /// Now, when an answer is being made, for [`Self::is_recent`].
    pub fn moment(&self) -> Moment {
        Moment(AtomicU64::new(self.now()))
    }

    /// Notes that an answer is still right if it is; says whether.
    pub fn renew(&self, dependencies: &Dependencies, mark: Mark, right: &Moment) -> bool {
        let now = self.now();
        let holds = self.holds(dependencies, mark);
        if holds {
            right.0.store(now, Ordering::Relaxed);
        }
        holds
    }

    /// Whether an answer was right less than a minute ago. Then it may stand in for the store even if it is known to have changed
    /// since, if it is one that everybody may see: a heartbeat just before an outage must not take the status away.
    pub fn is_recent(&self, right: &Moment) -> bool {
        u128::from(self.now().saturating_sub(right.0.load(Ordering::Relaxed))) <= STAND_IN.as_millis()
    }

    /// Whether changes of other processes may be missed at present.
    pub fn in_doubt(&self) -> bool {
        self.doubt.load(Ordering::SeqCst) != NEVER
    }

    /// Says that changes of other processes cannot be heard at present.
    pub(super) fn doubt(&self) {
        let now = self.now();
        if self.doubt.compare_exchange(NEVER, now, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.latest_doubt.store(now, Ordering::SeqCst);
        }
    }

    /// Ends the doubt: it turned out that nothing was missed.
    pub(super) fn missed_nothing(&self) {
        self.doubt.store(NEVER, Ordering::SeqCst);
    }

    /// Ends the doubt: whatever changed meanwhile was missed, and from now on changes are heard again.
    pub(super) fn missed_something(&self) {
        self.missed.fetch_add(1, Ordering::SeqCst);
        self.doubt.store(NEVER, Ordering::SeqCst);
    }

    /// How often a topic was touched by its name.
    #[cfg(test)]
    pub(super) fn changes_of(&self, topic: Topic) -> u64 {
        self.slots[usize::from(slot(topic))].load(Ordering::SeqCst)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.ticks().as_millis()).unwrap_or(NEVER - 1)
    }
}

impl Dependencies {
    /// How many counters they are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing that could change.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Topic> for Dependencies {
    fn from_iter<I: IntoIterator<Item = Topic>>(topics: I) -> Self {
        Self(topics.into_iter().map(slot).collect())
    }
}

/// The place of a topic in the table. Replicas tell each other places, so this must be the same in all of them: a release that
/// changes it must not listen to the older ones.
pub(super) fn slot(topic: Topic) -> u16 {
    let (kind, id) = match topic {
        Topic::Id(id) => (1, id.get()),
        Topic::SessionsOf(user) => (2, user.get()),
        Topic::Team => (3, 0),
        Topic::Feedback => (4, 0),
        Topic::Health => (5, 0),
        Topic::Keys => (6, 0),
        // Every answer depends on it without saying so.
        Topic::Everything => (7, 0),
    };
    let mixed = (id ^ (kind << 60)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    u16::try_from((mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 48).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Time;

    #[test]
    fn an_answer_holds_until_something_it_was_made_of_changes() {
        let freshness = Freshness::new(Clock::manual(Time::from_seconds(1)));
        let id = |number| Topic::Id(Snowflake::new(number).unwrap());
        let dependencies: Dependencies = [id(1), id(2)].into_iter().collect();
        let mark = freshness.mark(&dependencies);
        freshness.touch(id(3));
        freshness.touch(Topic::SessionsOf(Snowflake::new(1).unwrap()));
        assert_eq!(freshness.mark(&dependencies), mark);
        freshness.touch(id(2));
        let touched = freshness.mark(&dependencies);
        assert_ne!(touched, mark);
        freshness.touch_everything();
        let everything = freshness.mark(&dependencies);
        assert_ne!(everything, touched);
        freshness.touch(Topic::Everything);
        assert_ne!(freshness.mark(&dependencies), everything);
    }

    #[test]
    fn in_doubt_nothing_holds_and_for_a_minute_what_held_may_stand_in() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let team: Dependencies = [Topic::Team].into_iter().collect();
        let other: Dependencies = [Topic::Keys].into_iter().collect();
        let (mark, others) = (freshness.mark(&team), freshness.mark(&other));
        assert!(freshness.holds(&team, mark));
        freshness.doubt();
        assert!(!freshness.holds(&team, mark) && freshness.may_stand_in(&team, mark));
        freshness.touch(Topic::Keys);
        assert!(!freshness.may_stand_in(&other, others), "our own write is known to have changed it");
        clock.advance(Duration::from_mins(1));
        freshness.doubt();
        assert!(freshness.may_stand_in(&team, mark));
        clock.advance(Duration::from_millis(1));
        assert!(!freshness.may_stand_in(&team, mark));
        freshness.missed_nothing();
        assert!(freshness.holds(&team, mark));
    }

    #[test]
    fn what_may_have_been_missed_is_read_anew_but_may_stand_in() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let team: Dependencies = [Topic::Team].into_iter().collect();
        let mark = freshness.mark(&team);
        freshness.doubt();
        freshness.missed_something();
        assert!(!freshness.holds(&team, mark) && freshness.may_stand_in(&team, mark));
        assert!(freshness.holds(&team, freshness.mark(&team)));
        freshness.doubt();
        assert!(!freshness.may_stand_in(&team, mark), "it is as old as the doubt before this one");
        freshness.missed_something();
        assert!(!freshness.may_stand_in(&team, mark));
    }

    #[test]
    fn an_answer_is_recent_for_a_minute() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let made = freshness.moment();
        freshness.touch(Topic::Health);
        clock.advance(STAND_IN);
        assert!(freshness.is_recent(&made));
        clock.advance(Duration::from_millis(1));
        assert!(!freshness.is_recent(&made));
    }

    #[test]
    fn an_answer_that_is_looked_at_stays_recent_as_long_as_it_is_right() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let team: Dependencies = [Topic::Team].into_iter().collect();
        let (mark, right) = (freshness.mark(&team), freshness.moment());
        clock.advance(10 * STAND_IN);
        assert!(!freshness.is_recent(&right));
        assert!(freshness.renew(&team, mark, &right) && freshness.is_recent(&right));
        freshness.touch(Topic::Team);
        clock.advance(STAND_IN);
        assert!(!freshness.renew(&team, mark, &right), "it is not right any more");
        assert!(freshness.is_recent(&right), "but was a minute ago");
        clock.advance(Duration::from_millis(1));
        assert!(!freshness.is_recent(&right));
    }

    #[test]
    fn neighbouring_ids_spread_over_the_table() {
        let slots: std::collections::HashSet<u16> =
            (1..=10_000).map(|number| slot(Topic::Id(Snowflake::new(number << 22).unwrap()))).collect();
        assert!(slots.len() > 9_000, "{}", slots.len());
    }
}
