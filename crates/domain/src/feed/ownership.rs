//! Who owns a shard, and what happens to what others send about it.

use std::collections::BTreeSet;

use super::instance::Life;
use super::{InstanceId, ShardKey};
use crate::{Snowflake, Time};

/// An instance that sends, with what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderState {
    pub instance: InstanceId,
    pub next: u64,
    pub life: Life,
    /// Whether it has sent a snapshot of anything.
    pub has_sent_snapshot: bool,
}

/// The instance that sent a committed snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub instance: InstanceId,
    /// What is known about its lifetime; `None` if it was forgotten.
    pub life: Option<Life>,
}

/// A shard with its last committed snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedShard {
    pub shard: ShardKey,
    pub snapshot: i64,
    /// The number of its commit; later commits have greater ones.
    pub committed: i64,
    pub owner: Owner,
}

/// Who owns a guild's shard, from the point of view of an instance that sends about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The instance itself.
    Sender,
    /// A living one that started earlier. Of two that started at the same time, the one whose name is lower counts as earlier.
    Earlier,
    /// A living one that started later, which owns the shard.
    Later,
    /// No process has sent a snapshot of it, or the one that did is silent.
    Nobody,
}

impl Holder {
    /// The holder of a shard whose snapshot this owner sent, if anyone did.
    pub(super) fn of(owner: Option<&Owner>, sender: &SenderState, now: Time) -> Self {
        let Some(owner) = owner else { return Self::Nobody };
        match owner.life {
            _ if owner.instance == sender.instance => Self::Sender,
            Some(life) if !life.is_living(now) => Self::Nobody,
            Some(life) if (life.started(), &owner.instance) > (sender.life.started(), &sender.instance) => Self::Later,
            Some(_) => Self::Earlier,
            None => Self::Nobody,
        }
    }

    /// Whether the sender's snapshot takes the shard.
    pub(super) fn yields(self) -> bool {
        self != Self::Later
    }
}

/// The instance that owns a shard, or part of it, so that this sender's snapshot is ignored, if there is one. `overlapping` are
/// the committed snapshots that cover some guild of the shard.
pub(super) fn later_owner<'a>(
    shard: ShardKey,
    overlapping: &'a [CommittedShard],
    sender: &SenderState,
    now: Time,
) -> Option<&'a InstanceId> {
    let counting = still_counting(shard, overlapping).into_iter();
    let later = counting.filter(|sent| !Holder::of(Some(&sent.owner), sender, now).yields());
    later.max_by_key(|sent| sent.committed).map(|sent| &sent.owner.instance)
}

/// The shards that a sender has named as its own and that hold another one's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostShards {
    /// A living instance that started later owns the shard, or part of it.
    pub replaced: Vec<ShardKey>,
    /// The sender's snapshot would take the shard.
    pub free: Vec<ShardKey>,
}

/// How many lost shards a sender is told about at once.
pub const LOST_SHARDS: u32 = 1_000;

impl LostShards {
    /// Adds a shard that the sender has named, if it is lost; `overlapping` are the committed snapshots that cover some guild of
    /// it.
    pub(super) fn note(&mut self, shard: ShardKey, overlapping: &[CommittedShard], sender: &SenderState, now: Time) {
        if later_owner(shard, overlapping, sender, now).is_some() {
            self.replaced.push(shard);
        } else if still_counting(shard, overlapping).iter().any(|sent| sent.owner.instance != sender.instance)
            || !overlapping.iter().any(|sent| sent.shard == shard)
        {
            self.free.push(shard);
        }
    }
}

/// The committed snapshots overlapping with a shard that still say something about it: the shard's own latest snapshot has
/// replaced everything committed before it.
fn still_counting(shard: ShardKey, overlapping: &[CommittedShard]) -> Vec<&CommittedShard> {
    let own = overlapping.iter().find(|sent| sent.shard == shard).map_or(i64::MIN, |sent| sent.committed);
    overlapping.iter().filter(|sent| sent.committed >= own).collect()
}

