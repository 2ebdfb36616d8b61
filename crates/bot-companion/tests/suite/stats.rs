//! `GET /stats`: the totals, as the bot changes them.

use domain::Change;
use domain::feed::{self, InstanceId, Lines, Scope, ShardKey, SnapshotLine};
use reqwest::Method;
use sandbox::people::OWNER;
use serde_json::{Value, json};
use store::Committed;

use crate::harness::{Answer, Bot, START, TestApp, eventually, feedback, guild, id, listed};

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

/// The guilds and members on the list of the owner, who is in all of them.
async fn listed_of_owner(app: &TestApp) -> (u64, u64) {
    let guilds = app.user("owner").await.guilds().await;
    (guilds.len() as u64, guilds.iter().map(|entry| entry["members"].as_u64().unwrap()).sum())
}

#[tokio::test]
async fn while_shards_are_renumbered_no_guild_counts_twice() {
    let app = TestApp::start().await;
    app.sandbox.edit("owner", |person| person.guilds = (1..=12).map(|number| listed(number << 22, 0)).collect());
    let bot = app.bot("a").await;
    sends(&bot, (1, 0), 1, 1..=12).await;
    let mut most = counted(&app).await;
    assert_eq!(most, (12, 780));
    // 1, 2 and 3 shards; at each step some guilds are gone without an event.
    let steps: [((u32, u32), &[u64]); 5] =
        [((2, 0), &[2, 4, 6, 8]), ((2, 1), &[1, 3, 5, 9]), ((3, 0), &[3, 6]), ((3, 1), &[1, 4]), ((3, 2), &[5, 8])];
    for (shard, guilds) in steps {
        sends(&bot, shard, 1, guilds.iter().copied()).await;
        let shown = counted(&app).await;
        assert!(shown <= most, "{shown:?} after {most:?}");
        let exact = listed_of_owner(&app).await;
        eventually("the end of the sweep", async || counted(&app).await == exact).await;
        most = exact;
    }
    assert_eq!(most, (6, 270));
}

#[tokio::test]
async fn a_restart_in_the_middle_of_renumbering_ends_with_the_right_totals() {
    let app = TestApp::start().await;
    app.sandbox.edit("owner", |person| person.guilds = (1..=12).map(|number| listed(number << 22, 0)).collect());
    let bot = app.bot("a").await;
    sends(&bot, (1, 0), 1, 1..=12).await;
    // From now on nobody sweeps in the background.
    app.settled().await;
    let store = &app.app.store;
    let shard = Scope::Shard(ShardKey::new(2, 0).unwrap());
    let instance = InstanceId::parse(&bot.key_id, &bot.instance).unwrap();
    let snapshot = store.begin_snapshot(shard, instance, 1, app.clock.now()).await.unwrap();
    let SnapshotLine::One(line, _) = feed::guild_line(sized(2).to_string().as_bytes()).unwrap() else { unreachable!() };
    store.stage(snapshot, Lines::Guilds(vec![line])).await.unwrap();
    let committed = store.commit_snapshot(snapshot, None, app.clock.now()).await.unwrap();
    assert_eq!(committed, Committed::Replaced { next: 1 });
    assert_eq!(counted(&app).await, (12, 780));
    store.clean_up(2).await.unwrap();
    let app = app.restarted(&[]).await;
    let exact = (7, 360 + 20);
    eventually("the end of the sweep", async || {
        app.app.uploads.clean_up();
        counted(&app).await == exact
    })
    .await;
    assert_eq!(listed_of_owner(&app).await, exact);
}
