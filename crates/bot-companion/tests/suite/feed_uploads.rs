//! How the bot's bodies arrive: with a key, compressed, truncated, silent, too large, too many at once.

use std::time::Duration;

use reqwest::Method;
use rusqlite::Connection;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::harness::{Bot, TestApp, Wire, eventually, gzip, ndjson, request, snapshot, sqlite_only, suite_log};
use crate::tls::handshake;

pub fn guild(number: u64) -> Value {
    json!({"id": (number << 22).to_string(), "name": format!("guild {number}"), "icon": null, "owner": "9",
        "grants": {"7": ["MOD"]}, "staff": {"8": ["7"]}})
}

/// For tests that ask repeatedly while the clock stands still.
pub const UNLIMITED: &str = "[feed]\nrequests_per_second = 0";
const SHARD: &str = "/bot/shards/1/0/guilds";

/// An upload that has begun and whose body breaks off after these bytes.
pub async fn half_sent(app: &TestApp, bot: &Bot, method: &str, path: &str, body: &str) -> Wire {
    let headers = format!(
        "Authorization: Bearer {}\r\nFeed-Instance: {}\r\nFeed-Sequence: 1\r\nContent-Length: 1000000\r\n",
        bot.key.expose_secret(),
        bot.instance
    );
    let mut wire = Wire::open(app.address).await;
    wire.send(request(method, path, &headers) + body).await;
    wire
}

async fn stored_guilds(bot: &Bot) -> Value {
    bot.state().await["guilds"].clone()
}

#[tokio::test]
async fn a_key_is_needed_before_a_byte_of_the_body_is_read() {
    let app = TestApp::start().await;
    let bot = app.bot("one").await;
    let good = bot.key.expose_secret();
    let session = app.user("member").await;
    let other = format!("{}z", &good[..good.len() - 1]);
    for value in [
        "",
        "Bearer",
        "Bearer ",
        good,
        &format!("Basic {good}"),
        &format!("Bearer {other}"),
        &format!("Bearer {}", session.token()),
    ] {
        let mut wire = Wire::open(app.address).await;
        let headers = format!("Authorization: {value}\r\nContent-Length: 1000000\r\n");
        wire.send(request("PUT", "/bot/subscriptions", &headers)).await;
        let refused = wire.answer().await.unwrap().refused(401, "bot_key_invalid");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        assert!(!refused.has("access-control-allow-origin"), "no page may read this");
    }
    assert_eq!(bot.call(Method::GET, "/bot/state").send().await.status, 200);
}

#[tokio::test]
async fn a_revoked_key_is_refused_from_the_very_next_request() {
    let app = TestApp::start().await;
    let (bot, spare) = (app.bot("one").await, app.bot("two").await);
    assert_eq!(bot.events(1, &[]).await.status, 200);
    assert!(app.app.sources.store.revoke_key(bot.key_id.clone(), app.clock.now()).await.unwrap());
    bot.events(1, &[]).await.refused(401, "bot_key_invalid");
    assert_eq!(spare.events(1, &[]).await.status, 200);
}

#[tokio::test]
async fn headers_and_paths_have_their_shapes() {
    let app = TestApp::start().await;
    let bot = app.bot("one").await;
    for (instance, sequence) in [
        ("", "1"),
        ("a b", "1"),
        (&"i".repeat(65)[..], "1"),
        ("i", ""),
        ("i", "0"),
        ("i", "-1"),
        ("i", "+1"),
        ("i", "1.5"),
        ("i", "18446744073709551616"),
    ] {
        let call = bot.call(Method::POST, "/bot/events").header("Feed-Instance", instance);
        call.header("Feed-Sequence", sequence).send().await.refused(400, "feed_header_invalid");
    }
    for shard in ["0/0", "1/1", "x/0", "1/-1", "100001/0", "+2/1", "99999999999/0"] {
        let path = format!("/bot/shards/{shard}/guilds");
        bot.numbered(Method::PUT, &path, 1).send().await.refused(404, "not_found");
    }
    bot.call(Method::DELETE, "/bot/events").send().await.refused(405, "method_not_allowed");
}

