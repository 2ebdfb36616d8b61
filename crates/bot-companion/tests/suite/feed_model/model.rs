//! What the service must know after each request. The model reads the same JSON as the service, one request at a time.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use super::ownership::{Verdict, covers};
use super::{SILENCE, number_of};
use crate::harness::{ndjson, snapshot};

/// How many shards there are, and which of them this is.
pub type Shard = (u64, u64);

/// A numbered request, which may be sent again later.
#[derive(Clone, Debug)]
pub struct Request {
    /// The index of the process that sends it.
    pub by: usize,
    pub sequence: u64,
    pub what: What,
    pub lines: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    Events,
    Guilds(Shard),
    Subscriptions,
}

impl What {
    pub fn route(self) -> (Method, String) {
        match self {
            Self::Events => (Method::POST, "/bot/events".to_owned()),
            Self::Guilds((count, id)) => (Method::PUT, format!("/bot/shards/{count}/{id}/guilds")),
            Self::Subscriptions => (Method::PUT, "/bot/subscriptions".to_owned()),
        }
    }
}

impl Request {
    pub fn body(&self) -> String {
        if self.what == What::Events { ndjson(&self.lines) } else { snapshot(&self.lines) }
    }
}

/// The response that the service must give.
#[derive(Debug, PartialEq)]
pub enum Expected {
    Accepted {
        applied: usize,
        ignored: usize,
        next: u64,
        unowned: UnownedEvents,
        /// The sender's shards that the response calls replaced, and free.
        lost: [Vec<Shard>; 2],
    },
    Refused {
        error: &'static str,
        next: u64,
    },
}

impl Expected {
    fn accepted(applied: usize, next: u64) -> Self {
        Self::Accepted { applied, ignored: 0, next, unowned: UnownedEvents::default(), lost: Default::default() }
    }
}

/// What was ignored because it is about another process's shard.
#[derive(Debug, Default, PartialEq)]
pub struct UnownedEvents {
    pub overruled: usize,
    /// The process that overruled the last of it.
    pub owner: Option<usize>,
    pub unclaimed: usize,
}

/// A snapshot of a shard whose lines are staged and not yet committed.
#[derive(Clone, Debug)]
pub struct Staged {
    pub by: usize,
    pub sequence: u64,
    pub shard: Shard,
    pub lines: Vec<Value>,
    /// The latest commit when parts that were not mentioned were carried over, or `SEVERAL`; `None` if nothing was.
    pub basis: Option<u64>,
}

/// Parts were carried over from more than one commit.
const SEVERAL: u64 = u64::MAX;

/// A bot process. Times are milliseconds.
#[derive(Clone, Debug)]
pub struct Process {
    pub name: String,
    /// When it says it started.
    pub said: u64,
    pub count: u64,
    /// The ids of its shards.
    pub own: Vec<u64>,
    pub memory: u64,
    pub life: Life,
}

/// What the service knows about a process.
#[derive(Clone, Debug)]
pub struct Life {
    pub first_seen: Option<u64>,
    pub next: u64,
    /// When it counts as started.
    pub started: u64,
    pub heartbeat: u64,
    pub call: u64,
    pub has_sent_snapshot: bool,
    /// The shards that it has named as its own.
    pub named: BTreeSet<Shard>,
}

