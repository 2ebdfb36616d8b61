//! Changes waiting to be sent, in order, and which of them replace which.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What to send about a guild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "marks add up")]
pub(crate) struct GuildMark {
    /// The bot was removed. What follows it happened afterwards.
    pub(crate) gone: bool,
    /// Name, icon, owner, members.
    pub(crate) fields: bool,
    /// Call the callbacks, and send everything if they say something new.
    pub(crate) ask: bool,
    /// Everything.
    pub(crate) whole: bool,
}

impl GuildMark {
    pub(crate) const FIELDS: Self = Self { gone: false, fields: true, ask: false, whole: false };
    pub(crate) const ASK: Self = Self { gone: false, fields: false, ask: true, whole: false };
    pub(crate) const WHOLE: Self = Self { gone: false, fields: false, ask: false, whole: true };

    fn merged_with(self, later: Self) -> Self {
        Self {
            gone: self.gone || later.gone,
            fields: self.fields || later.fields,
            ask: self.ask || later.ask,
            whole: self.whole || later.whole,
        }
    }
}

/// Who or what a mark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Guild(u64),
    Member { guild: u64, user: u64 },
}

impl Key {
    pub(crate) fn guild(self) -> u64 {
        match self {
            Self::Guild(guild) | Self::Member { guild, .. } => guild,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Guild(GuildMark),
    /// The member's current roles.
    Member {
        roles: Vec<u64>,
        /// It replaced a `MemberGone`, and is kept as long as that would have been.
        replaces_gone: bool,
    },
    MemberGone,
}

impl Mark {
    /// Whether a snapshot without staff leaves it out.
    pub(crate) fn outlives_snapshots(&self) -> bool {
        matches!(self, Self::MemberGone | Self::Member { replaces_gone: true, .. })
    }
}

/// The marks, in the order they arrived.
#[derive(Default)]
pub(crate) struct Marks {
    order: BTreeMap<i64, Key>,
    entries: HashMap<Key, (i64, Mark)>,
    counts: Counts,
}

impl Marks {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Merges the mark with those of the same guild or member, and puts it at the end.
    pub(crate) fn put(&mut self, key: Key, mark: Mark) {
        let merged = match (self.remove(key), mark) {
            (Some(Mark::Guild(earlier)), Mark::Guild(later)) => Mark::Guild(earlier.merged_with(later)),
            (Some(earlier), Mark::Member { roles, .. }) if earlier.outlives_snapshots() => {
                Mark::Member { roles, replaces_gone: true }
            }
            (_, mark) => mark,
        };
        let place = self.order.last_key_value().map_or(0, |(last, _)| last + 1);
        self.insert(place, key, merged);
    }

    /// The bot was removed from the guild, which replaces all marks of it.
    pub(crate) fn put_gone(&mut self, guild: u64) {
        self.drop_where(|key, _| key.guild() == guild);
        self.counts.due.remove(&guild);
        self.counts.sent.remove(&guild);
        self.put(Key::Guild(guild), Mark::Guild(GuildMark { gone: true, ..GuildMark::default() }));
    }

    /// Takes the first ones of these guilds.
    pub(crate) fn take(&mut self, at_most: usize, is_theirs: impl Fn(u64) -> bool) -> Vec<(Key, Mark)> {
        let theirs = self.order.values().filter(|key| is_theirs(key.guild()));
        let keys: Vec<Key> = theirs.take(at_most).copied().collect();
        keys.into_iter().filter_map(|key| Some((key, self.remove(key)?))).collect()
    }

    pub(crate) fn has_any(&self, is_theirs: impl Fn(u64) -> bool) -> bool {
        self.order.values().any(|key| is_theirs(key.guild()))
    }

    /// Puts back marks that were taken but not sent, before all others. A mark of the same thing that came since is newer and
    /// wins.
    pub(crate) fn put_back(&mut self, key: Key, mark: Mark) {
        let merged = match (mark, self.remove(key)) {
            (Mark::Guild(earlier), Some(Mark::Guild(later))) => Mark::Guild(earlier.merged_with(later)),
            (earlier, Some(Mark::Member { roles, replaces_gone })) => {
                Mark::Member { roles, replaces_gone: replaces_gone || earlier.outlives_snapshots() }
            }
            (_, Some(later)) => later,
            (mark, None) => mark,
        };
        let place = self.order.first_key_value().map_or(0, |(first, _)| first - 1);
        self.insert(place, key, merged);
    }

    /// Whether the fact that a member left is waiting to be sent.
    pub(crate) fn has_member_gone(&self, guild: u64, user: u64) -> bool {
        self.entries.get(&Key::Member { guild, user }).is_some_and(|(_, mark)| mark.outlives_snapshots())
    }

    /// Drops the marks of these guilds, except for members who left, which a snapshot without staff does not include.
    pub(crate) fn drop_guilds(&mut self, is_theirs: impl Fn(u64) -> bool) {
        self.drop_where(|key, mark| is_theirs(key.guild()) && !mark.outlives_snapshots());
        self.counts.due.retain(|guild, _| !is_theirs(*guild));
    }

    /// Takes the marks of this guild's members, because a snapshot with its staff includes them.
    pub(crate) fn take_members(&mut self, guild: u64) -> Vec<(Key, Mark)> {
        let is_theirs = |key: &Key| matches!(key, Key::Member { guild: of, .. } if *of == guild);
        let keys: Vec<Key> = self.order.values().filter(|key| is_theirs(key)).copied().collect();
        keys.into_iter().filter_map(|key| Some((key, self.remove(key)?))).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.entries.clear();
        self.counts.due.clear();
    }

    /// The member count of this guild has changed. Returns whether it may be sent immediately.
    pub(crate) fn count_members(&mut self, guild: u64, now: Duration, interval: Duration) -> bool {
        let due = self.counts.sent.get(&guild).map_or(now, |sent| *sent + interval).max(now);
        *self.counts.due.entry(guild).or_insert(due) <= now
    }

    /// A line about this guild includes its member count.
    pub(crate) fn count_is_sent(&mut self, guild: u64, now: Duration) {
        self.counts.due.remove(&guild);
        self.counts.sent.insert(guild, now);
    }

    pub(crate) fn retain_counts(&mut self, stays: impl Fn(u64) -> bool) {
        self.counts.sent.retain(|guild, _| stays(*guild));
        self.counts.due.retain(|guild, _| stays(*guild));
    }

    /// When the next member count is due.
    pub(crate) fn next_count(&self) -> Option<Duration> {
        self.counts.due.values().min().copied()
    }

    /// Takes the member counts that are due, at most this many.
    pub(crate) fn take_counts(&mut self, now: Duration, at_most: usize) -> Vec<u64> {
        let mut due: Vec<(Duration, u64)> =
            self.counts.due.iter().filter(|(_, due)| **due <= now).map(|(guild, due)| (*due, *guild)).collect();
        due.sort_unstable();
        due.truncate(at_most);
        for (_, guild) in &due {
            self.counts.due.remove(guild);
        }
        due.into_iter().map(|(_, guild)| guild).collect()
    }

    fn insert(&mut self, place: i64, key: Key, mark: Mark) {
        self.order.insert(place, key);
        self.entries.insert(key, (place, mark));
    }

    fn remove(&mut self, key: Key) -> Option<Mark> {
        let (place, mark) = self.entries.remove(&key)?;
        self.order.remove(&place);
        Some(mark)
    }

    fn drop_where(&mut self, is_dropped: impl Fn(Key, &Mark) -> bool) {
        self.entries.retain(|key, (place, mark)| {
            let stays = !is_dropped(*key, mark);
            if !stays {
                self.order.remove(place);
            }
            stays
        });
    }
}

/// Guilds where only the member count has changed.
#[derive(Default)]
struct Counts {
    /// When each may be sent.
    due: HashMap<u64, Duration>,
    /// When a line about each was last built.
    sent: HashMap<u64, Duration>,
}
