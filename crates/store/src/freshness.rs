//! `Freshness`: cache invalidation with counters.
//!
//! Everything that can change has a counter in a fixed-size table, found by hashing its name. A write increments the counters
//! of what it changed, after its commit and before it is acknowledged. A view takes the sum of the counters that its response
//! depends on (the *mark*) before it reads the store, and caches the response with that mark. While the sum is unchanged, the
//! cached response is fresh. Counters only grow, so an old sum never comes back. Two names that share a counter cost a needless
//! read, never a stale response.
//!
//! Other processes change the store too, and this one learns of it a little later. While it cannot, the cache is *suspended*:
//! no cached response counts as fresh, and everything is read from the store. If the store cannot be read either, a response
//! that was fresh when the suspension began may be served stale for a minute (stale-if-error).

use std::time::Duration;

use domain::Snowflake;
use runtime::clock::Clock;

use crate::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 1 << 16;
/// How long a stale response may be served while the store cannot be reached.
const STALE_IF_ERROR: Duration = Duration::from_mins(1);
/// Means "not suspended".
const NEVER: u64 = u64::MAX;

/// Something that cached responses depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A guild, or what is known about a user beyond their sessions: the provider's IDs share one space.
    Id(Snowflake),
    SessionsOf(Snowflake),
    /// When a guild's premium ends on its own, which changes the guild.
    PremiumEndOf(Snowflake),
    Team,
    Feedback,
    Health,
    Keys,
    Stats,
    History,
    /// A change too large to be named.
    Everything,
}

/// The counters, and whether changes by other processes arrive.
#[derive(Debug)]
pub struct Freshness {
    slots: Box<[AtomicU64]>,
    everything: AtomicU64,
    /// How many suspensions ended with changes that may have been missed.
    missed: AtomicU64,
    /// When the current suspension began, in milliseconds of the clock's ticks; `NEVER` if there is none.
    suspended_at: AtomicU64,
    /// When the latest suspension began, over or not.
    last_suspended_at: AtomicU64,
    clock: Clock,
}

/// The counters that one cached response depends on.
#[derive(Clone, Debug, Default)]
pub struct Dependencies(Box<[u16]>);

/// The sum of a response's counters at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    known: u64,
    missed: u64,
}

/// When a cached response was last known to be fresh, in milliseconds of the clock's ticks.
#[derive(Debug)]
pub struct LastValid(AtomicU64);

impl Freshness {
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn new(clock: Clock) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            everything: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            suspended_at: AtomicU64::new(NEVER),
            last_suspended_at: AtomicU64::new(NEVER),
            clock,
        }
    }

    /// Invalidates what depends on this topic. Called after the commit and before the acknowledgement.
    pub fn invalidate(&self, topic: Topic) {
        if topic == Topic::Everything {
            return self.invalidate_all();
        }
        self.invalidate_slot(slot(topic));
    }

    /// Invalidates what depends on the counter at this index.
    pub(super) fn invalidate_slot(&self, slot: u16) {
        self.slots[usize::from(slot)].fetch_add(1, Ordering::SeqCst);
    }

    pub fn invalidate_all(&self) {
        self.everything.fetch_add(1, Ordering::SeqCst);
    }

    /// Starts to mark what a value depends on, before it is read.
    pub fn marking(&self) -> Marking<'_> {
        let mark = Mark { known: self.everything.load(Ordering::SeqCst), missed: self.missed.load(Ordering::SeqCst) };
        Marking { freshness: self, slots: Vec::new(), mark, began: self.valid_now() }
    }

    /// The current mark of what a value depends on.
    pub fn mark(&self, dependencies: &Dependencies) -> Mark {
        self.mark_of(&dependencies.0)
    }

    fn mark_of(&self, slots: &[u16]) -> Mark {
        let counters = slots.iter().map(|slot| self.counter(*slot));
        let known = counters.fold(self.everything.load(Ordering::SeqCst), u64::wrapping_add);
        Mark { known, missed: self.missed.load(Ordering::SeqCst) }
    }

    fn counter(&self, slot: u16) -> u64 {
        self.slots[usize::from(slot)].load(Ordering::SeqCst)
    }

    /// Whether a response with this mark is still fresh.
    pub fn is_fresh(&self, dependencies: &Dependencies, mark: Mark) -> bool {
        !self.is_suspended() && self.is_current(dependencies, mark)
    }

    /// Whether nothing that a response with this mark depends on is known to have changed, even if the cache is suspended.
    pub fn is_current(&self, dependencies: &Dependencies, mark: Mark) -> bool {
        self.mark(dependencies) == mark
    }

    /// Whether a response with this mark may be served stale while the store cannot be reached. It must have been fresh when
    /// the latest suspension began, that must be at most a minute ago, and nothing may be known to have changed since.
    pub fn may_serve_stale(&self, dependencies: &Dependencies, mark: Mark) -> bool {
        let now = self.mark(dependencies);
        let began = self.last_suspended_at.load(Ordering::SeqCst);
        let recent = u128::from(self.now().saturating_sub(began)) <= STALE_IF_ERROR.as_millis();
        let was_fresh = if self.is_suspended() {
            now.missed == mark.missed && recent
        } else {
            now.missed == mark.missed || now.missed == mark.missed + 1 && recent
        };
        now.known == mark.known && was_fresh
    }

    fn valid_now(&self) -> LastValid {
        LastValid(AtomicU64::new(self.now()))
    }

    /// Whether a response is still fresh; if so, `last_valid` gets the current time.
    pub fn renew_if_fresh(&self, dependencies: &Dependencies, mark: Mark, last_valid: &LastValid) -> bool {
        let now = self.now();
        let is_fresh = self.is_fresh(dependencies, mark);
        if is_fresh {
            last_valid.0.store(now, Ordering::Relaxed);
        }
        is_fresh
    }

    /// Whether a response was fresh less than a minute ago. A public response may then be served stale even if it is known to
    /// have changed: a heartbeat just before an outage must not take the status away.
    pub fn was_valid_recently(&self, last_valid: &LastValid) -> bool {
        u128::from(self.now().saturating_sub(last_valid.0.load(Ordering::Relaxed))) <= STALE_IF_ERROR.as_millis()
    }

    /// Whether the cache is suspended, because changes by other processes may be missed.
    pub fn is_suspended(&self) -> bool {
        self.suspended_at.load(Ordering::SeqCst) != NEVER
    }

    /// Suspends the cache, because changes by other processes do not arrive.
    pub fn suspend(&self) {
        let now = self.now();
        if self.suspended_at.compare_exchange(NEVER, now, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.last_suspended_at.store(now, Ordering::SeqCst);
        }
    }

    /// Ends the suspension: nothing was missed.
    pub(super) fn resume(&self) {
        self.suspended_at.store(NEVER, Ordering::SeqCst);
    }

    /// Ends the suspension and invalidates everything: changes may have been missed.
    pub(super) fn resume_invalidated(&self) {
        self.missed.fetch_add(1, Ordering::SeqCst);
        self.suspended_at.store(NEVER, Ordering::SeqCst);
    }

    /// In milliseconds, which fit for longer than any process runs.
    fn now(&self) -> u64 {
        u64::try_from(self.clock.ticks().as_millis()).unwrap_or(NEVER - 1)
    }
}

