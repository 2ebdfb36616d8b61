//! Live streams: what they say, when, to whom, and how they end.

use std::time::Duration;

use domain::Change;
use domain::history::announcement::Notice;
use http::Method;
use provider::idp::Endpoint;
use sandbox::people::OWNER;
use telemetry::metrics::{CacheName, CacheOutcome};

use crate::guilds::{member_in, others};
use crate::harness::{
    Client, LiveStream, ORIGIN, START, TestApp, Wire, eventually, feedback, guild, id, listed, request, subscription,
    team, team_member,
};

const PUBLIC: [&str; 4] = ["status", "team", "feedback", "stats"];
const ALL: [&str; 7] = ["status", "team", "feedback", "stats", "guilds", "sessions", "me"];
const SECOND: Duration = Duration::from_secs(1);

async fn open(client: &Client, path: &str) -> LiveStream {
    client.call(Method::GET, path).open().await
}

/// A stream whose first event was read.
async fn listening(client: &Client, path: &str, first: &[&str]) -> LiveStream {
    let mut stream = open(client, path).await;
    assert_eq!(stream.changed().await, first);
    stream
}

/// The topics of the next event, once the second between two events is over.
async fn next(app: &TestApp, stream: &mut LiveStream) -> Vec<String> {
    app.clock.advance(SECOND);
    stream.changed().await
}

/// All topics reported until this one is.
async fn heard(app: &TestApp, stream: &mut LiveStream, topic: &str) -> Vec<String> {
    let mut told = Vec::new();
    while !told.contains(&topic.to_owned()) {
        told.extend(next(app, stream).await);
    }
    told
}

#[tokio::test]
async fn anybody_hears_what_to_read_again() {
    let app = TestApp::start().await;
    let mut stream = open(&app.anon(), "/live").await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.headers["cache-control"], "no-store");
    assert_eq!(stream.headers["x-accel-buffering"], "no");
    assert_eq!(stream.headers["access-control-allow-origin"], "*");
    let first = stream.message().await.unwrap();
    let retry = first.strip_prefix("retry: ").and_then(|rest| rest.split_once('\n')).unwrap();
    assert!((1000..4000).contains(&retry.0.parse::<u64>().unwrap()), "{first}");
    assert_eq!(retry.1, "event: changed\ndata: {\"changed\":[\"status\",\"team\",\"feedback\",\"stats\"]}");
    app.bot_says([team(vec![team_member(1, "Ada", "staff", 1, &[])])]).await;
    assert_eq!(next(&app, &mut stream).await, ["team"]);
    app.bot_says([Change::Feedback(feedback("1", 5))]).await;
    let told = next(&app, &mut stream).await;
    assert!(told.contains(&"feedback".to_owned()) && !told.contains(&"team".to_owned()), "{told:?}");
}

#[tokio::test]
async fn what_happens_within_a_second_is_said_together() {
    let app = TestApp::start().await;
    let mut stream = listening(&app.anon(), "/live", &PUBLIC).await;
    app.bot_says([team(vec![team_member(1, "Ada", "staff", 1, &[])])]).await;
    app.bot_says([Change::Feedback(feedback("1", 5))]).await;
    let told = next(&app, &mut stream).await;
    assert!(told.contains(&"team".to_owned()) && told.contains(&"feedback".to_owned()), "{told:?}");
}

#[tokio::test]
async fn a_bot_that_comes_or_goes_is_told_at_once_and_its_heartbeats_are_not() {
    let app = TestApp::start().await;
    let bot = app.bot("bot-1").await;
    assert_eq!(app.anon().get("/").await.status, 200);
    let mut stream = listening(&app.anon(), "/live", &PUBLIC).await;
    // A change was reported, so the status was checked before, and has a state that can flip.
    app.bot_says([team(vec![team_member(1, "Ada", "staff", 1, &[])])]).await;
    heard(&app, &mut stream, "team").await;
    bot.beats(START.seconds(), 1).await;
    heard(&app, &mut stream, "status").await;
    // Another heartbeat is not news for 15 seconds; a comment shows that nothing was sent in the meantime.
    bot.beats(START.seconds(), 1).await;
    app.clock.advance(14 * SECOND);
    app.bot_says([team(vec![])]).await;
    let told = stream.changed().await;
    assert!(!told.contains(&"status".to_owned()), "{told:?}");
    heard(&app, &mut stream, "status").await;
    // Nothing is written when a bot falls silent.
    app.clock.advance(90 * SECOND);
    heard(&app, &mut stream, "status").await;
}