#[tokio::test]
async fn compressed_or_not_in_one_piece_or_thousands() {
    let app = TestApp::start().await;
    let bot = app.bot("one").await;
    let all: Vec<Value> = (1..=5_000).map(guild).collect();
    let body = gzip(snapshot(&all).as_bytes());
    let answer = bot.numbered(Method::PUT, SHARD, 1).header("Content-Encoding", "gzip").body(body.clone()).send().await;
    assert_eq!(answer.data(), json!({"applied": 5_000, "ignored": 0, "next": 1}));
    assert_eq!(stored_guilds(&bot).await, 5_000);
    let cut = body[..body.len() / 2].to_vec();
    let cut = bot.numbered(Method::PUT, SHARD, 1).header("Content-Encoding", "gzip").body(cut).send().await;
    cut.refused(422, "line_invalid");
    let answer = bot.numbered(Method::PUT, SHARD, 1).body(snapshot(&all[..3_000])).send().await;
    assert_eq!(answer.data()["applied"], 3_000);
    assert_eq!(stored_guilds(&bot).await, 3_000);
    let odd = bot.numbered(Method::PUT, SHARD, 1).header("Content-Encoding", "br").body("x").send().await;
    assert_eq!(odd.refused(415, "encoding_unsupported").header("accept-encoding"), "gzip");
}

#[tokio::test]
async fn bombs_and_masses_are_refused() {
    let app = TestApp::builder().set("[feed]\nsnapshot_bytes = 1000000").start().await;
    let bot = app.bot("one").await;
    let bomb = gzip(&vec![b'\n'; 64 << 20]);
    for (method, path) in [(Method::PUT, SHARD), (Method::POST, "/bot/events"), (Method::PUT, "/bot/heartbeat")] {
        let call = bot.numbered(method, path, 1).header("Content-Encoding", "gzip").body(bomb.clone());
        call.send().await.refused(413, "body_too_large");
    }
    assert_eq!(bot.guilds((1, 0), 1, &[]).await.status, 200);
    let gone = json!({"type": "guild_gone", "id": "1"});
    bot.events(1, &vec![gone.clone(); 10_001]).await.refused(413, "body_too_large");
    // One event that changes something, and as many as are allowed that don't: removing 10,000 servers takes a busy machine too long.
    let most = [vec![gone], vec![json!({"type": "of_a_later_release"}); 9_999]].concat();
    assert_eq!(bot.events(1, &most).await.data()["next"], 10_001);
    let long = json!({"type": "x".repeat(1 << 20)});
    bot.events(10_001, &[long]).await.refused(422, "line_invalid");
}

