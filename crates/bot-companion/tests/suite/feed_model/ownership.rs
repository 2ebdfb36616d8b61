//! Which bot process may speak for a guild: the rules of ownership and takeover, by brute force.

use super::SILENCE;
use super::model::{Model, Process, Shard};

/// What happens to an event about a guild.
pub enum Verdict {
    Apply,
    /// This process has taken over the shard.
    Overruled(usize),
    /// Nobody owns the shard, and the sender has never named it as its own.
    Unclaimed,
    /// The sender must send its snapshots first.
    Resync,
}

pub fn covers(shard: Shard, guild: u64) -> bool {
    guild % shard.0 == shard.1
}

fn overlap(a: Shard, b: Shard) -> bool {
    (0..a.0 * b.0).any(|guild| covers(a, guild) && covers(b, guild))
}

impl Model {
    /// Whether a process was active in any way lately.
    fn is_living(&self, who: usize) -> bool {
        let life = &self.processes[who].life;
        self.now - life.heartbeat.max(life.call) < SILENCE
    }

    /// The processes that have sent a heartbeat lately.
    pub fn beating(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| self.now - process.life.heartbeat < SILENCE)
    }

    fn is_outranked(&self, by: usize, owner: usize) -> bool {
        self.is_living(owner) && self.rank(owner) > self.rank(by)
    }

    /// The later start wins; of two equal ones, the later name.
    pub fn rank(&self, who: usize) -> (u64, &str) {
        let process = &self.processes[who];
        (process.life.started, &process.name)
    }

    /// The shards that a process has named and that hold another one's data: those of a later-started one, and the others.
    pub fn lost(&self, by: usize) -> [Vec<Shard>; 2] {
        let (mut replaced, mut free) = (Vec::new(), Vec::new());
        for shard in &self.processes[by].life.named {
            let own = self.sent.get(shard).map(|(_, commit)| *commit);
            let counting =
                self.sent.iter().filter(|(sent, (_, commit))| overlap(**sent, *shard) && Some(*commit) >= own);
            if self.taken_by(by, *shard).is_some() {
                replaced.push(*shard);
            } else if own.is_none() || counting.into_iter().any(|(_, (owner, _))| *owner != by) {
                free.push(*shard);
            }
        }
        [replaced, free]
    }

    /// The process that started later, if any, and keeps the sender's snapshot from taking over the shard.
    pub fn taken_by(&self, by: usize, shard: Shard) -> Option<usize> {
        // A snapshot that was replaced by the shard's own no longer counts.
        let own = self.sent.get(&shard).map_or(0, |(_, commit)| *commit);
        let counting = self.sent.iter().filter(|(sent, (_, commit))| overlap(**sent, shard) && *commit >= own);
        let later = counting.filter(|(_, (owner, _))| *owner != by && self.is_outranked(by, *owner));
        later.max_by_key(|(_, (_, commit))| *commit).map(|(_, (owner, _))| *owner)
    }

    /// The process that sent the latest snapshot covering a guild.
    fn owner(&self, guild: u64) -> Option<usize> {
        let covering = self.sent.iter().filter(|(shard, _)| covers(**shard, guild));
        covering.max_by_key(|(_, (_, commit))| *commit).map(|(_, (by, _))| *by)
    }

    pub fn judge(&self, by: usize, guild: u64) -> Verdict {
        let sender = &self.processes[by].life;
        match self.owner(guild) {
            Some(owner) if owner == by => Verdict::Apply,
            Some(owner) if self.is_outranked(by, owner) => Verdict::Overruled(owner),
            Some(owner) if self.is_living(owner) => Verdict::Apply,
            _ => {
                let named: Vec<_> = sender.named.iter().filter(|shard| covers(**shard, guild)).collect();
                if named.is_empty() {
                    return if sender.has_sent_snapshot { Verdict::Unclaimed } else { Verdict::Resync };
                }
                let takers: Option<Vec<usize>> = named.into_iter().map(|shard| self.taken_by(by, *shard)).collect();
                takers.and_then(|takers| takers.last().copied()).map_or(Verdict::Resync, Verdict::Overruled)
            }
        }
    }

    /// The latest commit of a snapshot that overlaps with this shard.
    pub fn latest_commit(&self, shard: Shard) -> u64 {
        let overlapping = self.sent.iter().filter(|(sent, _)| overlap(**sent, shard));
        overlapping.map(|(_, (_, commit))| *commit).max().unwrap_or(0)
    }

    /// Forgets the snapshots of other shard counts whose guilds have all been sent again under this count.
    pub fn drop_superseded(&mut self, count: u64) {
        let sent = self.sent.clone();
        self.sent.retain(|shard, (_, commit)| {
            let is_later = |id| sent.get(&(count, id)).is_some_and(|(_, later)| *later > *commit);
            let mut overlapping = (0..count).filter(|id| overlap((count, *id), *shard));
            shard.0 == count || !overlapping.all(is_later)
        });
    }
}
