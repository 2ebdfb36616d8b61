//! Numbered events, who may send them, and keys.

use domain::feed::{Event, Lines};
use domain::{Change, Heartbeat, Subscription};

use super::*;
use crate::{BatchOutcome, BotKey, Committed, Topic};

on_each_store! {
    events_apply_once_in_order_and_without_a_gap,
    a_batch_that_fails_changes_nothing_and_may_come_again,
    a_shard_belongs_to_the_latest_started_that_has_sent_it,
    a_process_that_leaves_gives_its_shards_back,
    a_snapshot_after_more_than_is_known_is_not_applied,
    the_last_of_a_users_lines_counts_and_the_others_are_named,
    without_heartbeats_the_one_seen_first_counts_as_the_earlier,
    numberings_that_nobody_uses_are_forgotten,
    keys_are_found_by_hash_until_they_are_revoked,
}

fn named(place: u64, name: &str) -> Change {
    Change::Guild(Guild { id: placed(place), name: name.to_owned(), ..guild(1) })
}

async fn events_apply_once_in_order_and_without_a_gap(mut fixture: Fixture) {
    assert_eq!(fixture.feed("a", 2, &[named(1, "early")]).await, BatchOutcome::Resync { next: 1 });
    assert_eq!(
        fixture.feed("a", 1, &[named(1, "early")]).await,
        BatchOutcome::Resync { next: 1 },
        "no snapshot covers it"
    );
    fixture.snapshot("a", shard(0, 1), 1, &[], "").await;
    assert_eq!(fixture.feed("a", 1, &[]).await, applied(0, 0, 1));
    assert_eq!(fixture.feed("a", 1, &[named(1, "one"), named(2, "two")]).await, applied(2, 0, 3));
    assert_eq!(fixture.map().await, "one: [1], two: [2]");

    let again = [named(1, "again"), named(2, "again")];
    assert_eq!(fixture.feed("a", 1, &again).await, applied(0, 2, 3), "a repeat");
    assert_eq!(fixture.feed("a", 2, &again).await, applied(1, 1, 4), "an overlap counts from where it is new");
    assert_eq!(fixture.map().await, "again: [2], one: [1]");

    let topics = [Topic::Id(placed(1)), Topic::Everything];
    let (gap, invalidated) = fixture.invalidated(&topics, fixture.feed("a", 5, &again)).await;
    assert_eq!((gap, invalidated), (BatchOutcome::Resync { next: 4 }, Vec::new()));
    assert_eq!(fixture.feed("a", u64::MAX, &again).await, BatchOutcome::Resync { next: 4 });
    assert_eq!(fixture.map().await, "again: [2], one: [1]");

    let unknown = vec![Event::Ignored("unknown type".to_owned()), Event::Change(Change::GuildGone(placed(1)))];
    assert_eq!(fixture.store.feed(instance("a"), 4, unknown, NOW).await.unwrap(), applied(1, 1, 6));
    fixture.reopen().await;
    assert_eq!(fixture.map().await, "again: [2]");
    assert_eq!(fixture.feed("b", 2, &again).await, BatchOutcome::Resync { next: 1 }, "each counts for itself");
    let state = fixture.store.feed_state().await.unwrap();
    assert_eq!((state.guilds, state.instances[0].next), (1, 6));
}

async fn a_batch_that_fails_changes_nothing_and_may_come_again(fixture: Fixture) {
    fixture.sql("ALTER TABLE feedback RENAME TO elsewhere").await;
    fixture.snapshot("a", shard(0, 1), 1, &[], "").await;
    let events = vec![named(1, "one"), Change::FeedbackGone("x".to_owned())];
    let batch: Vec<_> = events.iter().cloned().map(Event::Change).collect();
    assert!(fixture.store.feed(instance("a"), 1, batch, NOW).await.is_err());
    fixture.sql("ALTER TABLE elsewhere RENAME TO feedback").await;
    assert_eq!(fixture.map().await, "");
    assert_eq!(fixture.feed("a", 1, &events).await, applied(2, 0, 3));
}

