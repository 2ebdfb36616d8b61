//! What the feed holds, in the simplest words.

use std::collections::{BTreeMap, BTreeSet};

use super::{Line, NAMES, PLACES, Said};
use crate::domain::feed::{ShardKey, Verdict};
use crate::store::tests::{instance, placed};
use crate::store::{Committed, Fed, Foreign, SnapshotId};

/// Parts of a snapshot that come from more than one commit.
pub(super) const SEVERAL: u64 = u64::MAX;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) grants: bool,
    pub(super) staff: BTreeSet<u64>,
}

pub(super) struct Staged {
    pub(super) id: SnapshotId,
    pub(super) by: usize,
    pub(super) shard: ShardKey,
    pub(super) at: u64,
    pub(super) lines: BTreeMap<u64, Line>,
    /// Once lines were carried over: from which commit, or `SEVERAL`.
    pub(super) basis: Option<u64>,
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) now: u64,
    pub(super) guilds: BTreeMap<u64, Known>,
    /// The latest snapshot of each shard that still counts: who sent it, and the number of its commit.
    pub(super) sent: BTreeMap<ShardKey, (usize, u64)>,
    pub(super) commits: u64,
    pub(super) instances: [Instance; 2],
    pub(super) staged: Vec<Staged>,
}

#[derive(Default)]
pub(super) struct Instance {
    pub(super) next: u64,
    /// In seconds.
    pub(super) started: u64,
    pub(super) last_sign: u64,
    pub(super) sent_snapshot: bool,
    pub(super) own: BTreeSet<ShardKey>,
}

fn overlap(a: ShardKey, b: ShardKey) -> bool {
    (1..=PLACES).any(|place| a.covers(placed(place)) && b.covers(placed(place)))
}

impl Model {
    /// Who sent the snapshot that covers a place.
    fn owner(&self, place: u64) -> Option<usize> {
        let covering = self.sent.iter().filter(|(shard, _)| shard.covers(placed(place)));
        covering.max_by_key(|(_, (_, commit))| *commit).map(|(_, (by, _))| *by)
    }

    fn is_living(&self, who: usize) -> bool {
        self.now - self.instances[who].last_sign < 90
    }

    fn is_outranked(&self, by: usize, owner: usize) -> bool {
        self.is_living(owner) && self.instances[owner].started > self.instances[by].started
    }

    fn judge(&self, by: usize, place: u64) -> Verdict {
        let sender = &self.instances[by];
        match self.owner(place) {
            Some(owner) if owner == by => Verdict::Apply,
            Some(owner) if self.is_outranked(by, owner) => Verdict::Overruled,
            Some(owner) if self.is_living(owner) => Verdict::Apply,
            _ => {
                let mut named = sender.own.iter().filter(|shard| shard.covers(placed(place))).peekable();
                if named.peek().is_none() {
                    return if sender.sent_snapshot { Verdict::Unclaimed } else { Verdict::Resync };
                }
                if named.all(|shard| self.is_taken(by, *shard)) { Verdict::Overruled } else { Verdict::Resync }
            }
        }
    }

    /// Whether a later-started one keeps the sender's snapshot from taking the shard.
    fn is_taken(&self, by: usize, shard: ShardKey) -> bool {
        // What the shard's own snapshot has replaced says nothing about it any more.
        let own = self.sent.get(&shard).map_or(0, |(_, commit)| *commit);
        let mut counting = self.sent.iter().filter(|(sent, (_, commit))| overlap(**sent, shard) && *commit >= own);
        counting.any(|(_, (owner, _))| *owner != by && self.is_outranked(by, *owner))
    }

