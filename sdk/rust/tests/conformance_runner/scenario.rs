//! Replays one scenario.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bot_companion_feed::{BotEvent, Builder, Clock as _, Companion, Delivery, Level, Limits, Notice, PendingDelivery};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::clock::SimulatedClock;
use super::service::{Service, envelope};
use super::world::{Callback, World, id, ids};

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Lines = Arc<Mutex<Vec<(Level, String)>>>;

struct Replay {
    clock: SimulatedClock,
    service: Service,
    world: World,
    callbacks: HashMap<String, Callback>,
    companion: Companion,
    /// The feed's own work, and closing it.
    work: Vec<BoxFuture<'static, ()>>,
    woken: Arc<Flag>,
    is_closed: Arc<AtomicBool>,
    lines: Lines,
    notices: broadcast::Receiver<Notice>,
    untaken: Vec<Notice>,
    deliveries: HashMap<String, (PendingDelivery, Option<Delivery>)>,
    /// Calls that are made when something else has happened.
    later: Vec<Value>,
}

/// Replays the scenario; the error says which step went wrong.
pub fn replay(text: &str) -> Result<(), String> {
    let mut steps = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let header: Value = steps.next().unwrap();
    let mut replay = Replay::new(&header);
    replay.settle();
    for (index, step) in steps.enumerate() {
        replay.step(&step).map_err(|error| format!("line {}: {step}\n    {error}", index + 2))?;
        replay.settle();
    }
    let under_way = replay.service.under_way();
    if !under_way.is_empty() {
        return Err(format!("at the end requests are under way: {under_way:?}"));
    }
    let lines = replay.lines.lock().unwrap();
    let untaken: Vec<_> = lines.iter().filter(|(level, _)| *level != Level::Info).collect();
    if untaken.is_empty() { Ok(()) } else { Err(format!("nobody took these lines: {untaken:?}")) }
}

