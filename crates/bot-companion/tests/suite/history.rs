//! The bot's history: what is recorded, by how many replicas, across restarts and outages; and the operator's announcements.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::Time;
use domain::history::{BotState, Day, History, Incident};
use serde_json::{Value, json};

use crate::harness::binary::{command, config_file, run};
use crate::harness::{Bot, Disk, Folder, START, TestApp, eventually, sandbox};

/// This many seconds after the start, which is the first of a minute.
fn at(seconds: u64) -> Time {
    START.after(Duration::from_secs(seconds))
}

fn today(up: u32, partial: u32, down: u32) -> Day {
    Day { begins: Time::from_seconds(START.seconds() / 86_400 * 86_400), up, partial, down }
}

async fn history(app: &TestApp) -> Arc<History> {
    Arc::new(History::clone(&*app.app.views.history.get().await.unwrap()))
}

/// When the recorded minutes began, in seconds after the start, and the bot's state.
async fn minutes(app: &TestApp) -> Vec<(u64, BotState)> {
    let history = history(app).await;
    history.minutes.iter().map(|minute| (minute.begins.since(START).as_secs(), minute.state)).collect()
}

/// Time passes, in steps that the recorder sees; this bot, if any, reports before each.
async fn passes(app: &TestApp, bot: Option<&Bot>, seconds: u64) {
    for _ in 0..seconds / 30 {
        app.clock.advance(Duration::from_secs(30));
        if let Some(bot) = bot {
            beats(bot).await;
        }
        app.app.recorder.record().await;
    }
}

async fn beats(bot: &Bot) {
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
}

/// A service whose recorder has begun, and a bot that has reported.
async fn watched() -> (TestApp, Bot) {
    let app = TestApp::start().await;
    let bot = app.bot("a").await;
    app.app.recorder.record().await;
    assert_eq!(*history(&app).await, History::default(), "a bot that has never reported is unknown");
    beats(&bot).await;
    (app, bot)
}

#[tokio::test]
async fn minutes_and_incidents_survive_a_restart() {
    use BotState::{Down, Up};
    let (app, bot) = watched().await;
    passes(&app, Some(&bot), 120).await;
    assert_eq!(minutes(&app).await, [(0, Up), (60, Up)]);
    assert_eq!(history(&app).await.minutes[0].latency, Some(40.0));
    passes(&app, None, 60).await;
    assert_eq!(history(&app).await.incidents, [], "it has been silent for a minute only");
    passes(&app, None, 60).await;
    assert_eq!(minutes(&app).await, [(0, Up), (60, Up), (120, Down), (180, Down)]);
    let open = Incident { id: 1, worst: Down, began: at(120), ended: None, shards: 2, shard_count: 2 };
    assert_eq!(history(&app).await.incidents, std::slice::from_ref(&open));
    assert_eq!(history(&app).await.days, [today(2, 0, 2)]);

    let before = history(&app).await;
    let app = app.restarted(&[]).await;
    app.app.recorder.record().await;
    assert_eq!(history(&app).await, before, "it is all there, and what is not known changes nothing");
    passes(&app, None, 60).await;
    assert_eq!(history(&app).await.incidents, std::slice::from_ref(&open));
    let bot = bot.at(&app);
    beats(&bot).await;
    app.app.recorder.record().await;
    let over = Incident { ended: Some(at(300)), ..open };
    assert_eq!(history(&app).await.incidents, std::slice::from_ref(&over));
    passes(&app, Some(&bot), 120).await;
    assert_eq!(history(&app).await.incidents, [over]);
    assert_eq!(history(&app).await.days, [today(4, 0, 3)]);
}

#[tokio::test]
async fn while_the_store_is_away_nothing_is_known() {
    let (app, bot) = watched().await;
    let disk = Disk::under(&app).await;
    passes(&app, Some(&bot), 60).await;
    let lost = disk.fails().await;
    // Neither the bot nor the recorder reaches the store.
    passes(&app, None, 150).await;
    disk.recovers(lost).await;
    app.app.recorder.record().await;
    passes(&app, None, 60).await;
    assert_eq!((minutes(&app).await, history(&app).await.incidents.len()), (vec![(0, BotState::Up)], 0));
    passes(&app, Some(&bot), 180).await;
    assert_eq!(history(&app).await.incidents, []);
    assert!(minutes(&app).await.len() > 1);
}

