//! Who owns a shard: clocks that run ahead, owners that fall silent, services that were emptied, keys that share a name.

use std::time::Duration;

use http::Method;
use sandbox::people::{MEMBER, OWNER};
use serde_json::{Value, json};

use crate::harness::{Answer, Bot, EMPTIED, START, TestApp, listed, names, suite_log};

const SILENCE: Duration = Duration::from_secs(90);
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
async fn a_clock_that_runs_ahead_freezes_nothing() {
    let app = started().await;
    let (ahead, member) = (app.bot("ahead").await, app.user("member").await);
    let next = ahead.other("next");
    send_heartbeat(&ahead, START.seconds() + 3600).await;
    assert_eq!(counted(&ahead.guilds((1, 0), 1, &[guild(1, "ahead")]).await), (1, 0, 1));
    assert_eq!(
        app.anon().get("/").await.data()["health"]["bot"]["uptime"]["epoch"],
        START.seconds(),
        "it cannot have started after it was seen"
    );
    app.clock.advance(Duration::from_secs(10));
    send_heartbeat(&next, START.seconds() + 10).await;
    assert_eq!(counted(&next.guilds((1, 0), 1, &[guild(1, "next")]).await), (1, 0, 1));
    assert_eq!(counted(&next.events(1, &[renamed(1, "next 2")]).await), (1, 0, 2));
    send_heartbeat(&ahead, START.seconds() + 3600).await;
    assert_eq!(counted(&ahead.events(1, &[renamed(1, "ahead 2")]).await), (0, 1, 2));
    assert_eq!(names(&member.guilds().await), ["next 2"]);
}

#[tokio::test]
async fn a_silent_owner_loses_its_shard_to_a_living_sender() {
    let app = started().await;
    let (old, member) = (app.bot("old").await, app.user("member").await);
    let new = old.other("new");
    send_heartbeat(&old, START.seconds() - 100).await;
    send_heartbeat(&new, START.seconds() - 10).await;
    assert_eq!(counted(&new.guilds((1, 0), 1, &[guild(1, "new")]).await), (1, 0, 1));
    app.clock.advance(Duration::from_secs(89));
    assert_eq!(counted(&old.guilds((1, 0), 1, &[guild(1, "old")]).await), (0, 1, 1), "the owner is not silent yet");
    assert_eq!(counted(&old.events(1, &[renamed(1, "old")]).await), (0, 1, 2));
    app.clock.advance(Duration::from_secs(1));
    old.events(2, &[renamed(1, "old")]).await.refused(409, "resync_required");
    assert_eq!(counted(&old.guilds((1, 0), 2, &[guild(1, "old")]).await), (1, 0, 2));
    assert_eq!(counted(&old.events(2, &[renamed(1, "old 2")]).await), (1, 0, 3));
    assert_eq!(names(&member.guilds().await), ["old 2"]);
    // The other one is back: it started later, so it can send its snapshot again whenever it likes.
    assert_eq!(counted(&new.events(1, &[renamed(1, "new 2")]).await), (1, 0, 2));
    assert_eq!(counted(&new.guilds((1, 0), 2, &[guild(1, "new 3")]).await), (1, 0, 2));
    assert_eq!(counted(&old.events(3, &[renamed(1, "old 3")]).await), (0, 1, 4));
    assert_eq!(names(&member.guilds().await), ["new 3"]);
}

