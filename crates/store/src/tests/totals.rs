//! The totals: exact after every change and, while a resharding is swept, never more than was shown before it.

use domain::feed::Lines;
use domain::health::{Heartbeat, ShardHeartbeat};
use domain::stats::Ratings;
use domain::{Change, Stats};

use super::*;
use crate::{Committed, Topic};

on_each_store! {
    totals_follow_every_change,
    the_totals_are_invalidated_by_what_changes_them_and_by_nothing_else,
    a_resharding_shows_what_was_there_before_until_the_sweep_is_done,
    a_resharding_that_is_complete_is_exact_at_once,
    a_shard_that_is_sent_again_during_a_resharding_is_exact_at_once,
    a_crash_in_the_middle_of_a_sweep_loses_no_count,
    numbers_that_no_guild_has_do_not_break_the_sum,
    a_snapshot_counts_what_it_has_in_the_end,
}

/// A guild at that place, with a hundred members for each step of the place plus some more.
fn sized(place: u64, more: u64) -> Guild {
    Guild { id: placed(place), members: place * 100 + more, ..guild(1) }
}

fn lines(places: impl IntoIterator<Item = u64>) -> Lines {
    Lines::Guilds(places.into_iter().map(|place| GuildLine::Guild(sized(place, 0))).collect())
}

impl Replica {
    async fn sent(&self, scope: Scope, places: impl IntoIterator<Item = u64>) {
        assert_eq!(self.snapshot_of("a", scope, 1, lines(places)).await, Committed::Replaced { next: 1 });
    }

    async fn shown(&self) -> (u64, u64) {
        let Stats { guilds, members, .. } = self.store.stats().await.unwrap();
        (guilds, members)
    }

    /// Cleans up row by row, and returns what was shown after each step. The totals are invalidated exactly when they change.
    async fn swept(&self) -> Vec<(u64, u64)> {
        let mut seen = vec![self.shown().await];
        loop {
            let (done, stale) = self.invalidated(&[Topic::Stats], self.store.clean_up(1)).await;
            let shown = self.shown().await;
            assert_eq!(stale.is_empty(), seen.last() == Some(&shown), "{seen:?}, then {shown:?}");
            if done.unwrap() == 0 {
                self.assert_totals().await;
                return seen;
            }
            seen.push(shown);
        }
    }
}

async fn totals_follow_every_change(mut fixture: Fixture) {
    assert_eq!(fixture.store.stats().await.unwrap(), Stats::default());
    let say = async |changes: Vec<Change>| fixture.store.apply(changes).await.unwrap();
    // For guilds that no snapshot covers, and for those that one does.
    say(vec![Change::Guild(sized(1, 0)), Change::Guild(sized(2, 0))]).await;
    assert_eq!(fixture.shown().await, (2, 300));
    say(vec![Change::Guild(sized(1, 5)), Change::Guild(sized(1, 7)), Change::GuildGone(placed(9))]).await;
    assert_eq!(fixture.shown().await, (2, 307));
    fixture.sent(shard(0, 2), [2, 4]).await;
    fixture.assert_clean().await;
    assert_eq!(fixture.shown().await, (3, 707));
    say(vec![Change::GuildGone(placed(4)), Change::Guild(sized(4, 1)), Change::GuildGone(placed(1))]).await;
    assert_eq!(fixture.shown().await, (2, 601));
    fixture.sent(shard(0, 2), [4]).await;
    assert_eq!(fixture.shown().await, (1, 400), "without a resharding the commit is exact");

    let rated = |name: &str, rating| Change::Feedback(super::feedback::entry(name, rating, 1));
    let gone = |name: &str| Change::FeedbackGone(name.to_owned());
    say(vec![rated("a", 5), rated("b", 1), rated("c", 4), rated("a", 2), gone("b"), gone("never")]).await;
    fixture.reopen().await;
    let stats = fixture.store.stats().await.unwrap();
    assert_eq!(stats.ratings, Ratings { count: 2, sum: 6 });
    fixture.store.apply(vec![gone("a"), gone("c")]).await.unwrap();
    assert_eq!(fixture.store.stats().await.unwrap().ratings, Ratings::default());
    fixture.assert_clean().await;
}

