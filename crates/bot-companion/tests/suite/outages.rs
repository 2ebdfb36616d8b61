//! The store is away: cached answers are served stale for a minute (stale-if-error), then the service says so, and it recovers
//! on its own.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::health::Heartbeat;
use domain::token::{self, TokenKind};
use domain::{Change, Permission};
use provider::idp::Endpoint;
use runtime::random::secret_bytes;
use sandbox::people::{HARBOUR, OWNER};
use secrecy::ExposeSecret;

use crate::harness::{Answer, Client, Disk, START, TestApp, eventually, feedback, guild, instance, team, team_member};

const ENTRIES: usize = 12;
const MINUTE: Duration = Duration::from_mins(1);

/// Gives the service data, and requests all of it, also as a user.
async fn warmed(app: &TestApp) -> Client {
    let entries = (0..ENTRIES).map(|number| Change::Feedback(feedback(&format!("entry-{number}"), 5)));
    let roster = team(vec![team_member(1, "Ann", "a", 1, &[Permission::Founder])]);
    let harbour = Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER));
    app.bot_says(entries.chain([roster, harbour])).await;
    let heartbeat = Heartbeat {
        instance: instance("a"),
        started_at: START,
        memory: 5_000_000,
        shard_count: 1,
        shards: vec![],
        leaving: false,
    };
    app.app.sources.store.record_heartbeat(heartbeat, START).await.unwrap();
    let owner = app.user("owner").await;
    for answer in everything(app, &owner).await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    filled(app).await;
    owner
}

/// Everything cached: status, team, feedback, and the user's guilds, as they are and with a refresh.
async fn everything(app: &TestApp, user: &Client) -> [Answer; 5] {
    let anyone = app.anon();
    [
        anyone.get("/").await,
        anyone.get("/team").await,
        anyone.get("/feedback").await,
        user.get("/guilds").await,
        user.call(reqwest::Method::GET, "/guilds").header("Cache-Control", "no-cache").send().await,
    ]
}

#[tokio::test]
async fn stale_answers_are_served_for_a_minute_and_no_longer() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    let owner = warmed(&app).await;
    app.clock.advance(Duration::from_secs(40));
    let before = everything(&app, &owner).await;
    assert_eq!(before[0].data()["health"]["bot"]["uptime"]["readable"], "40 seconds");
    let calls = app.sandbox.calls(Endpoint::Guilds);

    let lost = disk.fails().await;
    for waited in [Duration::ZERO, MINUTE] {
        app.clock.advance(waited);
        let [status, team, feedback, guilds, forced] = everything(&app, &owner).await;
        assert_eq!(status.status, 200, "{}", status.text());
        assert_eq!(team.text(), before[1].text());
        assert_eq!(feedback.data().as_array().unwrap().len(), 5);
        assert_eq!((guilds.status, forced.status), (200, 200), "{} {}", guilds.text(), forced.text());
        assert_eq!((guilds.data(), forced.data()), (before[3].data(), before[4].data()));
    }
    let silent = app.anon().get("/").await.data();
    assert_eq!(silent["health"]["bot"]["uptime"]["readable"], "offline", "the bot has been silent for 100 seconds");

    app.clock.advance(Duration::from_millis(1));
    for answer in everything(&app, &owner).await {
        answer.refused(503, "store_unavailable").retry_after();
    }
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), calls, "the provider was left alone");

    disk.recovers(lost).await;
    for answer in everything(&app, &owner).await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    app.bot_says([Change::Guild(guild(HARBOUR.id, "renamed", OWNER))]).await;
    assert_eq!(owner.guilds().await[0]["name"], "renamed", "and an acknowledged change is in the very next read");
}

#[tokio::test]
async fn what_needs_the_store_says_when_to_come_back() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    let owner = warmed(&app).await;
    let stranger = app.anon().with_token(token::generate(TokenKind::Session, secret_bytes).expose_secret());
    let lost = disk.fails().await;
    for answer in [owner.get("/sessions").await, stranger.get("/guilds").await] {
        answer.refused(503, "store_unavailable").retry_after();
    }
    disk.recovers(lost).await;
    assert_eq!(owner.get("/sessions").await.status, 200);
    stranger.get("/guilds").await.refused(401, "token_invalid");
    app.user("member").await;
}

/// Waits until the public views contain the current data, without requesting any of them.
pub async fn filled(app: &TestApp) {
    let views = &app.app.views;
    eventually("the public views are filled", async || {
        views.team.with_cached(|_| Some(())).is_some()
            && views.feedback.cached(7).is_some()
            && views.stats.with_cached(|_| Some(())).is_some()
            && views.status.cached(app.clock.now(), || (None, Duration::ZERO)).is_some()
            && views.are_warm()
    })
    .await;
}

/// The site's pages that show what the bot has said.
const PAGES: [&str; 5] = ["/site/", "/site/status", "/site/incidents.atom", "/site/incidents.json", "/site/roles.css"];