#[tokio::test]
async fn an_owner_that_leaves_gives_its_shard_back_at_once() {
    let app = started().await;
    let (old, member) = (app.bot("old").await, app.user("member").await);
    let new = old.other("new");
    let shard = json!([{"shard_count": 1, "shard_id": 0}]);
    send_heartbeat(&old, START.seconds() - 100).await;
    counted(&old.guilds((1, 0), 1, &[guild(1, "old")]).await);
    send_heartbeat(&new, START.seconds() - 10).await;
    let ignored = old.guilds((1, 0), 1, &[guild(1, "old")]).await;
    assert_eq!(ignored.data()["replaced"], json!(null), "nobody else has sent it");
    counted(&new.guilds((1, 0), 1, &[guild(1, "new")]).await);
    for answer in
        [old.events(1, &[renamed(1, "old 2")]).await, old.guilds((1, 0), 2, &[]).await, old.events(2, &[]).await]
    {
        assert_eq!((&answer.data()["replaced"], &answer.data()["free"]), (&shard, &json!(null)), "{}", answer.text());
    }
    assert_eq!(names(&member.guilds().await), ["new"]);
    assert_eq!(new.leaves(START.seconds() - 10).await.status, 200);
    let probe = old.events(2, &[]).await;
    assert_eq!((&probe.data()["replaced"], &probe.data()["free"]), (&json!(null), &shard), "{}", probe.text());
    assert_eq!(counted(&old.guilds((1, 0), 3, &[guild(1, "old 3")]).await), (1, 0, 3));
    assert_eq!(old.events(3, &[]).await.data()["free"], json!(null));
    assert_eq!(names(&member.guilds().await), ["old 3"]);
    let status = app.anon().get("/").await.data();
    assert_eq!(status["health"]["bot"]["uptime"]["epoch"], START.seconds() - 100, "the other one no longer counts");
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
async fn an_emptied_service_is_filled_again_by_the_next_event() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    send_heartbeat(&bot, START.seconds() - 10).await;
    counted(&bot.guilds((1, 0), 1, &[guild(1, "a")]).await);
    let app = app.restarted_after(EMPTIED, &[]).await;
    let (bot, member) = (bot.at(&app), app.anon().with_token(member.token()));
    assert!(member.guilds().await.is_empty());
    let refused = bot.events(1, &[renamed(1, "b")]).await.refused(409, "resync_required");
    assert_eq!(refused.data()["next"], 1);
    counted(&bot.guilds((1, 0), 1, &[guild(1, "b")]).await);
    assert_eq!(counted(&bot.events(1, &[renamed(1, "c")]).await), (1, 0, 2));
    assert_eq!(names(&member.guilds().await), ["c"]);
}

#[tokio::test]
async fn who_names_a_shard_is_asked_for_it_and_who_does_not_is_not_asked_twice() {
    let app = started().await;
    let bot = app.bot("one").await;
    let other = bot.other("other");
    assert_eq!(bot.beats(START.seconds() - 10, 2).await.status, 200);
    counted(&bot.guilds((2, 0), 1, &[guild(2, "b")]).await);
    // It has named shard 1, but not sent it.
    bot.events(1, &[renamed(1, "a")]).await.refused(409, "resync_required");
    bot.events(1, &[renamed(2, "b"), renamed(1, "a")]).await.refused(409, "resync_required");
    counted(&bot.guilds((2, 1), 1, &[]).await);
    assert_eq!(counted(&bot.events(1, &[renamed(1, "a")]).await), (1, 0, 2));
    app.clock.advance(SILENCE);
    // Nothing is known about this one: what it sent may have been lost.
    other.events(1, &[renamed(1, "x")]).await.refused(409, "resync_required");
    counted(&other.guilds((2, 0), 1, &[]).await);
    let answer = other.events(1, &[renamed(1, "x"), renamed(2, "y")]).await;
    assert_eq!(counted(&answer), (1, 1, 3), "it has sent what it has");
    assert!(reason(&answer).contains("snapshot"), "{}", answer.text());
    counted(&other.guilds((2, 1), 3, &[guild(1, "x")]).await);
    assert_eq!(counted(&other.events(3, &[renamed(1, "x")]).await), (1, 0, 4));
}

