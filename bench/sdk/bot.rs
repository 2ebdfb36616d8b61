//! A serenity bot for `bench/sdk/run`; see `bot.py`, which does the same.

#![expect(clippy::print_stdout, reason = "it answers there")]

use std::env;
use std::io::{BufRead as _, stdin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bot_companion_feed::{Companion, Grants, Permission};
use serenity::all::{
    ChannelId, ClientBuilder, Context, CreateMessage, EventHandler, GatewayIntents, Http, HttpBuilder, Ready,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The bot's own calls: how many milliseconds each took.
#[derive(Default)]
struct Calls {
    took: Mutex<Vec<f64>>,
    failed: AtomicU64,
}

struct Lantern(Arc<Calls>);

#[serenity::async_trait]
impl EventHandler for Lantern {
    async fn ready(&self, context: Context, ready: Ready) {
        // The bench has one shard for each thousand guilds, and the last one starts last.
        if ready.shard.is_some_and(|shard| shard.id.0 + 1 < shard.total) {
            return;
        }
        println!("ready");
        if env::var_os("CALLS").is_some() {
            tokio::spawn(call(Arc::clone(&self.0), Arc::clone(&context.http)));
        }
    }
}

/// A bot's usual work: about eight messages per second, each in another channel.
async fn call(calls: Arc<Calls>, http: Arc<Http>) {
    for number in 0_u64.. {
        let (calls, http) = (Arc::clone(&calls), Arc::clone(&http));
        tokio::spawn(async move {
            let began = Instant::now();
            let channel = ChannelId::new((number % 500 + 1) << 22);
            if channel.send_message(&http, CreateMessage::new().content("hello")).await.is_err() {
                calls.failed.fetch_add(1, Ordering::Relaxed);
            }
            calls.took.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed().as_secs_f64() * 1_000.0);
        });
        tokio::time::sleep(Duration::from_millis(130)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let intents = GatewayIntents::GUILDS | GatewayIntents::GUILD_MEMBERS;
    let calls = Arc::new(Calls::default());
    // The library's rate limiter is off, because it calls the real Discord. What the fake one refuses shows up as an error.
    let http = HttpBuilder::new(env::var("TOKEN")?).proxy(env::var("PROXY")?).ratelimiter_disabled(true).build();
    let mut client = ClientBuilder::new_with_http(http, intents).event_handler(Lantern(Arc::clone(&calls)));
    let rate = env::var("LISTING_RATE")?.parse()?;
    let companion = if env::var("SDK")? == "with" {
        let companion = Companion::from_env()?
            .grants(async |guild| {
                Ok(Grants::new().role(guild.id + 1, [Permission::Admin]).role(guild.id + 2, [Permission::Mod]))
            })
            .setup(async |_| Ok(true))
            .limits(|limits| limits.listing_rate = rate)
            .serenity(intents)?;
        client = client.event_handler(companion.handler());
        Some(companion)
    } else {
        None
    };
    let mut client = client.await?;
    if let Some(companion) = &companion {
        companion.watch(&client.shard_manager);
    }
    let answering = tokio::task::spawn_blocking(move || {
        for _ in stdin().lock().lines().map_while(Result::ok) {
            let status = companion.as_ref().map(|companion| companion.status());
            let took = std::mem::take(&mut *calls.took.lock().unwrap_or_else(PoisonError::into_inner));
            let (cpu, memory) = usage().unwrap_or_default();
            println!(
                "{}",
                serde_json::json!({
                    "cpu": cpu,
                    "memory": memory,
                    "synced": status.as_ref().is_none_or(|status| format!("{:?}", status.state) == "Synced"),
                    "listings": status.map_or(0, |status| status.counters.listings),
                    "took": took,
                    "failed": calls.failed.load(Ordering::Relaxed),
                })
            );
        }
    });
    tokio::select! {
        result = client.start_autosharded() => Ok(result?),
        result = answering => Ok(result?),
    }
}

/// This process's CPU seconds (in ticks of 10 ms) and resident MiB (in pages of 4 KiB), from Linux.
fn usage() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<f64> =
        stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
    Some(((fields.get(11)? + fields.get(12)?) / 100.0, fields.get(21)? / 256.0))
}
