//! The end of a snapshot: whether it becomes current, and what that does to the snapshots that covered its guilds before.

use std::collections::HashMap;

use super::carried::latest_commit;
use super::numbering::is_overtaken;
use super::ownership::{CommittedShard, SenderState, later_owner};
use super::sweep::UNCOVERED;
use super::totals::GuildTotals;
use super::{InstanceId, ShardKey, common_divisor};
use crate::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedSnapshot {
    pub id: i64,
    /// The shard; `None` for the subscriptions.
    pub shard: Option<ShardKey>,
    pub instance: InstanceId,
    /// The number of the first event after it.
    pub sequence: u64,
    /// The staged guilds.
    pub totals: GuildTotals,
    /// The commit that its carried parts come from, if any.
    pub basis: Option<i64>,
}

/// The result of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is current now, in one visible step.
    Replaced {
        /// The number of the next event: the snapshot's own.
        next: u64,
    },
    /// An instance that started later has taken over the shard; nothing was applied.
    Outranked {
        next: u64,
        /// The owner of the shard, or of part of it.
        owner: InstanceId,
    },
    /// The sender has sent more than is known here: something was lost, and it must send everything again; nothing was applied.
    Resync { next: u64 },
    /// It was overtaken by events, or by another snapshot of what it does not mention; nothing was applied.
    Outdated { next: u64 },
    /// The sender's key is not valid, or no longer; nothing was applied.
    KeyRefused,
}

impl Committed {
    /// The number of the sender's next event, if it may send.
    pub fn next(&self) -> Option<u64> {
        match self {
            Self::Replaced { next }
            | Self::Outranked { next, .. }
            | Self::Resync { next }
            | Self::Outdated { next } => Some(*next),
            Self::KeyRefused => None,
        }
    }
}

impl StagedSnapshot {
    /// Whether it becomes current; `overlapping` are the committed snapshots that cover some guild of its shard. Even an
    /// outranked snapshot moves the sender's numbering on, because events about its other shards continue from there. `after` is
    /// the number that the sender thinks is expected from it, if it says so.
    pub fn decide(
        &self,
        sender: &SenderState,
        after: Option<u64>,
        overlapping: &[CommittedShard],
        now: Time,
    ) -> Committed {
        if after.is_some_and(|after| after > sender.next) {
            return Committed::Resync { next: sender.next };
        }
        if is_overtaken(sender.next, self.sequence) {
            return Committed::Outdated { next: sender.next };
        }
        let later = self.shard.and_then(|shard| later_owner(shard, overlapping, sender, now));
        if let Some(owner) = later {
            return Committed::Outranked { next: self.sequence, owner: owner.clone() };
        }
        if self.basis.is_some_and(|basis| basis != latest_commit(overlapping)) {
            return Committed::Outdated { next: sender.next };
        }
        Committed::Replaced { next: self.sequence }
    }
}

/// When each shard of one count was committed: the shard's ID, and the number of its commit.
pub type Commits = [(u32, i64)];

/// What a shard's commit does to the snapshots that covered its guilds before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// None of these count any more, and their shards are forgotten, because all their guilds were sent again under the new
    /// count.
    pub superseded: Vec<&'a CommittedShard>,
    /// The snapshots whose rows are all removed.
    pub removed: Vec<i64>,
    /// The snapshots whose rows are removed if a later one covers them.
    pub partly_covered: Vec<i64>,
    /// Whether the commit hides rows of other shards that were visible until now; how many is not known yet.
    pub hides_rows: bool,
}

impl<'a> Replacement<'a> {
    /// Plans a commit of this shard. `commits` are those of all shards of the same count, including this one; they are only
    /// needed while the bot is resharding. `has_uncovered` says whether there are guilds that no snapshot covered.
    pub fn plan(shard: ShardKey, overlapping: &'a [CommittedShard], commits: &Commits, has_uncovered: bool) -> Self {
        let (same, others): (Vec<_>, Vec<_>) = overlapping.iter().partition(|sent| sent.shard.count == shard.count);
        let superseded = superseded(shard.count, commits, &others);
        let removed = same.iter().chain(&superseded).map(|sent| sent.snapshot).collect();
        let left = others.iter().map(|sent| sent.snapshot);
        let left = left.filter(|snapshot| !superseded.iter().any(|sent| sent.snapshot == *snapshot));
        let partly_covered = left.chain(has_uncovered.then_some(UNCOVERED)).collect();
        // The shard's own snapshot has hidden everything committed before it.
        let own = same.iter().map(|sent| sent.committed).max();
        let hides_rows = has_uncovered && own.is_none() || others.iter().any(|sent| own < Some(sent.committed));
        Self { superseded, removed, partly_covered, hides_rows }
    }
}

