//! Cleaning up after snapshots. A sweep goes through the guilds of one snapshot, in order of ID and a limited number of rows at
//! a time, and removes those that no read can see any more.

use crate::saturating;

/// The snapshot number of guilds that no snapshot covers.
pub const UNCOVERED: i64 = 0;

/// A queued sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub snapshot: i64,
    /// Whether it removes all rows, rather than only those that a later snapshot covers.
    pub whole: bool,
    /// The last guild it has handled.
    pub after: i64,
    /// Whether more was covered since it began, so that it must start over.
    pub again: bool,
}

impl Sweep {
    /// Removes every row of a snapshot; replaces a sweep that was queued for it.
    pub fn whole(snapshot: i64) -> Self {
        Self { snapshot, whole: true, after: 0, again: false }
    }

    /// Removes the rows of a snapshot that a later one covers. A sweep that is queued for it continues, and starts over
    /// afterwards.
    pub fn covered(snapshot: i64, queued: Option<Self>) -> Self {
        match queued {
            Some(queued) => Self { again: true, ..queued },
            None => Self { snapshot, whole: false, after: 0, again: false },
        }
    }

    /// Whether no read can see a guild's rows in this snapshot, when `covering` is the one that covers the guild.
    pub fn hides(&self, covering: i64) -> bool {
        covering != self.snapshot
    }

    /// The rest of it, after a step that ended at this guild.
    #[must_use]
    pub fn continued(self, after: i64) -> Self {
        Self { after, ..self }
    }

    /// What is left of it after its last step.
    pub fn finished(self) -> Option<Self> {
        self.again.then_some(Self { after: 0, again: false, ..self })
    }
}

/// How many more rows one step of cleaning up may check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepBudget {
    batch: u64,
    spent: u64,
}

impl SweepBudget {
    /// At least one row, so that every step makes progress.
    pub fn new(batch: usize) -> Self {
        Self { batch: (batch as u64).max(1), spent: 0 }
    }

    /// What is left, if anything.
    pub fn left(&self) -> Option<u64> {
        self.batch.checked_sub(self.spent).filter(|left| *left > 0)
    }

    /// Records a sweep that checked this many rows. One that found nothing costs as much as a row, so that a step with many of
    /// them ends.
    pub fn spend(&mut self, rows: u64) {
        self.spent = self.spent.saturating_add(rows.max(1));
    }

    /// How many rows were checked; 0 if there was nothing to do.
    pub fn spent(&self) -> usize {
        saturating::to_usize(self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn sweep(whole: bool, after: i64, again: bool) -> Sweep {
        Sweep { snapshot: 5, whole, after, again }
    }

    #[test]
    fn what_is_queued() {
        assert_eq!(Sweep::whole(5), sweep(true, 0, false));
        for (queued, covered) in [
            (None, sweep(false, 0, false)),
            (Some(sweep(false, 0, false)), sweep(false, 0, true)),
            (Some(sweep(false, 70, true)), sweep(false, 70, true)),
            (Some(sweep(true, 70, false)), sweep(true, 70, true)),
        ] {
            assert_eq!(Sweep::covered(5, queued), covered, "{queued:?}");
        }
    }

    #[test]
    fn a_sweep_walks_to_its_end_and_begins_again_if_more_was_covered() {
        for (now, rest) in [
            (sweep(false, 70, false), None),
            (sweep(true, 70, false), None),
            (sweep(false, 70, true), Some(sweep(false, 0, false))),
            (sweep(true, 70, true), Some(sweep(true, 0, false))),
        ] {
            assert_eq!(now.finished(), rest, "{now:?}");
            assert_eq!(now.continued(90), Sweep { after: 90, ..now });
        }
    }

    #[test]
    fn what_another_snapshot_covers_cannot_be_seen() {
        for (covering, hidden) in [(4, true), (5, false), (6, true), (UNCOVERED, true)] {
            assert_eq!(sweep(false, 0, false).hides(covering), hidden, "{covering}");
        }
    }

    #[test]
    fn a_step_ends() {
        for (batch, rows, left, spent) in [
            (10, &[][..], Some(10), 0),
            (10, &[4][..], Some(6), 4),
            (10, &[4, 6][..], None, 10),
            (10, &[400][..], None, 400),
            (3, &[0, 0][..], Some(1), 2),
            (3, &[0, 0, 0][..], None, 3),
            (0, &[][..], Some(1), 0),
            (0, &[0][..], None, 1),
        ] {
            let mut budget = SweepBudget::new(batch);
            for rows in rows {
                budget.spend(*rows);
            }
            assert_eq!((budget.left(), budget.spent()), (left, spent), "{batch} {rows:?}");
        }
    }
}
