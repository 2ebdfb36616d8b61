//! What the bot sends and how it counts: order, repeats, gaps, ownership, and what people see of it.

use std::time::Duration;

use reqwest::Method;
use sandbox::people::{MEMBER, OWNER};
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
async fn events_are_applied_once_in_order_and_without_gaps() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    counted(&bot.guilds((1, 0), 1, &[]).await);
    let first = [event("guild", guild(1, "a")), event("guild", guild(2, "b"))];
    assert_eq!(counted(&bot.events(1, &first).await), (2, 0, 3));
    assert_eq!(names(&member.guilds().await), ["a", "b"]);
    assert_eq!(counted(&bot.events(1, &first).await), (0, 2, 3), "a repeat changes nothing");
    let gap = bot.events(4, &[gone(1)]).await.refused(409, "resync_required");
    assert_eq!(gap.data()["next"], 3);
    // The second was applied before, so only the third counts.
    assert_eq!(counted(&bot.events(2, &[gone(1), event("guild", guild(3, "c"))]).await), (1, 1, 4));
    assert_eq!(names(&member.guilds().await), ["a", "b", "c"]);
    assert_eq!(counted(&bot.events(4, &[]).await), (0, 0, 4));
    assert_eq!(counted(&bot.other("two").events(1, &[gone(1)]).await), (1, 0, 2), "each process has its own numbers");
    assert_eq!(names(&member.guilds().await), ["b", "c"]);
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
async fn a_snapshot_is_the_whole_truth_of_its_shard_and_of_no_other() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    assert_eq!(counted(&bot.guilds((2, 0), 1, &[guild(2, "b"), guild(4, "d")]).await), (2, 0, 1));
    assert_eq!(counted(&bot.guilds((2, 1), 1, &[guild(1, "a"), guild(3, "c")]).await), (2, 0, 1));
    assert_eq!(names(&member.guilds().await), ["a", "b", "c", "d"]);
    let outage = json!({"id": guild_id(1).to_string(), "unavailable": true});
    assert_eq!(counted(&bot.guilds((2, 1), 1, &[outage, guild(5, "e")]).await), (2, 0, 1));
    assert_eq!(names(&member.guilds().await), ["a", "b", "d", "e"], "an outage is no departure");
    let foreign = bot.guilds((2, 1), 1, &[guild(2, "b")]).await.refused(422, "line_invalid");
    assert!(foreign.text().contains("belongs to shard 0 of 2"), "{}", foreign.text());
    // Resharding: whichever count wrote them, the guilds of the new shard are replaced.
    assert_eq!(counted(&bot.guilds((1, 0), 1, &[guild(6, "f")]).await), (1, 0, 1));
    assert_eq!(names(&member.guilds().await), ["f"]);
    let state = bot.state().await;
    assert_eq!((&state["guilds"], &state["instances"][0]["next"]), (&json!(1), &json!(1)), "{state}");
}

#[tokio::test]
async fn a_snapshot_that_events_overtook_is_outdated() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    counted(&bot.guilds((1, 0), 1, &[]).await);
    counted(&bot.events(1, &[event("guild", guild(1, "a"))]).await);
    let late = bot.guilds((1, 0), 1, &[guild(2, "b")]).await.refused(409, "snapshot_outdated");
    assert_eq!(late.data()["next"], 2);
    assert_eq!(names(&member.guilds().await), ["a"]);
    // After a gap, the snapshot says where the numbers continue.
    assert_eq!(counted(&bot.guilds((1, 0), 9, &[guild(2, "b")]).await), (1, 0, 9));
    assert_eq!(counted(&bot.events(9, &[event("guild", guild(3, "c"))]).await), (1, 0, 10));
    assert_eq!(names(&member.guilds().await), ["b", "c"]);
}

#[tokio::test]
async fn a_snapshot_without_its_end_changes_nothing() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    counted(&bot.guilds((1, 0), 1, &[guild(1, "a")]).await);
    let line = guild(2, "b");
    for (body, number) in [
        (format!("{line}\n"), 2),
        (format!("{line}\n{{\"end\": 2}}\n"), 2),
        (format!("{line}\n{{\"end\": 1}}\n{line}\n"), 3),
        (String::new(), 1),
        ("\n\nnonsense\n".to_owned(), 3),
    ] {
        let sent = bot.numbered(Method::PUT, "/bot/shards/1/0/guilds", 1).body(body.clone()).send().await;
        assert_eq!(sent.refused(422, "line_invalid").data()["line"], number, "{body}");
    }
    assert_eq!(names(&member.guilds().await), ["a"]);
    assert_eq!(counted(&bot.guilds((1, 0), 1, &[]).await), (0, 0, 1), "nothing, if it is the truth");
    assert!(member.guilds().await.is_empty());
}