/// Runs a command with this configuration, and returns its exit code and both outputs.
async fn said(config: &Path, arguments: &[&str]) -> (i32, String) {
    let mut asked = command(arguments);
    asked.env("COMPANION_CONFIG", config);
    let output = run(asked).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn what_is_announced_is_seen_by_the_running_service() {
    let app = TestApp::start().await;
    let config = config_file(&app.folder, &app.sandbox, "");
    let announce = async |arguments: &[&str]| said(&config, &[&["announce"], arguments].concat()).await;
    assert_eq!(history(&app).await.announcements, []);
    let (code, text) = announce(&["Maintenance at 20:00 UTC", "--text", "Half an hour.\nNobody loses anything."]).await;
    assert_eq!((code, text.as_str()), (0, "Announcement 1 is posted. When it is over: bot-companion announce end 1\n"));
    eventually("the service notices", async || history(&app).await.announcements.len() == 1).await;
    let posted = history(&app).await.announcements[0].clone();
    assert_eq!((posted.title.as_str(), posted.ended), ("Maintenance at 20:00 UTC", None));
    assert_eq!(posted.text, "Half an hour.\nNobody loses anything.");
    assert_eq!(announce(&["Second"]).await.0, 0);

    let (code, listed) = announce(&["list"]).await;
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!((code, lines.len()), (0, 2), "{listed}");
    assert!(lines[0].starts_with("2  posted ") && lines[1].ends_with("Z  Maintenance at 20:00 UTC"), "{listed}");
    assert_eq!(announce(&["end", "1"]).await, (0, "Announcement 1 is over.\n".to_owned()));
    let first_is_over = async || history(&app).await.announcements.get(1).is_some_and(|first| first.ended.is_some());
    eventually("the service notices", first_is_over).await;
    let (code, text) = announce(&["end", "1"]).await;
    assert!(code == 1 && text.contains("no active announcement 1; see `bot-companion announce list`"), "{text}");
    let (_, listed) = announce(&["list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["title"], &listed[0]["ended"]), (&json!("Second"), &Value::Null));
    assert!(listed[1]["ended"].is_string() && listed[1]["text"] == "Half an hour.\nNobody loses anything.", "{listed}");
    assert_eq!(announce(&["remove", "2"]).await, (0, "Announcement 2 is removed.\n".to_owned()));
    eventually("the service notices", async || history(&app).await.announcements.len() == 1).await;
    let (code, text) = announce(&["remove", "2"]).await;
    assert!(code == 1 && text.contains("there is no announcement 2; see `bot-companion announce list`"), "{text}");

    let (_, audit) = said(&config, &["audit"]).await;
    for command in ["announce 1", "announce 2", "announce end 1", "announce remove 2"] {
        assert!(audit.contains(command), "{audit}");
    }
}

#[tokio::test]
async fn maintenance_and_updates_are_commands() {
    let (app, _) = watched().await;
    passes(&app, None, 120).await;
    let config = config_file(&app.folder, &app.sandbox, "");
    let announce = async |arguments: &[&str]| said(&config, &[&["announce"], arguments].concat()).await;
    // Commands read the real clock.
    let in_days = |days: u64| {
        let now = runtime::clock::Clock::system().now();
        now.after(Duration::from_hours(24 * days)).iso8601()
    };
    let (begins, ends, later) = (in_days(2), in_days(3), in_days(4));
    let (code, text) =
        announce(&["maintenance", "Move", "--begins", &begins, "--ends", &ends, "--text", "Slow."]).await;
    let posted = "Announcement 1 is posted. To cancel it or end it early: bot-companion announce end 1\n";
    assert_eq!((code, text.as_str()), (0, posted));
    let (code, text) = announce(&["reschedule", "1", "--begins", &begins, "--ends", &later]).await;
    assert_eq!((code, text), (0, format!("Maintenance 1 is now from {begins} to {later}.\n")));
    // One time alone keeps the other, or the length. A time may be from now.
    for (new, begins, ends) in [
        (["--begins", &in_days(3)], in_days(3), in_days(5)),
        (["--begins", &begins], begins.clone(), later.clone()),
        (["--ends", &ends], begins.clone(), ends.clone()),
        (["--ends", &later], begins.clone(), later.clone()),
    ] {
        let (code, text) = announce(&[&["reschedule", "1"], &new[..]].concat()).await;
        assert_eq!((code, text), (0, format!("Maintenance 1 is now from {begins} to {ends}.\n")), "{new:?}");
    }
    let (code, text) = announce(&["maintenance", "Soon", "--begins", "+2h", "--ends", "+150m", "--json"]).await;
    assert_eq!(code, 0, "{text}");
    let soon = || history(&app);
    eventually("the service notices", async || soon().await.announcements.iter().any(|one| one.title == "Soon")).await;
    let planned = soon().await.announcements.iter().find_map(|one| one.window.filter(|_| one.title == "Soon")).unwrap();
    // Not exact, because the clock is read twice.
    assert!((29..45).contains(&(planned.ends.since(planned.begins).as_secs() / 60)), "{planned:?}");
    assert_eq!(announce(&["remove", "2"]).await.0, 0);
    let window = async || history(&app).await.announcements.first().and_then(|first| first.window);
    eventually("the service notices", async || window().await.is_some_and(|window| window.ends.iso8601() == later))
        .await;
    let (_, listed) = announce(&["list"]).await;
    assert!(listed.contains(&format!("from {begins} to {later}  Move")), "{listed}");

    let (code, listed) = announce(&["incidents"]).await;
    assert!(
        code == 0 && listed.starts_with("incident-1  began ") && listed.contains("ongoing  down  2 of 2 shards"),
        "{listed}"
    );
    let (code, text) = announce(&["update", "incident-1", "identified", "--text", "A full disk."]).await;
    assert_eq!((code, text.as_str()), (0, "The update to incident-1 is posted.\n"));
    assert_eq!(announce(&["update", "1", "monitoring"]).await.0, 0);
    eventually("the service notices", async || history(&app).await.updates.len() == 2).await;
    let (_, listed) = announce(&["incidents", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed[0]["updates"][0]["status"], &listed[0]["updates"][0]["text"]),
        (&json!("identified"), &json!("A full disk."))
    );
    let (_, listed) = announce(&["list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["ends"], &listed[0]["updates"][0]["status"]), (&json!(later), &json!("monitoring")));

    for (arguments, code, problem) in [
        (vec!["update", "incident-1", "resolved"], 1, "incident-1 isn't over: some shards aren't reporting"),
        (vec!["update", "incident-7", "resolved"], 1, "there is no incident-7; see `bot-companion announce list`"),
        (vec!["update", "7", "resolved"], 1, "there is no announcement-7"),
        (vec!["update", "x", "resolved"], 64, "like incident-3"),
        (vec!["update", "1", "fixed"], 64, "[possible values: investigating, identified, monitoring, resolved]"),
        (vec!["reschedule", "7", "--begins", &begins, "--ends", &ends], 1, "there is no active maintenance 7"),
        (vec!["maintenance", "x", "--begins", &ends, "--ends", &begins], 64, "--ends must be later than --begins"),
        (vec!["maintenance", "x", "--begins", "tomorrow", "--ends", &ends], 64, "2026-11-20T20:00Z"),
        (
            vec!["maintenance", "x", "--begins", "2020-01-01T00:00Z", "--ends", "2020-01-01T01:00Z"],
            64,
            "must be in the future",
        ),
        (vec!["maintenance", "x"], 64, "--begins <TIME>"),
        (vec!["reschedule", "1"], 64, "--begins <TIME>"),
    ] {
        let (found, text) = announce(&arguments).await;
        assert!(found == code && text.contains(problem), "{arguments:?}: {found} {text}");
    }
    assert_eq!(announce(&["update", "1", "resolved", "--text", "Done early."]).await.0, 0);
    eventually("the service notices", async || {
        history(&app).await.announcements.first().is_some_and(|first| first.ended.is_some())
    })
    .await;
    let (_, audit) = said(&config, &["audit"]).await;
    for command in [
        "announce maintenance 1",
        "announce reschedule 1",
        "announce update incident-1 identified",
        "announce update announcement-1 resolved",
    ] {
        assert!(audit.contains(command), "{audit}");
    }
}

#[tokio::test]
async fn what_cannot_be_announced_is_refused_with_a_remedy() {
    let (folder, provider) = (Folder::new(), sandbox(runtime::clock::Clock::system()));
    let config = config_file(&folder, &provider, "");
    let long = "x".repeat(201);
    for (arguments, problem) in [
        (vec![], "Usage: bot-companion announce"),
        (vec![""], "the title is empty: tell visitors in one line"),
        (vec![long.as_str()], "the title is 201 characters long, and the limit is 200"),
        (vec!["two\nlines"], "keep it to one line and put the rest in --text"),
        (vec!["x", "--text", "bell\u{7}"], "the control character U+0007: remove it"),
        (vec!["end", "first"], "invalid value 'first'"),
        (vec!["--json", "list"], "`list` is a command, so it can't be a title"),
    ] {
        let (code, text) = said(&config, &[vec!["announce"], arguments].concat()).await;
        assert_eq!(code, 64, "{text}");
        assert!(text.contains(problem), "{text}");
    }
    assert!(!folder.file().exists(), "nothing was made");
}
