//! An acknowledged change is visible in the very next read, however warm the caches are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::{Change, Guild, User};
use sandbox::people::{MEMBER, MODERATOR};
use serde_json::json;

use crate::harness::{Client, TestApp, feedback, guild, id, listed, names, subscription, team, team_member};

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