async fn a_shard_belongs_to_the_latest_started_that_has_sent_it(fixture: Fixture) {
    fixture.started("old", 100).await;
    fixture.started("new", 200).await;
    let (even, all) = (shard(0, 2), shard(0, 1));
    assert_eq!(fixture.snapshot("old", all, 1, &[1, 2], "old").await, Committed::Replaced { next: 1 });
    assert_eq!(fixture.feed("new", 1, &[named(2, "new")]).await, applied(1, 0, 2), "the later one may say anything");
    assert_eq!(fixture.snapshot("new", even, 2, &[2, 4], "new").await, Committed::Replaced { next: 2 });

    // Its heartbeats may stop; it still owns the shard.
    let later = NOW.after(Duration::from_hours(1));
    let alive = Heartbeat {
        instance: instance("old"),
        started_at: Time::from_seconds(100),
        memory: 1,
        shard_count: 1,
        shards: Vec::new(),
        leaving: false,
    };
    fixture.store.record_heartbeat(alive, later).await.unwrap();
    assert_eq!(fixture.store.health().await.unwrap().instances.len(), 1);

    let member = |place| Change::MemberGone { guild: placed(place), user: id(2) };
    let said =
        [named(2, "stale"), Change::GuildGone(placed(4)), member(4), member(1), named(3, "old"), named(6, "stale")];
    assert_eq!(fixture.feed("old", 1, &said).await, overruled(2, 4, "new", 7));
    assert_eq!(
        fixture
            .names()
            .await
            .into_iter()
            .map(|(place, name, moderates)| format!("{place} {name} {moderates}"))
            .collect::<Vec<_>>(),
        ["1 old false", "2 new true", "3 old false", "4 new true"]
    );
    for scope in [even, all, shard(2, 4), shard(4, 6)] {
        assert_eq!(
            fixture.snapshot("old", scope, 7, &[], "stale").await,
            Committed::Outranked { next: 7, owner: instance("new") }
        );
    }
    assert_eq!(
        fixture.snapshot("old", even, 9, &[], "stale").await,
        Committed::Outranked { next: 9, owner: instance("new") }
    );
    assert_eq!(fixture.map().await, "new: [2, 4], old: [1, 3]");
    assert_eq!(fixture.feed("old", 9, &[named(1, "odd")]).await, applied(1, 0, 10), "its numbering goes on");
    assert_eq!(fixture.snapshot("old", shard(1, 2), 10, &[1], "old").await, Committed::Replaced { next: 10 });
    fixture.clean().await;
    assert_eq!(fixture.map().await, "new: [2, 4], old: [1]");
}

async fn a_process_that_leaves_gives_its_shards_back(fixture: Fixture) {
    fixture.started("old", 100).await;
    fixture.started("new", 200).await;
    let all = shard(0, 1);
    let probed = |replaced: &[u32], free: &[u32]| {
        let keys = |ids: &[u32]| ids.iter().map(|id| ShardKey { count: 1, id: *id }).collect();
        let lost = LostShards { replaced: keys(replaced), free: keys(free) };
        BatchOutcome::Applied { applied: 0, ignored: 0, next: 1, unowned: UnownedEvents::default(), lost }
    };
    fixture.snapshot("old", all, 1, &[1], "old").await;
    assert_eq!(fixture.feed("old", 1, &[]).await, probed(&[], &[]));
    fixture.snapshot("new", all, 1, &[1], "new").await;
    assert_eq!(fixture.feed("old", 1, &[]).await, probed(&[0], &[]));
    assert_eq!(fixture.feed("new", 1, &[]).await, probed(&[], &[]));
    let last = Heartbeat {
        instance: instance("new"),
        started_at: Time::from_seconds(200),
        memory: 1,
        shard_count: 1,
        shards: Vec::new(),
        leaving: true,
    };
    fixture.store.record_heartbeat(last, NOW).await.unwrap();
    assert!(!fixture.store.health().await.unwrap().instances.contains_key(&instance("new")));
    assert_eq!(fixture.feed("old", 1, &[]).await, probed(&[], &[0]));
    assert_eq!(fixture.feed("old", 1, &[named(1, "old")]).await, BatchOutcome::Resync { next: 1 });
    assert_eq!(fixture.snapshot("old", all, 1, &[1], "old").await, Committed::Replaced { next: 1 });
    assert_eq!(fixture.feed("old", 1, &[]).await, probed(&[], &[]));
    assert_eq!(fixture.map().await, "old: [1]");
}

async fn a_snapshot_after_more_than_is_known_is_not_applied(fixture: Fixture) {
    for (at, after, expected) in [
        (2, Some(1), Committed::Replaced { next: 2 }),
        (9, Some(3), Committed::Resync { next: 2 }),
        (9, None, Committed::Replaced { next: 9 }),
        (9, Some(9), Committed::Replaced { next: 9 }),
        (10, Some(9), Committed::Replaced { next: 10 }),
    ] {
        for scope in [shard(0, 1), Scope::Subscriptions] {
            let snapshot = fixture.store.begin_snapshot(scope, instance("a"), at, NOW).await.unwrap();
            let committed = fixture.store.commit_snapshot(snapshot, after, NOW).await.unwrap();
            assert_eq!(committed, expected, "{at} {after:?} {scope:?}");
        }
    }
}

