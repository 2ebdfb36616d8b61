//! An acknowledged change is visible in the very next read, however warm the caches are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::health::Heartbeat;
use domain::{Change, Guild, Permission, User};
use provider::idp::Endpoint;
use sandbox::people::{MEMBER, MODERATOR};
use serde_json::json;

use crate::harness::{
    Client, START, TestApp, feedback, grants, guild, id, instance, listed, names, staff, subscription, team,
    team_member, true_keys,
};

/// Two people who share guilds 1, 2 and 3; `member` owns the first two.
struct Warm {
    app: TestApp,
    member: Client,
    moderator: Client,
}

impl Warm {
    async fn start() -> Self {
        let app = TestApp::start().await;
        for person in ["member", "moderator"] {
            app.sandbox.edit(person, |person| person.guilds = (1..=3).map(|number| listed(number, 0)).collect());
        }
        app.bot_says([guild(1, "one", MEMBER), guild(2, "two", MEMBER), guild(3, "three", 7)].map(Change::Guild)).await;
        let (member, moderator) = (app.user("member").await, app.user("moderator").await);
        let warm = Self { app, member, moderator };
        warm.warmed().await;
        warm
    }

    /// Every answer is read twice, so that the second comes from memory.
    async fn warmed(&self) {
        for _ in 0..2 {
            for client in [&self.member, &self.moderator] {
                client.guilds().await;
            }
            for path in ["/", "/team", "/feedback"] {
                assert_eq!(self.app.anon().get(path).await.status, 200);
            }
        }
    }

    /// Warms everything, makes the bot send this, and leaves the next read to the test.
    async fn says(&self, changes: impl IntoIterator<Item = Change>) {
        self.warmed().await;
        self.app.bot_says(changes).await;
    }
}

/// What a person sees: names with roles and granted permissions.
async fn seen(client: &Client) -> Vec<String> {
    let guilds = client.guilds().await;
    let entry = |entry: &serde_json::Value| {
        let role = entry.get("role").map_or("-", |role| role.as_str().unwrap());
        let keys = true_keys(entry);
        let keys: Vec<_> = keys.into_iter().filter(|key| role != "Owner" || key.contains("PLUS")).collect();
        format!("{} {role} {}", entry["name"].as_str().unwrap(), keys.join(" ")).trim_end().to_owned()
    };
    guilds.iter().map(entry).collect()
}

#[tokio::test]
async fn a_guild_changes_for_everyone_in_it() {
    let warm = Warm::start().await;
    warm.says([Change::Guild(Guild { members: 11, setup: true, ..guild(3, "new name", MODERATOR) })]).await;
    assert_eq!(seen(&warm.member).await, ["one Owner", "two Owner", "new name - SETUP"]);
    assert_eq!(seen(&warm.moderator).await, ["new name Owner", "one -", "two -"]);
    assert_eq!(warm.member.guilds().await[2]["members"], 11);
}

#[tokio::test]
async fn a_guild_goes_and_comes_back() {
    let warm = Warm::start().await;
    warm.says([Change::GuildGone(id(2))]).await;
    assert_eq!(seen(&warm.member).await, ["one Owner", "three -"]);
    assert_eq!(seen(&warm.moderator).await, ["one -", "three -"]);
    warm.says([Change::Guild(guild(2, "two", MEMBER))]).await;
    assert_eq!(seen(&warm.member).await, ["one Owner", "two Owner", "three -"]);
    assert_eq!(seen(&warm.moderator).await, ["one -", "three -", "two -"]);
    assert_eq!(warm.app.sandbox.calls(Endpoint::Guilds), 2, "the provider was not asked again");
}

