//! The bot's keys: revoked in the middle of an upload, guessed, left over from `dev`; and how much a heartbeat may cost.

use std::time::Duration;

use domain::token::{self, TokenKind};
use reqwest::Method;
use runtime::random::secret_bytes;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::harness::binary::{Running, command, config_file};
use crate::harness::{Bot, Client, Disk, TestApp, Wire, eventually, gzip, ndjson, request, snapshot, sqlite_only};

const SHARD: &str = "/bot/shards/1/0/guilds";

fn guild(number: u64) -> Value {
    json!({"id": (number << 22).to_string(), "name": format!("guild {number}"), "icon": null, "owner": "9"})
}

/// An upload whose head and first bytes were sent, with that many to come.
async fn begun(app: &TestApp, bot: &Bot, method: &str, path: &str, first: &str, rest: usize) -> Wire {
    let headers = format!(
        "Authorization: Bearer {}\r\nFeed-Instance: {}\r\nFeed-Sequence: 1\r\nContent-Length: {}\r\n",
        bot.key.expose_secret(),
        bot.instance,
        first.len() + rest
    );
    let mut wire = Wire::open(app.address).await;
    wire.send(request(method, path, &headers) + first).await;
    wire
}

async fn revoke(app: &TestApp, bot: &Bot) {
    assert!(app.app.sources.store.revoke_key(bot.key_id.clone(), app.clock.now()).await.unwrap());
}

async fn stored_guilds(app: &TestApp) -> u64 {
    app.app.sources.store.feed_state().await.unwrap().guilds
}