/// What happens to an event about a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Apply,
    /// It is ignored and counted, because the shard belongs to an instance that started later.
    Overruled,
    /// It is ignored and counted, because nobody owns the shard and the sender never named it as its own.
    Unclaimed,
    /// The sender must send its snapshots first.
    Resync,
}

/// Whether a sender has named a guild's shard as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    No,
    /// It has, and its snapshot would take the shard.
    Free,
    /// It has, but part of the shard belongs to an instance that started later, so its snapshot would be ignored.
    InVain,
}

/// Decides about an event. A resync is only requested if it helps, or senders would be asked for snapshots forever: a snapshot
/// that would be ignored is not requested, and a sender that has sent its snapshots without naming this shard would only send
/// the same again.
pub(super) fn judge(holder: Holder, named: Named, has_sent_snapshot: bool) -> Verdict {
    match (holder, named) {
        (Holder::Sender | Holder::Earlier, _) => Verdict::Apply,
        (Holder::Later, _) | (Holder::Nobody, Named::InVain) => Verdict::Overruled,
        (Holder::Nobody, Named::No) if has_sent_snapshot => Verdict::Unclaimed,
        (Holder::Nobody, Named::No | Named::Free) => Verdict::Resync,
    }
}

/// The shards that an instance has named as its own, in a heartbeat or a snapshot, under any counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnShards(BTreeSet<ShardKey>);

impl OwnShards {
    /// Those of this guild, under each count.
    pub fn of(&self, guild: Snowflake) -> Vec<ShardKey> {
        let (mut found, mut after) = (Vec::new(), 0);
        // One step per shard count. There are few, no matter how many shards there are.
        while let Some(next) = self.0.range(ShardKey { count: after + 1, id: 0 }..).next() {
            found.extend(self.0.get(&ShardKey::of(guild, next.count)));
            after = next.count;
        }
        found
    }
}