async fn public(app: &TestApp) -> [Answer; 4] {
    let anyone = app.anon();
    [anyone.get("/").await, anyone.get("/team").await, anyone.get("/feedback").await, anyone.get("/stats").await]
}

#[tokio::test]
async fn a_replica_that_was_never_asked_answers_from_memory_all_the_same() {
    let app = TestApp::start().await;
    let entries = (0..3).map(|number| Change::Feedback(feedback(&format!("entry-{number}"), 5)));
    let roster = team(vec![team_member(1, "Ann", "a", 1, &[Permission::Founder])]);
    app.bot_says(entries.chain([roster])).await;
    let replica = app.replica().await;
    let disk = Disk::under(&replica).await;
    filled(&replica).await;
    let lost = disk.fails().await;
    for waited in [Duration::ZERO, MINUTE] {
        replica.clock.advance(waited);
        let [status, team, feedback, stats] = public(&replica).await;
        assert_eq!((status.status, team.status, feedback.status), (200, 200, 200), "{}", feedback.text());
        assert_eq!(stats.data()["feedback"]["count"], 3, "{}", stats.text());
        assert_eq!(team.data()[0]["name"], "Ann");
        assert_eq!(feedback.data().as_array().unwrap().len(), 3);
        for page in PAGES {
            let answer = replica.anon().get(page).await;
            assert_eq!(answer.status, 200, "{page}: {}", answer.text());
        }
    }
    assert_eq!(replica.anon().get("/ready").await.status, 200, "no replica would be left");
    replica.clock.advance(Duration::from_millis(1));
    for answer in public(&replica).await {
        answer.refused(503, "store_unavailable").retry_after();
    }
    disk.recovers(lost).await;
    for answer in public(&replica).await {
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn what_changed_is_read_again_before_anybody_asks() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    filled(&app).await;
    app.clock.advance(10 * MINUTE);
    let roster = team(vec![team_member(1, "Ann", "a", 1, &[Permission::Founder])]);
    app.bot_says([roster, Change::Feedback(feedback("new", 5))]).await;
    let heartbeat = Heartbeat {
        instance: instance("a"),
        started_at: START,
        memory: 5_000_000,
        shard_count: 1,
        shards: vec![],
        leaving: false,
    };
    app.app.sources.store.record_heartbeat(heartbeat, app.clock.now()).await.unwrap();
    filled(&app).await;
    let lost = disk.fails().await;
    app.clock.advance(MINUTE);
    let [status, team, feedback, stats] = public(&app).await;
    assert_eq!((status.status, team.status, feedback.status), (200, 200, 200), "{}", team.text());
    assert_eq!(status.data()["resources"]["memory"], 5.0);
    assert_eq!(team.data()[0]["name"], "Ann");
    assert_eq!(feedback.data()[0]["feedback"], "new says 5");
    assert_eq!(stats.data()["feedback"]["average"], 5.0, "{}", stats.text());
    disk.recovers(lost).await;
}

#[tokio::test]
async fn an_outage_right_after_a_change_shows_what_was_right_until_then() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    filled(&app).await;
    app.clock.advance(10 * MINUTE);
    // Created ten minutes ago, but checked since, and still right then.
    eventually("the views are warm", async || app.app.views.are_warm()).await;
    let lost = disk.fails().await;
    // What nobody can read any more has changed, too.
    app.app.sources.freshness.invalidate_all();
    app.clock.advance(MINUTE);
    for answer in public(&app).await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    app.clock.advance(Duration::from_millis(1));
    for answer in public(&app).await {
        answer.refused(503, "store_unavailable");
    }
    disk.recovers(lost).await;
}

#[tokio::test]
async fn a_second_outage_has_a_minute_of_its_own() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    let owner = warmed(&app).await;
    for _ in 0..2 {
        filled(&app).await;
        let lost = disk.fails().await;
        app.clock.advance(MINUTE);
        for answer in everything(&app, &owner).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        disk.recovers(lost).await;
        for answer in everything(&app, &owner).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn feedback_from_memory_shows_each_of_the_entries_that_are_there() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    warmed(&app).await;
    let ids = |answer: &Answer| -> BTreeSet<String> {
        let entries = answer.data().as_array().unwrap().clone();
        entries.iter().map(|entry| entry["feedback"].as_str().unwrap().to_owned()).collect()
    };
    let known = ids(&app.anon().get("/feedback").await);
    let lost = disk.fails().await;
    let mut shown = BTreeSet::new();
    // Often enough that chance leaves none out.
    for _ in 0..60 {
        let five = ids(&app.anon().get("/feedback").await);
        assert_eq!(five.len(), 5, "no entry twice");
        shown.extend(five);
    }
    assert!(shown.is_superset(&known), "{known:?} of {shown:?}");
    disk.recovers(lost).await;
}
