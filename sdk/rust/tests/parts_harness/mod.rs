//! A bot with one guild, and a service in memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bot_companion_feed::{
    Body, BotEvent, Builder, Companion, Guild, GuildState, ListingError, Member, Page, Request, Response, ShardHealth,
    Source, Transport,
};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Only a failing test waits this long.
const LONGEST: Duration = Duration::from_mins(5);

pub const GUILD: u64 = 4_194_304;

/// The log.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub fn push(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }

    pub async fn await_line(&self, text: &str) {
        let written = async {
            while !self.contain(text) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LONGEST, written).await.unwrap_or_else(|_| panic!("{text} was not logged: {self:?}"));
    }

    pub fn contain(&self, text: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().unwrap().fmt(f)
    }
}

/// A builder that sends to this service and logs to these lines.
pub fn builder(service: &Arc<Memory>, lines: &Lines) -> Builder {
    let sink = lines.clone();
    Companion::builder("http://companion.example", "bck_test")
        .unwrap()
        .transport(service.clone())
        .log(Arc::new(move |_, text: &str| sink.push(text)))
}

pub fn ready(companion: &Companion) {
    companion.tell(&BotEvent::Session { shard: 0 });
    companion.tell(&BotEvent::Ready { shard: 0 });
}

/// A service that accepts everything and keeps the lines.
pub struct Memory {
    lines: watch::Sender<Vec<Value>>,
    is_away: Mutex<bool>,
    /// The paths of accepted requests.
    paths: watch::Sender<Vec<String>>,
}

impl Memory {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { lines: watch::Sender::default(), is_away: Mutex::new(false), paths: watch::Sender::default() })
    }

    /// While away, it only accepts heartbeats.
    pub fn set_away(&self, is_away: bool) {
        *self.is_away.lock().unwrap() = is_away;
    }

    /// Waits until a request with this path was accepted this many times.
    pub async fn await_path(&self, path: &str, times: usize) {
        let mut paths = self.paths.subscribe();
        let taken = paths.wait_for(|paths| paths.iter().filter(|one| *one == path).count() >= times);
        timeout(LONGEST, taken).await.unwrap_or_else(|_| panic!("{path} did not come {times} times")).unwrap();
    }

    pub fn lines(&self) -> Vec<Value> {
        self.lines.borrow().clone()
    }

    pub async fn await_line(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut lines = self.lines.subscribe();
        let lines = timeout(LONGEST, lines.wait_for(|lines| lines.iter().any(&is_it))).await;
        let lines = lines.unwrap_or_else(|_| panic!("the line did not come: {:?}", self.lines())).unwrap();
        lines.iter().find(|line| is_it(line)).unwrap().clone()
    }
}

impl Transport for Memory {
    fn send(&self, request: Request) -> BoxFuture<'static, Result<Response, String>> {
        let (is_away, lines, paths) = (*self.is_away.lock().unwrap(), self.lines.clone(), self.paths.clone());
        Box::pin(async move {
            let (body, is_events) = match request.body {
                Body::Json(_) => (Vec::new(), false),
                Body::Lines(body) => (body, true),
                Body::Stream(lines) => (lines.concat().await, false),
            };
            if is_away && request.path != "/bot/heartbeat" {
                return Err("away, after everything was sent".to_owned());
            }
            let parsed = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let parsed: Vec<Value> = parsed.map(|line| serde_json::from_slice(line).unwrap()).collect();
            let next = request.sequence.unwrap_or_default() + if is_events { parsed.len() as u64 } else { 0 };
            lines.send_modify(|lines| lines.extend(parsed));
            paths.send_modify(|paths| paths.push(request.path));
            let data = json!({"applied": 0, "ignored": 0, "next": next}).as_object().cloned();
            Ok(Response { status: 200, retry_after: None, data })
        })
    }
}

/// Guilds in which every member holds the role 50, whose members are listed or cached.
pub struct Ranks {
    guilds: u64,
    members: u64,
    /// Whether the library's cache has every member.
    pub is_cached: Mutex<bool>,
    /// The member after which each page was requested, and when.
    pub asked: Mutex<Vec<(u64, Duration)>>,
    /// The rate limits of the next pages.
    pub limits: Mutex<VecDeque<Option<Duration>>>,
    /// How long a page takes.
    pub delay: Mutex<Duration>,
    started: Instant,
}

impl Ranks {
    pub fn new(members: u64) -> Self {
        Self::with_guilds(members, 1)
    }

    pub fn with_guilds(members: u64, guilds: u64) -> Self {
        Self {
            guilds,
            members,
            is_cached: Mutex::default(),
            asked: Mutex::default(),
            limits: Mutex::default(),
            delay: Mutex::default(),
            started: Instant::now(),
        }
    }
}

impl Source for Ranks {
    fn name(&self) -> Option<String> {
        None
    }

    fn library(&self) -> Option<String> {
        None
    }

    fn shard_count(&self) -> u32 {
        1
    }

    fn shards(&self) -> Vec<ShardHealth> {
        vec![ShardHealth::new(0)]
    }

    fn guild_ids(&self, _: u32) -> Vec<u64> {
        (0..self.guilds).map(|index| GUILD + index).collect()
    }

    fn guild(&self, id: u64) -> GuildState {
        GuildState::Available(Guild::new(id, "Harbour", 10, self.members))
    }

    fn has_members_intent(&self) -> bool {
        true
    }

    fn cached_holders(&self, _: u64, _: &[u64]) -> Option<Vec<Member>> {
        let members = (1..=self.members).map(|user| Member { user, roles: vec![50] });
        self.is_cached.lock().unwrap().then(|| members.collect())
    }

    fn list_members(&self, _: u64, after: u64) -> BoxFuture<'static, Result<Page, ListingError>> {
        self.asked.lock().unwrap().push((after, self.started.elapsed()));
        if let Some(time) = self.limits.lock().unwrap().pop_front().flatten() {
            return Box::pin(async move { Err(ListingError::Limited(time)) });
        }
        let delay = *self.delay.lock().unwrap();
        let last = self.members.min(after + 1_000);
        let members = (after + 1..=last).map(|user| Member { user, roles: vec![50] }).collect();
        let page = Page { members, is_last: last == self.members };
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            Ok(page)
        })
    }
}