impl Replay {
    fn new(header: &Value) -> Self {
        let (clock, world) = (SimulatedClock::default(), World::new(&header["world"]));
        let service = Service::new(header["heartbeats"] == "expected");
        let callbacks: HashMap<String, Callback> = header["callbacks"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), Callback::new(value, &clock)))
            .collect();
        let lines = Lines::default();
        let sink = Arc::clone(&lines);
        let builder = Companion::builder("http://companion.example", "bck_test")
            .unwrap()
            .clock(Arc::new(clock.clone()))
            .transport(Arc::new(service.clone()))
            .limits(|limits| set_limits(limits, &header["limits"]))
            .log(Arc::new(move |level, text: &str| sink.lock().unwrap().push((level, text.to_owned()))));
        let (companion, work) = with_callbacks(builder, &callbacks).build(Arc::new(world.clone())).unwrap();
        let notices = companion.notices();
        Self {
            clock,
            service,
            world,
            callbacks,
            companion,
            work: vec![work],
            woken: Arc::new(Flag(AtomicBool::new(true))),
            is_closed: Arc::default(),
            lines,
            notices,
            untaken: Vec::new(),
            deliveries: HashMap::new(),
            later: Vec::new(),
        }
    }

    /// Runs everything that can run without the clock moving.
    fn settle(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            while self.woken.0.swap(false, Ordering::SeqCst) {
                self.work.retain_mut(|work| work.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending);
            }
            let mut is_synced = false;
            while let Ok(notice) = self.notices.try_recv() {
                is_synced |= matches!(notice, Notice::Synced);
                self.untaken.push(notice);
            }
            let later = std::mem::take(&mut self.later);
            let (due, later): (Vec<Value>, _) = later.into_iter().partition(|step| match step["when"].as_str() {
                Some("synced") => is_synced,
                other => self.is_delivered(other.unwrap()),
            });
            self.later = later;
            if due.is_empty() {
                return;
            }
            for step in &due {
                self.call(step);
            }
        }
    }

    fn is_delivered(&mut self, name: &str) -> bool {
        let (pending, known) = self.deliveries.get_mut(name).unwrap();
        if known.is_none() {
            *known = pending.now();
        }
        known.is_some()
    }

    fn advance(&mut self, time: f64) {
        let target = self.clock.now() + Duration::from_secs_f64(time);
        while let Some(at) = self.clock.next_before(target) {
            self.clock.turn_to(at);
            self.settle();
        }
        self.clock.turn_to(target);
        self.settle();
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        let kind = ["bot", "world", "callback", "listing", "call", "service", "advance", "expect", "log", "delivery"]
            .into_iter()
            .chain(["status", "event", "closed"])
            .find(|kind| step.get(kind).is_some());
        let text = |name: &str| step[name].as_str().unwrap_or_default();
        match kind.ok_or("the step is not known")? {
            "bot" => self.bot(step),
            "world" => self.world.change(&step["world"]),
            "callback" => self.callbacks[text("callback")].set(text("does"), step.get("value")),
            "listing" => self.world.set_listing(text("listing"), step.get("guild").map(id)),
            "call" if step.get("when").is_some() => self.later.push(step.clone()),
            "call" => self.call(step),
            "service" => match text("service") {
                "away" => self.service.set_away(true),
                "back" => self.service.set_away(false),
                _ => {}
            },
            "advance" => self.advance(step["advance"].as_f64().unwrap()),
            "expect" => self.expect(step)?,
            "log" => self.take_line(text("log"), text("contains"))?,
            "delivery" => self.check_delivery(step)?,
            "status" => compare_fields(&self.status(), &step["status"])?,
            "event" => self.take_notice(text("event"), text("contains"))?,
            _ => {
                if !self.is_closed.load(Ordering::SeqCst) {
                    return Err("it is not closed".to_owned());
                }
            }
        }
        Ok(())
    }

    fn bot(&self, step: &Value) {
        let shard = step["shard"].as_u64().unwrap_or_default() as u32;
        let guild = step["guild"].as_str().map(|guild| guild.parse().unwrap()).unwrap_or_default();
        let user = step.get("user").map(id).unwrap_or_default();
        let roles = ids(&step["roles"]);
        let event = match step["bot"].as_str().unwrap() {
            "session" => {
                self.world.begin_session(shard, &step["guilds"]);
                BotEvent::Session { shard }
            }
            "ready" => BotEvent::Ready { shard },
            "guild_here" => BotEvent::GuildHere { guild: self.world.guild_here(&step["guild"]) },
            "guild_gone" => {
                self.world.remove_guild(guild);
                BotEvent::GuildGone { guild }
            }
            "guild_unavailable" => {
                self.world.set_unavailable(guild);
                BotEvent::GuildUnavailable { guild }
            }
            "guild_changed" => BotEvent::GuildChanged { guild: self.world.change_guild(&step["guild"]) },
            "role_changed" => BotEvent::RoleChanged { guild },
            "role_gone" => {
                let role = id(&step["role"]);
                self.world.remove_role(guild, role);
                BotEvent::RoleGone { guild, role }
            }
            "member" => {
                self.world.set_member(guild, user, Some(roles.clone()), 0);
                BotEvent::MemberChanged { guild, user, roles }
            }
            "member_joined" => {
                self.world.set_member(guild, user, Some(roles.clone()), 1);
                BotEvent::MemberJoined { guild, user, roles }
            }
            "member_gone" => {
                self.world.set_member(guild, user, None, -1);
                BotEvent::MemberGone { guild, user }
            }
            "limited" => BotEvent::Limited { time: Duration::from_secs_f64(step["seconds"].as_f64().unwrap()) },
            other => panic!("the bot sees no {other}"),
        };
        if step.get("fails").is_some() {
            self.clock.fail_once();
        }
        self.companion.tell(&event);
    }

    fn call(&mut self, step: &Value) {
        let mut keep =
            |delivery| drop(self.deliveries.insert(step["as"].as_str().unwrap().to_owned(), (delivery, None)));
        match step["call"].as_str().unwrap() {
            "changed" => match step.get("guild") {
                Some(guild) => self.companion.changed(id(guild)),
                None => self.companion.all_changed(),
            },
            "subscriptions_changed" => self.companion.subscriptions_changed(),
            "team_changed" => self.companion.team_changed(),
            "feedback" => keep(self.companion.feedback(&step["entry"])),
            "feedback_gone" => keep(self.companion.feedback_gone(step["id"].as_str().unwrap())),
            "close" => {
                let (companion, is_closed) = (self.companion.clone(), Arc::clone(&self.is_closed));
                self.work.push(Box::pin(async move {
                    companion.close().await;
                    is_closed.store(true, Ordering::SeqCst);
                }));
                self.woken.0.store(true, Ordering::SeqCst);
            }
            other => panic!("nobody calls {other}"),
        }
    }

    fn expect(&self, step: &Value) -> Result<(), String> {
        let name = step["expect"].as_str().unwrap();
        if name == "nothing" {
            let under_way = self.service.under_way();
            return if under_way.is_empty() { Ok(()) } else { Err(format!("under way: {under_way:?}")) };
        }
        let request = self.service.take(name)?;
        let others = self.service.under_way();
        if !others.is_empty() {
            return Err(format!("beside it are under way: {others:?}"));
        }
        let mut lines =
            request.lines().or_else(|error| if name.ends_with("heartbeat") { Ok(Vec::new()) } else { Err(error) })?;
        if step.get("sequence").is_some_and(|sequence| sequence.as_u64() != request.sequence) {
            return Err(format!("the sequence is {:?}", request.sequence));
        }
        let below = step["sequence"].as_u64().filter(|_| name.starts_with("PUT")).map(|sequence| sequence - 1);
        if request.after != step.get("after").map_or(below, Value::as_u64) {
            return Err(format!("it comes after {:?}", request.after));
        }
        if let Some(body) = step.get("body") {
            compare_fields(&serde_json::from_str(&request.body).unwrap(), body)?;
        }
        if name == "PUT /bot/heartbeat" {
            let body: Value = serde_json::from_str(&request.body).unwrap();
            if body["leaving"] != step["body"]["leaving"] {
                return Err(format!("leaving is {}", body["leaving"]));
            }
        }
        if name.starts_with("PUT") && name != "PUT /bot/heartbeat" {
            let end = lines.pop().unwrap_or_default();
            if end != json!({"end": lines.len()}) {
                return Err(format!("the last line is {end} after {} lines", lines.len()));
            }
        }
        if step.get("count").is_some_and(|count| count.as_u64() != Some(lines.len() as u64)) {
            return Err(format!("it has {} lines", lines.len()));
        }
        if let Some(expected) = step["lines"].as_array()
            && !is_same(&Value::Array(lines.clone()), &Value::Array(expected.clone()))
        {
            let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
            return Err(format!("the lines are\n    {}", lines.join("\n    ")));
        }
        match step.get("answer") {
            None if name.ends_with("heartbeat") => request.answer(Ok(envelope(200, json!({})))),
            None => {
                let count = lines.len() as u64;
                let next = request.sequence.unwrap() + if name == "POST /bot/events" { count } else { 0 };
                request.answer(Ok(envelope(200, json!({"applied": count, "ignored": 0, "next": next}))));
            }
            Some(Value::String(what)) if what == "hang" => self.service.hang(request),
            Some(Value::String(what)) if what == "garbage" => {
                let mut garbage = envelope(200, json!({}));
                garbage.data = None;
                request.answer(Ok(garbage));
            }
            Some(Value::String(_)) => request.answer(Err("the answer was lost".to_owned())),
            Some(answer) => {
                let mut response = envelope(answer["status"].as_u64().unwrap() as u16, answer["data"].clone());
                response.data = response.data.filter(|_| answer["data"].is_object());
                response.retry_after = answer["retry_after"].as_str().map(str::to_owned);
                request.answer(Ok(response));
            }
        }
        Ok(())
    }

    fn take_line(&self, level: &str, contains: &str) -> Result<(), String> {
        let level = match level {
            "info" => Level::Info,
            "warn" => Level::Warn,
            _ => Level::Error,
        };
        let mut lines = self.lines.lock().unwrap();
        let index = lines.iter().position(|(of, text)| *of == level && text.contains(contains));
        let index = index.ok_or_else(|| format!("no such line; there are {lines:?}"))?;
        lines.remove(index);
        Ok(())
    }

    fn take_notice(&mut self, event: &str, contains: &str) -> Result<(), String> {
        let fits = |notice: &Notice| match notice {
            Notice::Synced => event == "synced",
            Notice::Error(text) => event == "error" && text.contains(contains),
            _ => false,
        };
        let before = self.untaken.len();
        self.untaken.retain(|notice| !fits(notice));
        if self.untaken.len() < before { Ok(()) } else { Err(format!("not told; told were {:?}", self.untaken)) }
    }

    fn check_delivery(&mut self, step: &Value) -> Result<(), String> {
        let (pending, known) =
            self.deliveries.get_mut(step["delivery"].as_str().unwrap()).ok_or("nobody called it so")?;
        if known.is_none() {
            *known = pending.now();
        }
        let is_right = match (&step["delivered"], &*known) {
            (Value::Bool(true), Some(Delivery::Delivered)) | (Value::String(_), None) => true,
            (Value::Bool(false), Some(Delivery::NotDelivered(reason))) => {
                reason.contains(step["contains"].as_str().unwrap_or_default())
            }
            _ => false,
        };
        if is_right { Ok(()) } else { Err(format!("the result is {known:?}")) }
    }

    fn status(&self) -> Value {
        let status = self.companion.status();
        let counters = status.counters;
        json!({
            "state": status.state.as_str(), "instance": status.instance, "guilds": status.guilds,
            "shards": status.shards, "staff": status.staff, "last_error": status.last_error,
            "waiting": {
                "changes": status.waiting.changes, "feedback": status.waiting.feedback, "batch": status.waiting.batch,
            },
            "counters": {
                "requests": counters.requests, "failures": counters.failures, "heartbeats": counters.heartbeats,
                "snapshots": counters.snapshots, "lines_sent": counters.lines_sent,
                "lines_refused": counters.lines_refused, "lines_ignored": counters.lines_ignored,
                "resyncs": counters.resyncs, "feedback_delivered": counters.feedback_delivered,
                "feedback_dropped": counters.feedback_dropped, "callback_failures": counters.callback_failures,
                "listings": counters.listings, "listing_failures": counters.listing_failures,
            },
        })
    }
}