#[tokio::test]
async fn a_guild_that_comes_back_has_forgotten_its_staff() {
    let warm = Warm::start().await;
    let staffed = Guild {
        grants: Some(grants(&[(500, &[Permission::Mod])])),
        staff: Some(staff(&[(MODERATOR, &[500])])),
        ..guild(2, "two", MEMBER)
    };
    warm.says([Change::Guild(staffed)]).await;
    assert_eq!(seen(&warm.moderator).await, ["two Moderator MOD", "one -", "three -"]);
    warm.says([
        Change::GuildGone(id(2)),
        Change::Guild(Guild { grants: None, staff: None, ..guild(2, "two", MEMBER) }),
    ])
    .await;
    assert_eq!(seen(&warm.moderator).await, ["one -", "three -", "two -"]);
}

#[tokio::test]
async fn a_member_gains_and_loses_roles() {
    let warm = Warm::start().await;
    let mapped = grants(&[(500, &[Permission::Mod]), (501, &[Permission::ErlcAdmin])]);
    warm.says([Change::Guild(Guild { grants: Some(mapped), ..guild(3, "three", 7) })]).await;
    assert_eq!(seen(&warm.moderator).await, ["one -", "three -", "two -"]);
    let roles = |roles: &[u64]| Change::Member {
        guild: id(3),
        user: id(MODERATOR),
        roles: roles.iter().copied().map(id).collect(),
    };
    for (given, expected) in [
        (&[500][..], "three Moderator MOD"),
        (&[500, 501, 502], "three Administrator ERLC_STAFF ERLC_ADMIN MOD"),
        (&[501], "three Administrator ERLC_STAFF ERLC_ADMIN"),
    ] {
        warm.says([roles(given)]).await;
        assert_eq!(seen(&warm.moderator).await, [expected, "one -", "two -"]);
    }
    warm.says([roles(&[502])]).await;
    assert_eq!(seen(&warm.moderator).await, ["one -", "three -", "two -"]);
    assert_eq!(seen(&warm.member).await, ["one Owner", "two Owner", "three -"], "nobody else was meant");
}

#[tokio::test]
async fn a_guild_changes_the_grants_of_its_roles() {
    let warm = Warm::start().await;
    let mapped =
        |key: Permission| Guild { grants: Some(grants(&[(500, &[key])])), staff: None, ..guild(3, "three", 7) };
    let member = Change::Member { guild: id(3), user: id(MODERATOR), roles: vec![id(500)] };
    warm.says([Change::Guild(mapped(Permission::Mod)), member]).await;
    assert_eq!(seen(&warm.moderator).await[0], "three Moderator MOD");
    warm.says([Change::Guild(mapped(Permission::ErlcStaff))]).await;
    assert_eq!(seen(&warm.moderator).await[0], "three Moderator ERLC_STAFF");
    let kept = Guild { grants: None, staff: None, ..guild(3, "renamed", 7) };
    warm.says([Change::Guild(kept)]).await;
    assert_eq!(seen(&warm.moderator).await[0], "renamed Moderator ERLC_STAFF", "what is left out stays");
}

#[tokio::test]
async fn a_member_leaves() {
    let warm = Warm::start().await;
    warm.says([Change::MemberGone { guild: id(3), user: id(MODERATOR) }]).await;
    assert_eq!(seen(&warm.moderator).await, ["one -", "two -"]);
    assert_eq!(seen(&warm.member).await.len(), 3, "the others stay");
}

#[tokio::test]
async fn a_subscription_moves_from_one_guild_to_another() {
    let warm = Warm::start().await;
    let plus = |guilds: &[u64]| Change::Subscription(subscription(MEMBER, guilds, None));
    warm.says([plus(&[1])]).await;
    let (guild_plus, member_plus) = ("SERVICE_PLUS_GUILD", "SERVICE_PLUS_MEMBER");
    let one = [format!("one Owner {guild_plus} {member_plus}"), format!("two Owner {member_plus}")];
    assert_eq!(seen(&warm.member).await[..2], one);
    assert_eq!(seen(&warm.moderator).await, [&format!("one - {guild_plus}"), "three -", "two -"]);
    warm.says([plus(&[2])]).await;
    let two = [format!("one Owner {member_plus}"), format!("two Owner {guild_plus} {member_plus}")];
    assert_eq!(seen(&warm.member).await[..2], two);
    assert_eq!(seen(&warm.moderator).await, ["one -", "three -", &format!("two - {guild_plus}")]);
    warm.says([Change::SubscriptionGone(id(MEMBER))]).await;
    assert_eq!(seen(&warm.member).await[..2], ["one Owner", "two Owner"]);
    assert_eq!(seen(&warm.moderator).await, ["one -", "three -", "two -"]);
}

