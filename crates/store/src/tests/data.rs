//! What the bot sends and what the API shows of it.

use std::collections::BTreeMap;

use domain::health::{Heartbeat, ShardHeartbeat};
use domain::team::RosterEntry;
use domain::{Change, GuildFacts, Roster, Subscription, TeamMember};

use super::feedback::entry;
use super::*;
use crate::Topic;

on_each_store! {
    a_guild_keeps_what_is_not_said_anew,
    only_members_with_a_granting_role_are_staff,
    the_guilds_own_role_is_everyones_and_no_other_key_can_be_granted,
    changes_apply_all_or_none,
    subscriptions_touch_old_and_new_guilds_and_their_owner,
    the_roster_is_written_whole_and_touches_old_and_new_members,
    a_new_profile_reaches_roster_and_feedback,
    what_is_broken_in_the_store_breaks_nothing_else,
    heartbeats_merge,
}

const MODERATOR: u64 = 70;

fn granting(number: u64) -> Guild {
    let grants = [(id(MODERATOR), PermissionSet::of(&[Permission::Mod])), (id(71), PermissionSet::EMPTY)];
    Guild { grants: Some(grants.into()), ..guild(number) }
}

fn member(guild: u64, user: u64, roles: &[u64]) -> Change {
    Change::Member { guild: id(guild), user: id(user), roles: roles.iter().copied().map(id).collect() }
}

fn subscription(userid: u64, guilds: &[u64]) -> Subscription {
    Subscription {
        userid: id(userid),
        slots: 3,
        guilds: guilds.iter().copied().map(id).collect(),
        active_until: (userid == 1).then_some(NOW),
    }
}

fn roster(members: &[(u64, &[Permission])]) -> Roster {
    let entry = |(user, keys): &(u64, &[Permission])| RosterEntry {
        member: TeamMember {
            username: "a".to_owned(),
            name: "A".to_owned(),
            avatar: "https://a".into(),
            discord_id: id(*user),
            role: "R".to_owned(),
            color: "#000000".to_owned(),
            category: "c".to_owned(),
            position: -1,
        },
        permissions: PermissionSet::of(keys),
    };
    Roster(members.iter().map(entry).collect())
}

async fn facts(fixture: &Fixture, user: u64, guild: u64) -> Option<GuildFacts> {
    fixture.store.person(id(user), vec![id(guild)]).await.unwrap().guilds.pop()
}

async fn is_moderator(fixture: &Fixture, user: u64, guild: u64) -> bool {
    facts(fixture, user, guild).await.unwrap().granted.has(Permission::Mod)
}

async fn a_guild_keeps_what_is_not_said_anew(fixture: Fixture) {
    let staff = Some([(id(2), vec![id(MODERATOR)]), (id(3), vec![id(71)])].into());
    let topics = [Topic::Id(id(5)), Topic::Id(id(6))];
    let said = vec![Change::Guild(Guild { staff, ..granting(5) })];
    assert_eq!(fixture.apply(&topics, said).await, topics[..1]);
    assert!(is_moderator(&fixture, 2, 5).await);
    assert!(!is_moderator(&fixture, 3, 5).await);

    fixture.apply(&[], vec![Change::Guild(Guild { name: "New".to_owned(), ..guild(5) })]).await;
    assert_eq!(facts(&fixture, 2, 5).await.unwrap().name, "New");
    assert!(is_moderator(&fixture, 2, 5).await);

    fixture.apply(&[], vec![Change::Guild(Guild { staff: Some(BTreeMap::new()), ..guild(5) })]).await;
    assert!(!is_moderator(&fixture, 2, 5).await);

    fixture.apply(&[], vec![Change::Subscription(subscription(1, &[5]))]).await;
    assert_eq!(fixture.apply(&topics, vec![Change::GuildGone(id(5)), Change::GuildGone(id(6))]).await, topics[..1]);
    assert_eq!(facts(&fixture, 2, 5).await, None);
    fixture.apply(&[], vec![Change::Guild(guild(5))]).await;
    let back = facts(&fixture, 2, 5).await.unwrap();
    assert_eq!((back.granted, back.subscriptions), (PermissionSet::EMPTY, vec![subscription(1, &[5])]));
}

