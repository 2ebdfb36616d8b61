//! What the bot says and what the API shows of it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use crate::domain::feedback::{Feedback, FeedbackEntry, SHOWN};
use crate::domain::health::{Heartbeat, ShardBeat};
use crate::domain::team::RosterEntry;
use crate::domain::{Change, GuildFacts, Permission, PermissionSet, Roster, Subscription, TeamMember};
use crate::store::sqlite::{feedback, migrations, sessions};

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

fn entry(name: &str, rating: u8, user: u64) -> Feedback {
    let entry = FeedbackEntry { feedback: format!("about {name}"), rating, timestamp: 5, submitter: person(user) };
    Feedback { id: name.to_owned(), entry }
}

fn roster(members: &[(u64, &[Permission])]) -> Roster {
    let entry = |(user, keys): &(u64, &[Permission])| RosterEntry {
        member: TeamMember {
            username: "a".to_owned(),
            name: "A".to_owned(),
            avatar: "https://a".to_owned(),
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

async fn apply(fixture: &Fixture, topics: &[Topic], changes: Vec<Change>) -> Vec<Topic> {
    let (applied, touched) = fixture.touched(topics, fixture.store.apply(changes)).await;
    applied.unwrap();
    touched
}

#[tokio::test]
async fn a_guild_keeps_what_is_not_said_anew() {
    let fixture = Fixture::new().await;
    let staff = Some([(id(2), vec![id(MODERATOR)]), (id(3), vec![id(71)])].into());
    let topics = [Topic::Id(id(5)), Topic::Id(id(6))];
    let said = vec![Change::Guild(Guild { staff, ..granting(5) })];
    assert_eq!(apply(&fixture, &topics, said).await, topics[..1]);
    assert!(is_moderator(&fixture, 2, 5).await);
    assert!(!is_moderator(&fixture, 3, 5).await);

    apply(&fixture, &[], vec![Change::Guild(Guild { name: "New".to_owned(), ..guild(5) })]).await;
    assert_eq!(facts(&fixture, 2, 5).await.unwrap().name, "New");
    assert!(is_moderator(&fixture, 2, 5).await);

    apply(&fixture, &[], vec![Change::Guild(Guild { staff: Some(BTreeMap::new()), ..guild(5) })]).await;
    assert!(!is_moderator(&fixture, 2, 5).await);

    apply(&fixture, &[], vec![Change::Subscription(subscription(1, &[5]))]).await;
    assert_eq!(apply(&fixture, &topics, vec![Change::GuildGone(id(5)), Change::GuildGone(id(6))]).await, topics[..1]);
    assert_eq!(facts(&fixture, 2, 5).await, None);
    apply(&fixture, &[], vec![Change::Guild(guild(5))]).await;
    let back = facts(&fixture, 2, 5).await.unwrap();
    assert_eq!((back.granted, back.subscriptions), (PermissionSet::EMPTY, vec![subscription(1, &[5])]));
}

#[tokio::test]
async fn only_members_with_a_granting_role_are_staff() {
    let fixture = Fixture::new().await;
    apply(&fixture, &[], vec![Change::Guild(granting(5))]).await;
    let topics = [Topic::Id(id(2)), Topic::Id(id(5))];
    assert_eq!(apply(&fixture, &topics, vec![member(5, 2, &[71, MODERATOR])]).await, topics[..1]);
    assert!(is_moderator(&fixture, 2, 5).await);
    assert_eq!(apply(&fixture, &topics, vec![member(5, 2, &[71, 72])]).await, topics[..1]);
    assert!(!is_moderator(&fixture, 2, 5).await);
    assert!(apply(&fixture, &topics, vec![member(5, 2, &[72]), member(6, 2, &[MODERATOR])]).await.is_empty());
    assert_eq!(fixture.outside_count("guild_staff"), 0);

    apply(&fixture, &[], vec![member(5, 2, &[MODERATOR]), Change::MemberGone { guild: id(5), user: id(2) }]).await;
    assert_eq!(fixture.outside_count("guild_staff"), 0);
}

#[tokio::test]
async fn the_guilds_own_role_is_everyones_and_no_other_key_can_be_granted() {
    let fixture = Fixture::new().await;
    let keys = PermissionSet::of(&[Permission::Mod, Permission::Founder, Permission::ManageServer]);
    apply(&fixture, &[], vec![Change::Guild(Guild { grants: Some([(id(5), keys)].into()), ..guild(5) })]).await;
    apply(&fixture, &[], vec![member(5, 9, &[5])]).await;
    assert_eq!(fixture.outside_count("guild_staff"), 0);
    let granted = facts(&fixture, 9, 5).await.unwrap().granted;
    assert_eq!(granted, PermissionSet::of(&[Permission::Mod]));
}

#[tokio::test]
async fn changes_apply_all_or_none() {
    let fixture = Fixture::new().await;
    let broken = fixture.store.writer.write(|connection, touched| {
        crate::store::sqlite::changes::apply(connection, touched, &[Change::Guild(guild(5))])?;
        connection.execute("INSERT INTO nowhere VALUES (1)", []).map(drop)
    });
    let (outcome, touched) = fixture.touched(&[Topic::Id(id(5))], broken).await;
    assert!(outcome.is_err() && touched.is_empty());
    assert_eq!(facts(&fixture, 1, 5).await, None);
}

#[tokio::test]
async fn subscriptions_touch_old_and_new_guilds_and_their_owner() {
    let fixture = Fixture::new().await;
    let topics = [5, 6, 7, 8, 1, 2].map(|number| Topic::Id(id(number)));
    apply(&fixture, &[], [5, 6, 7].map(|number| Change::Guild(guild(number))).to_vec()).await;
    let put = |user, guilds: &[u64]| vec![Change::Subscription(subscription(user, guilds))];
    apply(&fixture, &[], put(2, &[8, 6])).await;
    assert_eq!(apply(&fixture, &topics, put(1, &[7, 5])).await, [topics[0], topics[2], topics[4]]);
    assert_eq!(apply(&fixture, &topics, put(1, &[6, 5, 6])).await, [topics[0], topics[1], topics[2], topics[4]]);

    let person = fixture.store.person(id(1), vec![id(7), id(6), id(404), id(6)]).await.unwrap();
    assert_eq!(person.subscription, Some(subscription(1, &[6, 5])));
    let shown: Vec<_> = person.guilds.into_iter().map(|guild| (guild.id, guild.subscriptions)).collect();
    assert_eq!(
        shown,
        [(id(6), vec![subscription(1, &[6, 5]), subscription(2, &[8, 6])]), (id(7), Vec::new())],
        "in the given order, and each guild once"
    );
    let gone = apply(&fixture, &topics, vec![Change::SubscriptionGone(id(1))]).await;
    assert_eq!(gone, [topics[0], topics[1], topics[4]]);
    assert!(apply(&fixture, &topics, vec![Change::SubscriptionGone(id(1))]).await.is_empty());
    assert_eq!(fixture.store.person(id(1), Vec::new()).await.unwrap().subscription, None);
}

#[tokio::test]
async fn the_roster_is_written_whole_and_touches_old_and_new_members() {
    let fixture = Fixture::new().await;
    let topics = [Topic::Team, Topic::Id(id(1)), Topic::Id(id(2)), Topic::Id(id(3))];
    let founder = [Permission::Founder];
    let first = roster(&[(2, &founder), (1, &[])]);
    assert_eq!(apply(&fixture, &topics, vec![Change::Team(first.clone())]).await, topics[..3]);
    assert_eq!(fixture.store.team().await.unwrap(), first);

    // Named twice, and with a key that the roster may not grant.
    let second = roster(&[(3, &founder), (3, &[Permission::Support, Permission::Admin])]);
    assert_eq!(apply(&fixture, &topics, vec![Change::Team(second)]).await, topics);
    let granted = PermissionSet::of(&[Permission::Founder, Permission::Support]);
    assert_eq!(fixture.store.person(id(3), Vec::new()).await.unwrap().team, granted);
    assert_eq!(fixture.store.person(id(2), Vec::new()).await.unwrap().team, PermissionSet::EMPTY);
}

#[tokio::test]
async fn a_new_profile_reaches_roster_and_feedback() {
    let fixture = Fixture::new().await;
    let topics = [Topic::Team, Topic::Feedback];
    apply(&fixture, &[], vec![Change::Team(roster(&[(1, &[])])), Change::Feedback(entry("x", 5, 2))]).await;
    let new = |user| Change::User(crate::domain::User { name: "New".to_owned(), ..person(user) });
    assert_eq!(apply(&fixture, &topics, vec![new(1)]).await, topics[..1]);
    assert_eq!(apply(&fixture, &topics, vec![new(2)]).await, topics[1..]);
    assert!(apply(&fixture, &topics, vec![new(1), new(2), new(3)]).await.is_empty(), "nothing new");
    assert_eq!(fixture.store.team().await.unwrap().0[0].member.name, "New");
    assert_eq!(fixture.store.sample_feedback(1).await.unwrap().entries[0].1.entry.submitter.name, "New");
}

#[tokio::test]
async fn feedback_is_drawn_among_the_positive() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.store.sample_feedback(1).await.unwrap(), crate::store::Sample::default());
    let topics = [Topic::Feedback];
    let put = |name: &str, rating| vec![Change::Feedback(entry(name, rating, 1))];
    assert!(apply(&fixture, &topics, put("bad", 3)).await.is_empty());
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        assert_eq!(apply(&fixture, &topics, put(name, 4)).await, topics);
    }
    let first = fixture.store.sample_feedback(1).await.unwrap();
    assert_eq!(first, fixture.store.sample_feedback(1).await.unwrap(), "a seed says it all");
    assert_eq!((first.count, first.entries.len()), (7, SHOWN));
    for (_, drawn) in &first.entries {
        assert_eq!(*drawn, entry(&drawn.id, 4, 1));
    }
    assert_ne!(first, fixture.store.sample_feedback(2).await.unwrap());
    assert_eq!(apply(&fixture, &topics, vec![Change::FeedbackGone("a".to_owned())]).await, topics);
    assert!(apply(&fixture, &topics, vec![Change::FeedbackGone("a".to_owned())]).await.is_empty());
    assert_eq!(fixture.store.sample_feedback(1).await.unwrap().count, 6);
}