    fn apply(&mut self, said: &Said) {
        match said {
            Said::Guild { place, name, grants, staff } => {
                let known = self.guilds.entry(*place).or_default();
                known.name = name.to_string();
                known.grants = grants.unwrap_or(known.grants);
                known.staff = staff.clone().unwrap_or(std::mem::take(&mut known.staff));
            }
            Said::Gone(place) => drop(self.guilds.remove(place)),
            Said::Member { place, user, moderator } => {
                if let Some(known) = self.guilds.get_mut(place) {
                    known.staff.remove(user);
                    if *moderator && known.grants {
                        known.staff.insert(*user);
                    }
                }
            }
            Said::Left { place, user } => {
                self.guilds.get_mut(place).map(|known| known.staff.remove(user));
            }
            Said::Unknown => {}
        }
    }

    pub(super) fn feed(&mut self, by: usize, first: u64, said: &[Said]) -> Fed {
        let (now, next) = (self.now, self.instances[by].next);
        self.instances[by].last_sign = now;
        if first > next {
            return Fed::Resync { next };
        }
        let (mut foreign, mut accepted) = (Foreign::default(), Vec::new());
        for (number, said) in (first..).zip(said) {
            let place = match said {
                _ if number < next => continue,
                Said::Unknown => continue,
                Said::Guild { place, .. }
                | Said::Gone(place)
                | Said::Member { place, .. }
                | Said::Left { place, .. } => *place,
            };
            match self.judge(by, place) {
                Verdict::Apply => accepted.push(said),
                Verdict::Overruled => {
                    foreign.overruled += 1;
                    foreign.owner = Some(instance(NAMES[1 - by]));
                }
                Verdict::Unclaimed => foreign.unclaimed += 1,
                Verdict::Resync => return Fed::Resync { next },
            }
        }
        let applied = accepted.len() as u64;
        for said in accepted {
            self.apply(said);
        }
        self.instances[by].next = next.max(first + said.len() as u64);
        Fed::Applied { applied, ignored: said.len() as u64 - applied, next: self.instances[by].next, foreign }
    }

    /// The latest commit of a snapshot that overlaps with this shard.
    pub(super) fn latest(&self, shard: ShardKey) -> u64 {
        let overlapping = self.sent.iter().filter(|(sent, _)| overlap(**sent, shard));
        overlapping.map(|(_, (_, commit))| *commit).max().unwrap_or(0)
    }

    pub(super) fn commit(&mut self, staged: Staged) -> Committed {
        let Staged { by, shard, at, lines, basis, .. } = staged;
        let (now, sender) = (self.now, &mut self.instances[by]);
        (sender.last_sign, sender.sent_snapshot) = (now, true);
        sender.own.insert(shard);
        let next = sender.next;
        if next > at {
            return Committed::Outdated { next };
        }
        if self.is_taken(by, shard) {
            self.instances[by].next = at;
            return Committed::Outranked { next: at, owner: instance(NAMES[1 - by]) };
        }
        if basis.is_some_and(|basis| basis != self.latest(shard)) {
            return Committed::Outdated { next };
        }
        self.instances[by].next = at;
        self.commits += 1;
        self.sent.insert(shard, (by, self.commits));
        self.drop_superseded(shard.count);
        for place in (1..=PLACES).filter(|place| shard.covers(placed(*place))) {
            match lines.get(&place) {
                None => drop(self.guilds.remove(&place)),
                Some(Line::Unavailable(_)) => {}
                Some(Line::Guild { name, grants, staff, .. }) => {
                    let known = self.guilds.entry(place).or_default();
                    known.name = name.to_string();
                    known.grants = grants.unwrap_or(known.grants);
                    known.staff = staff.clone().unwrap_or(std::mem::take(&mut known.staff));
                }
            }
        }
        Committed::Replaced { next: at }
    }

    /// Forgets the snapshots of other counts that were all sent anew under this one.
    fn drop_superseded(&mut self, count: u32) {
        let sent = self.sent.clone();
        self.sent.retain(|shard, (_, commit)| {
            let anew = |id| sent.get(&ShardKey { count, id }).is_some_and(|(_, later)| *later > *commit);
            let mut overlapping = (0..count).filter(|id| overlap(ShardKey { count, id: *id }, *shard));
            shard.count == count || !overlapping.all(anew)
        });
    }
}
