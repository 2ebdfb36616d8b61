//! Slow uploads with one key do not keep other keys from sending.

use runtime::fair_pool::FairPool;
use serde_json::{Value, json};

use crate::feed_uploads::{UNLIMITED, guild, half_sent};
use crate::harness::{Bot, START, TestApp, Wire, eventually, ndjson};

/// Permits for bot requests other than heartbeats.
const REQUESTS: usize = 128;

fn is_full(pool: &FairPool) -> bool {
    pool.in_use() == pool.size()
}

fn event() -> Value {
    json!({"type": "feedback_gone", "id": "1"})
}

/// Asserts that everything a bot sends is accepted.
async fn can_send(bot: &Bot, shard: u32) {
    assert_eq!(bot.beats(START.seconds(), 8).await.status, 200);
    assert_eq!(bot.guilds((8, shard), 1, &[guild(u64::from(shard) + 8)]).await.status, 200);
    assert_eq!(bot.events(1, &[event()]).await.status, 200);
    assert_eq!(bot.call(reqwest::Method::GET, "/bot/state").send().await.status, 200);
}

/// Begins snapshots of these shards that never end.
async fn trickling_snapshots(app: &TestApp, bot: &Bot, shards: std::ops::Range<u64>) -> Vec<Wire> {
    let mut wires = Vec::new();
    for shard in shards {
        let before = app.app.uploads.under_way();
        let path = format!("/bot/shards/8/{shard}/guilds");
        wires.push(half_sent(app, bot, "PUT", &path, &ndjson(&[guild(8 + shard)])).await);
        eventually("the upload has begun", async || app.app.uploads.under_way() > before).await;
    }
    wires
}

#[tokio::test]
async fn snapshots_that_one_key_sends_slowly_shut_no_other_key_out() {
    let app = TestApp::builder().set(UNLIMITED).start().await;
    let (slow, bot) = (app.bot("slow").await, app.bot("bot").await);
    let mut wires = trickling_snapshots(&app, &slow, 0..4).await;
    slow.guilds((8, 4), 1, &[]).await.refused(429, "snapshot_busy");
    can_send(&bot, 5).await;
    // The same shard, too: only the commit decides who owns it.
    assert_eq!(bot.guilds((8, 0), 2, &[]).await.status, 200);
    let ended = wires.pop().unwrap().answer().await.unwrap().refused(429, "snapshot_busy");
    assert!(ended.retry_after() >= 1);
    eventually("the others go on", async || app.app.uploads.under_way() == 3).await;
    assert_eq!(app.app.store.feed_state().await.unwrap().guilds, 1, "what was ended has left nothing");
}

#[tokio::test]
async fn two_keys_have_half_of_the_snapshots_each_and_a_third_gets_in() {
    let app = TestApp::builder().set(UNLIMITED).start().await;
    let (first, second, third) = (app.bot("first").await, app.bot("second").await, app.bot("third").await);
    let mut of_first = trickling_snapshots(&app, &first, 0..4).await;
    let mut of_second = Vec::new();
    for shard in 4..6 {
        let path = format!("/bot/shards/8/{shard}/guilds");
        of_second.push(half_sent(&app, &second, "PUT", &path, "\n").await);
        of_first.pop().unwrap().answer().await.unwrap().refused(429, "snapshot_busy");
    }
    second.guilds((8, 6), 1, &[]).await.refused(429, "snapshot_busy");
    first.guilds((8, 6), 1, &[]).await.refused(429, "snapshot_busy");
    assert_eq!(third.guilds((8, 7), 1, &[]).await.status, 200);
}

#[tokio::test]
async fn events_that_one_key_sends_slowly_stop_no_heartbeat_and_no_other_key() {
    let app = TestApp::builder().set(UNLIMITED).start().await;
    let (slow, bot) = (app.bot("slow").await, app.bot("bot").await);
    let mut wires = Vec::new();
    for _ in 0..REQUESTS {
        wires.push(half_sent(&app, &slow, "POST", "/bot/events", &ndjson(&[event()])).await);
    }
    eventually("all places are taken", async || is_full(&app.app.uploads.permits)).await;
    slow.events(1, &[event()]).await.refused(503, "overloaded");
    assert_eq!(slow.beats(START.seconds(), 8).await.status, 200, "its own heartbeat does not wait, either");
    can_send(&bot, 5).await;
    app.user("member").await.guilds().await;
}

#[tokio::test]
async fn heartbeats_that_one_key_sends_slowly_stop_no_other_heartbeat() {
    let app = TestApp::builder().set(UNLIMITED).start().await;
    let (slow, bot) = (app.bot("slow").await, app.bot("bot").await);
    let mut wires = Vec::new();
    for _ in 0..REQUESTS {
        wires.push(half_sent(&app, &slow, "PUT", "/bot/heartbeat", "{").await);
    }
    eventually("all places are taken", async || is_full(&app.app.uploads.heartbeats)).await;
    slow.beats(START.seconds(), 8).await.refused(503, "overloaded");
    can_send(&bot, 5).await;
}
