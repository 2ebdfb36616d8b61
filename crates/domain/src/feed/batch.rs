//! A batch of events: which of them are applied, and what the sender is told. It reads nothing itself: [`EventBatch::question`]
//! says what it needs to know next, the store looks that up, and when no question is left, [`EventBatch::finish`] has the
//! answer.

use std::collections::HashMap;

use super::numbering::Continuation;
use super::ownership::{
    CommittedShard, Holder, LostShards, Named, OwnShards, Owner, SenderState, Verdict, judge, later_owner,
};
use super::{Event, InstanceId, ShardKey};
use crate::{Change, Snowflake, Time};

/// The result of a batch of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// Applied from the instance's `next` on; events that were applied before, or are about shards of others, are counted as
    /// ignored.
    Applied {
        /// How many events changed something, or would have.
        applied: u64,
        /// How many were ignored: repeats, unknown events, and events about shards of others.
        ignored: u64,
        next: u64,
        /// The ignored ones that are about shards of others.
        unowned: UnownedEvents,
        /// The sender's lost shards: in the response to a probe, which has no events, and if a later-started instance owns some.
        lost: LostShards,
    },
    /// Events before the first of these are missing, or the snapshot they are about: the sender must send everything again.
    Resync {
        /// The number we expect.
        next: u64,
    },
    /// The sender's key is not valid, or no longer; nothing was applied.
    KeyRefused,
}

impl BatchOutcome {
    /// The number of the sender's next event, if it may send.
    pub fn next(&self) -> Option<u64> {
        match self {
            Self::Applied { next, .. } | Self::Resync { next } => Some(*next),
            Self::KeyRefused => None,
        }
    }
}

/// Events about shards that their sender does not own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnownedEvents {
    /// How many are about shards of an instance that started later.
    pub overruled: u64,
    /// One such instance.
    pub owner: Option<InstanceId>,
    /// How many are about shards that nobody owns and the sender never named.
    pub unclaimed: u64,
}

/// What must be looked up before a batch can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Who sent the snapshot that covers this guild?
    Owner(Snowflake),
    /// Which shards has the sender named as its own?
    OwnShards,
    /// Which committed snapshots overlap with this shard?
    Overlapping(ShardKey),
    /// Which shards that the sender has named may hold another one's data, and which committed snapshots overlap with each?
    LostShards,
}

/// A batch of events being decided. Nothing is applied before all of it is.
#[derive(Debug)]
pub struct EventBatch<'a> {
    sender: &'a SenderState,
    now: Time,
    count: u64,
    continuation: Continuation,
    /// The new changes that are not decided yet, the next one last.
    rest: Vec<&'a Change>,
    /// Who owns the shard of the next one's guild, once that is known.
    holder: Option<(Holder, Option<InstanceId>)>,
    /// Only asked for if nobody owns a guild's shard.
    own: Option<OwnShards>,
    /// Which instance prevents the sender's snapshot from taking a shard; each shard is looked up once.
    later_owners: HashMap<ShardKey, Option<InstanceId>>,
    must_resync: bool,
    applied: Vec<&'a Change>,
    unowned: UnownedEvents,
    lost: Option<LostShards>,
}

impl<'a> EventBatch<'a> {
    /// A batch from this sender, starting at the number `first`.
    pub fn new(sender: &'a SenderState, first: u64, events: &'a [Event], now: Time) -> Self {
        let continuation = Continuation::of(sender.next, first, events.len());
        let new = match continuation {
            Continuation::Gap | Continuation::Repeat => &[],
            Continuation::New { repeats, .. } => events.get(repeats..).unwrap_or_default(),
        };
        let changes = new.iter().rev().filter_map(|event| match event {
            Event::Change(change) => Some(change),
            Event::Ignored(_) => None,
        });
        Self {
            sender,
            now,
            count: events.len() as u64,
            continuation,
            rest: changes.collect(),
            holder: None,
            own: None,
            later_owners: HashMap::new(),
            must_resync: false,
            applied: Vec::new(),
            unowned: UnownedEvents::default(),
            lost: None,
        }
    }

