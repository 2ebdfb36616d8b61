//! How many guilds and members there are while snapshots under several shard counts are committed.
//!
//! Each committed snapshot counts its rows. Without a resharding, their sum is what is visible. A commit under another count
//! hides rows of older snapshots, and how many is only known after a sweep has checked them, in the background. Until then the
//! total shown stays as it was before that commit, apart from changes by events, which are known exactly. It is kept as a
//! number of rows to subtract from the sum (*hidden*), because the sweep and events change the sum: what the sweep removes is
//! subtracted from both. When no sweep that looks for hidden rows is left, none is hidden, and the sum is exact again.
//!
//! An estimate instead, by the share of the IDs that a commit covers, would be off by a guild here and there and by a good part
//! of the members (a few guilds have most of them), and more so in the middle of a sweep. A resharding sends the same guilds
//! again, so the total from before it is usually right, and nobody sees it jump.

use std::ops::{Add, AddAssign, Sub};

use crate::Guild;
use crate::saturating;

/// The most members that a guild counts for, so that no sum of guilds exceeds its column.
const MOST_MEMBERS: i64 = 1_000_000_000;

/// Some guilds and their members, or a change in their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuildTotals {
    pub guilds: i64,
    /// Their members, added up.
    pub members: i64,
}

impl GuildTotals {
    pub fn one(members: i64) -> Self {
        Self { guilds: 1, members: members.clamp(0, MOST_MEMBERS) }
    }

    pub fn of<'a>(guilds: impl IntoIterator<Item = &'a Guild>) -> Self {
        let one = |guild: &Guild| Self::one(saturating::to_i64(guild.members));
        guilds.into_iter().map(one).sum()
    }

    /// The change in the totals when a guild had this many members, if it existed, and is like this now.
    pub fn change(before: Option<i64>, after: &Guild) -> Self {
        Self::of([after]) - before.map(Self::one).unwrap_or_default()
    }

    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    fn at_least_zero(self) -> Self {
        Self { guilds: self.guilds.max(0), members: self.members.max(0) }
    }
}

impl Add for GuildTotals {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { guilds: self.guilds.saturating_add(more.guilds), members: self.members.saturating_add(more.members) }
    }
}

impl AddAssign for GuildTotals {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

impl Sub for GuildTotals {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        Self { guilds: self.guilds.saturating_sub(less.guilds), members: self.members.saturating_sub(less.members) }
    }
}

