//! What replicas tell each other: the places in the table of counters that a commit has changed. At most one notice a
//! transaction, because a commit with one takes a lock of the whole database.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::random::Random;
use crate::store::freshness::slot;
use crate::store::{Freshness, Topic};

/// Where the notices go. The number changes with what a notice means: replicas of different meanings must not understand
/// each other.
pub(super) const CHANNEL: &str = "bot_companion_1";

/// The database takes payloads shorter than 8,000 bytes; a place is four letters.
const PLACES: usize = 1_900;
pub(super) const EVERYTHING: &str = "*";

/// Tells replicas apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin(u64);

impl Origin {
    pub(super) fn new(random: &Random) -> Self {
        Self(random.number())
    }

    /// A number below this, which other replicas hardly share.
    pub(super) fn spread(self, below: u64) -> u64 {
        self.0 % below.max(1)
    }
}

/// The notice of a commit; none if it changed nothing that anybody keeps.
pub(super) fn of(touched: &[Topic]) -> Option<String> {
    if touched.is_empty() {
        return None;
    }
    let places: BTreeSet<u16> = touched.iter().map(|topic| slot(*topic)).collect();
    if touched.contains(&Topic::Everything) || places.len() > PLACES {
        return Some(EVERYTHING.to_owned());
    }
    let mut notice = String::with_capacity(places.len() * 4);
    for place in places {
        // Writing to a string cannot fail.
        let _ = write!(notice, "{place:04x}");
    }
    Some(notice)
}

/// Takes a notice to heart. One that cannot be read may mean anything. Our own count, too: a commit may happen long after we gave
/// up waiting for it, and what was read since then is stale.
pub(super) fn heed(notice: &str, freshness: &Freshness) {
    let place = |letters: &[u8]| u16::from_str_radix(std::str::from_utf8(letters).ok()?, 16).ok();
    let places: Option<Vec<u16>> = notice.as_bytes().chunks(4).map(place).collect();
    match places {
        Some(places) if !places.is_empty() => places.into_iter().for_each(|place| freshness.touch_slot(place)),
        _ => freshness.touch_everything(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::domain::Snowflake;
    use crate::store::freshness::Dependencies;

    fn id(number: u64) -> Topic {
        Topic::Id(Snowflake::new(number).unwrap())
    }

    /// Whether the notice makes an answer of this topic stale at another replica.
    fn reaches(notice: &str, topic: Topic) -> bool {
        let freshness = Freshness::new(Clock::system());
        let dependencies: Dependencies = [topic].into_iter().collect();
        let mark = freshness.mark(&dependencies);
        heed(notice, &freshness);
        !freshness.holds(&dependencies, mark)
    }

    #[test]
    fn a_notice_reaches_what_it_names_and_nothing_else() {
        let notice = of(&[id(7), Topic::Team, id(7)]).unwrap();
        assert!(reaches(&notice, id(7)) && reaches(&notice, Topic::Team));
        assert!(!reaches(&notice, id(8)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_is_too_much_or_unreadable_is_everything() {
        let many: Vec<Topic> = (1..5_000).map(id).collect();
        let notice = of(&many).unwrap();
        assert!(notice.len() < 8_000);
        assert!(reaches(&notice, Topic::Keys));
        let most: Vec<Topic> = (1..1_900).map(id).collect();
        assert!(of(&most).unwrap().len() < 8_000);
        for notice in ["", "x", "zzzz", "\u{e4}\u{e4}\u{e4}"] {
            assert!(reaches(notice, Topic::Keys), "{notice}");
        }
        assert!(reaches(&of(&[Topic::Everything]).unwrap(), Topic::Keys));
    }
}