    /// The guilds that the new events are about.
    pub fn guilds(&self) -> Vec<Snowflake> {
        self.rest.iter().filter_map(|change| change.guild()).collect()
    }

    /// Decides events as far as it can, and returns what it needs to know next; `None` when all are decided.
    pub fn question(&mut self) -> Option<Question> {
        while !self.must_resync
            && let Some(change) = self.rest.last().copied()
        {
            let (verdict, owner) = match change.guild() {
                None => (Verdict::Apply, None),
                Some(guild) => match self.judge(guild) {
                    Ok(judged) => judged,
                    Err(question) => return Some(question),
                },
            };
            match verdict {
                Verdict::Apply => self.applied.push(change),
                Verdict::Overruled => {
                    self.unowned.overruled += 1;
                    self.unowned.owner = owner.or(self.unowned.owner.take());
                }
                Verdict::Unclaimed => self.unowned.unclaimed += 1,
                Verdict::Resync => self.must_resync = true,
            }
            self.rest.pop();
            self.holder = None;
        }
        let is_probe = self.count == 0 && self.continuation != Continuation::Gap;
        let asks_for_lost = (is_probe || self.unowned.overruled > 0) && !self.must_resync && self.lost.is_none();
        asks_for_lost.then_some(Question::LostShards)
    }

    pub fn answer_owner(&mut self, owner: Option<&Owner>) {
        let holder = Holder::of(owner, self.sender, self.now);
        // Named only if it overrules the sender.
        let later = owner.filter(|_| holder == Holder::Later).map(|owner| owner.instance.clone());
        self.holder = Some((holder, later));
    }

    pub fn answer_own_shards(&mut self, own: OwnShards) {
        self.own = Some(own);
    }

    pub fn answer_overlapping(&mut self, shard: ShardKey, overlapping: &[CommittedShard]) {
        let owner = later_owner(shard, overlapping, self.sender, self.now).cloned();
        self.later_owners.insert(shard, owner);
    }

    pub fn answer_lost_shards(&mut self, named: &[(ShardKey, Vec<CommittedShard>)]) {
        let mut lost = LostShards::default();
        for (shard, overlapping) in named {
            lost.note(*shard, overlapping, self.sender, self.now);
        }
        self.lost = Some(lost);
    }

    /// What the sender is told, and the changes to apply, in order.
    pub fn finish(self) -> (BatchOutcome, Vec<&'a Change>) {
        let (next, applied) = (self.sender.next, self.applied.len() as u64);
        let next = match self.continuation {
            Continuation::New { end, .. } if !self.must_resync => end,
            Continuation::Repeat => next,
            Continuation::New { .. } | Continuation::Gap => return (BatchOutcome::Resync { next }, Vec::new()),
        };
        let (ignored, lost) = (self.count - applied, self.lost.unwrap_or_default());
        (BatchOutcome::Applied { applied, ignored, next, unowned: self.unowned, lost }, self.applied)
    }

    /// What happens to the next event, which is about this guild; and if it is overruled, by whom.
    fn judge(&self, guild: Snowflake) -> Result<(Verdict, Option<InstanceId>), Question> {
        let (holder, owner) = self.holder.as_ref().ok_or(Question::Owner(guild))?;
        let (named, owner) = match holder {
            Holder::Nobody => self.named(guild)?,
            Holder::Sender | Holder::Earlier | Holder::Later => (Named::No, owner.clone()),
        };
        Ok((judge(*holder, named, self.sender.has_sent_snapshot), owner))
    }

