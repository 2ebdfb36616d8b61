//! What anyone may read: status, team, feedback.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use domain::Change;
use domain::health::{Heartbeat, ShardHeartbeat};

use crate::harness::{START, TestApp, feedback, team, team_member};

fn heartbeat(instance: &str, shards: &[u32]) -> Heartbeat {
    Heartbeat {
        instance: crate::harness::instance(instance),
        started_at: START.before(Duration::from_hours(76)),
        memory: 50_000_000,
        shard_count: 4,
        shards: shards
            .iter()
            .map(|id| ShardHeartbeat { id: *id, sent: Some(START), acknowledged: None, latency: Some(41.5) })
            .collect(),
        leaving: false,
    }
}

#[tokio::test]
async fn the_status_is_online_before_the_bot_has_said_a_word() {
    let app = TestApp::start().await;
    let data = app.anon().get("/").await.data();
    assert_eq!(data["resources"]["memory"], 0.0);
    assert_eq!(data["health"]["bot"]["shards"], serde_json::json!({}));
    assert_eq!(data["health"]["bot"]["uptime"], serde_json::json!({"readable": "offline", "epoch": 0}));
    assert_eq!(data["health"]["api"]["latency"]["response"], serde_json::Value::Null);
    assert!(data["version"]["commit"]["sha"].as_str().unwrap().len() >= 7);
}

#[tokio::test]
async fn the_status_shows_an_acknowledged_heartbeat_at_once_and_silence_after_90_seconds() {
    let app = TestApp::start().await;
    app.anon().get("/").await;
    app.app.sources.store.record_heartbeat(heartbeat("a", &[0, 1]), START).await.unwrap();
    app.app.sources.store.record_heartbeat(heartbeat("b", &[2]), START).await.unwrap();
    let data = app.anon().get("/").await.data();
    assert_eq!(data["resources"]["memory"], 100.0);
    assert_eq!(data["health"]["bot"]["uptime"]["readable"], "3 days, 4 hours");
    let shards = data["health"]["bot"]["shards"].as_object().unwrap();
    assert_eq!(shards.keys().collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(
        shards["1"],
        serde_json::json!({"heartbeatSent": 1_800_000_000.0, "heartbeatAcknowledged": 0.0, "latency": 41.5})
    );
    app.clock.advance(Duration::from_secs(90));
    let silent = app.anon().get("/").await.data();
    assert_eq!(silent["resources"]["memory"], 0.0);
    assert_eq!(silent["health"]["bot"]["uptime"]["readable"], "offline");
    assert_eq!(silent["health"]["bot"]["shards"].as_object().unwrap().len(), 3, "the records stay");
}

#[tokio::test]
async fn the_status_tells_the_latency_to_a_client_that_says_when_it_sent() {
    let app = TestApp::start().await;
    for (sent, expected) in [("1799999999.5", serde_json::json!(500.0)), ("x", serde_json::Value::Null)] {
        let answer = app.anon().call(reqwest::Method::GET, "/").header("Sent-Epoch", sent).send().await;
        assert_eq!(answer.data()["health"]["api"]["latency"]["response"], expected);
    }
}

#[tokio::test]
async fn the_team_may_be_cached_and_revalidated() {
    let app = TestApp::start().await;
    let first = app.anon().get("/team").await;
    assert_eq!(first.header("cache-control"), "public, max-age=60, stale-while-revalidate=300");
    let etag = first.header("etag").to_owned();
    let known = |tags: String| app.anon().call(reqwest::Method::GET, "/team").header("If-None-Match", tags).send();
    for tags in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
        let answer = known(tags).await;
        assert_eq!((answer.status, answer.body.len()), (304, 0));
        assert_eq!(answer.header("etag"), etag);
        assert_eq!(answer.header("access-control-allow-origin"), "*");
    }
    app.bot_says([team(vec![team_member(1, "Ann", "direction", 1, &[])])]).await;
    assert_eq!(known(etag).await.status, 200);
}

#[tokio::test]
async fn feedback_is_five_different_good_words_and_fewer_if_there_are_fewer() {
    let app = TestApp::start().await;
    assert_eq!(app.anon().get("/feedback").await.data(), serde_json::json!([]));
    app.bot_says([("a", 5), ("b", 4), ("c", 3), ("d", 1)].map(|(name, stars)| Change::Feedback(feedback(name, stars))))
        .await;
    let shown = app.anon().get("/feedback").await.data();
    let texts: HashSet<_> = shown.as_array().unwrap().iter().map(|entry| entry["feedback"].to_string()).collect();
    assert_eq!(texts.len(), 2);
    app.bot_says((0..50).map(|index| Change::Feedback(feedback(&format!("n{index}"), 4 + index % 2)))).await;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..400 {
        let shown = app.anon().get("/feedback").await.data();
        let shown = shown.as_array().unwrap();
        let different: HashSet<_> = shown.iter().map(|entry| entry["feedback"].to_string()).collect();
        assert_eq!(different.len(), 5);
        assert!(shown.iter().all(|entry| entry["rating"].as_u64().unwrap() >= 4));
        for text in different {
            *seen.entry(text).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), 52, "every positive entry comes up: {seen:?}");
    assert!(seen.values().all(|count| (10..80).contains(count)), "about equally often: {seen:?}");
}