/// Compares with the expected value; numbers are compared by value.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| is_same(value, other)))
        }
        (one, other) => one == other,
    }
}

/// Compares only the given fields, in nested objects, too.
fn compare_fields(actual: &Value, expected: &Value) -> Result<(), String> {
    for (name, value) in expected.as_object().unwrap() {
        let is_right = match value {
            Value::Object(_) => compare_fields(&actual[name], value).is_ok(),
            _ => is_same(&actual[name], value),
        };
        if !is_right {
            return Err(format!("{name} is {}", actual[name]));
        }
    }
    Ok(())
}

fn with_callbacks(mut builder: Builder, callbacks: &HashMap<String, Callback>) -> Builder {
    let get = |name: &str| callbacks.get(name).cloned();
    if let Some(callback) = get("grants") {
        builder = builder.grants(move |guild| callback.clone().grants(guild.id));
    }
    if let Some(callback) = get("setup") {
        builder = builder.setup(move |guild| callback.clone().flag(guild.id));
    }
    if let Some(callback) = get("linked") {
        builder = builder.linked(move |guild| callback.clone().flag(guild.id));
    }
    if let Some(callback) = get("subscriptions") {
        builder = builder.subscriptions(move || callback.clone().entries());
    }
    if let Some(callback) = get("team") {
        builder = builder.team(move || callback.clone().entries());
    }
    builder
}

