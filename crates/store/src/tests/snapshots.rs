//! Snapshots: staged, committed in one visible step, cleaned up in the background.

use domain::feed::Lines;
use domain::{Change, Subscription};

use super::*;
use crate::{BatchOutcome, Committed, StoreError, Topic};

const EVEN: [u64; 6] = [2, 4, 6, 8, 10, 12];
const ODD: [u64; 6] = [1, 3, 5, 7, 9, 11];

on_each_store! {
    a_snapshot_is_invisible_until_its_commit_and_then_is_the_truth,
    a_snapshot_that_events_overtook_is_dropped,
    each_snapshot_of_a_resharding_replaces_exactly_its_own,
    an_unavailable_guild_stays_as_it_is_at_the_commit,
    of_the_lines_of_one_guild_the_last_counts,
    a_line_that_does_not_count_makes_a_snapshot_depend_on_nothing,
    a_batch_that_is_large_may_come_again,
    what_a_snapshot_leaves_unsaid_is_as_it_is_stored_at_the_commit,
    a_snapshot_that_leaves_something_unsaid_is_overtaken_by_another_of_the_same,
    a_commit_with_a_revoked_key_changes_nothing,
    what_a_crash_or_a_cut_left_staged_is_never_seen_and_goes,
    subscriptions_are_replaced_whole,
    a_reader_beside_commits_and_clean_up_never_sees_a_mix,
}

async fn a_snapshot_is_invisible_until_its_commit_and_then_is_the_truth(fixture: Fixture) {
    fixture.store.apply(vec![Change::Guild(Guild { id: placed(1), ..guild(1) })]).await.unwrap();
    let topics = [Topic::Id(placed(1)), Topic::Id(id(9)), Topic::Team];
    let snapshot = fixture.begin(shard(0, 1), 5).await;
    let ((), invalidated) =
        fixture.invalidated(&topics, fixture.stage(snapshot, &[line(2, "new", 2), line(3, "new", 2)])).await;
    assert!(invalidated.is_empty());
    assert_eq!(fixture.map().await, "G 1: [1]");
    let (committed, invalidated) =
        fixture.invalidated(&topics, fixture.store.commit_snapshot(snapshot, None, NOW)).await;
    assert_eq!((committed.unwrap(), invalidated), (Committed::Replaced { next: 5 }, topics.to_vec()));
    assert_eq!(fixture.map().await, "new: [2, 3]");
    assert!(matches!(fixture.store.commit_snapshot(snapshot, None, NOW).await, Err(StoreError::Unavailable(_))));

    let said = [
        Change::GuildGone(placed(2)),
        Change::MemberGone { guild: placed(3), user: id(2) },
        Change::Guild(Guild { id: placed(4), ..guild(1) }),
    ];
    assert_eq!(fixture.feed("a", 5, &said).await, applied(3, 0, 8));
    assert_eq!(fixture.names().await, [(3, "new".to_owned(), false), (4, "G 1".to_owned(), false)]);
    let state = fixture.store.feed_state().await.unwrap();
    assert_eq!((state.shards[0].guilds, state.shards[0].snapshot_at), (2, NOW));
    fixture.assert_clean().await;
    assert_eq!(fixture.count("guild_staff").await, 0);
}

async fn a_snapshot_that_events_overtook_is_dropped(fixture: Fixture) {
    let snapshot = fixture.begin(shard(0, 1), 1).await;
    fixture.stage(snapshot, &[line(1, "late", 2)]).await;
    fixture.snapshot("a", shard(0, 1), 1, &[3], "first").await;
    fixture.feed("a", 1, &[Change::Guild(Guild { id: placed(2), ..guild(1) })]).await;
    assert_eq!(fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap(), Committed::Outdated { next: 2 });
    assert_eq!(fixture.map().await, "G 1: [2], first: [3]");
    assert_eq!(fixture.snapshot("a", shard(0, 1), 2, &[1], "new").await, Committed::Replaced { next: 2 });
    assert_eq!(fixture.snapshot("a", shard(0, 1), 9, &[1], "newer").await, Committed::Replaced { next: 9 });
    fixture.assert_clean().await;
}