#[tokio::test]
async fn two_clusters_do_not_disturb_each_other_and_a_later_one_takes_over() {
    let app = started().await;
    let (old, member) = (app.bot("old").await, app.user("member").await);
    let (second, new) = (old.other("second"), old.other("new"));
    let now = START.seconds();
    for (bot, since) in [(&old, now - 100), (&second, now - 100), (&new, now - 10)] {
        assert_eq!(bot.beats(since, 2).await.status, 200);
    }
    let own = [guild(1, "a")];
    let (a, b) = tokio::join!(old.guilds((2, 1), 1, &own), second.guilds((2, 0), 1, &[]));
    assert_eq!((counted(&a), counted(&b)), ((1, 0, 1), (0, 0, 1)));
    let renamed = [event("guild", guild(1, "a2"))];
    let added = [event("guild", guild(2, "b"))];
    let (a, b) = tokio::join!(old.events(1, &renamed), second.events(1, &added));
    assert_eq!((counted(&a), counted(&b)), ((1, 0, 2), (1, 0, 2)));
    assert_eq!(names(&member.guilds().await), ["a2", "b"]);
    // A rolling restart: what the old process still sends about the shard is ignored and counted.
    assert_eq!(counted(&new.guilds((2, 1), 1, &[guild(1, "a3")]).await), (1, 0, 1));
    assert_eq!(counted(&old.events(2, &[gone(1)]).await), (0, 1, 3));
    let outranked = old.guilds((2, 1), 3, &[guild(3, "c"), guild(5, "e")]).await;
    let (applied, ignored, _) = counted(&outranked);
    assert_eq!((applied, ignored), (0, 2));
    assert_eq!(names(&member.guilds().await), ["a3", "b"]);
}

#[tokio::test]
async fn a_member_who_loses_the_role_or_is_kicked_is_seen_so_at_once() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    let mut staffed = guild(1, "a");
    staffed["grants"] = json!({"7": ["MOD"]});
    staffed["staff"] = json!({MEMBER.to_string(): ["7"]});
    counted(&bot.guilds((1, 0), 1, &[staffed]).await);
    assert_eq!(member.guilds().await[0]["role"], "Moderator");
    let id = guild_id(1).to_string();
    let stripped = json!({"type": "member", "guild": id, "user": MEMBER.to_string(), "roles": ["8"]});
    counted(&bot.events(1, &[stripped]).await);
    assert!(member.guilds().await[0].get("role").is_none());
    let kicked = json!({"type": "member_gone", "guild": id, "user": MEMBER.to_string()});
    counted(&bot.events(2, &[kicked]).await);
    assert!(member.guilds().await.is_empty(), "gone from the very next answer");
}

#[tokio::test]
async fn subscriptions_come_go_and_expire() {
    let app = started().await;
    let (bot, member) = (app.bot("one").await, app.user("member").await);
    counted(&bot.guilds((1, 0), 1, &[guild(1, "a")]).await);
    let until = START.after(Duration::from_secs(30)).seconds();
    let paid =
        json!({"userid": OWNER.to_string(), "slots": 1, "guilds": [guild_id(1).to_string()], "active_until": until});
    assert_eq!(counted(&bot.subscriptions(1, std::slice::from_ref(&paid)).await), (1, 0, 1));
    assert_eq!(member.guilds().await[0]["plus"]["active"], true);
    app.clock.advance(Duration::from_secs(30));
    assert_eq!(member.guilds().await[0]["plus"]["active"], false, "it ends by itself");
    let mut forever = paid;
    forever["active_until"] = Value::Null;
    counted(&bot.events(1, &[event("subscription", forever)]).await);
    assert_eq!(member.guilds().await[0]["plus"]["active"], true);
    assert_eq!(counted(&bot.subscriptions(2, &[]).await), (0, 0, 2));
    assert_eq!(member.guilds().await[0]["plus"]["plus"]["userid"], "");
}

#[tokio::test]
async fn team_and_feedback_are_shown() {
    let app = started().await;
    let bot = app.bot("one").await;
    let person = json!({"id": "77", "username": "ann", "name": "Ann", "avatar": null});
    let said =
        json!({"type": "feedback", "id": "x", "feedback": "good", "rating": 5, "timestamp": 5, "submitter": person});
    let team = json!({"type": "team", "members": [{"username": "ann", "name": "Ann", "avatar": null, "discord_id": "77",
        "role": "Helper", "color": "#5865F2", "category": "support", "position": 1, "permissions": ["SUPPORT"]}]});
    assert_eq!(counted(&bot.events(1, &[said, team]).await), (2, 0, 3));
    assert_eq!(app.anon().get("/feedback").await.data()[0]["submitter"]["name"], "Ann");
    assert_eq!(app.anon().get("/team").await.data()[0]["discord_id"], "77");
    let renamed = json!({"type": "user", "id": "77", "username": "ann", "name": "Anna", "avatar": null});
    counted(&bot.events(3, &[renamed, json!({"type": "feedback_gone", "id": "x"})]).await);
    assert_eq!(app.anon().get("/team").await.data()[0]["name"], "Anna");
    assert_eq!(app.anon().get("/feedback").await.data(), json!([]));
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