impl Life {
    pub fn new() -> Self {
        let named = BTreeSet::new();
        Self { first_seen: None, next: 1, started: 0, heartbeat: 0, call: 0, has_sent_snapshot: false, named }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Guild {
    pub said: Value,
    pub grants: BTreeMap<String, Vec<String>>,
    pub staff: BTreeMap<u64, Vec<String>>,
}

/// The health of a shard, as a process reported it.
#[derive(Clone, Debug)]
pub struct Report {
    pub by: usize,
    pub at: u64,
    pub record: Value,
}

#[derive(Clone, Default)]
pub struct Model {
    /// Milliseconds.
    pub now: u64,
    pub processes: Vec<Process>,
    /// By number.
    pub guilds: BTreeMap<u64, Guild>,
    /// The latest snapshot of each shard that still counts: who sent it, and the number of its commit.
    pub sent: BTreeMap<Shard, (usize, u64)>,
    pub commits: u64,
    /// The numbers of the guilds that each person is in.
    pub lists: BTreeMap<u64, BTreeSet<u64>>,
    pub subscriptions: BTreeMap<u64, Value>,
    pub feedback: BTreeMap<String, Value>,
    pub team: Vec<Value>,
    pub health: BTreeMap<u64, Report>,
}

/// The number of the guild that an event is about.
fn guild_of(event: &Value) -> Option<u64> {
    match event["type"].as_str().unwrap() {
        "guild" | "guild_gone" => Some(number_of(&event["id"])),
        "member" | "member_gone" => Some(number_of(&event["guild"])),
        _ => None,
    }
}

fn user_of(id: &Value) -> u64 {
    id.as_str().unwrap().parse().unwrap()
}

pub fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

impl Model {
    /// The process sent a numbered request.
    pub fn note_call(&mut self, by: usize) {
        let (now, life) = (self.now, &mut self.processes[by].life);
        if life.first_seen.is_none() {
            (life.first_seen, life.started) = (Some(now), now);
        }
        life.call = now;
    }

    pub fn receive(&mut self, request: &Request) -> Expected {
        self.note_call(request.by);
        match request.what {
            What::Events => self.receive_events(request),
            What::Subscriptions => self.receive_subscriptions(request),
            What::Guilds(shard) => {
                let Request { by, sequence, .. } = *request;
                let mut staged = Staged { by, sequence, shard, lines: Vec::new(), basis: None };
                self.stage(&mut staged, request.lines.clone());
                self.commit(&staged)
            }
        }
    }

    fn receive_subscriptions(&mut self, request: &Request) -> Expected {
        let Request { sequence, lines, .. } = request;
        let life = &mut self.processes[request.by].life;
        life.has_sent_snapshot = true;
        if life.next > *sequence {
            return Expected::Refused { error: "snapshot_outdated", next: life.next };
        }
        life.next = *sequence;
        self.subscriptions = lines.iter().map(|line| (user_of(&line["userid"]), line.clone())).collect();
        Expected::accepted(lines.len(), *sequence)
    }

    fn receive_events(&mut self, request: &Request) -> Expected {
        let Request { by, sequence, lines, .. } = request;
        let next = self.processes[*by].life.next;
        let refused = Expected::Refused { error: "resync_required", next };
        if *sequence > next {
            return refused;
        }
        let new = (*sequence..).zip(lines).filter(|(number, _)| *number >= next).map(|(_, event)| event);
        let (mut accepted, mut unowned) = (Vec::new(), UnownedEvents::default());
        for event in new {
            match guild_of(event).map_or(Verdict::Apply, |guild| self.judge(*by, guild)) {
                Verdict::Resync => return refused,
                Verdict::Apply => accepted.push(event),
                Verdict::Unclaimed => unowned.unclaimed += 1,
                Verdict::Overruled(owner) => {
                    unowned.overruled += 1;
                    unowned.owner = Some(owner);
                }
            }
        }
        let applied = accepted.into_iter().filter(|event| self.apply(event)).count();
        let next = next.max(sequence + lines.len() as u64);
        self.processes[*by].life.next = next;
        let lost = if lines.is_empty() || unowned.overruled > 0 { self.lost(*by) } else { [Vec::new(), Vec::new()] };
        Expected::Accepted { applied, ignored: lines.len() - applied, next, unowned, lost }
    }

    /// Stages lines. Parts that they do not mention are carried over from the latest snapshot.
    pub fn stage(&self, staged: &mut Staged, lines: Vec<Value>) {
        let carries =
            |line: &Value| line["unavailable"] != true && (line["grants"].is_null() || line["staff"].is_null());
        // The last line about a guild counts.
        let last: BTreeMap<u64, &Value> = lines.iter().map(|line| (number_of(&line["id"]), line)).collect();
        if last.into_values().any(carries) {
            let latest = self.latest_commit(staged.shard);
            staged.basis = Some(if staged.basis.is_none_or(|basis| basis == latest) { latest } else { SEVERAL });
        }
        staged.lines.extend(lines);
    }

    pub fn commit(&mut self, staged: &Staged) -> Expected {
        let Staged { by, sequence, shard, .. } = *staged;
        self.note_call(by);
        let life = &mut self.processes[by].life;
        life.has_sent_snapshot = true;
        life.named.insert(shard);
        let (count, outdated) = (staged.lines.len(), Expected::Refused { error: "snapshot_outdated", next: life.next });
        if life.next > sequence {
            return outdated;
        }
        if let Some(owner) = self.taken_by(by, shard) {
            self.processes[by].life.next = sequence;
            let unowned = UnownedEvents { overruled: count, owner: Some(owner), unclaimed: 0 };
            let lost = [vec![shard], Vec::new()];
            return Expected::Accepted { applied: 0, ignored: count, next: sequence, unowned, lost };
        }
        if staged.basis.is_some_and(|basis| basis != self.latest_commit(shard)) {
            return outdated;
        }
        self.processes[by].life.next = sequence;
        self.commits += 1;
        self.sent.insert(shard, (by, self.commits));
        self.drop_superseded(shard.0);
        // The last line about a guild counts.
        let said: BTreeMap<u64, &Value> = staged.lines.iter().map(|line| (number_of(&line["id"]), line)).collect();
        self.guilds.retain(|number, _| !covers(shard, *number) || said.contains_key(number));
        for line in said.into_values().filter(|line| line["unavailable"] != true) {
            self.put_guild(line);
        }
        Expected::accepted(count, sequence)
    }

    /// Stores a guild as sent; grants and staff that were not mentioned stay.
    pub fn put_guild(&mut self, said: &Value) {
        let guild = self.guilds.entry(number_of(&said["id"])).or_default();
        if let Some(grants) = said["grants"].as_object() {
            guild.grants = grants.iter().map(|(role, keys)| (role.clone(), texts(keys))).collect();
        }
        if let Some(staff) = said["staff"].as_object() {
            guild.staff = staff.iter().map(|(user, roles)| (user.parse().unwrap(), texts(roles))).collect();
        }
        guild.said = said.clone();
    }

    /// Applies an event; `false` if it is of a kind that counts as ignored.
    pub fn apply(&mut self, event: &Value) -> bool {
        let (kind, guild) = (event["type"].as_str().unwrap(), guild_of(event));
        match kind {
            "guild" => self.put_guild(event),
            "guild_gone" => drop(self.guilds.remove(&guild.unwrap())),
            "member" => {
                if let Some(known) = self.guilds.get_mut(&guild.unwrap()) {
                    let (user, roles) = (user_of(&event["user"]), texts(&event["roles"]));
                    known.staff.remove(&user);
                    // The role with the guild's own ID is everyone's, and makes nobody staff.
                    let grants = |role: &String| known.grants.get(role).is_some_and(|keys| !keys.is_empty());
                    if roles.iter().any(|role| event["guild"] != *role && grants(role)) {
                        known.staff.insert(user, roles);
                    }
                }
            }
            "member_gone" => {
                let user = user_of(&event["user"]);
                if let Some(known) = self.guilds.get_mut(&guild.unwrap()) {
                    known.staff.remove(&user);
                }
                self.lists.get_mut(&user).unwrap().remove(&guild.unwrap());
            }
            "subscription" => drop(self.subscriptions.insert(user_of(&event["userid"]), event.clone())),
            "subscription_gone" => drop(self.subscriptions.remove(&user_of(&event["userid"]))),
            "feedback" => {
                let shown = json!({"feedback": event["feedback"], "rating": event["rating"],
                    "timestamp": event["timestamp"], "submitter": event["submitter"]});
                self.feedback.insert(event["id"].as_str().unwrap().to_owned(), shown);
            }
            "feedback_gone" => drop(self.feedback.remove(event["id"].as_str().unwrap())),
            "team" => self.team.clone_from(event["members"].as_array().unwrap()),
            "user" => {
                let submitters = self.feedback.values_mut().map(|entry| (&mut entry["submitter"], "id"));
                for (person, id) in submitters.chain(self.team.iter_mut().map(|member| (member, "discord_id"))) {
                    if person[id] == event["id"] {
                        for field in ["username", "name", "avatar"] {
                            person[field] = event[field].clone();
                        }
                    }
                }
            }
            _ => return false,
        }
        true
    }

    /// Receives this heartbeat from a process.
    pub fn receive_heartbeat(&mut self, by: usize, report: &Value) {
        let (now, count) = (self.now, self.processes[by].count);
        let process = &mut self.processes[by];
        let first_seen = *process.life.first_seen.get_or_insert(now);
        let started = process.said.min(first_seen);
        process.life.started = started;
        process.life.named.extend(process.own.iter().map(|shard| (count, *shard)));
        if report["leaving"] == true {
            (process.life.heartbeat, process.life.call) = (0, process.life.call.min(now - SILENCE));
            return;
        }
        for shard in report["shards"].as_array().unwrap() {
            let id = shard["id"].as_u64().unwrap();
            let known = self.health.get(&id);
            let outranks = |other: &Report| {
                let is_there = now - self.processes[other.by].life.heartbeat < SILENCE;
                other.by != by && is_there && self.rank(other.by) > self.rank(by) && now - other.at < SILENCE
            };
            if known.is_some_and(outranks) {
                continue;
            }
            let none = json!({"heartbeatSent": 0.0, "heartbeatAcknowledged": 0.0, "latency": 0.0});
            let mut record = known.map_or(none, |known| known.record.clone());
            for (shown, said) in [("heartbeatSent", "sent_ms_ago"), ("heartbeatAcknowledged", "acknowledged_ms_ago")] {
                if let Some(ago) = shard[said].as_u64() {
                    record[shown] = seconds(now - ago).into();
                }
            }
            if let Some(latency) = shard["latency"].as_f64() {
                record["latency"] = latency.into();
            }
            self.health.insert(id, Report { by, at: now, record });
        }
        self.processes[by].life.heartbeat = now;
        self.processes[by].memory = report["memory"].as_u64().unwrap();
        let newest = self.beating().max_by_key(|process| process.life.started).map_or(count, |process| process.count);
        self.health.retain(|id, _| *id < newest);
    }

    /// The store was emptied: people stay, but guilds, subscriptions and processes are gone.
    pub fn empty(&mut self) {
        self.guilds.clear();
        self.sent.clear();
        self.subscriptions.clear();
        self.health.clear();
        for process in &mut self.processes {
            (process.life, process.memory) = (Life::new(), 0);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double exactly")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}
