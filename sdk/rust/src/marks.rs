//! What has changed and waits to be sent, in order; what replaces what.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What is to be sent of a guild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// The granting roles that the member holds now.
    Member(Vec<u64>),
    MemberGone,
}

/// The marks, in the order in which they came.
#[derive(Default)]
pub(crate) struct Marks {
    order: BTreeMap<i64, Key>,
    marks: HashMap<Key, (i64, Mark)>,
    counts: Counts,
}

impl Marks {
    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }

    /// Merges the mark with those of the same guild or member, and puts it at the end.
    pub(crate) fn put(&mut self, key: Key, mark: Mark) {
        let merged = match (self.remove(key), mark) {
            (Some(Mark::Guild(earlier)), Mark::Guild(later)) => Mark::Guild(earlier.merged_with(later)),
            (_, mark) => mark,
        };
        if let Key::Guild(guild) = key {
            self.counts.due.remove(&guild);
        }
        let place = self.order.last_key_value().map_or(0, |(last, _)| last + 1);
        self.insert(place, key, merged);
    }

    /// The bot was removed from the guild: that replaces all that was marked of it.
    pub(crate) fn put_gone(&mut self, guild: u64) {
        self.drop_where(|key, _| key.guild() == guild);
        self.counts.sent.remove(&guild);
        self.put(Key::Guild(guild), Mark::Guild(GuildMark { gone: true, ..GuildMark::default() }));
    }

    /// Takes the first one.
    pub(crate) fn take(&mut self) -> Option<(Key, Mark)> {
        let (_, key) = self.order.pop_first()?;
        let (_, mark) = self.marks.remove(&key)?;
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

    /// Drops the marks of these guilds, except that a member has left: no snapshot says that.
    pub(crate) fn drop_guilds(&mut self, is_theirs: impl Fn(u64) -> bool) {
        self.drop_where(|key, mark| is_theirs(key.guild()) && *mark != Mark::MemberGone);
        self.counts.due.retain(|guild, _| !is_theirs(*guild));
    }

    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.marks.clear();
        self.counts.due.clear();
    }

    /// The member count of this guild has changed. Gives the time at which that may be sent.
    pub(crate) fn count_members(&mut self, guild: u64, now: Duration, interval: Duration) -> Option<Duration> {
        if matches!(self.marks.get(&Key::Guild(guild)), Some((_, Mark::Guild(mark))) if mark.fields || mark.whole) {
            return None;
        }
        let due = self.counts.sent.get(&guild).map_or(now, |sent| (*sent + interval).max(now));
        Some(*self.counts.due.entry(guild).or_insert(due))
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
            self.counts.sent.insert(*guild, now);
        }
        due.into_iter().map(|(_, guild)| guild).collect()
    }

    fn insert(&mut self, place: i64, key: Key, mark: Mark) {
        self.order.insert(place, key);
        self.marks.insert(key, (place, mark));
    }

    fn remove(&mut self, key: Key) -> Option<Mark> {
        let (place, mark) = self.marks.remove(&key)?;
        self.order.remove(&place);
        Some(mark)
    }

    fn drop_where(&mut self, is_dropped: impl Fn(Key, &Mark) -> bool) {
        self.marks.retain(|key, (place, mark)| {
            let stays = !is_dropped(*key, mark);
            if !stays {
                self.order.remove(place);
            }
            stays
        });
    }
}

/// Guilds of which only the member count has changed.
#[derive(Default)]
struct Counts {
    /// When each may be sent.
    due: HashMap<u64, Duration>,
    /// When each was last sent.
    sent: HashMap<u64, Duration>,
}
