//! What the bot sends and how it counts: order, repeats, gaps, ownership, and what people see of it.

use std::time::Duration;

use reqwest::Method;
use sandbox::people::OWNER;
use serde_json::{Value, json};

use crate::harness::{Answer, START, TestApp, listed, names};

/// A guild of shard `(number) % count`, for any count.
fn guild_id(number: u64) -> u64 {
    number << 22
}

fn guild(number: u64, name: &str) -> Value {
    json!({"id": guild_id(number).to_string(), "name": name, "icon": null, "owner": OWNER.to_string(), "members": 3})
}

fn event(kind: &str, mut fields: Value) -> Value {
    fields["type"] = kind.into();
    fields
}

fn gone(number: u64) -> Value {
    json!({"type": "guild_gone", "id": guild_id(number).to_string()})
}

/// `applied`, `ignored` and `next`.
#[track_caller]
fn counted(answer: &Answer) -> (u64, u64, u64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = answer.data();
    let number = |name: &str| data[name].as_u64().unwrap();
    (number("applied"), number("ignored"), number("next"))
}

/// A service where the member is in guilds 0 to 9.
async fn started() -> TestApp {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = (1..10).map(|number| listed(guild_id(number), 0)).collect());
    app
}

#[tokio::test]
async fn a_wrong_line_stops_all_and_what_is_unknown_stops_nothing() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    counted(&bot.guilds((1, 0), 1, &[]).await);
    let wrong = bot.events(1, &[event("guild", guild(1, "a")), json!({"type": "guild_gone", "id": 5})]).await;
    let wrong = wrong.refused(422, "line_invalid");
    assert_eq!(wrong.data()["line"], 2);
    assert_eq!(wrong.data()["reason"], "`id` must be an id as a string of digits.");
    assert!(member.guilds().await.is_empty(), "all or nothing");
    let mut granting = event("guild", guild(1, "a"));
    granting["grants"] = json!({"7": ["MOD", "FOUNDER"]});
    let answer = bot.events(1, &[event("new", json!({"x": 1})), granting]).await;
    assert_eq!(counted(&answer), (1, 2, 3));
    assert_eq!(answer.data()["reasons"].as_array().unwrap().len(), 2, "{}", answer.text());
    assert_eq!(names(&member.guilds().await), ["a"]);
}

#[tokio::test]
async fn every_wrong_line_is_named_so_that_one_more_try_suffices() {
    let app = started().await;
    let bot = app.bot("one").await;
    counted(&bot.guilds((1, 0), 1, &[]).await);
    let wrong = |sent: Answer| {
        let data = sent.refused(422, "line_invalid").data();
        assert_eq!((&data["line"], &data["reason"]), (&data["lines"][0]["line"], &data["lines"][0]["reason"]));
        let lines = data["lines"].as_array().unwrap();
        lines.iter().map(|bad| (bad["line"].as_u64().unwrap(), bad["reason"].to_string())).collect::<Vec<_>>()
    };
    let subscription =
        |user: u64, slots: i64| json!({"userid": user.to_string(), "slots": slots, "guilds": [], "active_until": null});
    let named =
        wrong(bot.events(1, &[gone(1), json!({"type": "guild_gone"}), gone(2), json!({"type": "guild"})]).await);
    assert_eq!(named.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4]);
    let named = wrong(bot.guilds((1, 0), 1, &[json!({}), guild(1, "a"), json!({"id": "x"})]).await);
    assert_eq!(named.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3]);
    let many: Vec<Value> = (1..=1_500).map(|user| subscription(user, -1)).collect();
    let named = wrong(bot.subscriptions(1, &many).await);
    assert_eq!((named.len(), named[999].0), (1_000, 1_000));
    assert!(named.iter().all(|(_, reason)| reason.contains("`slots`")), "{named:?}");
    assert_eq!(bot.state().await["subscriptions"], 0);
}

#[tokio::test]
async fn of_a_users_subscriptions_the_last_counts_and_the_others_are_explained() {
    let app = started().await;
    let bot = app.bot("one").await;
    let line =
        |user: u64, slots: u64| json!({"userid": user.to_string(), "slots": slots, "guilds": [], "active_until": null});
    // Far apart, and next to each other.
    let mut lines = vec![line(7, 1)];
    lines.extend((100..3_000).map(|user| line(user, 1)));
    lines.extend([line(8, 1), line(8, 2), line(7, 2)]);
    let answer = bot.subscriptions(1, &lines).await;
    assert_eq!(counted(&answer), (lines.len() as u64 - 2, 2, 1));
    let reasons = answer.data()["reasons"].to_string();
    assert!(reasons.contains("the user 7;") && reasons.contains("the user 8;"), "{reasons}");
    assert_eq!(bot.state().await["subscriptions"], lines.len() as u64 - 2);
}

#[tokio::test]
async fn ids_and_names_at_their_bounds() {
    let app = TestApp::start().await;
    let top = i64::MAX as u64;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(top, 0), listed(1, 0)]);
    let (bot, member) = (app.bot(&"i".repeat(64)).await, app.user("member").await);
    counted(&bot.guilds((1, 0), 1, &[]).await);
    let name = "🌙".repeat(100);
    let big = json!({"id": top.to_string(), "name": name, "icon": null, "owner": top.to_string()});
    let small = json!({"id": "1", "name": "x", "icon": null, "owner": "1"});
    assert_eq!(counted(&bot.events(1, &[event("guild", big), event("guild", small)]).await), (2, 0, 3));
    assert_eq!(names(&member.guilds().await), ["x", name.as_str()]);
    let beyond = json!({"type": "guild_gone", "id": (top + 1).to_string()});
    bot.events(3, &[beyond]).await.refused(422, "line_invalid");
}

#[tokio::test]
async fn heartbeats_show_in_the_status_and_the_state() {
    let app = TestApp::start().await;
    let bot = app.bot("one").await;
    assert_eq!(bot.beats(START.seconds() - 60, 2).await.data(), json!({}));
    assert_eq!(
        app.anon().get("/").await.data()["health"]["bot"]["uptime"]["epoch"],
        START.seconds() - 60,
        "the status knows"
    );
    app.clock.advance(Duration::from_secs(5));
    let state = bot.state().await;
    assert_eq!(state["instances"][0]["heartbeat_age"], 5_000, "{state}");
    let wrong = bot.call(Method::PUT, "/bot/heartbeat").body("{}").send().await.refused(422, "line_invalid");
    assert_eq!(wrong.data()["line"], 1);
}

#[tokio::test]
async fn a_snapshot_ends_with_its_end_and_has_only_its_own_guilds() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    counted(&bot.guilds((2, 1), 1, &[guild(1, "a")]).await);
    let line = guild(3, "c");
    for (body, number, reason) in [
        (String::new(), 1, "may have been cut"),
        (format!("{line}\n"), 2, "may have been cut"),
        (format!("{line}\n{{\"end\": 2}}\n"), 2, "which is 1"),
        (format!("{line}\n{{\"end\": 1}}\n{line}\n"), 3, "Nothing may follow"),
        (format!("{line}\n{}\n{{\"end\": 2}}\n", guild(2, "b")), 2, "belongs to shard 0 of 2"),
    ] {
        let sent = bot.numbered(Method::PUT, "/bot/shards/2/1/guilds", 1).body(body.clone()).send().await;
        let data = sent.refused(422, "line_invalid").data();
        assert_eq!(data["line"], number, "{body}");
        assert!(data["reason"].as_str().unwrap().contains(reason), "{data}");
    }
    assert_eq!(names(&member.guilds().await), ["a"], "nothing was changed");
}