async fn only_members_with_a_granting_role_are_staff(fixture: Fixture) {
    fixture.apply(&[], vec![Change::Guild(granting(5))]).await;
    let topics = [Topic::Id(id(2)), Topic::Id(id(5))];
    assert_eq!(fixture.apply(&topics, vec![member(5, 2, &[71, MODERATOR])]).await, topics[..1]);
    assert!(is_moderator(&fixture, 2, 5).await);
    assert_eq!(fixture.apply(&topics, vec![member(5, 2, &[71, 72])]).await, topics[..1]);
    assert!(!is_moderator(&fixture, 2, 5).await);
    assert!(fixture.apply(&topics, vec![member(5, 2, &[72]), member(6, 2, &[MODERATOR])]).await.is_empty());
    assert_eq!(fixture.count("guild_staff").await, 0);

    fixture.apply(&[], vec![member(5, 2, &[MODERATOR]), Change::MemberGone { guild: id(5), user: id(2) }]).await;
    assert_eq!(fixture.count("guild_staff").await, 0);
}

async fn the_guilds_own_role_is_everyones_and_no_other_key_can_be_granted(fixture: Fixture) {
    let keys = PermissionSet::of(&[Permission::Mod, Permission::Founder, Permission::ManageServer]);
    fixture.apply(&[], vec![Change::Guild(Guild { grants: Some([(id(5), keys)].into()), ..guild(5) })]).await;
    fixture.apply(&[], vec![member(5, 9, &[5])]).await;
    assert_eq!(fixture.count("guild_staff").await, 0);
    let granted = facts(&fixture, 9, 5).await.unwrap().granted;
    assert_eq!(granted, PermissionSet::of(&[Permission::Mod]));
}

async fn changes_apply_all_or_none(fixture: Fixture) {
    fixture.sql("ALTER TABLE feedback RENAME TO elsewhere").await;
    // The SQLite store only notices with a write that another program has changed the file.
    fixture.store.note_seen(Vec::new()).await.unwrap();
    let broken = fixture.store.apply(vec![Change::Guild(guild(5)), Change::FeedbackGone("x".to_owned())]);
    let (outcome, invalidated) = fixture.invalidated(&[Topic::Id(id(5))], broken).await;
    assert!(outcome.is_err() && invalidated.is_empty());
    assert_eq!(facts(&fixture, 1, 5).await, None);
}

async fn subscriptions_touch_old_and_new_guilds_and_their_owner(fixture: Fixture) {
    let topics = [5, 6, 7, 8, 1, 2].map(|number| Topic::Id(id(number)));
    fixture.apply(&[], [5, 6, 7].map(|number| Change::Guild(guild(number))).to_vec()).await;
    let put = |user, guilds: &[u64]| vec![Change::Subscription(subscription(user, guilds))];
    fixture.apply(&[], put(2, &[8, 6])).await;
    assert_eq!(fixture.apply(&topics, put(1, &[7, 5])).await, [topics[0], topics[2], topics[4]]);
    assert_eq!(fixture.apply(&topics, put(1, &[6, 5, 6])).await, [topics[0], topics[1], topics[2], topics[4]]);

    let person = fixture.store.person(id(1), vec![id(7), id(6), id(404), id(6)]).await.unwrap();
    assert_eq!(person.subscription, Some(subscription(1, &[6, 5])));
    let shown: Vec<_> = person.guilds.into_iter().map(|guild| (guild.id, guild.subscriptions)).collect();
    assert_eq!(
        shown,
        [(id(6), vec![subscription(1, &[6, 5]), subscription(2, &[8, 6])]), (id(7), Vec::new())],
        "in the given order, and each guild once"
    );
    let gone = fixture.apply(&topics, vec![Change::SubscriptionGone(id(1))]).await;
    assert_eq!(gone, [topics[0], topics[1], topics[4]]);
    assert!(fixture.apply(&topics, vec![Change::SubscriptionGone(id(1))]).await.is_empty());
    assert_eq!(fixture.store.person(id(1), Vec::new()).await.unwrap().subscription, None);
}

async fn the_roster_is_written_whole_and_touches_old_and_new_members(fixture: Fixture) {
    let topics = [Topic::Team, Topic::Id(id(1)), Topic::Id(id(2)), Topic::Id(id(3))];
    let founder = [Permission::Founder];
    let first = roster(&[(2, &founder), (1, &[])]);
    assert_eq!(fixture.apply(&topics, vec![Change::Team(first.clone())]).await, topics[..3]);
    assert_eq!(fixture.store.team().await.unwrap(), first);

    // Listed twice, and with a permission that the roster may not grant.
    let second = roster(&[(3, &founder), (3, &[Permission::Support, Permission::Admin])]);
    assert_eq!(fixture.apply(&topics, vec![Change::Team(second)]).await, topics);
    let granted = PermissionSet::of(&[Permission::Founder, Permission::Support]);
    assert_eq!(fixture.store.person(id(3), Vec::new()).await.unwrap().team, granted);
    assert_eq!(fixture.store.person(id(2), Vec::new()).await.unwrap().team, PermissionSet::EMPTY);
}