/// A mark under construction. Each counter is added *before* the read that depends on it, so a change during the read makes the
/// value stale as soon as it is cached. Dependencies that only a first read reveals are added later, before the read that they
/// cover.
#[derive(Debug)]
pub struct Marking<'a> {
    freshness: &'a Freshness,
    slots: Vec<u16>,
    mark: Mark,
    began: LastValid,
}

impl Marking<'_> {
    /// Marks these topics. Read what depends on them after this call.
    pub fn depend_on(&mut self, topics: impl IntoIterator<Item = Topic>) {
        for slot in topics.into_iter().map(slot) {
            self.mark.known = self.mark.known.wrapping_add(self.freshness.counter(slot));
            self.slots.push(slot);
        }
    }

    /// Whether what was read under this mark is still fresh.
    pub fn is_fresh(&self) -> bool {
        !self.freshness.is_suspended() && self.freshness.mark_of(&self.slots) == self.mark
    }

    /// What was marked, and when that began.
    pub fn finish(self) -> (Dependencies, Mark, LastValid) {
        (Dependencies(self.slots.into()), self.mark, self.began)
    }
}

/// The index of a topic's counter. Replicas send each other indexes, so it must be the same in all of them: a release that
/// changes this function must not listen to older ones.
pub(super) fn slot(topic: Topic) -> u16 {
    let (kind, id) = match topic {
        Topic::Id(id) => (1, id.get()),
        Topic::SessionsOf(user) => (2, user.get()),
        Topic::Team => (3, 0),
        Topic::Feedback => (4, 0),
        Topic::Health => (5, 0),
        Topic::Keys => (6, 0),
        // Every response depends on it implicitly.
        Topic::Everything => (7, 0),
        Topic::Stats => (8, 0),
        Topic::History => (9, 0),
        Topic::PremiumEndOf(guild) => (10, guild.get()),
    };
    let mixed = (id ^ (kind << 60)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let [first, second, ..] = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93).to_be_bytes();
    u16::from_be_bytes([first, second])
}

#[cfg(test)]
mod tests {
    use domain::Time;

    use super::*;

    impl Freshness {
        pub(crate) fn changes_of(&self, topic: Topic) -> u64 {
            self.counter(slot(topic))
        }
    }

    impl FromIterator<Topic> for Dependencies {
        fn from_iter<I: IntoIterator<Item = Topic>>(topics: I) -> Self {
            Self(topics.into_iter().map(slot).collect())
        }
    }

    fn marked(freshness: &Freshness, topics: impl IntoIterator<Item = Topic>) -> (Dependencies, Mark, LastValid) {
        let mut marking = freshness.marking();
        marking.depend_on(topics);
        marking.finish()
    }

