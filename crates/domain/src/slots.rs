//! Slots of feedback: the positive entries are numbered 0, 1, 2, … without gaps, so that drawing one at random is one lookup.
//! An entry that is no longer shown gives up its slot, and the last entry moves into the gap.

/// The numbering as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The slot of the entry in question, if it has one.
    pub own: Option<u64>,
    /// The last slot of all, if there is any.
    pub last: Option<u64>,
}

/// How a change to an entry affects the numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotChange {
    pub slot: Option<u64>,
    /// Once the entry has given up its slot, the entry of the first slot moves to the second.
    pub moved: Option<(u64, u64)>,
    /// Whether the visible entries change.
    pub is_visible: bool,
}

/// How many entries are shown, given the last slot.
pub fn count(last: Option<u64>) -> u64 {
    last.map_or(0, |last| last.saturating_add(1))
}

impl Slots {
    /// Stores an entry, new or replaced.
    pub fn put(self, is_positive: bool) -> SlotChange {
        if !is_positive {
            return self.remove();
        }
        SlotChange { slot: Some(self.own.unwrap_or(count(self.last))), moved: None, is_visible: true }
    }

    /// Removes an entry, or stops showing it.
    pub fn remove(self) -> SlotChange {
        let moved = self.own.and_then(|own| self.last.filter(|last| *last > own).map(|last| (last, own)));
        SlotChange { slot: None, moved, is_visible: self.own.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_dense() {
        let table = [
            // own, last, positive, slot, moved, visible
            (None, None, true, Some(0), None, true),
            (None, Some(4), true, Some(5), None, true),
            (Some(0), Some(4), true, Some(0), None, true),
            (Some(4), Some(4), true, Some(4), None, true),
            (None, None, false, None, None, false),
            (None, Some(4), false, None, None, false),
            (Some(0), Some(0), false, None, None, true),
            (Some(4), Some(4), false, None, None, true),
            (Some(1), Some(4), false, None, Some((4, 1)), true),
        ];
        for (own, last, is_positive, slot, moved, is_visible) in table {
            let slots = Slots { own, last };
            assert_eq!(slots.put(is_positive), SlotChange { slot, moved, is_visible }, "{slots:?} {is_positive}");
            if !is_positive {
                assert_eq!(slots.remove(), slots.put(false), "{slots:?}");
            }
        }
        for (last, entries) in [(None, 0), (Some(0), 1), (Some(7), 8), (Some(u64::MAX), u64::MAX)] {
            assert_eq!(count(last), entries);
        }
    }

    #[test]
    fn any_history_leaves_no_gap() {
        // The entries by slot, and what happens to each in turn.
        let mut shown: Vec<u32> = Vec::new();
        let history =
            [(1, true), (2, true), (3, false), (3, true), (1, false), (4, true), (2, true), (2, false), (9, false)];
        for (entry, is_positive) in history {
            let slot_of = |shown: &[u32], entry| shown.iter().position(|it| *it == entry).map(|slot| slot as u64);
            let slots = Slots { own: slot_of(&shown, entry), last: (shown.len() as u64).checked_sub(1) };
            let change = slots.put(is_positive);
            if let (Some(own), None) = (slots.own, change.slot) {
                let last = shown.pop().unwrap();
                match change.moved {
                    Some((from, to)) => {
                        assert_eq!((from, to), (shown.len() as u64, own));
                        shown[usize::try_from(to).unwrap()] = last;
                    }
                    None => assert_eq!(own, shown.len() as u64),
                }
            } else if slots.own.is_none() && is_positive {
                assert_eq!(change.slot, Some(shown.len() as u64));
                shown.push(entry);
            }
        }
        assert_eq!(shown, [3, 4]);
    }
}