#[tokio::test]
async fn an_announcement_is_a_reason_to_read_the_status_again() {
    let app = TestApp::start().await;
    let mut stream = listening(&app.anon(), "/live", &PUBLIC).await;
    app.app.sources.store.announce(Notice::new("Slow", "").unwrap(), app.clock.now()).await.unwrap();
    app.clock.advance(15 * SECOND);
    heard(&app, &mut stream, "status").await;
}

#[tokio::test]
async fn a_user_hears_of_their_guilds_sessions_and_self() {
    let (app, member) = member_in([listed(1, 0), listed(2, 0)], [Change::Guild(others(2, "g2"))]).await;
    member.guilds().await;
    let mut stream = listening(&member, "/me/live", &ALL).await;
    let calls = app.sandbox.calls(Endpoint::Guilds);
    // A guild on their list gets the bot; one that isn't theirs does not concern them.
    app.bot_says([Change::Guild(others(9, "not theirs"))]).await;
    app.bot_says([Change::Guild(others(1, "g1"))]).await;
    let told = heard(&app, &mut stream, "guilds").await;
    assert!(told.iter().all(|topic| ["guilds", "stats"].contains(&topic.as_str())), "{told:?}");
    assert_eq!(member.guilds().await.len(), 2);
    // Another device, which also means another profile.
    app.user("member").await;
    let told = heard(&app, &mut stream, "sessions").await;
    assert!(told.contains(&"me".to_owned()), "{told:?}");
    app.settled().await;
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), calls + 1, "for the new session; the stream asks for nothing");
}

#[tokio::test]
async fn premium_that_ends_by_itself_is_news() {
    let (app, member) = member_in([listed(1, 0)], [Change::Guild(others(1, "g1"))]).await;
    let until = START.after(Duration::from_secs(20));
    app.bot_says([Change::Subscription(subscription(77, &[1], Some(until)))]).await;
    member.guilds().await;
    let mut stream = listening(&member, "/me/live", &ALL).await;
    app.clock.advance(21 * SECOND);
    heard(&app, &mut stream, "guilds").await;
    assert_eq!(member.guilds().await[0]["plus"]["active"], false);
}

#[tokio::test]
async fn a_stream_ends_with_its_session_on_every_replica() {
    let app = TestApp::start().await;
    let replicas = [app.replica().await, app.replica().await];
    let owner = app.user("owner").await;
    let mut streams = vec![listening(&owner, "/me/live", &ALL).await];
    for replica in &replicas {
        streams.push(listening(&replica.anon().with_token(owner.token()), "/me/live", &ALL).await);
    }
    let other = app.user("owner").await;
    let mut goes_on = listening(&other, "/me/live", &ALL).await;
    owner.delete("/auth").send().await;
    for stream in &mut streams {
        let mut last = String::new();
        while let Some(message) = stream.message().await {
            last = message;
        }
        assert_eq!(last, "event: ended\ndata: {}");
    }
    heard(&app, &mut goes_on, "sessions").await;
    other.delete("/sessions").send().await;
    while let Some(message) = goes_on.message().await {
        assert!(message.starts_with("event: ") || message == ":", "{message}");
    }
    eventually("nothing is left", async || {
        [&app, &replicas[0], &replicas[1]].iter().all(|replica| replica.app.live.count() == 0)
    })
    .await;
}

#[tokio::test]
async fn a_stream_is_no_use_of_its_session_and_ends_when_that_expires() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    let mut stream = listening(&owner, "/me/live", &ALL).await;
    app.clock.advance(Duration::from_hours(7 * 24));
    let mut last = String::new();
    while let Some(message) = stream.message().await {
        last = message;
    }
    assert_eq!(last, "event: ended\ndata: {}");
    owner.get("/me").await.refused(401, "token_invalid");
}

#[tokio::test]
async fn a_blocked_user_hears_nothing_more() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    let mut stream = listening(&owner, "/me/live", &ALL).await;
    app.app.accounts.block(id(OWNER), "spam".to_owned()).await.unwrap();
    assert_eq!(stream.message().await.as_deref(), Some("event: ended\ndata: {}"));
    assert_eq!(stream.message().await, None);
}

