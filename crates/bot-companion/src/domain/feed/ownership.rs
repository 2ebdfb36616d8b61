//! Whose a shard is, and what becomes of what others say about it. Both stores ask here; their SQL only looks things up.

use std::collections::BTreeSet;

use super::ShardKey;
use super::instance::Life;
use crate::domain::{Snowflake, Time};

/// Who has sent the snapshot that covers a guild, from the view of an instance that has something to say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The instance itself.
    Sender,
    /// A living one that started earlier, or at the same time.
    Earlier,
    /// A living one that started later: the shard is its own.
    Later,
    /// Nobody has, or whoever has is silent.
    Nobody,
}

impl Holder {
    /// The holder of a shard whose snapshot another instance than the sender has sent; `None` if nothing is known of that one.
    pub fn other(owner: Option<&Life>, sender: &Life, now: Time) -> Self {
        match owner {
            Some(owner) if owner.is_living(now) && owner.started() > sender.started() => Self::Later,
            Some(owner) if owner.is_living(now) => Self::Earlier,
            _ => Self::Nobody,
        }
    }

    /// Whether the sender's snapshot takes the shard.
    pub fn yields(self) -> bool {
        self != Self::Later
    }
}

/// Of the committed snapshots that overlap with a shard, each with its own shard and the number of its commit, those that still
/// say something about it: the shard's own latest snapshot has replaced whatever was committed before it.
pub fn still_counting<T>(shard: ShardKey, overlapping: &[T], of: impl Fn(&T) -> (ShardKey, i64)) -> Vec<&T> {
    let own = overlapping.iter().map(&of).find(|(sent, _)| *sent == shard).map_or(i64::MIN, |(_, commit)| commit);
    overlapping.iter().filter(|sent| of(sent).1 >= own).collect()
}

/// What becomes of an event about a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is applied.
    Apply,
    /// It is ignored and counted: the shard belongs to an instance that started later.
    Overruled,
    /// It is ignored and counted: nobody holds the shard, and the sender never said that it is its own.
    Unclaimed,
    /// The sender must send its snapshots first.
    Resync,
}

/// Whether a sender has called the shard of a guild its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// It has not.
    No,
    /// It has, and its snapshot would take the shard.
    Free,
    /// It has, but a part of the shard belongs to an instance that started later: its snapshot would be ignored.
    InVain,
}

/// Decides about an event. Nobody is asked for snapshots without an end: a snapshot that would be ignored is not asked for, and
/// a sender that has sent its snapshots and did not name this shard would only send the same again.
pub fn judge(holder: Holder, named: Named, has_sent_snapshot: bool) -> Verdict {
    match (holder, named) {
        (Holder::Sender | Holder::Earlier, _) => Verdict::Apply,
        (Holder::Later, _) | (Holder::Nobody, Named::InVain) => Verdict::Overruled,
        (Holder::Nobody, Named::No) if has_sent_snapshot => Verdict::Unclaimed,
        (Holder::Nobody, Named::No | Named::Free) => Verdict::Resync,
    }
}

/// The shards that an instance has called its own, in a heartbeat or by a snapshot, under whatever counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnShards(BTreeSet<ShardKey>);

impl OwnShards {
    /// Those that this guild belongs to, under each count.
    pub fn of(&self, guild: Snowflake) -> Vec<ShardKey> {
        let (mut found, mut after) = (Vec::new(), 0);
        // One step per count, of which there are few, however many shards there are.
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

/// Which parts of a guild in a snapshot were not said, and are kept as they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// What its roles grant.
    pub grants: bool,
    /// Its staff.
    pub staff: bool,
}

impl Carried {
    const GRANTS: i64 = 1;
    const STAFF: i64 = 2;

    /// Whether anything is kept.
    pub fn any(self) -> bool {
        self.grants || self.staff
    }

    /// As a column holds it.
    pub fn bits(self) -> i64 {
        i64::from(self.grants) * Self::GRANTS + i64::from(self.staff) * Self::STAFF
    }

    /// From a column.
    pub fn from_bits(bits: i64) -> Self {
        Self { grants: bits & Self::GRANTS != 0, staff: bits & Self::STAFF != 0 }
    }
}

/// No commit has this number: a snapshot with it as its basis is outdated.
const NO_COMMIT: i64 = -1;

/// The commit that the carried parts of a staged snapshot come from, when more lines are carried over while `latest` is the latest
/// commit that overlaps with it. Parts of two different commits are the truth of neither.
pub fn merged_basis(known: Option<i64>, latest: i64) -> i64 {
    if known.is_none_or(|known| known == latest) { latest } else { NO_COMMIT }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::instance::counted_start;
    use super::*;

    const NOW: Time = Time::from_seconds(1_000);

    fn ago(seconds: u64) -> Time {
        NOW.before(Duration::from_secs(seconds))
    }

    fn life(first_seen: u64, said_start: Option<u64>, last_call: u64, last_heartbeat: Option<u64>) -> Life {
        Life {
            first_seen: ago(first_seen),
            said_start: said_start.map(Time::from_seconds),
            last_call: ago(last_call),
            last_heartbeat: last_heartbeat.map(ago),
        }
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
        let sender = life(300, Some(600), 0, None);
        for (owner, holder) in [
            (Some(life(300, Some(599), 10, None)), Holder::Earlier),
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
            assert_eq!(Holder::other(owner.as_ref(), &sender, NOW), holder, "{owner:?}");
            assert_eq!(holder.yields(), holder != Holder::Later);
        }
    }

    #[test]
    fn what_a_shards_own_snapshot_replaced_counts_no_more() {
        let key = |count, id| ShardKey::new(count, id).unwrap();
        let counting = |sent: &[(ShardKey, i64)]| {
            still_counting(key(2, 0), sent, |sent| *sent).into_iter().map(|(_, commit)| *commit).collect::<Vec<_>>()
        };
        assert_eq!(counting(&[(key(1, 0), 5), (key(4, 2), 9)]), [5, 9]);
        assert_eq!(counting(&[(key(1, 0), 5), (key(2, 0), 7), (key(4, 2), 9)]), [7, 9]);
        assert!(counting(&[]).is_empty());
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
        let guild = |place: u64| Snowflake::new(place << 22).unwrap();
        let key = |count, id| ShardKey::new(count, id).unwrap();
        let own: OwnShards = [key(4, 1), key(4, 2), key(6, 5)].into_iter().collect();
        let named: Vec<u64> = (1..=12).filter(|place| !own.of(guild(*place)).is_empty()).collect();
        assert_eq!(named, [1, 2, 5, 6, 9, 10, 11]);
        assert_eq!(own.of(guild(5)), [key(4, 1), key(6, 5)]);
        assert!(OwnShards::default().of(guild(1)).is_empty());
    }

    #[test]
    fn parts_of_two_commits_are_the_truth_of_neither() {
        for (known, latest, basis) in [(None, 0, 0), (None, 7, 7), (Some(7), 7, 7), (Some(7), 8, -1), (Some(-1), 8, -1)]
        {
            assert_eq!(merged_basis(known, latest), basis);
        }
    }

    #[test]
    fn what_is_carried_comes_back_from_a_column() {
        for bits in 0..4 {
            assert_eq!(Carried::from_bits(bits).bits(), bits);
        }
        assert!(!Carried::from_bits(0).any() && Carried::from_bits(2).any());
    }
}