#[tokio::test]
async fn a_subscription_changes_for_those_who_do_not_own_it() {
    let warm = Warm::start().await;
    warm.says([Change::Subscription(subscription(9, &[1, 50], None))]).await;
    let record = async || warm.moderator.guilds().await[0]["plus"]["plus"].clone();
    assert_eq!(record().await, json!({"userid": "9", "guilds": ["1", "50"], "slots": 3}));
    warm.says([Change::Subscription(subscription(9, &[1, 51], None))]).await;
    assert_eq!(record().await["guilds"], json!(["1", "51"]), "the guilds that nobody here is in show too");
    warm.says([Change::SubscriptionGone(id(9))]).await;
    assert_eq!(record().await, json!({"userid": "", "guilds": [], "slots": 0}));
}

#[tokio::test]
async fn the_roster_grants_and_takes_keys() {
    let warm = Warm::start().await;
    let roster = |keys: &[Permission], other: &[Permission]| {
        team(vec![team_member(MEMBER, "Pip", "a", 1, keys), team_member(MODERATOR, "Sam", "a", 2, other)])
    };
    warm.says([roster(&[Permission::Support], &[])]).await;
    assert_eq!(seen(&warm.member).await[2], "three - SUPPORT");
    assert_eq!(seen(&warm.moderator).await[0], "one -");
    warm.says([roster(&[], &[Permission::Executive])]).await;
    assert_eq!(seen(&warm.member).await[2], "three -");
    assert_eq!(seen(&warm.moderator).await[0], "one - EXECUTIVE MANAGEMENT");
    warm.says([team(vec![])]).await;
    assert_eq!(seen(&warm.moderator).await[0], "one -", "who is off the roster has no keys");
    assert_eq!(warm.app.anon().get("/team").await.data(), json!([]));
}