fn memory() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrations::run(&mut connection).unwrap();
    connection
}

fn slots(connection: &Connection) -> BTreeMap<i64, String> {
    let mut statement = connection.prepare("SELECT slot, id FROM feedback WHERE slot IS NOT NULL").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Rating 0 stands for a removal.
    #[test]
    fn the_slots_of_positive_entries_have_no_gap(steps in prop::collection::vec((0_u8..12, 0_u8..=5), 1..60), seed: u64) {
        let connection = memory();
        let mut model: BTreeMap<String, u8> = BTreeMap::new();
        let mut touched = Vec::new();
        for (name, rating) in steps {
            let name = name.to_string();
            if rating == 0 {
                feedback::remove(&connection, &mut touched, &name).unwrap();
                model.remove(&name);
            } else {
                feedback::put(&connection, &mut touched, &entry(&name, rating, 1)).unwrap();
                model.insert(name, rating);
            }
            let positive: BTreeSet<_> = model.iter().filter(|(_, rating)| **rating >= 4).map(|(name, _)| name.clone()).collect();
            let slots = slots(&connection);
            prop_assert!(slots.keys().copied().eq(0..i64::try_from(positive.len()).unwrap()), "{slots:?}");
            prop_assert_eq!(slots.into_values().collect::<BTreeSet<_>>(), positive.clone());
            let sample = feedback::sample(&connection, seed).unwrap();
            let drawn: BTreeSet<_> = sample.entries.iter().map(|(_, entry)| entry.id.clone()).collect();
            prop_assert_eq!(drawn.len(), positive.len().min(SHOWN));
            prop_assert!(drawn.is_subset(&positive));
        }
    }
}

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![1_i64; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>("detail"));
    rows.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[test]