/// Whether some of these snapshots have a different shard count from this one, which means that the bot is resharding.
pub fn is_resharding(shard: ShardKey, overlapping: &[CommittedShard]) -> bool {
    overlapping.iter().any(|sent| sent.shard.count != shard.count)
}

/// Those snapshots of other counts that are older than all shards of this count, so that none of them counts.
fn superseded<'a>(count: u32, commits: &Commits, others: &[&'a CommittedShard]) -> Vec<&'a CommittedShard> {
    // For each remainder, how many shards have it and when the first of them was committed, by the divisor that two counts
    // share.
    let mut classes: HashMap<(u32, u32), (u32, i64)> = HashMap::new();
    let mut seen = Vec::new();
    let mut superseded = Vec::new();
    for other in others {
        let common = common_divisor(other.shard.count, count);
        if !seen.contains(&common) {
            seen.push(common);
            for (id, committed) in commits {
                let (number, first) = classes.entry((common, id % common)).or_insert((0, i64::MAX));
                *number += 1;
                *first = (*first).min(*committed);
            }
        }
        let class = classes.get(&(common, other.shard.id % common));
        if class.is_some_and(|(number, first)| *number == count / common && *first > other.committed) {
            superseded.push(*other);
        }
    }
    superseded
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::super::ownership::tests::{NOW, life, owner, sender};
    use super::*;

    fn committed(count: u32, id: u32, committed: i64) -> CommittedShard {
        CommittedShard { shard: ShardKey { count, id }, snapshot: committed, committed, owner: owner("old", None) }
    }

    #[test]
    fn nothing_counts_of_a_snapshot_whose_guilds_were_all_sent_again_later() {
        let old = [committed(2, 0, 10), committed(2, 1, 11), committed(3, 2, 20)];
        let old: Vec<_> = old.iter().collect();
        let table: &[(u32, &Commits, &[i64])] = &[
            (4, &[(0, 12), (2, 13)], &[10]),
            // One of them is older.
            (4, &[(0, 12), (2, 9), (1, 12), (3, 12)], &[11]),
            (4, &[(0, 21), (1, 22), (2, 23), (3, 24)], &[10, 11, 20]),
            // One is missing.
            (4, &[(0, 21), (1, 22), (2, 23)], &[10]),
            (6, &[(2, 30)], &[]),
            (6, &[(2, 30), (5, 31)], &[20]),
        ];
        for (count, commits, expected) in table {
            let found: Vec<_> = superseded(*count, commits, &old).iter().map(|sent| sent.snapshot).collect();
            assert_eq!(found, *expected, "{count} {commits:?}");
        }
    }

    #[test]
    fn a_commit_removes_what_it_replaces_and_of_others_what_it_covers() {
        type Expected<'a> = (&'a [i64], &'a [i64], &'a [i64], bool);
        type Case<'a> = (&'a [CommittedShard], &'a Commits, bool, Expected<'a>);
        let shard = ShardKey { count: 4, id: 0 };
        let (half, whole, own) = (committed(2, 0, 10), committed(1, 0, 5), committed(4, 0, 11));
        let later = committed(6, 2, 12);
        let table: &[Case<'_>] = &[
            (&[], &[(0, 20)], false, (&[], &[], &[], false)),
            (&[], &[(0, 20)], true, (&[], &[], &[0], true)),
            (from_ref(&own), &[], false, (&[], &[11], &[], false)),
            (from_ref(&own), &[], true, (&[], &[11], &[0], false)),
            (&[own.clone(), half.clone()], &[(0, 20)], false, (&[], &[11], &[10], false)),
            (&[own.clone(), half.clone(), later.clone()], &[(0, 20)], true, (&[], &[11], &[10, 12, 0], true)),
            (from_ref(&half), &[(0, 20), (2, 21)], true, (&[10], &[10], &[0], true)),
            (&[half.clone(), whole.clone()], &[(0, 20), (2, 21)], false, (&[10], &[10], &[5], true)),
            (from_ref(&whole), &[(0, 20), (1, 21), (2, 22), (3, 23)], false, (&[5], &[5], &[], true)),
        ];
        for (overlapping, commits, uncovered, expected) in table {
            let plan = Replacement::plan(shard, overlapping, commits, *uncovered);
            let superseded: Vec<_> = plan.superseded.iter().map(|sent| sent.snapshot).collect();
            let found = (&superseded[..], &plan.removed[..], &plan.partly_covered[..], plan.hides_rows);
            assert_eq!(found, *expected, "{overlapping:?}");
        }
        assert!(!is_resharding(shard, &[]) && !is_resharding(shard, from_ref(&own)));
        assert!(is_resharding(shard, &[own, half]));
    }

    #[test]
    fn what_becomes_of_a_snapshot() {
        type Case<'a> = (Option<ShardKey>, u64, Option<i64>, &'a [CommittedShard], Committed);
        let shard = ShardKey { count: 2, id: 0 };
        let sent = |shard: ShardKey, by: &str, started, committed| CommittedShard {
            shard,
            snapshot: committed,
            committed,
            owner: owner(by, Some(life(300, Some(started), 10, None))),
        };
        let (replaced, outdated) = (|next| Committed::Replaced { next }, |next| Committed::Outdated { next });
        let outranked = |next| Committed::Outranked { next, owner: owner("new", None).instance };
        let earlier = [sent(shard, "old", 500, 7)];
        let later = [sent(shard, "old", 500, 7), sent(ShardKey { count: 1, id: 0 }, "new", 700, 8)];
        // The one that started later was replaced by the shard's own snapshot.
        let over = [sent(shard, "old", 500, 9), sent(ShardKey { count: 1, id: 0 }, "new", 700, 8)];
        let table: &[Case<'_>] = &[
            (Some(shard), 5, None, &[], replaced(5)),
            (Some(shard), 9, None, &earlier, replaced(9)),
            (Some(shard), 4, None, &earlier, outdated(5)),
            (Some(shard), 5, Some(7), &earlier, replaced(5)),
            (Some(shard), 5, Some(6), &earlier, outdated(5)),
            (Some(shard), 9, Some(-1), &earlier, outdated(5)),
            (Some(shard), 5, Some(0), &[], replaced(5)),
            (Some(shard), 9, None, &later, outranked(9)),
            (Some(shard), 9, Some(6), &later, outranked(9)),
            (Some(shard), 4, None, &later, outdated(5)),
            (Some(shard), 9, None, &over, replaced(9)),
            (None, 5, None, &[], replaced(5)),
            (None, 4, None, &[], outdated(5)),
        ];
        for (shard, sequence, basis, overlapping, expected) in table {
            let sender = sender("sender", life(300, Some(600), 0, None), 5, true);
            let (shard, sequence, basis) = (*shard, *sequence, *basis);
            let (instance, totals) = (sender.instance.clone(), GuildTotals::default());
            let staged = StagedSnapshot { id: 1, shard, instance, sequence, totals, basis };
            for after in [None, Some(1), Some(5)] {
                let decided = staged.decide(&sender, after, overlapping, NOW);
                assert_eq!(decided, *expected, "{staged:?} {after:?} {overlapping:?}");
            }
            let decided = staged.decide(&sender, Some(6), overlapping, NOW);
            assert_eq!(decided, Committed::Resync { next: 5 }, "{staged:?} {overlapping:?}");
        }
        let next = |committed: Committed| committed.next();
        assert_eq!((next(replaced(5)), next(outdated(6)), next(outranked(7))), (Some(5), Some(6), Some(7)));
        assert_eq!(next(Committed::KeyRefused), None);
    }
}
