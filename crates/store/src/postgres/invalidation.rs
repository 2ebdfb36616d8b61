//! How replicas invalidate each other's caches: a message lists the slots of the counters that a commit has changed. There is
//! at most one message per transaction, because a commit with one takes a lock on the whole database.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::random::Random;

use crate::freshness::slot;
use crate::{Freshness, Topic};

/// The channel for messages. The number changes with their meaning, so that a replica never misreads one.
pub(super) const CHANNEL: &str = "bot_companion_1";

/// The most slots in a message: the database accepts payloads shorter than 8,000 bytes, and a slot takes four hex digits.
const MOST_SLOTS: usize = 1_900;
/// Instead of slots: everything.
pub(super) const EVERYTHING: &str = "*";

/// Tells replicas apart. A replica does not need its own messages, unless it does not know the outcome of one of its commits:
/// the commit may still happen long after we gave up waiting for it, and what was read since then is stale.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    number: u64,
    heeds_own: Arc<AtomicBool>,
}

impl Origin {
    pub(super) fn new(random: &Random) -> Self {
        Self { number: random.number(), heeds_own: Arc::default() }
    }

    /// A number less than `below`, which other replicas are unlikely to share.
    pub(super) fn spread(&self, below: u64) -> u64 {
        self.number % below.max(1)
    }

    /// From now on this replica also handles its own messages.
    pub(super) fn handle_own(&self) {
        self.heeds_own.store(true, Ordering::SeqCst);
    }
}

/// The message of a commit; `None` if it changed nothing that is cached.
pub(super) fn message(origin: &Origin, topics: &[Topic]) -> Option<String> {
    if topics.is_empty() {
        return None;
    }
    let mut message = format!("{:016x}", origin.number);
    let slots: BTreeSet<u16> = topics.iter().map(|topic| slot(*topic)).collect();
    if topics.contains(&Topic::Everything) || slots.len() > MOST_SLOTS {
        message.push_str(EVERYTHING);
        return Some(message);
    }
    for slot in slots {
        // Writing to a string cannot fail.
        let _ = write!(message, "{slot:04x}");
    }
    Some(message)
}

/// Invalidates what a message names. One that cannot be read may mean anything.
pub(super) fn apply(message: &str, own: &Origin, freshness: &Freshness) {
    let (origin, slots) = message.split_at_checked(16).unwrap_or((message, EVERYTHING));
    if u64::from_str_radix(origin, 16) == Ok(own.number) && !own.heeds_own.load(Ordering::SeqCst) {
        return;
    }
    let slot = |letters: &[u8]| u16::from_str_radix(std::str::from_utf8(letters).ok()?, 16).ok();
    let slots: Option<Vec<u16>> = slots.as_bytes().chunks(4).map(slot).collect();
    match slots {
        Some(slots) => slots.into_iter().for_each(|slot| freshness.invalidate_slot(slot)),
        None => freshness.invalidate_all(),
    }
}

#[cfg(test)]
mod tests {
    use domain::Snowflake;
    use runtime::clock::Clock;

    use super::*;
    use crate::freshness::Dependencies;

    fn origin(number: u64) -> Origin {
        Origin { number, heeds_own: Arc::default() }
    }

    fn id(number: u64) -> Topic {
        Topic::Id(Snowflake::new(number).unwrap())
    }

    /// Whether the message invalidates a response of this topic at another replica.
    fn reaches(message: &str, topic: Topic) -> bool {
        let freshness = Freshness::new(Clock::system());
        let dependencies: Dependencies = [topic].into_iter().collect();
        let mark = freshness.mark(&dependencies);
        apply(message, &origin(2), &freshness);
        !freshness.is_fresh(&dependencies, mark)
    }

    #[test]
    fn a_message_reaches_what_it_names_and_nothing_else() {
        let message = super::message(&origin(1), &[id(7), Topic::Team, id(7)]).unwrap();
        assert!(reaches(&message, id(7)) && reaches(&message, Topic::Team));
        assert!(!reaches(&message, id(8)));
        assert_eq!(super::message(&origin(1), &[]), None);
    }

    #[test]
    fn our_own_count_only_once_we_do_not_know_what_became_of_a_commit() {
        let (freshness, own) = (Freshness::new(Clock::system()), origin(2));
        let dependencies: Dependencies = [id(7)].into_iter().collect();
        let mark = freshness.mark(&dependencies);
        let message = super::message(&own, &[id(7)]).unwrap();
        apply(&message, &own, &freshness);
        assert!(freshness.is_fresh(&dependencies, mark));
        own.handle_own();
        apply(&message, &own, &freshness);
        assert!(!freshness.is_fresh(&dependencies, mark));
    }

    #[test]
    fn what_is_too_much_or_unreadable_is_everything() {
        let many: Vec<Topic> = (1..5_000).map(id).collect();
        let message = super::message(&origin(1), &many).unwrap();
        assert!(message.len() < 8_000);
        assert!(reaches(&message, Topic::Keys));
        let most: Vec<Topic> = (1..1_900).map(id).collect();
        assert!(super::message(&origin(1), &most).unwrap().len() < 8_000);
        for text in ["", "x", "*", "0000000000000001zzzz", "0000000000000001\u{e4}\u{e4}\u{e4}"] {
            assert!(reaches(text, Topic::Keys), "{text}");
        }
        assert!(reaches(&super::message(&origin(1), &[Topic::Everything]).unwrap(), Topic::Keys));
    }
}