async fn each_snapshot_of_a_resharding_replaces_exactly_its_own(mut fixture: Fixture) {
    let counts = async |fixture: &Fixture| -> Vec<(u32, u32)> {
        let shards = fixture.store.feed_state().await.unwrap().shards;
        shards.into_iter().map(|it| (it.shard.count, it.shard.id)).collect()
    };
    let all: Vec<u64> = (1..=12).collect();
    fixture.snapshot("a", shard(0, 1), 1, &all, "1").await;
    fixture.snapshot("a", shard(1, 2), 1, &ODD, "2").await;
    assert_eq!(fixture.map().await, "1: [2, 4, 6, 8, 10, 12], 2: [1, 3, 5, 7, 9, 11]");
    fixture.feed("a", 1, &[Change::GuildGone(placed(2)), Change::GuildGone(placed(1))]).await;
    assert_eq!(fixture.map().await, "1: [4, 6, 8, 10, 12], 2: [3, 5, 7, 9, 11]");
    assert_eq!(counts(&fixture).await, [(1, 0), (2, 1)]);
    fixture.snapshot("a", shard(0, 2), 3, &EVEN, "2").await;
    assert_eq!(counts(&fixture).await, [(2, 0), (2, 1)], "nothing of the old count is left to cover");

    fixture.snapshot("a", shard(2, 4), 3, &[2, 10], "4").await;
    fixture.feed("a", 3, &[Change::Guild(Guild { id: placed(6), ..guild(6) }), Change::GuildGone(placed(4))]).await;
    fixture.clean().await;
    assert_eq!(fixture.map().await, "2: [3, 5, 7, 8, 9, 11, 12], 4: [2, 10], G 6: [6]");
    assert_eq!(fixture.store.feed_state().await.unwrap().guilds, 10);
    for (id, places) in [(0, &[4, 8, 12][..]), (1, &[1, 5, 9]), (3, &[3, 7, 11])] {
        fixture.snapshot("a", shard(id, 4), 5, places, "4").await;
    }
    assert_eq!(counts(&fixture).await, [(4, 0), (4, 1), (4, 2), (4, 3)]);

    fixture.snapshot("a", shard(1, 3), 5, &[1, 4], "3").await;
    fixture.snapshot("a", shard(0, 3), 5, &[3, 6], "3").await;
    assert_eq!(fixture.map().await, "3: [1, 3, 4, 6], 4: [2, 5, 8, 11]");
    // Back, before it was finished.
    fixture.snapshot("a", shard(0, 4), 5, &[4, 12], "4 again").await;
    assert_eq!(fixture.map().await, "3: [1, 3, 6], 4: [2, 5, 11], 4 again: [4, 12]");
    fixture.reopen().await;
    fixture.assert_clean().await;
    for id in 0..3 {
        fixture.snapshot("a", shard(id, 3), 5, &[u64::from(id) + 3], "end").await;
    }
    assert_eq!(counts(&fixture).await, [(3, 0), (3, 1), (3, 2)]);
    assert_eq!(fixture.map().await, "end: [3, 4, 5]");
    fixture.assert_clean().await;
}