async fn the_totals_are_invalidated_by_what_changes_them_and_by_nothing_else(fixture: Fixture) {
    let stats = [Topic::Stats];
    let named = |name: &str| Change::Guild(Guild { name: name.to_owned(), ..sized(1, 0) });
    let rated = |rating| Change::Feedback(super::feedback::entry("a", rating, 1));
    let table = [
        (named("one"), true),
        (named("two"), false),
        (Change::Guild(sized(1, 1)), true),
        (Change::Member { guild: placed(1), user: id(5), roles: vec![id(70)] }, false),
        (Change::MemberGone { guild: placed(1), user: id(5) }, false),
        (Change::GuildGone(placed(1)), true),
        (Change::GuildGone(placed(1)), false),
        (rated(3), true),
        (rated(3), false),
        (rated(2), true),
        (Change::User(person(1)), false),
        (Change::FeedbackGone("a".to_owned()), true),
        (Change::FeedbackGone("a".to_owned()), false),
    ];
    for (change, changes) in table {
        let invalidated = fixture.apply(&stats, vec![change.clone()]).await;
        assert_eq!(invalidated == stats, changes, "{change:?}");
    }
    let heartbeat = |shards: &[u32]| {
        let shard = |id: &u32| ShardHeartbeat { id: *id, sent: None, acknowledged: None, latency: Some(1.0) };
        let (instance, shards) = (instance("a"), shards.iter().map(shard).collect());
        fixture.store.record_heartbeat(
            Heartbeat { instance, started_at: NOW, memory: 1, shard_count: 3, shards, leaving: false },
            NOW,
        )
    };
    for (shards, changes, count) in [(&[0, 1][..], true, 2), (&[0, 1], false, 2), (&[], false, 2), (&[2], true, 3)] {
        let (beaten, invalidated) = fixture.invalidated(&stats, heartbeat(shards)).await;
        beaten.unwrap();
        assert_eq!(invalidated == stats, changes, "{shards:?}");
        assert_eq!(fixture.store.stats().await.unwrap().shards, count);
        assert_eq!(fixture.store.health().await.unwrap().shards.len() as u64, count);
    }
}

async fn a_resharding_shows_what_was_there_before_until_the_sweep_is_done(fixture: Fixture) {
    fixture.sent(shard(0, 1), 1..=12).await;
    assert_eq!(fixture.shown().await, (12, 7800));
    // The same guilds arrive again, and nobody ever sees a difference.
    fixture.sent(shard(0, 2), [2, 4, 6, 8, 10, 12]).await;
    let seen = fixture.swept().await;
    assert!(seen.len() > 6 && seen.iter().all(|shown| *shown == (12, 7800)), "{seen:?}");

    // Two are gone and one is new: the old totals stay until the sweep has found out, and never show more.
    fixture.sent(shard(0, 3), [3, 6, 12]).await;
    fixture.sent(shard(1, 3), [1, 4, 10, 13]).await;
    assert_eq!(fixture.shown().await, (12, 7800));
    // Changes through events are exact in the meantime.
    fixture.store.apply(vec![Change::GuildGone(placed(13)), Change::Guild(sized(3, 50))]).await.unwrap();
    assert_eq!(fixture.shown().await, (11, 6550));
    let seen = fixture.swept().await;
    assert_eq!((seen[0], seen.last()), ((11, 6550), Some(&(10, 6250))), "without 7 and 9");
    assert!(seen.iter().all(|(guilds, _)| [10, 11].contains(guilds)), "{seen:?}");
    fixture.sent(shard(2, 3), [2, 5, 8, 11]).await;
    assert_eq!(fixture.shown().await, (10, 6250));
    fixture.assert_clean().await;
}

