//! The numbering of events. Each instance counts its own; the service stores the number it expects next.

use crate::saturating;

/// The number expected from an unknown instance.
pub const FIRST_EVENT: u64 = 1;

/// How a batch of numbered events continues what was applied so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuation {
    /// Events before the first of these are missing.
    Gap,
    /// All of them were applied before.
    Repeat,
    /// Some of them are new.
    New {
        /// How many at the beginning were applied before.
        repeats: usize,
        /// The number after the last of them.
        end: u64,
    },
}

impl Continuation {
    /// How `count` events starting at `first` continue, when `next` is expected.
    pub(super) fn of(next: u64, first: u64, count: usize) -> Self {
        let end = first.saturating_add(count as u64);
        if first > next {
            return Self::Gap;
        }
        if end <= next {
            return Self::Repeat;
        }
        // It fits, because there are fewer repeats than events.
        Self::New { repeats: saturating::to_usize(next - first), end }
    }
}

/// Whether events have overtaken a snapshot: it was made before the event `sequence`, which was already applied.
pub(super) fn is_overtaken(next: u64, sequence: u64) -> bool {
    next > sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_continue_repeat_or_leave_a_gap() {
        let new = |repeats, end| Continuation::New { repeats, end };
        for (next, first, count, continuation) in [
            (1, 1, 0, Continuation::Repeat),
            (1, 1, 1, new(0, 2)),
            (1, 2, 0, Continuation::Gap),
            (1, 2, 3, Continuation::Gap),
            (5, 1, 4, Continuation::Repeat),
            (5, 1, 5, new(4, 6)),
            (5, 4, 3, new(1, 7)),
            (5, 5, 2, new(0, 7)),
            (5, 6, 2, Continuation::Gap),
            (u64::MAX, u64::MAX, 9, Continuation::Repeat),
            (u64::MAX - 1, u64::MAX - 1, 9, new(0, u64::MAX)),
        ] {
            assert_eq!(Continuation::of(next, first, count), continuation, "{next} {first} {count}");
        }
    }

    #[test]
    fn a_snapshot_is_overtaken_by_the_event_that_it_should_come_before() {
        for (next, sequence, overtaken) in [(1, 1, false), (5, 5, false), (5, 6, false), (6, 5, true)] {
            assert_eq!(is_overtaken(next, sequence), overtaken, "{next} {sequence}");
        }
    }
}