    /// Whether the sender has named the guild's shard as its own; and if in vain, who owns it.
    fn named(&self, guild: Snowflake) -> Result<(Named, Option<InstanceId>), Question> {
        let own = self.own.as_ref().ok_or(Question::OwnShards)?;
        let mut found = (Named::No, None);
        for shard in own.of(guild) {
            match self.later_owners.get(&shard).ok_or(Question::Overlapping(shard))? {
                None => return Ok((Named::Free, None)),
                Some(owner) => found = (Named::InVain, Some(owner.clone())),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ownership::tests::{NOW, life, owner, sender};
    use super::*;

    fn gone(number: u64) -> Event {
        Event::Change(Change::GuildGone(guild(number)))
    }

    /// A guild whose shard is this number modulo the count.
    fn guild(number: u64) -> Snowflake {
        Snowflake::new(number << 22).unwrap()
    }

    fn sent(count: u32, id: u32, owner: Owner) -> CommittedShard {
        CommittedShard { shard: ShardKey { count, id }, snapshot: 1, committed: 1, owner }
    }

    /// Of four shards, the first was sent by the sender, the second by an earlier instance, the third by a later one, and the
    /// last by a silent one; nobody has sent guild 7.
    fn owner_of(guild: Snowflake) -> Option<Owner> {
        match ShardKey::of(guild, 4).id {
            0 => Some(owner("sender", Some(life(300, Some(600), 0, None)))),
            1 => Some(owner("earlier", Some(life(300, Some(500), 10, None)))),
            2 => Some(owner("later", Some(life(300, Some(700), 10, None)))),
            _ if guild.get() >> 22 == 7 => None,
            _ => Some(owner("silent", Some(life(300, Some(700), 90, None)))),
        }
    }

    /// Answers every question, and also returns what was asked.
    fn run(
        sender: &SenderState,
        first: u64,
        events: &[Event],
        own: &[ShardKey],
    ) -> (BatchOutcome, Vec<u64>, Vec<Question>) {
        let mut asked = Vec::new();
        let mut batch = EventBatch::new(sender, first, events, NOW);
        while let Some(question) = batch.question() {
            asked.push(question);
            match question {
                Question::Owner(guild) => batch.answer_owner(owner_of(guild).as_ref()),
                Question::OwnShards => batch.answer_own_shards(own.iter().copied().collect()),
                // Only the combination of the last two shards has a part that belongs to someone else.
                Question::Overlapping(ShardKey { count: 2, .. }) => {
                    batch.answer_overlapping(ShardKey { count: 2, id: 1 }, &[sent(4, 2, owner_of(guild(2)).unwrap())]);
                }
                Question::Overlapping(shard) => batch.answer_overlapping(shard, &[]),
                Question::LostShards => {
                    let named = (0..4).map(|id| (ShardKey { count: 4, id }, owner_of(guild(u64::from(id) + 8))));
                    let named: Vec<_> =
                        named.map(|(shard, owner)| (shard, vec![sent(4, shard.id, owner.unwrap())])).collect();
                    batch.answer_lost_shards(&named);
                }
            }
        }
        let (fed, changes) = batch.finish();
        let changes = changes.iter().map(|change| change.guild().map_or(0, |guild| guild.get() >> 22));
        (fed, changes.collect(), asked)
    }

    fn by(next: u64, has_sent_snapshot: bool) -> SenderState {
        sender("sender", life(300, Some(600), 0, None), next, has_sent_snapshot)
    }

    fn applied(applied: u64, ignored: u64, next: u64, unowned: (u64, Option<&str>, u64)) -> BatchOutcome {
        let owner = unowned.1.map(|name| owner(name, None).instance);
        let lost = if unowned.0 > 0 || applied + ignored == 0 { lost() } else { LostShards::default() };
        let unowned = UnownedEvents { overruled: unowned.0, owner, unclaimed: unowned.2 };
        BatchOutcome::Applied { applied, ignored, next, unowned, lost }
    }

    /// What the sender has lost of the four shards, if it has named all of them.
    fn lost() -> LostShards {
        let key = |id| ShardKey { count: 4, id };
        LostShards { replaced: vec![key(2)], free: vec![key(1), key(3)] }
    }

    #[test]
    fn what_becomes_of_a_batch() {
        type Case<'a> = (u64, &'a [Event], &'a [ShardKey], bool, BatchOutcome, &'a [u64]);
        let key = |count, id| ShardKey { count, id };
        let none = (0, None, 0);
        let resync = BatchOutcome::Resync { next: 5 };
        let user = Event::Change(Change::SubscriptionGone(guild(9)));
        let unknown = Event::Ignored("unknown".to_owned());
        let table: &[Case<'_>] = &[
            (6, &[gone(4)], &[], true, resync.clone(), &[]),
            (6, &[], &[], true, resync.clone(), &[]),
            (5, &[], &[], true, applied(0, 0, 5, none), &[]),
            (3, &[gone(4), gone(4)], &[], true, applied(0, 2, 5, none), &[]),
            (4, &[gone(8), gone(4)], &[], true, applied(1, 1, 6, none), &[4]),
            (5, &[gone(4), gone(8)], &[], true, applied(2, 0, 7, none), &[4, 8]),
            (5, &[user.clone(), unknown.clone()], &[], false, applied(1, 1, 7, none), &[0]),
            (5, &[gone(1), gone(2), gone(6)], &[], true, applied(1, 2, 8, (2, Some("later"), 0)), &[1]),
            (5, &[gone(4), gone(3)], &[], true, applied(1, 1, 7, (0, None, 1)), &[4]),
            (5, &[gone(4), gone(3)], &[], false, resync.clone(), &[]),
            (5, &[gone(7)], &[], true, applied(0, 1, 6, (0, None, 1)), &[]),
            (5, &[gone(7)], &[], false, resync.clone(), &[]),
            (5, &[gone(4), gone(3), gone(4)], &[key(4, 3)], true, resync.clone(), &[]),
            (5, &[gone(3)], &[key(2, 1)], true, applied(0, 1, 6, (1, Some("later"), 0)), &[]),
            (5, &[gone(3)], &[key(2, 1)], false, applied(0, 1, 6, (1, Some("later"), 0)), &[]),
            (5, &[gone(3)], &[key(2, 1), key(4, 3)], true, resync, &[]),
        ];
        for (first, events, own, has_sent_snapshot, fed, changes) in table {
            let (found, applied, _) = run(&by(5, *has_sent_snapshot), *first, events, own);
            assert_eq!((&found, &applied[..]), (fed, *changes), "{first} {events:?} {own:?}");
            assert!(found.next().is_some());
        }
        assert_eq!(BatchOutcome::KeyRefused.next(), None);
    }

    #[test]
    fn nothing_is_looked_up_twice_or_without_need() {
        use Question::{LostShards, Overlapping, OwnShards, Owner};
        let shard = ShardKey { count: 2, id: 1 };
        let (_, _, asked) = run(&by(1, true), 1, &[gone(3), gone(4), gone(7), gone(3)], &[shard]);
        let once = [Owner(guild(3)), OwnShards, Overlapping(shard), Owner(guild(4)), Owner(guild(7)), Owner(guild(3))];
        assert_eq!(asked[..6], once);
        assert_eq!(asked[6..], [LostShards], "something was overruled");
        let (_, _, asked) = run(&by(1, false), 1, &[gone(3), gone(4)], &[]);
        assert_eq!(asked, [Owner(guild(3)), OwnShards], "after a resync the rest does not matter");
        let (_, _, asked) = run(&by(9, true), 1, &[gone(3)], &[]);
        assert!(asked.is_empty(), "a repeat");
        let sender = by(1, true);
        let events = [gone(3), Event::Ignored(String::new()), gone(4)];
        let batch = EventBatch::new(&sender, 1, &events, NOW);
        assert_eq!(batch.guilds().len(), 2);
    }
}