async fn a_resharding_that_is_complete_is_exact_at_once(fixture: Fixture) {
    fixture.sent(shard(0, 1), 1..=12).await;
    fixture.sent(shard(0, 2), [2]).await;
    assert_eq!(fixture.shown().await, (12, 7800), "ten may still be there");
    fixture.sent(shard(1, 2), [1, 3]).await;
    assert_eq!(fixture.shown().await, (3, 600), "and nothing is left of them");
    fixture.sent(shard(0, 1), [5]).await;
    assert_eq!(fixture.shown().await, (1, 500));
    fixture.sent(shard(1, 3), [1, 4, 7]).await;
    fixture.sent(shard(2, 3), []).await;
    fixture.sent(shard(0, 3), [9]).await;
    assert_eq!(fixture.shown().await, (4, 2100));
    fixture.assert_clean().await;
}

async fn a_shard_that_is_sent_again_during_a_resharding_is_exact_at_once(fixture: Fixture) {
    fixture.sent(shard(0, 1), 1..=6).await;
    fixture.sent(shard(0, 2), [2, 4, 6]).await;
    fixture.clean().await;
    // The other half still belongs to the old snapshot, and no more of it is hidden.
    fixture.sent(shard(0, 2), [2, 4, 6, 8]).await;
    assert_eq!(fixture.shown().await, (7, 2900));
    fixture.sent(shard(0, 2), [2]).await;
    assert_eq!(fixture.shown().await, (4, 1100));
    fixture.assert_clean().await;
}

async fn a_crash_in_the_middle_of_a_sweep_loses_no_count(mut fixture: Fixture) {
    fixture.sent(shard(0, 1), 1..=12).await;
    fixture.sent(shard(0, 2), [2, 4, 6]).await;
    for _ in 0..5 {
        fixture.store.clean_up(1).await.unwrap();
        fixture.reopen().await;
        fixture.store.apply(vec![Change::Guild(sized(1, 5))]).await.unwrap();
        let (guilds, _) = fixture.shown().await;
        assert!((9..=12).contains(&guilds), "{guilds}");
    }
    fixture.swept().await;
    assert_eq!(fixture.shown().await, (9, 4805));
    fixture.assert_clean().await;
}

async fn numbers_that_no_guild_has_do_not_break_the_sum(fixture: Fixture) {
    let large = |place| Guild { members: u64::try_from(i64::MAX).unwrap(), ..sized(place, 0) };
    let billions = |count: u64| count * 1_000_000_000;
    fixture.store.apply((1..=9).map(|place| Change::Guild(large(place))).collect()).await.unwrap();
    assert_eq!(fixture.shown().await, (9, billions(9)));
    let snapshot = fixture.begin(shard(0, 1), 1).await;
    for _ in 0..2 {
        fixture.stage(snapshot, &(1..=12).map(|place| GuildLine::Guild(large(place))).collect::<Vec<_>>()).await;
    }
    fixture.stage(snapshot, &[GuildLine::Unavailable(placed(1)), GuildLine::Unavailable(placed(12))]).await;
    fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
    fixture.clean().await;
    assert_eq!(fixture.shown().await, (11, billions(11)));
    fixture.store.apply(vec![Change::GuildGone(placed(1)), Change::Guild(sized(2, 0))]).await.unwrap();
    assert_eq!(fixture.shown().await, (10, billions(9) + 200));
}

async fn a_snapshot_counts_what_it_has_in_the_end(fixture: Fixture) {
    fixture.sent(shard(0, 1), [1, 2, 3]).await;
    let unavailable = |place| GuildLine::Unavailable(placed(place));
    let line = |place, more| GuildLine::Guild(sized(place, more));
    let snapshot = fixture.begin(shard(0, 1), 1).await;
    fixture.stage(snapshot, &[line(1, 7), line(1, 1), line(4, 0), line(5, 0), unavailable(2)]).await;
    fixture.stage(snapshot, &[line(1, 2), unavailable(4), unavailable(6), line(7, 0)]).await;
    fixture.stage(snapshot, &[line(2, 9), unavailable(7), unavailable(3), line(7, 3)]).await;
    fixture.store.apply(vec![Change::Guild(sized(3, 33)), Change::Guild(sized(6, 0))]).await.unwrap();
    assert_eq!(fixture.shown().await, (4, 1233), "what is staged counts for nothing");
    fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
    assert_eq!(fixture.shown().await, (6, 2447), "1, 2, 3, 5, 6 and 7");
    fixture.assert_clean().await;
}