#[tokio::test]
async fn a_stream_outlives_the_idle_limit_by_signs_of_life() {
    let app = TestApp::start().await;
    let mut stream = listening(&app.anon(), "/live", &PUBLIC).await;
    for _ in 0..10 {
        app.clock.advance(15 * SECOND);
        assert_eq!(stream.message().await.as_deref(), Some(":"));
    }
    app.bot_says([team(vec![team_member(1, "Ada", "staff", 1, &[])])]).await;
    assert_eq!(next(&app, &mut stream).await, ["team"]);
}

#[tokio::test]
async fn an_address_has_so_many_streams_and_the_process_too() {
    let app = TestApp::builder().set("limits.live_per_address = 2\nlimits.live = 3").start().await;
    let first = open(&app.anon(), "/live").await;
    let _second = open(&app.anon(), "/live").await;
    let refused = app.anon().get("/live").await.refused(429, "rate_limited");
    assert!(refused.retry_after() > 0);
    drop(first);
    eventually("its place is free", async || app.app.live.count() == 1).await;
    let _third = open(&app.anon(), "/live").await;

    let none = TestApp::builder().set("limits.live = 0").start().await;
    none.anon().get("/live").await.refused(503, "overloaded");
}

#[tokio::test]
async fn only_those_may_open_a_users_stream_who_have_a_session_and_a_listed_origin() {
    let app = TestApp::start().await;
    app.anon().get("/me/live").await.refused(401, "token_missing");
    app.anon().with_token("bcs_nonsense").get("/me/live").await.refused(401, "token_invalid");
    let owner = app.user("owner").await;
    let allowed = owner.call(Method::GET, "/me/live").header("Origin", ORIGIN).open().await;
    assert_eq!(allowed.headers["access-control-allow-origin"], ORIGIN);
    let other = owner.call(Method::GET, "/me/live").header("Origin", "https://elsewhere.example").open().await;
    assert!(!other.headers.contains_key("access-control-allow-origin"));
    let head = owner.call(Method::HEAD, "/me/live").send().await;
    assert_eq!((head.status, head.header("content-type"), head.body.len()), (200, "text/event-stream", 0));
    drop((allowed, other));
    eventually("nothing is left", async || app.app.live.count() == 0).await;
}

#[tokio::test]
async fn the_drain_ends_streams_first_and_cleanly() {
    let mut app = TestApp::builder().set("limits.drain_timeout = \"10m\"").start().await;
    let mut wire = Wire::open(app.address).await;
    wire.send(request("GET", "/live", "")).await;
    let head = wire.head().await.unwrap();
    assert_eq!((head.status, head.header("transfer-encoding")), (200, "chunked"));
    eventually("it is there", async || app.app.live.count() == 1).await;
    app.stop();
    let rest = wire.rest().await;
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "an end, not a cut: {rest:?}");
    app.stopped().await;
}

