//! The effect of a piece of work on the totals of `GET /stats`.

use std::collections::BTreeMap;

use domain::feed::GuildTotals;
use domain::stats::RatingsChange;

use super::Topic;

/// How the totals change in a transaction. It is written once, at the end, because a bot may send hundreds of events in a batch.
#[derive(Debug, Default)]
pub(super) struct TotalsChange {
    shards: BTreeMap<(i64, i64), GuildTotals>,
    ratings: RatingsChange,
}

impl TotalsChange {
    /// Adds this to the snapshot of a shard, which is named by count and ID.
    pub(super) fn add(&mut self, topics: &mut Vec<Topic>, shard: (i64, i64), more: GuildTotals) {
        if !more.is_nothing() {
            topics.push(Topic::Stats);
            *self.shards.entry(shard).or_default() += more;
        }
    }

    /// Adds the effect of a feedback change on the ratings.
    pub(super) fn rate(&mut self, topics: &mut Vec<Topic>, change: RatingsChange) {
        if !change.is_nothing() {
            topics.push(Topic::Stats);
            self.ratings += change;
        }
    }

    /// What to add to each shard.
    pub(super) fn shards(&self) -> Vec<((i64, i64), GuildTotals)> {
        self.shards.iter().map(|(shard, more)| (*shard, *more)).filter(|(_, more)| !more.is_nothing()).collect()
    }

    /// The change to the ratings, if any.
    pub(super) fn ratings(&self) -> Option<RatingsChange> {
        (!self.ratings.is_nothing()).then_some(self.ratings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_nothing_is_not_written_and_invalidates_all_the_same() {
        let (mut change, mut topics) = (TotalsChange::default(), Vec::new());
        let one = GuildTotals::one(5);
        change.add(&mut topics, (1, 0), GuildTotals::default());
        change.rate(&mut topics, RatingsChange::default());
        assert!(topics.is_empty() && change.shards().is_empty() && change.ratings().is_none());
        change.add(&mut topics, (1, 0), one);
        change.add(&mut topics, (2, 1), one);
        change.add(&mut topics, (2, 1), one);
        change.add(&mut topics, (1, 0), GuildTotals::default() - one);
        assert_eq!(change.shards(), [((2, 1), GuildTotals { guilds: 2, members: 10 })]);
        change.rate(&mut topics, RatingsChange::of(None, Some(3)));
        assert_eq!(change.ratings(), Some(RatingsChange { count: 1, sum: 3 }));
        change.rate(&mut topics, RatingsChange::of(Some(3), None));
        assert_eq!((change.ratings(), topics.len()), (None, 6));
    }
}
