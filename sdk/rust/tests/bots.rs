//! Runs the examples, real bots with real libraries, on a fake Discord, with the real service behind a proxy that cuts connections.
//!
//! `BOT_COMPANION` names a binary of the service, and `FAKE_DISCORD_PYTHON` an interpreter that has the fake Discord's dependencies.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unreachable_pub, reason = "a test")]
#![cfg(unix)]

#[path = "bots_harness/http.rs"]
mod http;
#[path = "bots_harness/processes.rs"]
mod processes;
#[path = "bots_harness/proxy.rs"]
mod proxy;

use processes::{Discord, Service, example, start_bot, wait_for};
use serde_json::{Value, json};

const HARBOUR: &str = "4194304";
const VALLEY: &str = "8388608";

/// Two guilds on two shards. Crew hold the role 50.
fn world() -> Value {
    json!({
        "shards": 2,
        "heartbeat_interval": 1000,
        "guilds": [
            {
                "id": HARBOUR, "name": "Harbour", "owner_id": "10", "roles": [{"id": "50", "name": "Crew"}],
                "members": [
                    {"user": {"id": "10", "username": "marlow"}, "roles": []},
                    {"user": {"id": "20", "username": "finch"}, "roles": ["50"]},
                    {"user": {"id": "21", "username": "reed"}, "roles": []},
                ],
            },
            {"id": VALLEY, "name": "Valley", "owner_id": "11", "members": [{"user": {"id": "11"}, "roles": []}]},
        ],
    })
}

fn staff(data: &Value) -> &Value {
    &data["guilds"][HARBOUR]["staff"]
}

/// A bot that has sent everything.
fn start(name: &str) -> (Discord, Service, processes::Process) {
    let (discord, service) = (Discord::start(&world()), Service::start());
    let bot = start_bot(name, &discord, &service);
    service.await_data("everything arrives", |data| {
        *staff(data) == json!({"20": ["50"]}) && data["guilds"][VALLEY]["staff"] == json!({})
    });
    (discord, service, bot)
}

fn guilds_staff_and_shards_arrive(name: &str) {
    let (_discord, service, bot) = start(name);
    let data = service.data();
    assert_eq!(data["guilds"][HARBOUR]["name"], "Harbour");
    assert_eq!(data["guilds"][HARBOUR]["setup"], true);
    assert_eq!(data["guilds"][HARBOUR]["grants"], json!({"50": ["MOD"]}));
    wait_for("the bot says so", || bot.output().contains("as lantern: 2 guilds, 2 shards"));
    wait_for("the shards' latencies", || {
        let status = service.status();
        let shards = status["health"]["bot"]["shards"].as_object().cloned().unwrap_or_default();
        shards.len() == 2
            && shards.values().all(|shard| shard["latency"].is_number())
            && status["resources"]["memory"].as_f64() > Some(0.0)
    });
}

fn changes_are_followed(name: &str) {
    let (discord, service, _bot) = start(name);
    discord.emit("GUILD_MEMBER_UPDATE", &json!({"guild_id": HARBOUR, "user": {"id": "21"}, "roles": ["50"]}));
    service.await_data("a role is given", |data| staff(data)["21"] == json!(["50"]));
    // Many changes of one member in a row: the last one wins, however the library schedules them.
    for roles in [json!([]), json!(["50"])].iter().cycle().take(51) {
        discord.emit("GUILD_MEMBER_UPDATE", &json!({"guild_id": HARBOUR, "user": {"id": "21"}, "roles": roles}));
    }
    discord.emit("GUILD_MEMBER_REMOVE", &json!({"guild_id": HARBOUR, "user": {"id": "20"}}));
    service.await_data("a role is taken and a member leaves", |data| *staff(data) == json!({}));
    discord.emit("GUILD_UPDATE", &json!({"id": HARBOUR, "name": "Harbour City"}));
    service.await_data("a guild is renamed", |data| data["guilds"][HARBOUR]["name"] == "Harbour City");
    let joined = json!({"id": "12582912", "name": "New", "owner_id": "12", "members": [{"user": {"id": "12"}, "roles": ["50"]}]});
    discord.emit("GUILD_CREATE", &joined);
    service.await_data("a guild is joined", |data| data["guilds"]["12582912"]["staff"] == json!({"12": ["50"]}));
    discord.emit("GUILD_DELETE", &json!({"id": VALLEY, "unavailable": true}));
    discord.emit("GUILD_DELETE", &json!({"id": "12582912"}));
    service.await_data("a guild is left", |data| data["guilds"]["12582912"].is_null());
    assert_eq!(service.data()["guilds"][VALLEY]["name"], "Valley", "an outage is not a departure");
}

fn a_new_session_is_followed(name: &str) {
    let (discord, service, _bot) = start(name);
    let mut changed = world();
    changed["guilds"].as_array_mut().unwrap().pop();
    changed["guilds"][0]["members"].as_array_mut().unwrap().remove(1);
    discord.control("world", &changed);
    discord.control("invalid_session", &json!({"shard": 0, "resumable": false}));
    discord.control("invalid_session", &json!({"shard": 1, "resumable": false}));
    service.await_data("what was left meanwhile is gone", |data| {
        data["guilds"][VALLEY].is_null() && *staff(data) == json!({})
    });
    // The new session's events arrive.
    discord.emit("GUILD_MEMBER_UPDATE", &json!({"guild_id": HARBOUR, "user": {"id": "21"}, "roles": ["50"]}));
    service.await_data("a role is given", |data| *staff(data) == json!({"21": ["50"]}));
}

