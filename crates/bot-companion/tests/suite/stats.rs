//! `GET /stats`: the totals, as the bot changes them.

use domain::Change;
use reqwest::Method;
use sandbox::people::OWNER;
use serde_json::{Value, json};

use crate::harness::{Answer, Bot, START, TestApp, eventually, feedback, guild, id};

/// A guild as the bot sends it, with ten members for each step of its number.
fn sized(number: u64) -> Value {
    json!({"id": (number << 22).to_string(), "name": format!("g{number}"), "icon": null, "owner": OWNER.to_string(),
        "members": number * 10})
}

fn event(kind: &str, mut line: Value) -> Value {
    line["type"] = kind.into();
    line
}

async fn sends(bot: &Bot, shard: (u32, u32), sequence: u64, guilds: impl IntoIterator<Item = u64>) {
    let lines: Vec<Value> = guilds.into_iter().map(sized).collect();
    let answer = bot.guilds(shard, sequence, &lines).await;
    assert_eq!(
        (answer.status, answer.data()["applied"].as_u64()),
        (200, Some(lines.len() as u64)),
        "{}",
        answer.text()
    );
}

async fn stats(app: &TestApp) -> Value {
    let answer = app.anon().get("/stats").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.data()
}

/// Guilds and members.
async fn counted(app: &TestApp) -> (u64, u64) {
    let data = stats(app).await;
    (data["guilds"].as_u64().unwrap(), data["members"].as_u64().unwrap())
}

#[tokio::test]
async fn every_change_is_in_the_very_next_read() {
    let app = TestApp::start().await;
    let expect = async |guilds: u64, members: u64, shards: u64, feedback: Value| {
        let expected = json!({"guilds": guilds, "members": members, "shards": shards, "feedback": feedback});
        assert_eq!(stats(&app).await, expected);
    };
    let none = || json!({"count": 0, "average": null});
    expect(0, 0, 0, none()).await;
    let bot = app.bot("a").await;
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
    expect(0, 0, 2, none()).await;
    sends(&bot, (2, 0), 1, [2, 4]).await;
    expect(2, 60, 2, none()).await;
    sends(&bot, (2, 1), 1, [1, 3, 5]).await;
    expect(5, 150, 2, none()).await;
    let mut grown = sized(4);
    grown["members"] = 1000.into();
    let said = [event("guild", grown), event("guild", sized(6)), event("guild_gone", json!({"id": sized(1)["id"]}))];
    assert_eq!(bot.events(1, &said).await.status, 200);
    expect(5, 1160, 2, none()).await;
    assert_eq!(bot.events(1, &said).await.status, 200, "a repeat");
    expect(5, 1160, 2, none()).await;
    sends(&bot, (2, 0), 4, [2]).await;
    expect(3, 100, 2, none()).await;

    let entry = |name: &str, stars| Change::Feedback(feedback(name, stars));
    app.bot_says([entry("a", 5), entry("b", 4), entry("c", 1)]).await;
    expect(3, 100, 2, json!({"count": 3, "average": 3.33})).await;
    app.bot_says([entry("c", 5)]).await;
    expect(3, 100, 2, json!({"count": 3, "average": 4.67})).await;
    app.bot_says([Change::FeedbackGone("a".to_owned()), Change::FeedbackGone("b".to_owned())]).await;
    expect(3, 100, 2, json!({"count": 1, "average": 5.0})).await;
    app.bot_says([Change::FeedbackGone("c".to_owned())]).await;
    expect(3, 100, 2, none()).await;
    assert_eq!(bot.beats(START.seconds(), 1).await.status, 200);
    expect(3, 100, 1, none()).await;
    let shown = app.anon().get("/").await.data()["health"]["bot"]["shards"].as_object().unwrap().len();
    assert_eq!(shown, 1, "as many as the status shows");
}

#[tokio::test]
async fn the_answer_is_kept_and_revalidated() {
    let app = TestApp::start().await;
    let ask = async |method: Method, tags: &str| {
        let call = app.anon().call(method, "/stats").header("Origin", "https://anywhere.example");
        if tags.is_empty() { call } else { call.header("If-None-Match", tags) }.send().await
    };
    let check = |answer: &Answer, status: u16, etag: &str| {
        assert_eq!((answer.status, answer.header("etag")), (status, etag));
        assert_eq!(answer.header("cache-control"), "no-cache");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
    };
    let first = ask(Method::GET, "").await;
    let etag = first.header("etag").to_owned();
    assert!(etag.len() > 10 && etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    check(&first, 200, &etag);
    for tags in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
        for method in [Method::GET, Method::HEAD] {
            let unchanged = ask(method, &tags).await;
            check(&unchanged, 304, &etag);
            assert!(unchanged.body.is_empty());
        }
    }
    let head = ask(Method::HEAD, "").await;
    check(&head, 200, &etag);
    assert_eq!((head.body.len(), head.header("content-length")), (0, first.body.len().to_string().as_str()));
    check(&ask(Method::GET, "\"other\"").await, 200, &etag);

    app.bot_says([Change::Guild(guild(1, "one", OWNER))]).await;
    let changed = ask(Method::GET, &etag).await;
    assert_eq!((changed.status, changed.data()["guilds"].as_u64()), (200, Some(1)));
    assert_ne!(changed.header("etag"), etag);
    app.bot_says([Change::GuildGone(id(1))]).await;
    check(&ask(Method::GET, &etag).await, 304, &etag);
}

#[tokio::test]
async fn what_changes_no_total_leaves_the_answer_in_the_cache() {
    let app = TestApp::start().await;
    let bot = app.bot("a").await;
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
    app.bot_says([Change::Guild(guild(1, "one", OWNER)), Change::Feedback(feedback("a", 5))]).await;
    stats(&app).await;
    // The cached bytes themselves, not equal ones.
    let cached = || app.app.views.stats.with_cached(|cached| Some(cached.body.plain().as_ptr()));
    let before = cached();
    assert!(before.is_some());
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
    let submitter = feedback("a", 5).entry.submitter;
    app.bot_says([Change::Guild(guild(1, "two", OWNER)), Change::Feedback(feedback("a", 5)), Change::User(submitter)])
        .await;
    assert_eq!(cached(), before);
}

#[tokio::test]
async fn other_replicas_show_the_same() {
    let here = TestApp::start().await;
    let there = here.replica().await;
    let bot = here.bot("a").await;
    for app in [&here, &there] {
        assert_eq!(counted(app).await, (0, 0));
    }
    sends(&bot, (1, 0), 1, 1..=12).await;
    eventually("the snapshot", async || counted(&there).await == (12, 780)).await;
    assert_eq!(bot.at(&there).events(1, &[event("guild_gone", json!({"id": sized(12)["id"]}))]).await.status, 200);
    assert_eq!(counted(&there).await, (11, 660));
    eventually("the departure", async || counted(&here).await == (11, 660)).await;
    // When the totals are exact again, everyone is told.
    sends(&bot, (2, 0), 2, [2, 4]).await;
    let exact = (6 + 2, 360 + 60);
    for app in [&here, &there] {
        eventually("the end of the sweep", async || counted(app).await == exact).await;
    }
}