impl FromIterator<ShardKey> for OwnShards {
    fn from_iter<T: IntoIterator<Item = ShardKey>>(shards: T) -> Self {
        Self(shards.into_iter().collect())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::instance::counted_start;
    use super::*;

    pub(in super::super) const NOW: Time = Time::from_seconds(1_000);

    fn ago(seconds: u64) -> Time {
        NOW.before(Duration::from_secs(seconds))
    }

    pub(in super::super) fn life(
        first_seen: u64,
        reported_start: Option<u64>,
        last_call: u64,
        last_heartbeat: Option<u64>,
    ) -> Life {
        Life {
            first_seen: ago(first_seen),
            reported_start: reported_start.map(Time::from_seconds),
            last_call: ago(last_call),
            last_heartbeat: last_heartbeat.map(ago),
        }
    }

    pub(in super::super) fn owner(name: &str, life: Option<Life>) -> Owner {
        Owner { instance: InstanceId::parse("key", name).unwrap(), life }
    }

    pub(in super::super) fn sender(name: &str, life: Life, next: u64, has_sent_snapshot: bool) -> SenderState {
        SenderState { instance: owner(name, None).instance, next, life, has_sent_snapshot }
    }

    #[test]
    fn nobody_started_after_being_seen() {
        for (said, first_seen, counts) in [(100, 200, 100), (200, 200, 200), (5_000, 200, 200), (u64::MAX, 200, 200)] {
            let counted = counted_start(Time::from_millis(said), Time::from_millis(first_seen));
            assert_eq!(counted, Time::from_millis(counts), "{said} {first_seen}");
        }
        assert_eq!(life(300, Some(9_999), 1, None).started(), ago(300));
        assert_eq!(life(300, Some(600), 1, None).started(), Time::from_seconds(600));
        assert_eq!(life(300, None, 1, None).started(), ago(300), "without a heartbeat");
    }

    #[test]
    fn a_heartbeat_or_a_call_in_the_last_90_seconds_is_life() {
        for (call, heartbeat, living) in [
            (0, None, true),
            (89, None, true),
            (90, None, false),
            (500, Some(89), true),
            (500, Some(90), false),
            (89, Some(500), true),
            (90, Some(90), false),
        ] {
            assert_eq!(life(600, None, call, heartbeat).is_living(NOW), living, "{call} {heartbeat:?}");
        }
        let ahead = Life { last_call: NOW.after(Duration::from_secs(5)), ..life(1, None, 1, None) };
        assert!(ahead.is_living(NOW), "another replica's clock may be ahead");
    }

    #[test]
    fn the_latest_started_holds_a_shard_while_it_lives() {
        let sender = sender("sender", life(300, Some(600), 0, None), 1, true);
        for (known, holder) in [
            (Some(life(300, Some(599), 10, None)), Holder::Earlier),
            // Started at the same time: "other" is lower than "sender".
            (Some(life(300, Some(600), 10, None)), Holder::Earlier),
            (Some(life(300, Some(601), 10, None)), Holder::Later),
            (Some(life(300, Some(601), 90, Some(89))), Holder::Later),
            (Some(life(300, Some(601), 90, Some(90))), Holder::Nobody),
            (Some(life(300, Some(599), 90, None)), Holder::Nobody),
            // Its clock runs ahead: it was seen before the sender was.
            (Some(life(450, Some(9_999), 10, None)), Holder::Earlier),
            (Some(life(350, Some(9_999), 10, None)), Holder::Later),
            (None, Holder::Nobody),
        ] {
            assert_eq!(Holder::of(Some(&owner("other", known)), &sender, NOW), holder, "{known:?}");
            assert_eq!(Holder::of(Some(&owner("sender", known)), &sender, NOW), Holder::Sender, "{known:?}");
            assert_eq!(holder.yields(), holder != Holder::Later);
        }
        assert_eq!(Holder::of(None, &sender, NOW), Holder::Nobody);
        let namesake = Owner { instance: InstanceId::parse("another", "sender").unwrap(), life: None };
        assert_eq!(Holder::of(Some(&namesake), &sender, NOW), Holder::Nobody, "of another key");
    }

    fn sent(count: u32, id: u32, committed: i64, owner: Owner) -> CommittedShard {
        CommittedShard { shard: ShardKey::new(count, id).unwrap(), snapshot: committed, committed, owner }
    }

    #[test]
    fn what_a_shards_own_snapshot_replaced_counts_no_more() {
        let by = || owner("other", None);
        let counting = |overlapping: &[CommittedShard]| {
            let counting = still_counting(ShardKey::new(2, 0).unwrap(), overlapping);
            counting.into_iter().map(|sent| sent.committed).collect::<Vec<_>>()
        };
        assert_eq!(counting(&[sent(1, 0, 5, by()), sent(4, 2, 9, by())]), [5, 9]);
        assert_eq!(counting(&[sent(1, 0, 5, by()), sent(2, 0, 7, by()), sent(4, 2, 9, by())]), [7, 9]);
        assert!(counting(&[]).is_empty());
    }

    #[test]
    fn a_shard_of_which_a_part_belongs_to_a_later_started_one_is_not_taken() {
        let sender = sender("sender", life(300, Some(600), 0, None), 1, true);
        let earlier = || owner("earlier", Some(life(300, Some(500), 10, None)));
        let later = |name| owner(name, Some(life(300, Some(700), 10, None)));
        let silent = || owner("silent", Some(life(300, Some(700), 90, None)));
        let table: &[(&[CommittedShard], Option<&str>)] = &[
            (&[], None),
            (&[sent(2, 0, 5, earlier())], None),
            (&[sent(2, 0, 5, silent())], None),
            (&[sent(2, 0, 5, owner("forgotten", None))], None),
            (&[sent(2, 0, 5, later("a"))], Some("a")),
            (&[sent(2, 0, 5, earlier()), sent(4, 2, 6, later("a"))], Some("a")),
            (&[sent(4, 0, 8, later("a")), sent(4, 2, 6, later("b"))], Some("a")),
            // The shard's own snapshot has replaced the other one.
            (&[sent(2, 0, 7, earlier()), sent(4, 2, 6, later("a"))], None),
        ];
        for (overlapping, name) in table {
            let found = later_owner(ShardKey::new(2, 0).unwrap(), overlapping, &sender, NOW);
            assert_eq!(found.map(|instance| instance.name.as_str()), *name, "{overlapping:?}");
        }
    }

    #[test]
    fn of_two_that_started_at_the_same_time_one_holds_the_shard() {
        let same = life(300, Some(600), 0, None);
        for (sender_name, owner_name, holder) in [("a", "b", Holder::Later), ("b", "a", Holder::Earlier)] {
            let sender = sender(sender_name, same, 1, true);
            assert_eq!(Holder::of(Some(&owner(owner_name, Some(same))), &sender, NOW), holder, "{sender_name}");
        }
    }

    #[test]
    fn a_shard_is_lost_if_it_holds_the_data_of_another_one() {
        let sender = sender("sender", life(300, Some(600), 0, None), 1, true);
        let own = || owner("sender", Some(life(300, Some(600), 0, None)));
        let earlier = || owner("earlier", Some(life(300, Some(500), 10, None)));
        let later = || owner("later", Some(life(300, Some(700), 10, None)));
        let silent = || owner("silent", Some(life(300, Some(700), 90, None)));
        let (replaced, free) = ((1, 0), (0, 1));
        let table: &[(&[CommittedShard], (usize, usize))] = &[
            (&[sent(2, 0, 5, own())], (0, 0)),
            (&[], free),
            (&[sent(2, 0, 5, earlier())], free),
            (&[sent(2, 0, 5, silent())], free),
            (&[sent(2, 0, 5, later())], replaced),
            (&[sent(2, 0, 5, own()), sent(4, 2, 6, later())], replaced),
            (&[sent(2, 0, 5, own()), sent(4, 2, 6, silent())], free),
            // Its own snapshot has replaced the other one.
            (&[sent(2, 0, 7, own()), sent(4, 2, 6, later())], (0, 0)),
        ];
        for (overlapping, expected) in table {
            let mut lost = LostShards::default();
            lost.note(ShardKey::new(2, 0).unwrap(), overlapping, &sender, NOW);
            assert_eq!((lost.replaced.len(), lost.free.len()), *expected, "{overlapping:?}");
        }
    }

    #[test]
    fn what_becomes_of_an_event() {
        let table = [
            (Holder::Sender, Named::No, false, Verdict::Apply),
            (Holder::Sender, Named::Free, true, Verdict::Apply),
            (Holder::Sender, Named::InVain, true, Verdict::Apply),
            (Holder::Earlier, Named::No, true, Verdict::Apply),
            (Holder::Earlier, Named::No, false, Verdict::Apply),
            (Holder::Later, Named::InVain, true, Verdict::Overruled),
            (Holder::Later, Named::No, false, Verdict::Overruled),
            (Holder::Nobody, Named::Free, true, Verdict::Resync),
            (Holder::Nobody, Named::Free, false, Verdict::Resync),
            (Holder::Nobody, Named::InVain, true, Verdict::Overruled),
            (Holder::Nobody, Named::InVain, false, Verdict::Overruled),
            (Holder::Nobody, Named::No, false, Verdict::Resync),
            (Holder::Nobody, Named::No, true, Verdict::Unclaimed),
        ];
        for (holder, named, sent, verdict) in table {
            assert_eq!(judge(holder, named, sent), verdict, "{holder:?} {named:?} {sent}");
        }
    }

    #[test]
    fn own_shards_are_found_under_every_count() {
        let guild = |number: u64| Snowflake::new(number << 22).unwrap();
        let key = |count, id| ShardKey::new(count, id).unwrap();
        let own: OwnShards = [key(4, 1), key(4, 2), key(6, 5)].into_iter().collect();
        let named: Vec<u64> = (1..=12).filter(|number| !own.of(guild(*number)).is_empty()).collect();
        assert_eq!(named, [1, 2, 5, 6, 9, 10, 11]);
        assert_eq!(own.of(guild(5)), [key(4, 1), key(6, 5)]);
        assert!(OwnShards::default().of(guild(1)).is_empty());
    }
}
