//! A bot process, as the feed sees it.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::token::{self, TokenKind};
use reqwest::Method;
use runtime::random::secret_bytes;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use store::BotKey;

use super::client::{Answer, Call, Client};
use super::{START, TestApp};

/// Deletes the feed's guilds and premium; people and keys stay, as if restored from the day of installation.
pub const EMPTIED: &str = "DELETE FROM guilds; DELETE FROM guild_staff; DELETE FROM subscription_guilds;
    DELETE FROM subscriptions; DELETE FROM instances; DELETE FROM shards; DELETE FROM feed_instances;
    DELETE FROM feed_own_shards; DELETE FROM feed_shards WHERE shard_count > 0; UPDATE feed_shards SET guilds = 0, member_sum = 0";

/// A bot process with its key.
#[derive(Clone)]
pub struct Bot {
    client: Client,
    pub key: SecretString,
    pub key_id: String,
    pub instance: String,
}

impl TestApp {
    /// A bot process with its own key.
    pub async fn bot(&self, instance: &str) -> Bot {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let key_id = format!("key{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let key = token::generate(TokenKind::BotKey, secret_bytes);
        let kept = BotKey { id: key_id.clone(), label: instance.to_owned(), created: START, revoked: None };
        self.app.sources.store.add_key(kept, token::hash_of(&key)).await.unwrap();
        Bot { client: self.anon(), key, key_id, instance: instance.to_owned() }
    }
}

impl Bot {
    /// Another process of the same bot.
    pub fn other(&self, instance: &str) -> Self {
        Self { instance: instance.to_owned(), ..self.clone() }
    }

    /// The same process, talking to another replica.
    pub fn at(&self, app: &TestApp) -> Self {
        Self { client: app.anon(), ..self.clone() }
    }

    pub fn call(&self, method: Method, path: &str) -> Call {
        let bearer = format!("Bearer {}", self.key.expose_secret());
        self.client.call(method, path).header("Authorization", bearer)
    }

    /// A numbered call.
    pub fn numbered(&self, method: Method, path: &str, sequence: u64) -> Call {
        let call = self.call(method, path).header("Feed-Instance", &self.instance);
        call.header("Feed-Sequence", sequence.to_string())
    }

    pub async fn events(&self, first: u64, events: &[Value]) -> Answer {
        self.numbered(Method::POST, "/bot/events", first).body(ndjson(events)).send().await
    }

    pub async fn guilds(&self, shard: (u32, u32), sequence: u64, guilds: &[Value]) -> Answer {
        let path = format!("/bot/shards/{}/{}/guilds", shard.0, shard.1);
        self.numbered(Method::PUT, &path, sequence).body(snapshot(guilds)).send().await
    }

    pub async fn subscriptions(&self, sequence: u64, subscriptions: &[Value]) -> Answer {
        self.numbered(Method::PUT, "/bot/subscriptions", sequence).body(snapshot(subscriptions)).send().await
    }

    /// Reports that it is alive, and since when.
    pub async fn beats(&self, started_at: u64, shard_count: u32) -> Answer {
        let shards: Vec<Value> = (0..shard_count).map(|id| json!({"id": id, "latency": 40})).collect();
        let report = json!({"instance": self.instance, "started_at": started_at, "memory": 1_000_000,
            "shard_count": shard_count, "shards": shards});
        self.call(Method::PUT, "/bot/heartbeat").body(report.to_string()).send().await
    }

    pub async fn state(&self) -> Value {
        self.call(Method::GET, "/bot/state").send().await.data()
    }
}

pub fn ndjson(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// These lines with their end.
pub fn snapshot(lines: &[Value]) -> String {
    ndjson(lines) + &json!({"end": lines.len()}).to_string()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