#[tokio::test]
async fn what_is_cut_is_not_applied() {
    let app = TestApp::builder().set(UNLIMITED).start().await;
    let bot = app.bot("one").await;
    bot.guilds((1, 0), 1, &[guild(1)]).await;
    let most: Vec<Value> = (2..2_500).map(guild).collect();
    let events = json!({"type": "guild_gone", "id": (1_u64 << 22).to_string()});
    drop(half_sent(&app, &bot, "PUT", SHARD, &ndjson(&most)).await);
    drop(half_sent(&app, &bot, "POST", "/bot/events", &ndjson(&[events])).await);
    // Half closed, the service still answers.
    let mut wire = half_sent(&app, &bot, "POST", "/bot/events", "{\"type\":").await;
    wire.half_close().await;
    if let Some(answer) = wire.answer().await {
        answer.refused(422, "line_invalid");
    }
    eventually("the shard's place is free again", async || bot.guilds((1, 0), 1, &[guild(1)]).await.status == 200)
        .await;
    let state = bot.state().await;
    assert_eq!((&state["guilds"], &state["instances"][0]["next"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn one_snapshot_a_shard_and_four_per_key_while_people_sign_in() {
    let app = TestApp::builder().set(UNLIMITED).start().await;
    let bot = app.bot("one").await;
    let path = |shard| format!("/bot/shards/8/{shard}/guilds");
    let mut stalled = Vec::new();
    for shard in 0..4_u64 {
        stalled.push(half_sent(&app, &bot, "PUT", &path(shard), &ndjson(&[guild(8 + shard)])).await);
        eventually("the upload has begun", async || app.app.uploads.under_way() == stalled.len()).await;
    }
    assert!(bot.guilds((8, 0), 1, &[]).await.refused(429, "snapshot_busy").retry_after() >= 1);
    bot.guilds((8, 5), 1, &[]).await.refused(429, "snapshot_busy");
    // They block nothing that anyone else needs.
    app.user("member").await.guilds().await;
    assert_eq!(bot.events(1, &[json!({"type": "feedback_gone", "id": "1"})]).await.status, 200);
    drop(stalled);
    eventually("there is room again", async || bot.guilds((8, 5), 2, &[]).await.status == 200).await;
    assert_eq!(stored_guilds(&bot).await, 0);
}

#[tokio::test]
async fn an_upload_that_falls_silent_is_ended() {
    let app = TestApp::builder().set("[feed]\nidle_timeout = \"100ms\"").set(UNLIMITED).start().await;
    let bot = app.bot("one").await;
    let mut wire = half_sent(&app, &bot, "PUT", SHARD, "").await;
    let answer = wire.answer().await.unwrap();
    assert_eq!(answer.header("connection"), "close");
    answer.refused(408, "request_timeout");
    eventually("the shard's place is free again", async || bot.guilds((1, 0), 1, &[]).await.status == 200).await;
}

#[tokio::test]
async fn no_total_limit_holds_an_upload_up() {
    let app = TestApp::builder().set("[limits]\nrequest_timeout = \"50ms\"").start().await;
    let bot = app.bot("one").await;
    let body = snapshot(&(1..10).map(guild).collect::<Vec<_>>());
    let headers = format!(
        "Authorization: Bearer {}\r\nFeed-Instance: one\r\nFeed-Sequence: 1\r\nContent-Length: {}\r\n",
        bot.key.expose_secret(),
        body.len()
    );
    let mut wire = Wire::open(app.address).await;
    wire.send(request("PUT", SHARD, &headers)).await;
    for line in body.split_inclusive('\n') {
        // A slow client: in total it takes longer than any other request may.
        tokio::time::sleep(Duration::from_millis(20)).await;
        wire.send(line).await;
    }
    assert_eq!(wire.answer().await.unwrap().data()["applied"], 9);
}

#[tokio::test]
async fn each_key_has_its_own_rate() {
    let app = TestApp::builder().set("[feed]\nrequests_per_second = 1").start().await;
    let (bot, other) = (app.bot("one").await, app.bot("two").await);
    for _ in 0..2 {
        assert_eq!(bot.events(1, &[]).await.status, 200);
    }
    assert_eq!(bot.events(1, &[]).await.refused(429, "rate_limited").retry_after(), 1);
    assert_eq!(other.events(1, &[]).await.status, 200);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(bot.events(1, &[]).await.status, 200);
}

#[tokio::test]
async fn a_snapshot_whose_sender_leaves_while_it_begins_is_abandoned() {
    sqlite_only!("only there one lock holds every write up");
    let app = TestApp::builder().secure().start().await;
    let bot = app.bot("one").await;
    assert_eq!(bot.events(1, &[json!({"type": "feedback_gone", "id": "1"})]).await.status, 200);
    let (mut sender, connection) = h2::client::handshake(handshake(&app, &["h2"]).await.unwrap()).await.unwrap();
    let connection = tokio::spawn(connection);
    let held = app.folder.keep_out().await;
    let put = http::Request::put(format!("https://localhost{SHARD}"))
        .header("authorization", format!("Bearer {}", bot.key.expose_secret()))
        .header("feed-instance", "one")
        .header("feed-sequence", "2");
    let (answer, mut body) = sender.send_request(put.body(()).unwrap(), false).unwrap();
    body.send_data(bytes::Bytes::from_static(b"\n"), false).unwrap();
    eventually("the upload has begun", async || app.app.uploads.under_way() == 1).await;
    body.send_reset(h2::Reason::CANCEL);
    drop(answer);
    eventually("nobody waits for it", async || app.app.uploads.permits.in_use() == 0).await;
    drop(held);
    // Writes run one after the other, so this one comes after the start of the snapshot.
    app.app.sources.store.apply(Vec::new()).await.unwrap();
    eventually("it is abandoned", async || {
        app.app.uploads.under_way() == 0 && app.folder.count("staged_snapshots").await == 0
    })
    .await;
    connection.abort();
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_discarded_at_once_is_discarded_later() {
    sqlite_only!("PostgreSQL discards by age what a replica left");
    let app = TestApp::start().await;
    let bot = app.bot("one").await;
    let file = Connection::open(app.folder.file()).unwrap();
    let staged = || file.query_one("SELECT count(*) FROM staged_snapshots", [], |row| row.get::<_, u32>(0)).unwrap();
    let wire = half_sent(&app, &bot, "PUT", SHARD, &ndjson(&[guild(1)])).await;
    eventually("the upload has begun", async || staged() == 1).await;
    let refuse =
        "CREATE TRIGGER full BEFORE DELETE ON staged_snapshots BEGIN SELECT RAISE(ABORT, 'no room to discard'); END";
    file.execute_batch(refuse).unwrap();
    drop(wire);
    let log = || String::from_utf8_lossy(&std::fs::read(suite_log("suite")).unwrap()).into_owned();
    eventually("it was tried", async || log().contains("no room to discard")).await;
    file.execute_batch("DROP TRIGGER full").unwrap();
    app.app.uploads.clean_up();
    eventually("it was discarded", async || staged() == 0).await;
}
