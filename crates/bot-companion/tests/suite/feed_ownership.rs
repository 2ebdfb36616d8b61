//! What the feed says about data of others: guilds of another shard, gaps, what is ignored, keys that share a name.

use std::time::Duration;

use http::Method;
use sandbox::people::OWNER;
use serde_json::{Value, json};

use crate::harness::{Answer, Bot, START, TestApp, listed, names, suite_log};

fn guild_id(number: u64) -> u64 {
    number << 22
}

fn guild(number: u64, name: &str) -> Value {
    json!({"id": guild_id(number).to_string(), "name": name, "icon": null, "owner": OWNER.to_string(), "members": 3})
}

fn renamed(number: u64, name: &str) -> Value {
    let mut event = guild(number, name);
    event["type"] = "guild".into();
    event
}

/// `applied`, `ignored` and `next`.
#[track_caller]
fn counted(answer: &Answer) -> (u64, u64, u64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = answer.data();
    let number = |name: &str| data[name].as_u64().unwrap();
    (number("applied"), number("ignored"), number("next"))
}

#[track_caller]
fn reason(answer: &Answer) -> String {
    let reasons = answer.data()["reasons"].as_array().cloned().unwrap_or_default();
    assert_eq!(reasons.len(), 1, "{}", answer.text());
    reasons[0].as_str().unwrap().to_owned()
}

/// A service where the member is in guilds 1 to 9.
async fn started() -> TestApp {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = (1..10).map(|number| listed(guild_id(number), 0)).collect());
    app
}

async fn send_heartbeat(bot: &Bot, started_at: u64) {
    assert_eq!(bot.beats(started_at, 1).await.status, 200);
}

#[tokio::test]
async fn an_unavailable_guild_of_another_shard_stays_where_it_is() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    let of_another = json!({"id": guild_id(1).to_string(), "unavailable": true});
    assert_eq!(counted(&bot.guilds((2, 1), 1, &[guild(1, "one")]).await).0, 1);
    let answer = bot.guilds((2, 0), 1, &[guild(2, "two"), of_another]).await;
    assert!(reason(&answer).contains("belongs to shard 1 of 2"), "{}", answer.text());
    assert_eq!(names(&member.guilds().await), ["one", "two"]);
}

#[tokio::test]
async fn a_snapshot_or_list_that_comes_after_more_than_is_known_asks_for_everything() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    send_heartbeat(&bot, START.seconds() - 10).await;
    counted(&bot.guilds((1, 0), 2, &[guild(1, "a")]).await);
    let sent = async |path: &str, sequence, after: &str| {
        let call = bot.numbered(Method::PUT, path, sequence).header("Feed-After", after);
        call.body("{\"end\": 0}").send().await
    };
    for path in ["/bot/shards/1/0/guilds", "/bot/subscriptions"] {
        let refused = sent(path, 9, "3").await.refused(409, "resync_required");
        assert_eq!(refused.data()["next"], 2);
        for after in ["0", "x", "-1", "4611686018427387905"] {
            sent(path, 9, after).await.refused(400, "feed_header_invalid");
        }
    }
    assert_eq!(names(&member.guilds().await), ["a"]);
    assert_eq!(counted(&sent("/bot/subscriptions", 3, "2").await), (0, 0, 3));
    assert_eq!(counted(&sent("/bot/shards/1/0/guilds", 4, "3").await), (0, 0, 4));
    assert!(member.guilds().await.is_empty());
}

#[tokio::test]
async fn what_is_ignored_is_explained_to_the_sender_and_once_per_minute_to_the_operator() {
    let app = started().await;
    let old = app.bot("explained-old").await;
    let new = old.other("explained-new");
    send_heartbeat(&old, START.seconds() - 100).await;
    send_heartbeat(&new, START.seconds() - 10).await;
    counted(&new.guilds((1, 0), 1, &[guild(1, "new")]).await);
    let said = || {
        let log = String::from_utf8_lossy(&std::fs::read(suite_log("suite")).unwrap()).into_owned();
        log.lines().filter(|line| line.contains("data is ignored") && line.contains("explained-old")).count()
    };
    let answer = old.events(1, &[renamed(1, "a"), renamed(1, "b")]).await;
    assert_eq!(counted(&answer), (0, 2, 3));
    assert!(reason(&answer).contains("explained-new"), "{}", answer.text());
    let answer = old.guilds((1, 0), 3, &[guild(1, "old")]).await;
    assert_eq!(counted(&answer), (0, 1, 3));
    assert!(reason(&answer).contains("explained-new"), "{}", answer.text());
    assert_eq!(said(), 1);
    app.clock.advance(Duration::from_mins(1));
    counted(&old.events(3, &[renamed(1, "a")]).await);
    assert_eq!(said(), 2);
}

#[tokio::test]
async fn the_same_name_under_another_key_is_another_instance() {
    let app = started().await;
    let (one, two, member) = (app.bot("same").await, app.bot("same").await, app.user("member").await);
    send_heartbeat(&one, START.seconds() - 10).await;
    counted(&one.guilds((2, 0), 1, &[guild(2, "b")]).await);
    counted(&one.events(1, &[renamed(2, "b2"), renamed(2, "b3")]).await);
    assert_eq!(two.beats(START.seconds() - 5, 1).await.status, 200);
    assert_eq!(counted(&two.guilds((2, 1), 1, &[guild(1, "a")]).await), (1, 0, 1), "it has numbers of its own");
    assert_eq!(counted(&two.events(1, &[renamed(1, "a2")]).await), (1, 0, 2));
    assert_eq!(counted(&one.events(3, &[renamed(2, "b4")]).await), (1, 0, 4));
    assert_eq!(names(&member.guilds().await), ["a2", "b4"]);
    let status = app.anon().get("/").await.data();
    assert_eq!(status["resources"]["memory"], 2.0, "both are counted");
    let state = one.state().await;
    let known: Vec<_> = state["instances"].as_array().unwrap().iter().map(|it| (&it["key"], &it["next"])).collect();
    assert_eq!(known, [(&json!(one.key_id), &json!(4)), (&json!(two.key_id), &json!(2))], "one's own come first");
    // The later one owns shard 0 as well, and what the earlier one sends about it no longer counts.
    counted(&two.guilds((2, 0), 2, &[guild(2, "c")]).await);
    assert_eq!(counted(&one.events(4, &[renamed(2, "b5")]).await), (0, 1, 5));
    assert_eq!(names(&member.guilds().await), ["a2", "c"]);
}