#[tokio::test]
async fn feedback_comes_changes_and_goes() {
    let warm = Warm::start().await;
    let texts = async || {
        let shown = warm.app.anon().get("/feedback").await.data();
        let mut texts: Vec<_> =
            shown.as_array().unwrap().iter().map(|entry| entry["feedback"].as_str().unwrap().to_owned()).collect();
        texts.sort();
        texts
    };
    warm.says([Change::Feedback(feedback("a", 5)), Change::Feedback(feedback("b", 4))]).await;
    assert_eq!(texts().await, ["a says 5", "b says 4"]);
    warm.says([Change::Feedback(feedback("a", 4))]).await;
    assert_eq!(texts().await, ["a says 4", "b says 4"]);
    warm.says([Change::Feedback(feedback("b", 3))]).await;
    assert_eq!(texts().await, ["a says 4"]);
    warm.says([Change::Feedback(feedback("b", 5)), Change::FeedbackGone("a".to_owned())]).await;
    assert_eq!(texts().await, ["b says 5"]);
    warm.says([Change::FeedbackGone("b".to_owned()), Change::FeedbackGone("never".to_owned())]).await;
    assert_eq!(texts().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_profile_changes_wherever_it_shows() {
    let warm = Warm::start().await;
    warm.says([Change::Feedback(feedback("a", 5)), team(vec![team_member(4242, "A", "x", 1, &[])])]).await;
    let profile = User {
        id: id(4242),
        username: "renamed".to_owned(),
        name: "Renamed".to_owned(),
        avatar: "https://example.com/new.png".into(),
    };
    warm.says([Change::User(profile)]).await;
    let anyone = warm.app.anon();
    let entry = anyone.get("/feedback").await.data()[0].clone();
    let submitter = json!({
        "username": "renamed", "name": "Renamed", "id": "4242", "avatar": "https://example.com/new.png"
    });
    assert_eq!(entry["submitter"], submitter);
    assert_eq!(anyone.get("/team").await.data()[0]["username"], "renamed");
}

#[tokio::test]
async fn a_heartbeat_shows_at_once() {
    let warm = Warm::start().await;
    for memory in [1_000_000, 2_000_000] {
        warm.warmed().await;
        let heartbeat = Heartbeat {
            instance: instance("a"),
            started_at: START,
            memory,
            shard_count: 1,
            shards: Vec::new(),
            leaving: false,
        };
        warm.app.app.store.record_heartbeat(heartbeat, START).await.unwrap();
        let shown = warm.app.anon().get("/").await.data();
        assert_eq!(shown["resources"]["memory"], json!(memory / 1_000_000).as_f64().unwrap());
    }
}

#[tokio::test]
async fn of_several_changes_in_one_step_the_last_word_counts() {
    let warm = Warm::start().await;
    let last = Change::Guild(guild(1, "last word", MEMBER));
    warm.says([Change::Guild(guild(1, "x", MEMBER)), Change::GuildGone(id(1)), last]).await;
    assert_eq!(seen(&warm.member).await, ["last word Owner", "two Owner", "three -"]);
}

#[tokio::test]
async fn what_another_process_writes_shows_with_the_next_look() {
    let warm = Warm::start().await;
    let other = warm.app.replica().await;
    other.bot_says([Change::Guild(guild(1, "written beside", MEMBER))]).await;
    crate::harness::eventually("the other's word is seen", async || {
        names(&warm.member.guilds().await).contains(&"written beside")
    })
    .await;
}

/// A read that begins after an acknowledgement sees the change, or something later, while others read and the writer continues.
#[tokio::test]
async fn no_reader_ever_sees_less_than_what_was_acknowledged_before_it_asked() {
    let warm = Arc::new(Warm::start().await);
    let (acknowledged, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let version = |number: u64| {
        let mut words = feedback("v", 5);
        words.entry.timestamp = number;
        let mut one = team_member(1, "v", "x", 0, &[]);
        one.member.position = i64::try_from(number).unwrap();
        [Change::Guild(Guild { members: number, ..guild(1, "one", MEMBER) }), Change::Feedback(words), team(vec![one])]
    };
    warm.app.bot_says(version(0)).await;
    let readers: Vec<_> = (0..6)
        .map(|index| {
            let (warm, acknowledged, done) = (Arc::clone(&warm), Arc::clone(&acknowledged), Arc::clone(&done));
            tokio::spawn(async move {
                let anyone = warm.app.anon();
                let mut reads = 0_u64;
                while !done.load(Ordering::SeqCst) {
                    let floor = acknowledged.load(Ordering::SeqCst);
                    let shown = match index % 4 {
                        0 => warm.member.guilds().await[0]["members"].as_u64(),
                        1 => warm.moderator.guilds().await[0]["members"].as_u64(),
                        2 => anyone.get("/team").await.data()[0]["position"].as_u64(),
                        _ => anyone.get("/feedback").await.data()[0]["timestamp"].as_u64(),
                    };
                    assert!(shown.unwrap() >= floor, "reader {index} saw {shown:?} after {floor} was acknowledged");
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    for number in 1..=200 {
        warm.app.bot_says(version(number)).await;
        acknowledged.store(number, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert_eq!(warm.member.guilds().await[0]["members"], 200);
}

#[tokio::test]
async fn a_session_that_ends_is_refused_from_the_very_next_read() {
    let warm = Warm::start().await;
    warm.warmed().await;
    assert_eq!(warm.member.delete("/auth").send().await.status, 200);
    assert_eq!(warm.member.get("/guilds").await.error(), "token_invalid");
    warm.app.app.accounts.block(id(MODERATOR), "test".to_owned()).await.unwrap();
    assert_eq!(warm.moderator.get("/guilds").await.error(), "token_invalid");
}
