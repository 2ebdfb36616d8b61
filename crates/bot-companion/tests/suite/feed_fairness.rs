//! Slow uploads with one key do not keep other keys from sending.

use serde_json::json;

use crate::feed_uploads::{UNLIMITED, guild, half_sent};
use crate::harness::{Bot, START, TestApp, eventually, ndjson};

/// What one key may do at the same time.
const SNAPSHOTS: usize = 4;
const REQUESTS: usize = 32;

/// Asserts that all requests of a bot but heartbeats are accepted.
async fn can_send(bot: &Bot, shard: u32, sequence: u64) {
    assert_eq!(bot.guilds((8, shard), sequence, &[guild(u64::from(shard) + 8)]).await.status, 200);
    assert_eq!(bot.events(sequence, &[json!({"type": "feedback_gone", "id": "1"})]).await.status, 200);
    assert_eq!(bot.call(reqwest::Method::GET, "/bot/state").send().await.status, 200);
}

#[tokio::test]
async fn what_one_key_sends_slowly_stops_no_heartbeat_and_no_other_key() {
    let app = TestApp::builder().set(UNLIMITED).start().await;
    let (slow, bot) = (app.bot("slow").await, app.bot("bot").await);
    let uploads = &app.app.uploads;
    let mut wires = Vec::new();
    for shard in 0..SNAPSHOTS as u64 {
        let path = format!("/bot/shards/8/{shard}/guilds");
        wires.push(half_sent(&app, &slow, "PUT", &path, &ndjson(&[guild(8 + shard)])).await);
    }
    eventually("the snapshots have begun", async || uploads.under_way() == SNAPSHOTS).await;
    slow.guilds((8, 4), 1, &[]).await.refused(429, "snapshot_busy");
    can_send(&bot, 5, 1).await;
    // The same shard, too: only the commit decides who owns it.
    assert_eq!(bot.guilds((8, 0), 2, &[]).await.status, 200);

    eventually("nothing else is in progress", async || uploads.permits.in_use() == SNAPSHOTS).await;
    for _ in SNAPSHOTS..REQUESTS {
        wires.push(half_sent(&app, &slow, "POST", "/bot/events", "{").await);
    }
    eventually("the key has its share of requests", async || uploads.permits.in_use() == REQUESTS).await;
    slow.events(1, &[]).await.refused(503, "overloaded");
    assert_eq!(slow.beats(START.seconds(), 8).await.status, 200, "its own heartbeat does not wait, either");
    can_send(&bot, 6, 2).await;

    eventually("no heartbeat is in progress", async || uploads.heartbeats.in_use() == 0).await;
    for _ in 0..REQUESTS {
        wires.push(half_sent(&app, &slow, "PUT", "/bot/heartbeat", "{").await);
    }
    eventually("the key has its share of heartbeats", async || uploads.heartbeats.in_use() == REQUESTS).await;
    slow.beats(START.seconds(), 8).await.refused(503, "overloaded");
    assert_eq!(bot.beats(START.seconds(), 8).await.status, 200);
    app.user("member").await.guilds().await;
}
