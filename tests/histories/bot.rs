//! A twilight bot with the SDK. Its database is a JSON file that the player writes; commands come on stdin.

#![expect(clippy::print_stdout, reason = "it answers there")]

use std::io::{BufRead as _, stdin};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, process, thread};

use bot_companion_feed::{CallbackError, Companion, Grants, Guild, Limits, TwilightCompanion};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use twilight_cache_inmemory::{DefaultInMemoryCache, ResourceType};
use twilight_gateway::queue::Queue;
use twilight_gateway::{ConfigBuilder, Event, EventTypeFlags, Intents, Shard, ShardId, StreamExt as _};
use twilight_http::Client;
use twilight_model::gateway::payload::outgoing::RequestGuildMembers;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Discord wants five seconds between two sessions; the fake one doesn't.
struct NoQueue;

impl Queue for NoQueue {
    fn enqueue(&self, _: u32) -> oneshot::Receiver<()> {
        let (turn, receiver) = oneshot::channel();
        let _ = turn.send(());
        receiver
    }
}

/// The bot's database, if it works.
async fn database(path: String) -> Result<Value, CallbackError> {
    loop {
        let mut known: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        match known["callbacks"].as_str() {
            Some("fail") => return Err("the database is away".into()),
            Some("hang") => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => return Ok(known.take()),
        }
    }
}

async fn settings(path: String, guild: Guild) -> Result<Value, CallbackError> {
    database(path).await?["guilds"].get_mut(guild.id.to_string()).map(Value::take).ok_or_else(|| "no settings".into())
}

async fn grants(path: String, guild: Guild) -> Result<Grants, CallbackError> {
    let known = settings(path, guild).await?;
    let roles = known["grants"].as_object().ok_or("no grants")?;
    Ok(roles.iter().fold(Grants::new(), |grants, (role, keys)| {
        grants.role(role, keys.as_array().into_iter().flatten().filter_map(Value::as_str))
    }))
}

async fn flag(path: String, guild: Guild, name: &str) -> Result<bool, CallbackError> {
    Ok(settings(path, guild).await?[name].as_bool().ok_or("not a boolean")?)
}

async fn list(path: String, name: &str) -> Result<Vec<Value>, CallbackError> {
    Ok(database(path).await?[name].as_array().cloned().ok_or("not a list")?)
}

fn set_limits(limits: &mut Limits, given: &Value) {
    let seconds = |name: &str| Duration::from_secs_f64(given[name].as_f64().unwrap_or_default());
    limits.heartbeat_interval = seconds("heartbeat_interval");
    limits.gather_time = seconds("gather_time");
    limits.member_count_interval = seconds("member_count_interval");
    limits.refresh_interval = seconds("refresh_interval");
    limits.callback_timeout = seconds("callback_timeout");
    limits.callback_retry = seconds("callback_retry");
    limits.listing_rate = given["listing_rate"].as_f64().unwrap_or_default();
    limits.listing_retry = seconds("listing_retry");
    limits.longest_listing_retry = seconds("longest_listing_retry");
    limits.stall_timeout = seconds("stall_timeout");
    limits.flush_interval = seconds("flush_interval");
    limits.first_retry = seconds("first_retry");
    limits.longest_retry = seconds("longest_retry");
    limits.close_timeout = seconds("close_timeout");
}

fn obey(companion: &TwilightCompanion, command: &Value) {
    let text = |name: &str| command[name].as_str().unwrap_or_default();
    match text("do") {
        "changed" => companion.changed(text("guild").parse::<u64>().unwrap_or_default()),
        "everything_changed" => companion.all_changed(),
        "subscriptions_changed" => companion.subscriptions_changed(),
        "team_changed" => companion.team_changed(),
        "feedback" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let submitter = json!({"id": "1", "username": "marlow"});
            drop(companion.feedback(&json!({
                "id": text("id"), "feedback": text("text"), "rating": command["rating"], "timestamp": now, "submitter": submitter,
            })));
        }
        "feedback_gone" => drop(companion.feedback_gone(text("id"))),
        _ => {}
    }
    let status = companion.status();
    let waiting =
        json!({"changes": status.waiting.changes, "feedback": status.waiting.feedback, "batch": status.waiting.batch});
    println!(
        "{}",
        json!({
            "state": status.state.as_str(), "waiting": waiting, "last_error": status.last_error,
            "counters": {"requests": status.counters.requests},
        })
    );
}

async fn run(mut shard: Shard<NoQueue>, companion: TwilightCompanion, cache: Option<Arc<DefaultInMemoryCache>>) {
    while let Some(event) = shard.next_event(TwilightCompanion::EVENTS | EventTypeFlags::MEMBER_CHUNK).await {
        match event {
            Ok(event) => {
                if let Some(cache) = &cache {
                    cache.update(&event);
                    if let Event::GuildCreate(guild) = &event {
                        shard.command(&RequestGuildMembers::builder(guild.id()).query("", None));
                    }
                }
                companion.update(&shard, &event);
            }
            Err(error) => tracing::warn!(?error, "a message of the gateway cannot be read"),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    drop(rustls::crypto::ring::default_provider().install_default());
    let given: Value = serde_json::from_str(&env::args().nth(1).ok_or("no argument")?)?;
    let text = |name: &str| given[name].as_str().unwrap_or_default().to_owned();
    let path = text("database");
    let with_path = || path.clone();

    let host = text("api").replace("http://", "").replace("/api", "");
    let http = Arc::new(Client::builder().token(text("token")).proxy(host, true).ratelimiter(None).build());
    let (for_grants, for_setup, for_linked) = (with_path(), with_path(), with_path());
    let (for_subscriptions, for_team) = (with_path(), with_path());
    let mut companion = Companion::builder(&text("url"), &text("key"))?
        .spool(text("spool"))
        .limits(|limits| set_limits(limits, &given["limits"]))
        .grants(move |guild| grants(for_grants.clone(), guild))
        .setup(move |guild| flag(for_setup.clone(), guild, "setup"))
        .linked(move |guild| flag(for_linked.clone(), guild, "linked"))
        .subscriptions(move || list(for_subscriptions.clone(), "subscriptions"))
        .team(move || list(for_team.clone(), "team"))
        .twilight(http)?;
    let mut cache = None;
    if given["cached"] == true {
        let kinds = ResourceType::GUILD | ResourceType::MEMBER | ResourceType::ROLE | ResourceType::USER;
        let made = Arc::new(DefaultInMemoryCache::builder().resource_types(kinds).build());
        companion = companion.with_cache(Arc::clone(&made));
        cache = Some(made);
    }

    let obeying = companion.clone();
    thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            obey(&obeying, &serde_json::from_str(&line).unwrap_or_default());
        }
        // The player is gone.
        process::exit(1);
    });
    let count = u32::try_from(given["shards"].as_u64().unwrap_or(1))?;
    for number in 0..count {
        let config = ConfigBuilder::new(text("token"), Intents::GUILDS | Intents::GUILD_MEMBERS);
        let config = config.proxy_url(text("gateway")).queue(NoQueue).build();
        tokio::spawn(run(Shard::with_config(ShardId::new(number, count), config), companion.clone(), cache.clone()));
    }
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?.recv().await;
    companion.close().await;
    Ok(())
}
