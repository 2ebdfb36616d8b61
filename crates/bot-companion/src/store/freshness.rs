//! Which answers kept in memory still hold.
//!
//! Everything that can change has a counter, found by hashing its name into a fixed table. A write adds one to the counters of
//! what it changed, after its commit and before its acknowledgement. A view notes the sum of the counters that its answer
//! depends on *before* it reads the store, and keeps the answer with it: as long as the sum is the same, nothing that the answer
//! was made of has changed. Counters only grow, so a sum never comes back. Two names that share a counter cost a needless
//! recomputation, never a stale answer, and the table's size does not depend on how much there is to know.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::Snowflake;

const SLOTS: usize = 1 << 16;

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
}

/// The counters that one answer depends on.
#[derive(Clone, Debug, Default)]
pub struct Dependencies(Box<[u16]>);

/// The sum of an answer's counters at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Default for Freshness {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), everything: AtomicU64::new(0) }
    }
}

impl Freshness {
    /// Says that something has changed. Called after the commit and before the acknowledgement.
    pub fn touch(&self, topic: Topic) {
        if topic == Topic::Everything {
            return self.touch_everything();
        }
        self.slots[usize::from(slot(topic))].fetch_add(1, Ordering::SeqCst);
    }

    /// Says that anything may have changed.
    pub fn touch_everything(&self) {
        self.everything.fetch_add(1, Ordering::SeqCst);
    }

    /// The present sum of these counters. Take it before reading what the answer is made of.
    pub fn mark(&self, dependencies: &Dependencies) -> Mark {
        let counters = dependencies.0.iter().map(|slot| self.slots[usize::from(*slot)].load(Ordering::SeqCst));
        Mark(counters.fold(self.everything.load(Ordering::SeqCst), u64::wrapping_add))
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

/// The place of a topic in the table.
fn slot(topic: Topic) -> u16 {
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

    #[test]
    fn an_answer_holds_until_something_it_was_made_of_changes() {
        let freshness = Freshness::default();
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
    fn neighbouring_ids_spread_over_the_table() {
        let slots: std::collections::HashSet<u16> =
            (1..=10_000).map(|number| slot(Topic::Id(Snowflake::new(number << 22).unwrap()))).collect();
        assert!(slots.len() > 9_000, "{}", slots.len());
    }
}
