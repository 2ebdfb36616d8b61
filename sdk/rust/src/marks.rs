//! What has changed and waits to be sent, in order; what replaces what.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What is to be sent of a guild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "marks add up")]
pub(crate) struct GuildMark {
    /// The bot was removed. What follows it happened afterwards.
    pub(crate) gone: bool,
    /// Name, icon, owner, members.
    pub(crate) fields: bool,
    /// The callbacks are to be asked, and everything is sent if they say something new.
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

/// Whom or what a mark is about.
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
    /// The roles that the member has now.
    Member {
        roles: Vec<u64>,
        /// It has replaced a `MemberGone`, and stays as long as that would.
        replaces_gone: bool,
    },
    MemberGone,
}

impl Mark {
    /// Whether a snapshot without staff does not say it.
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

    /// The bot was removed from the guild: that replaces all that was marked of it.
    pub(crate) fn put_gone(&mut self, guild: u64) {
        self.drop_where(|key, _| key.guild() == guild);
        self.counts.due.remove(&guild);
        self.counts.sent.remove(&guild);
        self.put(Key::Guild(guild), Mark::Guild(GuildMark { gone: true, ..GuildMark::default() }));
    }

    /// Takes the first one.
    pub(crate) fn take(&mut self) -> Option<(Key, Mark)> {
        let (_, key) = self.order.pop_first()?;
        let (_, mark) = self.entries.remove(&key)?;
        Some((key, mark))
    }

    /// Puts back what was taken and not sent, before all others; what has come since of the same thing is later news.
    pub(crate) fn put_back(&mut self, key: Key, mark: Mark) {
        let merged = match (mark, self.remove(key)) {
            (Mark::Guild(earlier), Some(Mark::Guild(later))) => Mark::Guild(earlier.merged_with(later)),
            (_, Some(later)) => later,
            (mark, None) => mark,
        };
        let place = self.order.first_key_value().map_or(0, |(first, _)| first - 1);
        self.insert(place, key, merged);
    }

    /// Whether a member's leaving waits to be sent.
    pub(crate) fn has_member_gone(&self, guild: u64, user: u64) -> bool {
        self.entries.get(&Key::Member { guild, user }).is_some_and(|(_, mark)| mark.outlives_snapshots())
    }

    /// Drops the marks of these guilds, except that a member has left: a snapshot without staff does not say that.
    pub(crate) fn drop_guilds(&mut self, is_theirs: impl Fn(u64) -> bool) {
        self.drop_where(|key, mark| is_theirs(key.guild()) && !mark.outlives_snapshots());
        self.counts.due.retain(|guild, _| !is_theirs(*guild));
    }

    /// Takes what is marked of members of this guild, because a snapshot with its staff says it.
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

    /// The member count of this guild has changed. Says whether it may be sent at once.
    pub(crate) fn count_members(&mut self, guild: u64, now: Duration, interval: Duration) -> bool {
        let due = self.counts.sent.get(&guild).map_or(now, |sent| *sent + interval).max(now);
        *self.counts.due.entry(guild).or_insert(due) <= now
    }

    /// A line of this guild says its member count.
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

    /// Takes the member counts that are due, at most so many.
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
    /// When a line of each was last made.
    sent: HashMap<u64, Duration>,
}