fn members_that_cannot_be_listed_stay(name: &str) {
    let (discord, service) = (Discord::start(&world()), Service::start());
    let members = "GET /guilds/{id}/members";
    discord.control("fault", &json!({"where": members, "do": "status", "status": 500}));
    let bot = start_bot(name, &discord, &service);
    // Of many guilds that fail, the first is named; which one that is depends on the shards.
    wait_for("the bot says so", || bot.output().contains("cannot be listed"));
    service.await_data("the guild arrives", |data| data["guilds"][HARBOUR]["name"] == "Harbour");
    assert_eq!(*staff(&service.data()), json!({}), "no staff was sent");
    discord.clear_faults();
    service.await_data("the staff arrives", |data| *staff(data) == json!({"20": ["50"]}));
}

fn listings_leave_the_rate_limit_to_the_bot(name: &str) {
    const GUILDS: usize = 100;
    let members = json!([{"user": {"id": "20"}, "roles": ["50"]}]);
    let guilds: Vec<Value> = (1..=GUILDS)
        .map(|number| json!({"id": (number << 22).to_string(), "owner_id": "20", "roles": [{"id": "50"}], "members": members}))
        .collect();
    // Half of what Discord allows, because twilight keeps to that by itself.
    let discord = Discord::start(&json!({"shards": 1, "global_rate_limit": 25, "guilds": guilds}));
    let service = Service::start();
    let _bot = start_bot(name, &discord, &service);
    service.await_data("all guilds are listed", |data| {
        let guilds = data["guilds"].as_object().map(|guilds| guilds.values());
        guilds.into_iter().flatten().filter(|guild| guild["staff"] == json!({"20": ["50"]})).count() == GUILDS
    });
    assert_eq!(discord.limits(), 0);
}

fn a_limited_listing_is_completed(name: &str) {
    for scope in ["global", "user"] {
        let (discord, service) = (Discord::start(&world()), Service::start());
        let fault = json!({"where": "GET /guilds/{id}/members", "do": "rate_limit", "scope": scope, "times": 1});
        discord.control("fault", &fault);
        let bot = start_bot(name, &discord, &service);
        service.await_data("the staff arrives", |data| *staff(data) == json!({"20": ["50"]}));
        wait_for("the budget hears of it", || bot.output().contains("at 1/2 of the usual rate"));
        assert!(!bot.output().contains("cannot be listed"), "{}", bot.output());
        assert_eq!(discord.limits(), 1, "the page is not asked for while the limit lasts");
    }
}

fn the_service_may_go_away(name: &str) {
    let (discord, service, bot) = start(name);
    service.cut_off(" /bot/");
    discord.emit("GUILD_UPDATE", &json!({"id": HARBOUR, "name": "Harbour City"}));
    wait_for("the bot notices", || bot.output().contains("the service cannot be reached"));
    service.forget();
    service.reconnect();
    service.await_data("everything arrives again", |data| {
        data["guilds"][HARBOUR]["name"] == "Harbour City" && data["guilds"][VALLEY]["name"] == "Valley"
    });
    wait_for("the bot says so", || bot.output().contains("the service is back"));
    assert_eq!(bot.output().matches("the service cannot be reached").count(), 1, "{}", bot.output());
}

fn sigterm_sends_what_waits(name: &str) {
    let (discord, service, mut bot) = start(name);
    service.cut_off(" /bot/events");
    discord.emit("GUILD_UPDATE", &json!({"id": HARBOUR, "name": "Harbour City"}));
    wait_for("the change waits for a retry", || bot.output().contains("the service cannot be reached"));
    service.reconnect();
    bot.terminate();
    let status = bot.await_end();
    assert!(status.success(), "{status}: {}", bot.output());
    assert_eq!(service.data()["guilds"][HARBOUR]["name"], "Harbour City");
    assert!(!bot.output().contains("closed before everything was sent"), "{}", bot.output());
}

fn the_bot_does_not_start_without_configuration(name: &str) {
    let output = example(name).env("DISCORD_TOKEN", "x").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("COMPANION_URL is not set"), "{text}");
    let output = example(name)
        .env("DISCORD_TOKEN", "x")
        .envs([("COMPANION_URL", "http://127.0.0.1:1"), ("COMPANION_BOT_KEY", "bck_secret\n")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("COMPANION_BOT_KEY has"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

macro_rules! with_libraries {
    ($($library:ident)*: $test:ident $($rest:tt)*) => {
        mod $test {
            $(#[test] fn $library() { super::$test(stringify!($library)); })*
        }
        with_libraries! { $($library)*: $($rest)* }
    };
    ($($library:ident)*:) => {};
}

with_libraries! {
    serenity poise twilight:
    guilds_staff_and_shards_arrive
    changes_are_followed
    sigterm_sends_what_waits
    the_bot_does_not_start_without_configuration
}

// Poise runs on serenity, which does these.
with_libraries! {
    serenity twilight:
    a_new_session_is_followed
    members_that_cannot_be_listed_stay
    listings_leave_the_rate_limit_to_the_bot
    a_limited_listing_is_completed
    the_service_may_go_away
}