#[tokio::test]
async fn a_key_that_is_revoked_meanwhile_commits_nothing() {
    let app = TestApp::start().await;
    for (method, path) in [("PUT", SHARD), ("PUT", "/bot/subscriptions"), ("POST", "/bot/events")] {
        let bot = app.bot("one").await;
        bot.guilds((1, 0), 1, &[]).await;
        let whole = match path {
            SHARD => snapshot(&[guild(1), guild(2)]),
            "/bot/events" => ndjson(&[json!({"type": "feedback_gone", "id": "1"})]),
            _ => snapshot(&[json!({"userid": "5", "slots": 1, "guilds": [], "active_until": null})]),
        };
        let (first, rest) = whole.split_at(10);
        let mut wire = begun(&app, &bot, method, path, first, rest.len()).await;
        if path != "/bot/events" {
            eventually("the upload has begun", async || app.app.uploads.under_way() == 1).await;
        }
        revoke(&app, &bot).await;
        wire.send(rest).await;
        wire.answer().await.unwrap().refused(401, "bot_key_invalid");
        let state = app.app.sources.store.feed_state().await.unwrap();
        assert_eq!((state.guilds, state.subscriptions), (0, 0), "{path}");
        assert!(state.instances.iter().all(|known| known.next == 1), "{path}");
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_meanwhile_ends_its_upload_within_seconds() {
    let app = TestApp::start().await;
    let places = &app.app.uploads.permits;
    for (method, path) in [("PUT", SHARD), ("POST", "/bot/events")] {
        let bot = app.bot("one").await;
        assert_eq!(places.in_use(), 0);
        let mut wire = begun(&app, &bot, method, path, "\n", 1_000_000).await;
        eventually("the request has come", async || places.in_use() > 0).await;
        if path == SHARD {
            eventually("the upload has begun", async || app.app.uploads.under_way() == 1).await;
        }
        revoke(&app, &bot).await;
        app.clock.advance(Duration::from_secs(5));
        // The next bytes are the last that anyone reads of it.
        wire.send("\n").await;
        wire.half_close().await;
        wire.answer().await.unwrap().refused(401, "bot_key_invalid");
        eventually("the request is over", async || places.in_use() == 0).await;
    }
    assert_eq!(stored_guilds(&app).await, 0);
}

async fn with_key(client: &Client, key: &str) -> u16 {
    client.call(Method::GET, "/bot/state").header("Authorization", format!("Bearer {key}")).send().await.status
}

#[tokio::test]
async fn guessing_is_limited_and_stops_no_good_key() {
    let app = TestApp::start().await;
    let (warm, client) = (app.bot("warm").await, app.anon());
    assert_eq!(with_key(&client, warm.key.expose_secret()).await, 200);
    let mut answers = Vec::new();
    for number in 0..200 {
        let made = token::generate(TokenKind::BotKey, secret_bytes);
        let key = if number % 2 == 0 { made.expose_secret() } else { "nonsense" };
        answers.push(with_key(&client, key).await);
    }
    assert_eq!((answers[0], answers[1]), (401, 401));
    let refused = answers.iter().position(|status| *status == 429).expect("no end of guessing");
    assert!(answers[refused..].iter().all(|status| *status == 429), "{answers:?}");
    assert_eq!(with_key(&client, warm.key.expose_secret()).await, 200);
    app.clock.advance(Duration::from_secs(1));
    let cold = app.bot("cold").await;
    assert_eq!(with_key(&client, cold.key.expose_secret()).await, 200, "a neighbour's guesses are not its own");
    revoke(&app, &cold).await;
    assert_ne!(with_key(&client, cold.key.expose_secret()).await, 200);
    app.clock.advance(Duration::from_mins(1));
    assert_eq!(with_key(&client, "nonsense").await, 401);
}

#[tokio::test]
async fn a_store_that_fails_does_not_make_a_refused_guess_its_own_failure() {
    let app = TestApp::builder().set("[feed]\nrefused_keys_per_minute = 1").start().await;
    let (client, disk) = (app.anon(), Disk::under(&app).await);
    let guess = async || with_key(&client, token::generate(TokenKind::BotKey, secret_bytes).expose_secret()).await;
    assert_eq!((guess().await, guess().await), (401, 429));
    let lost = disk.fails().await;
    app.clock.advance(Duration::from_secs(2));
    assert_eq!(guess().await, 429, "the list of valid keys is a bit old");
    disk.recovers(lost).await;
}

#[tokio::test]
async fn the_demonstration_key_opens_nothing_but_dev() {
    sqlite_only!("`dev` makes a file; what is refused is refused above the store");
    let app = TestApp::start().await;
    let data = app.folder.path().join("dev");
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let mut dev = Running::start(command(&arguments)).await;
    let banner = || std::fs::read_to_string(&dev.output).unwrap();
    eventually("the banner is there", async || banner().contains("bot key ")).await;
    let key = banner().split_whitespace().find(|word| word.starts_with("bck_")).unwrap().to_owned();
    assert_eq!(with_key(&dev.client(), &key).await, 200);
    dev.kill();
    let config = config_file(&app.folder, &app.sandbox, "");
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    serve.env("COMPANION_STORE_URL", format!("sqlite:{}", data.join("bot-companion.db").display()));
    let serve = Running::start(serve).await;
    assert_eq!(with_key(&serve.client(), &key).await, 401);
}

/// The process's peak memory, in kilobytes.
fn most_memory(service: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_heartbeat_costs_little_memory() {
    let app = TestApp::start().await;
    let bot = app.bot("one").await;
    let config = config_file(&app.folder, &app.sandbox, "");
    let serve = command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    let service = Running::start(serve).await;
    let bearer = format!("Bearer {}", bot.key.expose_secret());
    let heartbeat = async |body: String| {
        let call = service.client().call(Method::PUT, "/bot/heartbeat").header("Authorization", &bearer);
        call.header("Content-Encoding", "gzip").body(gzip(body.as_bytes())).send().await
    };
    let report = |filling: &str, times: usize| {
        let shards = filling.repeat(times);
        format!(
            "{{\"instance\":\"i\",\"started_at\":1,\"shard_count\":1,\"memory\":1,\"x\":[{shards}0],\"shards\":[{{\"id\":0}}]}}"
        )
    };
    assert_eq!(heartbeat(report("", 0)).await.status, 200);
    let before = most_memory(&service);
    heartbeat(report("{},", 5_000_000)).await.refused(413, "body_too_large");
    assert_eq!(heartbeat(report("{},", 330_000)).await.status, 200);
    assert_eq!(heartbeat(report("[[]],", 200_000)).await.status, 200);
    let many = format!(
        "{{\"instance\":\"i\",\"started_at\":1,\"shard_count\":1,\"memory\":1,\"shards\":[{}{{\"id\":0}}]}}",
        "{\"id\":0},".repeat(99_999)
    );
    assert_eq!(heartbeat(many).await.status, 200);
    let cost = most_memory(&service) - before;
    assert!(cost < 64 * 1024, "{cost} kB");
}