    #[test]
    fn each_dependency_counts_from_the_time_it_was_marked() {
        let freshness = Freshness::new(Clock::manual(Time::from_seconds(1)));
        let id = |number| Topic::Id(Snowflake::new(number).unwrap());
        let changed_before_or_after = |changed: Topic| {
            let mut marking = freshness.marking();
            marking.depend_on([id(1)]);
            freshness.invalidate(changed);
            marking.depend_on([id(2)]);
            let (dependencies, mark, _) = marking.finish();
            freshness.is_fresh(&dependencies, mark)
        };
        assert!(!changed_before_or_after(id(1)), "it may have changed after it was read");
        assert!(changed_before_or_after(id(2)), "it changed before it was read");
        assert!(!changed_before_or_after(Topic::Everything));
        assert!(changed_before_or_after(id(3)));
    }

    #[test]
    fn a_response_is_fresh_until_something_it_depends_on_changes() {
        let freshness = Freshness::new(Clock::manual(Time::from_seconds(1)));
        let id = |number| Topic::Id(Snowflake::new(number).unwrap());
        let (dependencies, mark, _) = marked(&freshness, [id(1), id(2)]);
        freshness.invalidate(id(3));
        freshness.invalidate(Topic::SessionsOf(Snowflake::new(1).unwrap()));
        assert_eq!(freshness.mark(&dependencies), mark);
        freshness.invalidate(id(2));
        let invalidated = freshness.mark(&dependencies);
        assert_ne!(invalidated, mark);
        freshness.invalidate_all();
        let everything = freshness.mark(&dependencies);
        assert_ne!(everything, invalidated);
        freshness.invalidate(Topic::Everything);
        assert_ne!(freshness.mark(&dependencies), everything);
    }

    #[test]
    fn while_suspended_nothing_is_fresh_and_for_a_minute_it_may_be_served_stale() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let (team, mark, _) = marked(&freshness, [Topic::Team]);
        let (other, others, _) = marked(&freshness, [Topic::Keys]);
        assert!(freshness.is_fresh(&team, mark));
        freshness.suspend();
        assert!(!freshness.is_fresh(&team, mark) && freshness.may_serve_stale(&team, mark));
        freshness.invalidate(Topic::Keys);
        assert!(!freshness.may_serve_stale(&other, others), "our own write is known to have changed it");
        clock.advance(Duration::from_mins(1));
        freshness.suspend();
        assert!(freshness.may_serve_stale(&team, mark));
        clock.advance(Duration::from_millis(1));
        assert!(!freshness.may_serve_stale(&team, mark));
        freshness.resume();
        assert!(freshness.is_fresh(&team, mark));
    }

    #[test]
    fn what_may_have_been_missed_is_read_again_but_may_be_served_stale() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let (team, mark, _) = marked(&freshness, [Topic::Team]);
        freshness.suspend();
        freshness.resume_invalidated();
        assert!(!freshness.is_fresh(&team, mark) && freshness.may_serve_stale(&team, mark));
        assert!(freshness.is_fresh(&team, freshness.mark(&team)));
        freshness.suspend();
        assert!(!freshness.may_serve_stale(&team, mark), "it is as old as the suspension before this one");
        freshness.resume_invalidated();
        assert!(!freshness.may_serve_stale(&team, mark));
    }

    #[test]
    fn a_response_counts_as_recent_for_a_minute() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let made = freshness.valid_now();
        freshness.invalidate(Topic::Health);
        clock.advance(STALE_IF_ERROR);
        assert!(freshness.was_valid_recently(&made));
        clock.advance(Duration::from_millis(1));
        assert!(!freshness.was_valid_recently(&made));
    }

    #[test]
    fn a_response_that_is_checked_stays_recent_while_it_is_fresh() {
        let clock = Clock::manual(Time::from_seconds(1));
        let freshness = Freshness::new(clock.clone());
        let (team, mark, last_valid) = marked(&freshness, [Topic::Team]);
        clock.advance(10 * STALE_IF_ERROR);
        assert!(!freshness.was_valid_recently(&last_valid));
        assert!(freshness.renew_if_fresh(&team, mark, &last_valid) && freshness.was_valid_recently(&last_valid));
        freshness.invalidate(Topic::Team);
        clock.advance(STALE_IF_ERROR);
        assert!(!freshness.renew_if_fresh(&team, mark, &last_valid), "it is stale");
        assert!(freshness.was_valid_recently(&last_valid), "but was a minute ago");
        clock.advance(Duration::from_millis(1));
        assert!(!freshness.was_valid_recently(&last_valid));
    }

    #[test]
    fn neighbouring_ids_spread_over_the_table() {
        let slots: std::collections::HashSet<u16> =
            (1..=10_000).map(|number| slot(Topic::Id(Snowflake::new(number << 22).unwrap()))).collect();
        assert!(slots.len() > 9_000, "{}", slots.len());
    }
}