#[tokio::test]
async fn a_stream_is_evicted_before_a_request_is_refused() {
    let app = TestApp::builder().set("limits.connections = 2").one_socket().start().await;
    let mut first = Wire::open(app.address).await;
    first.send(request("GET", "/live", "")).await;
    assert_eq!(first.head().await.unwrap().status, 200);
    let mut waiting = Wire::open(app.address).await;
    assert_eq!(waiting.get("/").await.status, 200);
    let mut third = Wire::open(app.address).await;
    assert_eq!(third.get("/").await.status, 200);
    assert_eq!(waiting.rest().await, "", "what only waits goes first");
    assert_eq!(app.app.live.count(), 1);
    let hold = app.sandbox.hold(Endpoint::Token);
    third.send(request("POST", "/auth", &format!("Idp-Code: {}\r\n", app.sandbox.issue_code("owner")))).await;
    hold.arrived(1).await;
    let mut fourth = Wire::open(app.address).await;
    assert_eq!(fourth.get("/").await.status, 200);
    first.rest().await;
    eventually("the stream is over", async || app.app.live.count() == 0).await;
    hold.release();
    assert_eq!(third.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_guild_that_joined_the_list_is_watched_from_then_on() {
    let (app, member) =
        member_in([listed(1, 0)], [Change::Guild(others(1, "g1")), Change::Guild(others(2, "g2"))]).await;
    member.guilds().await;
    let mut stream = listening(&member, "/me/live", &ALL).await;
    app.sandbox.edit("member", |person| person.guilds.push(listed(2, 0)));
    let fresh = member.call(Method::GET, "/guilds").header("Cache-Control", "no-cache").send().await;
    assert_eq!(fresh.data().as_array().unwrap().len(), 2);
    heard(&app, &mut stream, "guilds").await;
    app.bot_says([Change::Guild(guild(2, "renamed", OWNER))]).await;
    heard(&app, &mut stream, "guilds").await;
}

#[tokio::test]
async fn what_one_replica_is_told_the_streams_of_all_hear() {
    let app = TestApp::start().await;
    let replicas = [app.replica().await, app.replica().await];
    let mut streams = vec![listening(&app.anon(), "/live", &PUBLIC).await];
    for replica in &replicas {
        streams.push(listening(&replica.anon(), "/live", &PUBLIC).await);
    }
    app.bot_says([team(vec![team_member(1, "Ada", "staff", 1, &[])])]).await;
    for (stream, replica) in streams.iter_mut().zip([&app, &replicas[0], &replicas[1]]) {
        heard(replica, stream, "team").await;
    }
}

/// How often a user's guild list was read from the store.
fn list_reads(app: &TestApp) -> u64 {
    app.app.sources.metrics.caches.requests(CacheName::Guilds, CacheOutcome::Miss)
}

#[tokio::test]
async fn a_guild_that_changes_is_told_without_a_read_of_any_list() {
    let (app, member) = member_in([listed(1, 0), listed(2, 0)], [Change::Guild(others(1, "shared"))]).await;
    // The sign-in also fetches the list in the background, and a stream that is open before that has to read it.
    app.settled().await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(listening(&member, "/me/live", &ALL).await);
    }
    let before = list_reads(&app);
    for round in 0..5 {
        app.bot_says([Change::Guild(others(1, &format!("name {round}")))]).await;
        app.clock.advance(SECOND);
        for stream in &mut streams {
            // Another topic may be sent first, and then this one a second later.
            while !stream.changed().await.contains(&"guilds".to_owned()) {
                app.clock.advance(SECOND);
            }
        }
    }
    assert_eq!(list_reads(&app), before, "30 events were sent, and nothing was read for them");
    // The list itself is read again, at most once per stream.
    app.sandbox.edit("member", |person| person.guilds.push(listed(3, 0)));
    member.call(Method::GET, "/guilds").header("Cache-Control", "no-cache").send().await;
    for stream in &mut streams {
        heard(&app, stream, "guilds").await;
    }
    let after = list_reads(&app) - before;
    assert!((1..=7).contains(&after), "{after} reads for a request and six streams");
}

#[tokio::test]
async fn premium_that_begins_while_somebody_listens_is_news_again_when_it_ends() {
    let (app, member) = member_in([listed(1, 0), listed(2, 0)], [Change::Guild(others(1, "g1"))]).await;
    let mut stream = listening(&member, "/me/live", &ALL).await;
    let in_20 = |app: &TestApp| Some(app.clock.now().after(20 * SECOND));
    app.bot_says([Change::Subscription(subscription(77, &[1], in_20(&app)))]).await;
    heard(&app, &mut stream, "guilds").await;
    app.clock.advance(21 * SECOND);
    heard(&app, &mut stream, "guilds").await;
    assert_eq!(member.guilds().await[0]["plus"]["active"], false);
    // A guild that has premium before it has the bot.
    app.bot_says([Change::Subscription(subscription(77, &[2], in_20(&app)))]).await;
    heard(&app, &mut stream, "guilds").await;
    app.bot_says([Change::Guild(others(2, "g2"))]).await;
    heard(&app, &mut stream, "guilds").await;
    app.clock.advance(21 * SECOND);
    heard(&app, &mut stream, "guilds").await;
}

#[tokio::test]
async fn a_stream_ends_with_its_session_while_guilds_change_all_the_time() {
    let (app, member) = member_in([listed(1, 0)], [Change::Guild(others(1, "shared"))]).await;
    let mut goes_on = listening(&member, "/me/live", &ALL).await;
    for round in 0..5 {
        let leaving = app.user("member").await;
        let mut stream = listening(&leaving, "/me/live", &ALL).await;
        app.bot_says([Change::Guild(others(1, &format!("name {round}")))]).await;
        leaving.delete("/auth").send().await;
        app.bot_says([Change::Guild(others(1, &format!("again {round}")))]).await;
        let mut last = String::new();
        while let Some(message) = stream.message().await {
            last = message;
        }
        assert_eq!(last, "event: ended\ndata: {}", "without a turn of the clock");
        heard(&app, &mut goes_on, "guilds").await;
    }
}