async fn the_last_of_a_users_lines_counts_and_the_others_are_named(fixture: Fixture) {
    let subscription = |user: &u64| Subscription { userid: id(*user), slots: 1, guilds: vec![], active_until: None };
    let lines = |users: &[u64]| Lines::Subscriptions(users.iter().map(subscription).collect());
    let snapshot = fixture.begin(Scope::Subscriptions, 1).await;
    for (users, replaced) in [(&[1, 2, 1, 1][..], &[1, 1][..]), (&[3, 4], &[]), (&[2, 5, 5], &[2, 5])] {
        let mut named = fixture.store.stage(snapshot, lines(users)).await.unwrap();
        named.sort_unstable();
        assert_eq!(named, replaced.iter().map(|user| id(*user)).collect::<Vec<_>>());
    }
    fixture.store.commit_snapshot(snapshot, None, NOW).await.unwrap();
    assert_eq!(fixture.store.feed_state().await.unwrap().subscriptions, 5);
}

async fn without_heartbeats_the_one_seen_first_counts_as_the_earlier(fixture: Fixture) {
    let (later, all) = (NOW.after(Duration::from_secs(9)), shard(0, 1));
    let first = fixture.store.begin_snapshot(all, instance("first"), 1, NOW).await.unwrap();
    let second = fixture.store.begin_snapshot(all, instance("second"), 1, later).await.unwrap();
    fixture.store.stage(second, Lines::Guilds(vec![line(1, "second", 2)])).await.unwrap();
    assert_eq!(fixture.store.commit_snapshot(second, None, later).await.unwrap(), Committed::Replaced { next: 1 });
    let outranked = Committed::Outranked { next: 1, owner: instance("second") };
    assert_eq!(fixture.store.commit_snapshot(first, None, later).await.unwrap(), outranked);
    assert_eq!(fixture.map().await, "second: [1]");
    // A late heartbeat changes the decision.
    fixture.started("second", 5).await;
    assert_eq!(fixture.snapshot("first", all, 1, &[1], "first").await, Committed::Replaced { next: 1 });
    let state = fixture.store.feed_state().await.unwrap();
    assert_eq!(state.instances[1].started_at, Some(Time::from_seconds(5)));
    assert_eq!((state.instances[1].last_heartbeat, state.instances[0].last_heartbeat), (Some(NOW), None));
}

async fn numberings_that_nobody_uses_are_forgotten(fixture: Fixture) {
    let day = |number: u64| NOW.after(Duration::from_hours(24 * number));
    for (name, used) in [("gone", 0), ("quiet", 2), ("busy", 31)] {
        let event = vec![Event::Ignored(String::new())];
        fixture.store.feed(instance(name), 1, event, day(used)).await.unwrap();
    }
    assert_eq!(fixture.store.clean_up(10).await.unwrap(), 0);
    let names: Vec<_> = fixture.store.feed_state().await.unwrap().instances.into_iter().map(|it| it.instance).collect();
    assert_eq!(names, [instance("busy"), instance("quiet")]);
    assert_eq!(fixture.feed("gone", 2, &[named(1, "x")]).await, BatchOutcome::Resync { next: 1 });
}

async fn keys_are_found_by_hash_until_they_are_revoked(mut fixture: Fixture) {
    let key = |number: u8| BotKey {
        id: format!("key{number}"),
        label: "bot".to_owned(),
        created: NOW.before(Duration::from_secs(number.into())),
        revoked: None,
    };
    let (added, invalidated) = fixture.invalidated(&[Topic::Keys], fixture.store.add_key(key(1), token(1))).await;
    added.unwrap();
    assert_eq!(invalidated, [Topic::Keys]);
    fixture.store.add_key(key(2), token(2)).await.unwrap();
    assert!(fixture.store.add_key(key(3), token(2)).await.is_err(), "a hash is a key's own");
    assert_eq!(fixture.store.keys().await.unwrap()[..2], [key(2), key(1)]);
    assert_eq!(fixture.store.key(token(1)).await.unwrap(), Some(key(1)));
    assert_eq!(fixture.store.key(token(9)).await.unwrap(), None);

    let revoke = |name: &str| fixture.store.revoke_key(name.to_owned(), NOW);
    let (revoked, invalidated) = fixture.invalidated(&[Topic::Keys], revoke("key1")).await;
    assert_eq!((revoked.unwrap(), invalidated), (true, vec![Topic::Keys]));
    for name in ["key1", "nope"] {
        let (revoked, invalidated) = fixture.invalidated(&[Topic::Keys], revoke(name)).await;
        assert_eq!((revoked.unwrap(), invalidated), (false, Vec::new()));
    }
    fixture.reopen().await;
    assert_eq!(fixture.store.key(token(1)).await.unwrap(), Some(BotKey { revoked: Some(NOW), ..key(1) }));
}