async fn an_unavailable_guild_stays_as_it_is_at_the_commit(fixture: Fixture) {
    fixture.snapshot("a", shard(0, 1), 1, &[1, 2, 3, 4], "old").await;
    let snapshot = fixture.begin(shard(0, 2), 1).await;
    let unavailable = [2, 4, 6, 8].map(|place| GuildLine::Unavailable(placed(place)));
    fixture.stage(snapshot, &unavailable).await;
    // From an instance with another shard count.
    let renamed = Guild { id: placed(4), name: "renamed".to_owned(), ..guild(1) };
    let come = Guild { id: placed(8), name: "come".to_owned(), ..guild(1) };
    fixture.store.apply(vec![Change::Guild(renamed), Change::Guild(come)]).await.unwrap();
    fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
    assert_eq!(fixture.map().await, "come: [8], old: [1, 2, 3], renamed: [4]");
    assert_eq!(fixture.names().await.iter().filter(|(_, _, moderates)| *moderates).count(), 4, "staff and all");
    fixture.assert_clean().await;
    assert_eq!(fixture.count("guild_staff").await, 4);
    assert_eq!(fixture.store.feed_state().await.unwrap().shards[1].guilds, 3);
}

async fn of_the_lines_of_one_guild_the_last_counts(fixture: Fixture) {
    fixture.snapshot("a", shard(0, 1), 1, &[1, 2, 3, 4], "old").await;
    let snapshot = fixture.begin(shard(0, 1), 1).await;
    let bare = GuildLine::Guild(Guild { id: placed(1), name: "bare".to_owned(), ..guild(1) });
    let unavailable = |place| GuildLine::Unavailable(placed(place));
    fixture.stage(snapshot, &[line(1, "x", 2), bare, line(2, "x", 3), line(2, "y", 2)]).await;
    fixture.stage(snapshot, &[line(2, "z", 4), line(3, "x", 2), unavailable(3), unavailable(4)]).await;
    fixture.stage(snapshot, &[line(4, "back", 2), unavailable(5), unavailable(3)]).await;
    fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
    // The first keeps what is stored, not what an earlier line said.
    let expected = [(1, "bare", true), (2, "z", false), (3, "old", true), (4, "back", true)];
    assert_eq!(fixture.names().await, expected.map(|(place, name, moderates)| (place, name.to_owned(), moderates)));
    fixture.assert_clean().await;
    assert_eq!(fixture.count("guild_staff").await, 4);
}

async fn a_line_that_does_not_count_makes_a_snapshot_depend_on_nothing(fixture: Fixture) {
    let bare = |place| GuildLine::Guild(Guild { id: placed(place), name: "bare".to_owned(), ..guild(1) });
    fixture.snapshot("a", shard(0, 1), 1, &[1, 2], "old").await;
    let independent = fixture.begin(shard(0, 1), 1).await;
    let unavailable = GuildLine::Unavailable(placed(2));
    fixture.stage(independent, &[bare(1), line(1, "said", 2), bare(2), unavailable]).await;
    let dependent = fixture.begin(shard(0, 1), 1).await;
    fixture.stage(dependent, &[line(1, "said", 2), bare(1)]).await;
    fixture.snapshot("a", shard(0, 1), 1, &[1, 2], "between").await;
    let commit = async |snapshot| fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
    assert_eq!(commit(dependent).await, Committed::Outdated { next: 1 });
    assert_eq!(commit(independent).await, Committed::Replaced { next: 1 });
    assert_eq!(fixture.map().await, "between: [2], said: [1]");
    fixture.assert_clean().await;
}

async fn a_batch_that_is_large_may_come_again(fixture: Fixture) {
    // More than fits into one piece on the wire.
    let batch = |name: &str| (1..=2_000).map(|place| line(place, name, 2)).collect::<Vec<_>>();
    let snapshot = fixture.begin(shard(0, 1), 1).await;
    fixture.stage(snapshot, &batch("once")).await;
    fixture.stage(snapshot, &batch("again")).await;
    fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
    assert!(fixture.names().await.iter().all(|(_, name, moderates)| name == "again" && *moderates));
    assert_eq!((fixture.count("guilds").await, fixture.count("guild_staff").await), (2_000, 2_000));
    assert_eq!(fixture.store.feed_state().await.unwrap().guilds, 2_000);
}

/// A guild that says nothing about its grants and staff.
fn unsaid(place: u64, name: &str) -> GuildLine {
    GuildLine::Guild(Guild { id: placed(place), name: name.to_owned(), ..guild(1) })
}