fn no_statement_of_a_hot_path_walks_a_table_or_sorts() {
    let connection = memory();
    for (sql, index) in [
        (feedback::BY_SLOT, "feedback_slot"),
        (sessions::OVERDUE_BY_LAST_SEEN, "sessions_last_seen"),
        (sessions::OVERDUE_BY_CREATED, "sessions_created"),
        (sessions::LEFT_BEHIND, "users_signing_in"),
        (sessions::OF_USER, "sessions_user"),
    ] {
        let plan = plan(&connection, sql);
        assert!(plan.contains(index), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
    // Walks the index from its end, and stops at the first.
    let plan = plan(&connection, feedback::LAST_SLOT);
    assert!(plan.contains("feedback_slot") && !plan.contains("TEMP B-TREE"), "{plan}");
}

#[tokio::test]
async fn what_is_broken_in_the_file_breaks_nothing_else() {
    let fixture = Fixture::new().await;
    fixture.sign_in(1, 1).await;
    fixture.sign_in(1, 2).await;
    apply(
        &fixture,
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
    let outside = fixture.outside();
    let broken = "UPDATE guilds SET grants = '{\"70\": [\"MO' WHERE id = 5;
        UPDATE guilds SET owner = -4 WHERE id = 6;
        UPDATE team SET permissions = 'x' WHERE discord_id = 1;
        UPDATE team SET discord_id = 0 WHERE discord_id = 2;
        UPDATE feedback SET submitter_id = 0 WHERE id = 'x';
        UPDATE sessions SET id = 'short' WHERE id LIKE '%1';
        UPDATE users SET list = '[{\"id\": \"5\", \"permissions\": 0}, 7]', list_fetched = 9;";
    outside.execute_batch(broken).unwrap();

    let person = fixture.store.person(id(1), vec![id(5), id(6), id(7)]).await.unwrap();
    assert_eq!(person.guilds.iter().map(|guild| guild.id.get()).collect::<Vec<_>>(), [5, 7]);
    assert_eq!(fixture.store.team().await.unwrap().0.len(), 1);
    assert_eq!(fixture.store.sample_feedback(1).await.unwrap().entries.len(), 1);
    assert_eq!(fixture.store.sessions_of(id(1)).await.unwrap(), [session(1, 2)]);
    assert_eq!(fixture.store.account(id(1)).await.unwrap().unwrap().list.unwrap().guilds.len(), 1);
    apply(&fixture, &[], vec![member(5, 1, &[MODERATOR]), Change::Team(roster(&[]))]).await;
}

#[tokio::test]
async fn heartbeats_merge_and_write_only_what_changed() {
    let fixture = Fixture::new().await;
    let beat = |instance: &str, started: u64, ids: std::ops::Range<u32>| Heartbeat {
        instance: crate::store::tests::instance(instance),
        started_at: Time::from_seconds(started),
        memory: 1000,
        shard_count: 4,
        shards: ids.map(|id| ShardBeat { id, sent: Some(NOW), acknowledged: None, latency: Some(1.5) }).collect(),
    };
    let mut expected = crate::domain::Health::default();
    for (instance, started, shards) in [("a", 1, 0..2), ("b", 2, 2..4)] {
        expected.merge(beat(instance, started, shards.clone()), NOW);
        let work = fixture.store.beat(beat(instance, started, shards), NOW);
        let (outcome, touched) = fixture.touched(&[Topic::Health], work).await;
        outcome.unwrap();
        assert_eq!(touched, [Topic::Health]);
    }
    assert_eq!(fixture.store.health().await.unwrap(), expected);

    let next = NOW.after(Duration::from_secs(15));
    expected.merge(beat("b", 2, 2..4), next);
    let again = beat("b", 2, 2..4);
    let rows = fixture.store.writer.write(move |connection, touched| {
        let before = connection.total_changes();
        crate::store::sqlite::health::beat(connection, touched, again, next)?;
        Ok(connection.total_changes() - before)
    });
    assert_eq!(rows.await.unwrap(), 3, "one process and its two shards");

    let much_later = NOW.after(Duration::from_secs(1000));
    let smaller = Heartbeat { shard_count: 1, ..beat("c", 900, 0..1) };
    expected.merge(smaller.clone(), much_later);
    fixture.store.beat(smaller, much_later).await.unwrap();
    assert_eq!(expected.shards.len(), 1);
    assert_eq!(fixture.store.health().await.unwrap(), expected);
    assert_eq!(fixture.reopened().await.store.health().await.unwrap(), expected);
}