fn set_limits(limits: &mut Limits, given: &Value) {
    for (name, value) in given.as_object().into_iter().flatten() {
        let count = value.as_u64().unwrap_or_default() as usize;
        let time = Duration::from_secs_f64(value.as_f64().unwrap());
        match name.as_str() {
            "batch_lines" => limits.batch_lines = count,
            "batch_bytes" => limits.batch_bytes = count,
            "line_bytes" => limits.line_bytes = count,
            "changes" => limits.changes = count,
            "feedback" => limits.feedback = count,
            "feedback_lines" => limits.feedback_lines = count,
            "callbacks_at_once" => limits.callbacks_at_once = count,
            "heartbeat_interval" => limits.heartbeat_interval = time,
            "gather_time" => limits.gather_time = time,
            "member_count_interval" => limits.member_count_interval = time,
            "refresh_interval" => limits.refresh_interval = time,
            "callback_timeout" => limits.callback_timeout = time,
            "callback_retry" => limits.callback_retry = time,
            "listing_rate" => limits.listing_rate = value.as_f64().unwrap(),
            "subscription_tries" => limits.subscription_tries = count as u32,
            "listing_retry" => limits.listing_retry = time,
            "stall_timeout" => limits.stall_timeout = time,
            "flush_interval" => limits.flush_interval = time,
            "first_retry" => limits.first_retry = time,
            "longest_retry" => limits.longest_retry = time,
            "longest_retry_after" => limits.longest_retry_after = time,
            "close_timeout" => limits.close_timeout = time,
            other => panic!("there is no limit {other}"),
        }
    }
}