async fn what_a_snapshot_leaves_unsaid_is_as_it_is_stored_at_the_commit(fixture: Fixture) {
    fixture.snapshot("a", shard(0, 1), 1, &[1, 2, 3, 4], "old").await;
    // It includes what earlier events changed, even those that arrive while it is sent.
    let snapshot = fixture.begin(shard(0, 1), 6).await;
    let all = [1, 2, 3, 4, 5].map(|place| unsaid(place, "new"));
    fixture.stage(snapshot, &all).await;
    let guild = |place, staff: &[u64]| {
        let staff = staff.iter().map(|user| (id(*user), vec![id(70)])).collect();
        Change::Guild(Guild { id: placed(place), staff: Some(staff), ..guild(1) })
    };
    let said = [
        Change::Member { guild: placed(1), user: id(2), roles: Vec::new() },
        Change::MemberGone { guild: placed(2), user: id(2) },
        guild(2, &[2, 3]),
        Change::GuildGone(placed(3)),
        guild(4, &[3]),
    ];
    assert_eq!(fixture.feed("a", 1, &said).await, applied(5, 0, 6));
    assert_eq!(fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap(), Committed::Replaced { next: 6 });
    let expected = [(1, false), (2, true), (3, false), (4, false), (5, false)];
    assert_eq!(fixture.names().await, expected.map(|(place, moderates)| (place, "new".to_owned(), moderates)));
    fixture.assert_clean().await;
    assert_eq!(fixture.count("guild_staff").await, 3);
}

async fn a_snapshot_that_leaves_something_unsaid_is_overtaken_by_another_of_the_same(fixture: Fixture) {
    fixture.snapshot("a", shard(0, 2), 1, &[2, 4], "first").await;
    let (whole, part, other) =
        (fixture.begin(shard(0, 2), 1).await, fixture.begin(shard(0, 2), 1).await, fixture.begin(shard(1, 2), 1).await);
    fixture.stage(whole, &[line(2, "whole", 2)]).await;
    fixture.stage(part, &[unsaid(2, "part")]).await;
    fixture.stage(other, &[unsaid(1, "other")]).await;
    // It contains all guilds, so it changes what the second and third carried over.
    assert_eq!(fixture.snapshot("a", shard(0, 1), 1, &[1, 2], "all").await, Committed::Replaced { next: 1 });
    for (snapshot, outcome) in [
        (part, Committed::Outdated { next: 1 }),
        (other, Committed::Outdated { next: 1 }),
        (whole, Committed::Replaced { next: 1 }),
    ] {
        assert_eq!(fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap(), outcome);
    }
    assert_eq!(fixture.map().await, "all: [1], whole: [2]");
    fixture.assert_clean().await;
}

async fn a_commit_with_a_revoked_key_changes_nothing(fixture: Fixture) {
    fixture.snapshot("a", shard(0, 1), 1, &[1], "old").await;
    let snapshot = fixture.begin(shard(0, 1), 1).await;
    fixture.stage(snapshot, &[line(1, "new", 2)]).await;
    assert!(fixture.store.revoke_key(KEY.to_owned(), NOW).await.unwrap());
    assert_eq!(fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap(), Committed::KeyRefused);
    assert_eq!(fixture.feed("a", 1, &[Change::GuildGone(placed(1))]).await, BatchOutcome::KeyRefused);
    assert_eq!(fixture.map().await, "old: [1]");
    fixture.assert_clean().await;
}