impl std::iter::Sum for GuildTotals {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

/// The totals shown: what the committed snapshots count, minus what is thought to be hidden.
pub fn shown_totals(stored: GuildTotals, hidden: GuildTotals) -> GuildTotals {
    (stored - hidden).at_least_zero()
}

/// What counts as hidden after a commit that hides rows of other snapshots, when the snapshots now count `stored` and
/// `shown_before` was shown before it. Every visible guild has a row, so never more is shown than is stored.
pub fn hidden_after_commit(stored: GuildTotals, shown_before: GuildTotals, is_sweep_left: bool) -> GuildTotals {
    if is_sweep_left { (stored - shown_before).at_least_zero() } else { GuildTotals::default() }
}

/// What counts as hidden after a step of a sweep that removed these hidden rows.
pub fn hidden_after_sweep(hidden: GuildTotals, removed: GuildTotals, is_sweep_left: bool) -> GuildTotals {
    if is_sweep_left { (hidden - removed).at_least_zero() } else { GuildTotals::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snowflake;

    fn totals(guilds: i64, members: i64) -> GuildTotals {
        GuildTotals { guilds, members }
    }

    #[test]
    fn no_number_of_members_leaves_its_column() {
        for (said, counted) in
            [(0, 0), (7, 7), (1_000_000_000, 1_000_000_000), (1_000_000_001, 1_000_000_000), (i64::MAX, 1_000_000_000)]
        {
            assert_eq!(GuildTotals::one(said), totals(1, counted));
        }
        assert_eq!(GuildTotals::one(-5), totals(1, 0), "it was tampered with");
        assert_eq!(totals(i64::MAX, 1) + totals(1, 1), totals(i64::MAX, 2));
    }

    #[test]
    fn guilds_are_counted_as_they_are_said() {
        let id = Snowflake::new(7).unwrap();
        let guild = |members| Guild {
            id,
            name: "a".to_owned(),
            icon: None,
            owner: id,
            members,
            setup: false,
            linked: false,
            grants: None,
            staff: None,
        };
        assert_eq!(GuildTotals::of([&guild(3), &guild(4)]), totals(2, 7));
        for (before, after, change) in [
            (None, 5, totals(1, 5)),
            (Some(5), 5, totals(0, 0)),
            (Some(7), 5, totals(0, -2)),
            (Some(0), 5, totals(0, 5)),
        ] {
            assert_eq!(GuildTotals::change(before, &guild(after)), change, "{before:?} {after}");
            assert_eq!(change.is_nothing(), before == Some(5));
        }
        let mut sum = totals(1, 2);
        sum += totals(3, 4);
        assert_eq!(sum, totals(4, 6));
    }

    #[test]
    fn a_resharding_shows_what_was_shown_before_it_until_the_sweep_is_done() {
        // What is stored and what was shown before the commit; what then counts as hidden, with and without a remaining sweep.
        let table = [
            // The same guilds arrive again under another count.
            ((15, 1500), (10, 1000), (5, 500)),
            // Some are gone, but shown until the sweep has found out.
            ((13, 1300), (10, 1000), (3, 300)),
            // There cannot be more than are stored.
            ((8, 1300), (10, 1000), (0, 300)),
            ((8, 900), (10, 1000), (0, 0)),
            ((5, 500), (0, 0), (5, 500)),
        ];
        for ((guilds, members), before, hidden) in table {
            let (stored, before) = (totals(guilds, members), totals(before.0, before.1));
            let found = hidden_after_commit(stored, before, true);
            assert_eq!(found, totals(hidden.0, hidden.1), "{stored:?} {before:?}");
            assert_eq!(hidden_after_commit(stored, before, false), GuildTotals::default());
            let shown = shown_totals(stored, found);
            let expected = totals(before.guilds.min(guilds), before.members.min(members));
            assert_eq!(shown, expected, "as before, but never more than there are rows");
        }
    }

    #[test]
    fn a_sweep_changes_what_is_shown_only_where_it_finds_more_than_was_thought_or_ends() {
        // What counts as hidden, what a step removes, what then counts as hidden, and how the totals shown change.
        let table = [
            ((5, 500), (2, 200), (3, 300), (0, 0)),
            ((5, 500), (5, 500), (0, 0), (0, 0)),
            ((5, 500), (0, 0), (5, 500), (0, 0)),
            ((3, 100), (5, 500), (0, 0), (-2, -400)),
            ((3, 700), (5, 500), (0, 200), (-2, 0)),
        ];
        for (hidden, removed, left, change) in table {
            let [hidden, removed, left, change] = [hidden, removed, left, change].map(|(a, b)| totals(a, b));
            let stored = totals(100, 10_000);
            assert_eq!(hidden_after_sweep(hidden, removed, true), left, "{hidden:?} {removed:?}");
            let (before, after) = (shown_totals(stored, hidden), shown_totals(stored - removed, left));
            assert_eq!(after - before, change, "{hidden:?} {removed:?}");
            let at_the_end = hidden_after_sweep(hidden, removed, false);
            assert_eq!(shown_totals(stored - removed, at_the_end), stored - removed, "exact");
        }
    }

    #[test]
    fn what_is_shown_is_never_negative() {
        for (stored, hidden, shown) in [
            ((5, 50), (2, 20), (3, 30)),
            ((5, 50), (6, 20), (0, 30)),
            ((0, 0), (6, 20), (0, 0)),
            ((-1, -1), (0, 0), (0, 0)),
        ] {
            let [stored, hidden, shown] = [stored, hidden, shown].map(|(a, b)| totals(a, b));
            assert_eq!(shown_totals(stored, hidden), shown);
        }
    }
}