#[tokio::test]
async fn nobody_is_asked_for_a_snapshot_that_would_be_ignored() {
    let app = started().await;
    let old = app.bot("old").await;
    let (new, gone) = (old.other("new"), old.other("gone"));
    // A resharding from two to four, during which one of the new processes dies.
    for (bot, since) in [(&old, 100), (&new, 10), (&gone, 10)] {
        assert_eq!(bot.beats(START.seconds() - since, 2).await.status, 200);
    }
    counted(&new.guilds((4, 0), 1, &[guild(4, "new")]).await);
    counted(&gone.guilds((4, 2), 1, &[guild(2, "gone")]).await);
    app.clock.advance(Duration::from_mins(1));
    send_heartbeat(&new, START.seconds() - 10).await;
    app.clock.advance(Duration::from_secs(30));
    // Nobody owns the dead one's guild, but a snapshot of the old shard would overwrite the living one's.
    assert_eq!(counted(&old.guilds((2, 0), 1, &[guild(2, "old")]).await), (0, 1, 1));
    let answer = old.events(1, &[renamed(2, "old")]).await;
    assert_eq!(counted(&answer), (0, 1, 2), "it is not asked again and again");
    assert!(reason(&answer).contains("`new`"), "{}", answer.text());
    app.clock.advance(SILENCE);
    old.events(2, &[renamed(2, "old")]).await.refused(409, "resync_required");
    counted(&old.guilds((2, 0), 2, &[guild(2, "old")]).await);
    assert_eq!(counted(&old.events(2, &[renamed(2, "old 2")]).await), (1, 0, 3));
}

#[tokio::test]
async fn what_a_snapshot_does_not_say_of_grants_and_staff_stays() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    let with = |number, fields: Value| {
        let mut line = guild(number, "a");
        for (name, value) in fields.as_object().unwrap() {
            line[name] = value.clone();
        }
        line
    };
    let (grants, staff) = (json!({"7": ["MOD"]}), json!({MEMBER.to_string(): ["7"]}));
    counted(&bot.guilds((1, 0), 1, &[with(1, json!({"grants": grants, "staff": staff}))]).await);
    let role = async || member.guilds().await[0].get("role").cloned().unwrap_or_default();
    assert_eq!(role().await, "Moderator");
    counted(&bot.guilds((1, 0), 1, &[guild(1, "b"), guild(2, "new")]).await);
    assert_eq!(role().await, "Moderator");
    counted(&bot.guilds((1, 0), 1, &[with(1, json!({"grants": {"7": ["ADMIN"]}}))]).await);
    assert_eq!(role().await, "Administrator");
    counted(&bot.guilds((1, 0), 1, &[with(1, json!({"staff": {}}))]).await);
    assert_eq!(role().await, Value::Null);
    counted(&bot.guilds((1, 0), 1, &[with(1, json!({"staff": staff}))]).await);
    assert_eq!(role().await, "Administrator");
    counted(&bot.guilds((1, 0), 1, &[with(1, json!({"grants": {}}))]).await);
    assert_eq!(role().await, Value::Null);
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

#[tokio::test]
async fn a_key_is_rotated_by_a_restart_of_the_bot() {
    let app = started().await;
    let (old, member) = (app.bot("run-1").await, app.user("member").await);
    send_heartbeat(&old, START.seconds() - 10).await;
    counted(&old.guilds((1, 0), 1, &[guild(1, "a")]).await);
    app.clock.advance(Duration::from_secs(5));
    let new = app.bot("run-2").await;
    send_heartbeat(&new, START.seconds() + 5).await;
    counted(&new.guilds((1, 0), 1, &[guild(1, "b")]).await);
    assert_eq!(counted(&new.events(1, &[renamed(1, "c")]).await), (1, 0, 2));
    assert!(app.app.store.revoke_key(old.key_id.clone(), app.clock.now()).await.unwrap());
    old.events(1, &[renamed(1, "d")]).await.refused(401, "bot_key_invalid");
    assert_eq!(counted(&new.events(2, &[renamed(1, "e")]).await), (1, 0, 3));
    assert_eq!(names(&member.guilds().await), ["e"]);
}