async fn what_a_crash_or_a_cut_left_staged_is_never_seen_and_goes(mut fixture: Fixture) {
    fixture.snapshot("a", shard(0, 1), 1, &[1], "old").await;
    let (crashed, cut) = (fixture.begin(shard(0, 1), 1).await, fixture.begin(shard(0, 2), 1).await);
    let subscriptions = fixture.begin(Scope::Subscriptions, 1).await;
    let paid = Subscription { userid: id(1), slots: 1, guilds: vec![placed(1)], active_until: None };
    fixture.store.stage(subscriptions, Lines::Subscriptions(vec![paid])).await.unwrap();
    for snapshot in [crashed, cut] {
        fixture.stage(snapshot, &[line(2, "new", 2), GuildLine::Unavailable(placed(4))]).await;
    }
    fixture.clean().await;
    assert_eq!(fixture.count("guilds").await, 3, "what is being staged stays");
    fixture.store.abandon_snapshot(cut).await.unwrap();
    fixture.store.abandon_snapshot(cut).await.unwrap();
    fixture.clean().await;
    assert_eq!(fixture.count("guilds").await, 2);

    fixture.reopen().await;
    assert_eq!(fixture.map().await, "old: [1]");
    fixture.assert_clean().await;
    assert_eq!(fixture.count("guild_staff").await, 1);
    let lines = Lines::Guilds(vec![line(2, "new", 2)]);
    assert!(matches!(fixture.store.stage(crashed, lines).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(fixture.store.commit_snapshot(crashed, None, NOW).await, Err(StoreError::Unavailable(_))));
    assert_eq!(fixture.map().await, "old: [1]");
}

async fn subscriptions_are_replaced_whole(fixture: Fixture) {
    let paid = |user, guilds: &[u64], active_until| Subscription {
        userid: id(user),
        slots: 2,
        guilds: guilds.iter().copied().map(placed).collect(),
        active_until,
    };
    fixture.snapshot("a", shard(0, 1), 1, &[1], "one").await;
    fixture.store.apply(vec![Change::Subscription(paid(8, &[1], None))]).await.unwrap();
    let snapshot = fixture.begin(Scope::Subscriptions, 4).await;
    let lines = |lines: Vec<Subscription>| fixture.store.stage(snapshot, Lines::Subscriptions(lines));
    lines(vec![paid(2, &[9], None), paid(3, &[], None)]).await.unwrap();
    lines(vec![paid(2, &[5, 1, 5], Some(NOW))]).await.unwrap();
    assert_eq!(fixture.store.person(id(2), Vec::new()).await.unwrap().subscription, None);
    assert_eq!(fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap(), Committed::Replaced { next: 4 });
    let person = fixture.store.person(id(2), vec![placed(1)]).await.unwrap();
    let expected = paid(2, &[5, 1], Some(NOW));
    assert_eq!((person.subscription, &person.guilds[0].subscriptions), (Some(expected.clone()), &vec![expected]));
    assert_eq!(fixture.store.person(id(8), Vec::new()).await.unwrap().subscription, None);
    assert_eq!(fixture.store.feed_state().await.unwrap().subscriptions, 2);
    fixture.assert_clean().await;
    let nobody = fixture.snapshot_of("a", Scope::Subscriptions, 4, Lines::Subscriptions(Vec::new())).await;
    assert_eq!(nobody, Committed::Replaced { next: 4 });
    assert_eq!(fixture.count("subscription_guilds").await, 0);
}

async fn a_reader_beside_commits_and_clean_up_never_sees_a_mix(fixture: Fixture) {
    let all: Vec<u64> = (1..=12).collect();
    fixture.snapshot("a", shard(0, 1), 1, &all, "0").await;
    let done = std::cell::Cell::new(false);
    let write = async {
        for round in 1..=30 {
            fixture.snapshot("a", shard(0, 1), 1, &all, &round.to_string()).await;
            fixture.store.clean_up(5).await.unwrap();
        }
        done.set(true);
    };
    let read = async {
        let mut last = 0;
        while !done.get() {
            let names = fixture.names().await;
            assert!(names.len() == 12 && names.iter().all(|(_, name, moderates)| *name == names[0].1 && *moderates));
            let round: u32 = names[0].1.parse().unwrap();
            assert!(round >= last);
            last = round;
        }
    };
    tokio::join!(write, read);
    fixture.assert_clean().await;
}
