//! What replicas tell each other: the places in the table of counters that a commit has changed. At most one notice a
//! transaction, because a commit with one takes a lock of the whole database.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::random::Random;
use crate::store::freshness::slot;
use crate::store::{Freshness, Topic};

/// Where the notices go. The number changes with what a notice means: replicas of different meanings must not understand
/// each other.
pub(super) const CHANNEL: &str = "bot_companion_1";

/// The database takes payloads shorter than 8,000 bytes; a place is four letters.
const PLACES: usize = 1_900;
pub(super) const EVERYTHING: &str = "*";

/// Tells replicas apart. A replica has no need for its own notices, unless it does not know what became of one of its commits: that
/// may happen long after we gave up waiting for it, and what was read since then is stale.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    number: u64,
    needs_own: Arc<AtomicBool>,
}

impl Origin {
    pub(super) fn new(random: &Random) -> Self {
        Self { number: random.number(), needs_own: Arc::default() }
    }

    /// A number below this, which other replicas hardly share.
    pub(super) fn spread(&self, below: u64) -> u64 {
        self.number % below.max(1)
    }

    /// From now on this replica heeds its own notices, too.
    pub(super) fn lost_track(&self) {
        self.needs_own.store(true, Ordering::SeqCst);
    }
}

/// The notice of a commit; none if it changed nothing that anybody keeps.
pub(super) fn of(origin: &Origin, touched: &[Topic]) -> Option<String> {
    if touched.is_empty() {
        return None;
    }
    let mut notice = format!("{:016x}", origin.number);
    let places: BTreeSet<u16> = touched.iter().map(|topic| slot(*topic)).collect();
    if touched.contains(&Topic::Everything) || places.len() > PLACES {
        notice.push_str(EVERYTHING);
        return Some(notice);
    }
    for place in places {
        // Writing to a string cannot fail.
        let _ = write!(notice, "{place:04x}");
    }
    Some(notice)
}

/// Takes a notice to heart. One that cannot be read may mean anything.
pub(super) fn heed(notice: &str, own: &Origin, freshness: &Freshness) {
    let (origin, places) = notice.split_at_checked(16).unwrap_or((notice, EVERYTHING));
    if u64::from_str_radix(origin, 16) == Ok(own.number) && !own.needs_own.load(Ordering::SeqCst) {
        return;
    }
    let place = |letters: &[u8]| u16::from_str_radix(std::str::from_utf8(letters).ok()?, 16).ok();
    let places: Option<Vec<u16>> = places.as_bytes().chunks(4).map(place).collect();
    match places {
        Some(places) => places.into_iter().for_each(|place| freshness.invalidate_slot(place)),
        None => freshness.invalidate_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::domain::Snowflake;
    use crate::store::freshness::Dependencies;

    fn origin(number: u64) -> Origin {
        Origin { number, needs_own: Arc::default() }
    }

    fn id(number: u64) -> Topic {
        Topic::Id(Snowflake::new(number).unwrap())
    }

    /// Whether the notice makes an answer of this topic stale at another replica.
    fn reaches(notice: &str, topic: Topic) -> bool {
        let freshness = Freshness::new(Clock::system());
        let dependencies: Dependencies = [topic].into_iter().collect();
        let mark = freshness.mark(&dependencies);
        heed(notice, &origin(2), &freshness);
        !freshness.is_fresh(&dependencies, mark)
    }

    #[test]
    fn a_notice_reaches_what_it_names_and_nothing_else() {
        let notice = of(&origin(1), &[id(7), Topic::Team, id(7)]).unwrap();
        assert!(reaches(&notice, id(7)) && reaches(&notice, Topic::Team));
        assert!(!reaches(&notice, id(8)));
        assert_eq!(of(&origin(1), &[]), None);
    }

    #[test]
    fn our_own_count_only_once_we_have_lost_track() {
        let (freshness, own) = (Freshness::new(Clock::system()), origin(2));
        let dependencies: Dependencies = [id(7)].into_iter().collect();
        let mark = freshness.mark(&dependencies);
        let notice = of(&own, &[id(7)]).unwrap();
        heed(&notice, &own, &freshness);
        assert!(freshness.is_fresh(&dependencies, mark));
        own.lost_track();
        heed(&notice, &own, &freshness);
        assert!(!freshness.is_fresh(&dependencies, mark));
    }

    #[test]
    fn what_is_too_much_or_unreadable_is_everything() {
        let many: Vec<Topic> = (1..5_000).map(id).collect();
        let notice = of(&origin(1), &many).unwrap();
        assert!(notice.len() < 8_000);
        assert!(reaches(&notice, Topic::Keys));
        let most: Vec<Topic> = (1..1_900).map(id).collect();
        assert!(of(&origin(1), &most).unwrap().len() < 8_000);
        for notice in ["", "x", "*", "0000000000000001zzzz", "0000000000000001\u{e4}\u{e4}\u{e4}"] {
            assert!(reaches(notice, Topic::Keys), "{notice}");
        }
        assert!(reaches(&of(&origin(1), &[Topic::Everything]).unwrap(), Topic::Keys));
    }
}