async fn a_new_profile_reaches_roster_and_feedback(fixture: Fixture) {
    let topics = [Topic::Team, Topic::Feedback];
    fixture.apply(&[], vec![Change::Team(roster(&[(1, &[])])), Change::Feedback(entry("x", 5, 2))]).await;
    let new = |user| Change::User(domain::User { name: "New".to_owned(), ..person(user) });
    assert_eq!(fixture.apply(&topics, vec![new(1)]).await, topics[..1]);
    assert_eq!(fixture.apply(&topics, vec![new(2)]).await, topics[1..]);
    assert!(fixture.apply(&topics, vec![new(1), new(2), new(3)]).await.is_empty(), "nothing new");
    assert_eq!(fixture.store.team().await.unwrap().0[0].member.name, "New");
    assert_eq!(fixture.store.sample_feedback(1).await.unwrap().entries[0].1.entry.submitter.name, "New");
}

async fn what_is_broken_in_the_store_breaks_nothing_else(fixture: Fixture) {
    fixture.sign_in(1, 1).await;
    fixture.sign_in(1, 2).await;
    fixture
        .apply(
            &[],
            vec![
                Change::Guild(granting(5)),
                Change::Guild(granting(6)),
                Change::Guild(granting(7)),
                Change::Team(roster(&[(1, &[Permission::Founder]), (2, &[])])),
                Change::Feedback(entry("x", 5, 1)),
                Change::Feedback(entry("y", 5, 1)),
            ],
        )
        .await;
    let broken = "UPDATE guilds SET grants = '{\"70\": [\"MO' WHERE id = 5;
        UPDATE guilds SET owner = -4 WHERE id = 6;
        UPDATE team SET permissions = 'x' WHERE discord_id = 1;
        UPDATE team SET discord_id = 0 WHERE discord_id = 2;
        UPDATE feedback SET submitter_id = 0 WHERE id = 'x';
        UPDATE sessions SET id = 'short' WHERE id LIKE '%1';
        UPDATE users SET list = '[{\"id\": \"5\", \"permissions\": 0}, 7]', list_fetched = 9;";
    fixture.sql(broken).await;

    let person = fixture.store.person(id(1), vec![id(5), id(6), id(7)]).await.unwrap();
    assert_eq!(person.guilds.iter().map(|guild| guild.id.get()).collect::<Vec<_>>(), [5, 7]);
    assert_eq!(fixture.store.team().await.unwrap().0.len(), 1);
    let sample = fixture.store.sample_feedback(1).await.unwrap();
    assert_eq!((sample.count, sample.entries.len()), (2, 1));
    assert_eq!(fixture.store.sessions_of(id(1)).await.unwrap(), [session(1, 2)]);
    assert_eq!(fixture.store.account(id(1)).await.unwrap().unwrap().list.unwrap().guilds.len(), 1);
    fixture.apply(&[], vec![member(5, 1, &[MODERATOR]), Change::Team(roster(&[]))]).await;
}

async fn heartbeats_merge(mut fixture: Fixture) {
    let heartbeat = |instance: &str, started: u64, ids: std::ops::Range<u32>| Heartbeat {
        instance: super::instance(instance),
        started_at: Time::from_seconds(started),
        memory: 1000,
        shard_count: 4,
        shards: ids.map(|id| ShardHeartbeat { id, sent: Some(NOW), acknowledged: None, latency: Some(1.5) }).collect(),
        leaving: false,
    };
    let mut expected = domain::Health::default();
    for (instance, started, shards) in [("a", 1, 0..2), ("b", 2, 2..4)] {
        expected.merge(heartbeat(instance, started, shards.clone()), NOW);
        let work = fixture.store.record_heartbeat(heartbeat(instance, started, shards), NOW);
        let (outcome, invalidated) = fixture.invalidated(&[Topic::Health], work).await;
        outcome.unwrap();
        assert_eq!(invalidated, [Topic::Health]);
    }
    assert_eq!(fixture.store.health().await.unwrap(), expected);

    let next = NOW.after(Duration::from_secs(15));
    expected.merge(heartbeat("b", 2, 2..4), next);
    fixture.store.record_heartbeat(heartbeat("b", 2, 2..4), next).await.unwrap();
    assert_eq!(fixture.store.health().await.unwrap(), expected);

    let much_later = NOW.after(Duration::from_secs(1000));
    let smaller = Heartbeat { shard_count: 1, ..heartbeat("c", 900, 0..1) };
    expected.merge(smaller.clone(), much_later);
    fixture.store.record_heartbeat(smaller, much_later).await.unwrap();
    assert_eq!(expected.shards.len(), 1);
    assert_eq!(fixture.store.health().await.unwrap(), expected);
    fixture.reopen().await;
    assert_eq!(fixture.store.health().await.unwrap(), expected);
}
