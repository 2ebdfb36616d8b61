//! Random histories of the feed over real sockets against a simple model that reads the same JSON: repeats, old numbers, gaps,
//! cuts, processes that take over from each other or fall silent, clocks that run ahead, resharding, restarts of the service,
//! stores that were emptied, and time that passes. After each step
//! everything that people see must be what the model says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use bot_companion::domain::permissions::Standing;
use bot_companion::domain::{Permission, PermissionSet};
use bot_companion::random::Random;
use bot_companion::sandbox::people::{MEMBER, MODERATOR, OWNER};
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::harness::{
    Answer, Bot, Client, EMPTIED, START, TestApp, Wire, eventually, listed, ndjson, request, snapshot,
};

const HISTORIES: u64 = 16;
const STEPS: usize = 60;
const SETTINGS: &str = "[feed]\nrequests_per_second = 0";
/// Enough for every remainder of the counts of shards that are tried.
const GUILDS: u64 = 12;
const COUNTS: u64 = 4;
const PEOPLE: [(&str, u64); 3] = [("owner", OWNER), ("moderator", MODERATOR), ("member", MEMBER)];
const ROLES: [u64; 3] = [500, 501, 502];
const GRANTABLE: [&str; 6] = ["ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER"];
const TEAM_KEYS: [&str; 4] = ["FOUNDER", "EXECUTIVE", "SUPPORT", "DOCWRITER"];
const SILENCE: u64 = 90_000;

fn guild_id(number: u64) -> u64 {
    (number << 22) | 5
}

/// The number of the guild with this id.
fn number_of(id: &Value) -> u64 {
    id.as_str().unwrap().parse::<u64>().unwrap() >> 22
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

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// A request with a number, which may be sent again later.
#[derive(Clone, Debug)]
struct Sent {
    by: usize,
    sequence: u64,
    what: What,
    lines: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Events,
    Shard(u64, u64),
    Subscriptions,
}

/// What the service must answer.
#[derive(Debug, PartialEq)]
enum Expected {
    Taken { applied: usize, ignored: usize, next: u64 },
    Refused { error: &'static str, next: u64 },
}

/// A process of the bot. Times are milliseconds.
#[derive(Clone, Debug)]
struct Process {
    name: String,
    /// When it says that it started.
    said: u64,
    count: u64,
    own: Vec<u64>,
    memory: u64,
    known: Life,
}

/// What the service knows of a process.
#[derive(Clone, Debug, Default)]
struct Life {
    first_seen: Option<u64>,
    next: u64,
    /// When it counts as started.
    started: u64,
    beat: u64,
    call: u64,
    sent_snapshot: bool,
    /// The shards that it has called its own.
    named: BTreeSet<(u64, u64)>,
}

impl Life {
    fn new() -> Self {
        Self { next: 1, ..Self::default() }
    }
}

#[derive(Clone, Debug, Default)]
struct Known {
    guild: Value,
    grants: BTreeMap<String, Vec<String>>,
    staff: BTreeMap<u64, Vec<String>>,
}

#[derive(Default)]
struct Model {
    /// Milliseconds.
    now: u64,
    processes: Vec<Process>,
    guilds: BTreeMap<u64, Known>,
    /// The latest snapshot of each shard that still counts: who sent it, and the number of its commit.
    sent: BTreeMap<(u64, u64), (usize, u64)>,
    commits: u64,
    lists: BTreeMap<u64, BTreeSet<u64>>,
    subscriptions: BTreeMap<u64, Value>,
    feedback: BTreeMap<String, Value>,
    team: Vec<Value>,
    /// By number: the reporting process, when, and the record that is shown.
    shards: BTreeMap<u64, (usize, u64, Value)>,
}

fn covers(shard: (u64, u64), guild: u64) -> bool {
    guild % shard.0 == shard.1
}

fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    (1..=GUILDS).any(|guild| covers(a, guild) && covers(b, guild))
}

impl Model {
    fn is_living(&self, who: usize) -> bool {
        let known = &self.processes[who].known;
        self.now - known.beat.max(known.call) < SILENCE
    }

    fn is_outranked(&self, by: usize, owner: usize) -> bool {
        self.is_living(owner) && self.processes[owner].known.started > self.processes[by].known.started
    }

    /// Whether a later-started process keeps the sender's snapshot from taking the shard.
    fn is_taken(&self, by: usize, shard: (u64, u64)) -> bool {
        let own = self.sent.get(&shard).map_or(0, |(_, commit)| *commit);
        let mut counting = self.sent.iter().filter(|(sent, (_, commit))| overlap(**sent, shard) && *commit >= own);
        counting.any(|(_, (owner, _))| *owner != by && self.is_outranked(by, *owner))
    }

    /// Whether an event about a guild counts; `None` if the snapshot must come first.
    fn may_say(&self, by: usize, guild: u64) -> Option<bool> {
        let covering = self.sent.iter().filter(|(shard, _)| covers(**shard, guild));
        let owner = covering.max_by_key(|(_, (_, commit))| *commit).map(|(_, (by, _))| *by);
        let sender = &self.processes[by].known;
        match owner {
            Some(owner) if owner == by => Some(true),
            Some(owner) if self.is_living(owner) => Some(!self.is_outranked(by, owner)),
            _ => {
                let named: Vec<_> = sender.named.iter().filter(|shard| covers(**shard, guild)).collect();
                if named.is_empty() {
                    return sender.sent_snapshot.then_some(false);
                }
                named.iter().all(|shard| self.is_taken(by, **shard)).then_some(false)
            }
        }
    }

    /// A call with a number came.
    fn called(&mut self, by: usize) {
        let (now, known) = (self.now, &mut self.processes[by].known);
        if known.first_seen.is_none() {
            (known.first_seen, known.started) = (Some(now), now);
        }
        known.call = now;
    }

    fn receive(&mut self, sent: &Sent) -> Expected {
        self.called(sent.by);
        let (by, count, next) = (sent.by, sent.lines.len(), self.processes[sent.by].known.next);
        if sent.what == What::Events {
            return self.receive_events(sent, next);
        }
        let shard = if let What::Shard(shards, shard) = sent.what { Some((shards, shard)) } else { None };
        let known = &mut self.processes[by].known;
        known.sent_snapshot = true;
        known.named.extend(shard);
        if next > sent.sequence {
            return Expected::Refused { error: "snapshot_outdated", next };
        }
        let next = sent.sequence;
        known.next = next;
        let taken = Expected::Taken { applied: count, ignored: 0, next };
        let Some(shard) = shard else {
            self.subscriptions = sent.lines.iter().map(|line| (user_of(&line["userid"]), line.clone())).collect();
            return taken;
        };
        if self.is_taken(by, shard) {
            return Expected::Taken { applied: 0, ignored: count, next };
        }
        self.commits += 1;
        self.sent.insert(shard, (by, self.commits));
        self.drop_superseded(shard.0);
        for number in (1..=GUILDS).filter(|number| covers(shard, *number)) {
            match sent.lines.iter().rfind(|line| number_of(&line["id"]) == number) {
                None => drop(self.guilds.remove(&number)),
                Some(line) if line["unavailable"] == true => {}
                Some(line) => self.put_guild(line),
            }
        }
        taken
    }

    fn receive_events(&mut self, sent: &Sent, next: u64) -> Expected {
        let (by, count) = (sent.by, sent.lines.len());
        let refused = Expected::Refused { error: "resync_required", next };
        if sent.sequence > next {
            return refused;
        }
        let new: Vec<&Value> =
            (sent.sequence..).zip(&sent.lines).filter(|(at, _)| *at >= next).map(|it| it.1).collect();
        let mut accepted = Vec::new();
        for event in new {
            match guild_of(event).map_or(Some(true), |guild| self.may_say(by, guild)) {
                None => return refused,
                Some(true) => accepted.push(event),
                Some(false) => {}
            }
        }
        let applied = accepted.into_iter().filter(|event| self.apply(event)).count();
        let next = next.max(sent.sequence + count as u64);
        self.processes[by].known.next = next;
        Expected::Taken { applied, ignored: count - applied, next }
    }

    /// Forgets the snapshots of other counts that were all sent anew under this one.
    fn drop_superseded(&mut self, count: u64) {
        let sent = self.sent.clone();
        self.sent.retain(|shard, (_, commit)| {
            let anew = |id| sent.get(&(count, id)).is_some_and(|(_, later)| *later > *commit);
            let mut overlapping = (0..count).filter(|id| overlap((count, *id), *shard));
            shard.0 == count || !overlapping.all(anew)
        });
    }

    /// What the feed holds is gone.
    fn emptied(&mut self) {
        self.guilds.clear();
        self.sent.clear();
        self.subscriptions.clear();
        self.shards.clear();
        for process in &mut self.processes {
            (process.known, process.memory) = (Life::new(), 0);
        }
    }

    fn put_guild(&mut self, said: &Value) {
        let known = self.guilds.entry(number_of(&said["id"])).or_default();
        if let Some(grants) = said["grants"].as_object() {
            known.grants = grants.iter().map(|(role, keys)| (role.clone(), texts(keys))).collect();
        }
        if let Some(staff) = said["staff"].as_object() {
            known.staff = staff.iter().map(|(user, roles)| (user.parse().unwrap(), texts(roles))).collect();
        }
        known.guild = said.clone();
    }

    /// Whether it counts as applied.
    fn apply(&mut self, event: &Value) -> bool {
        let (kind, guild) = (event["type"].as_str().unwrap(), guild_of(event));
        match kind {
            "guild" => self.put_guild(event),
            "guild_gone" => drop(self.guilds.remove(&guild.unwrap())),
            "member" => {
                if let Some(known) = self.guilds.get_mut(&guild.unwrap()) {
                    let (user, roles) = (user_of(&event["user"]), texts(&event["roles"]));
                    known.staff.remove(&user);
                    if roles.iter().any(|role| known.grants.get(role).is_some_and(|keys| !keys.is_empty())) {
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

    fn beat(&mut self, by: usize, report: &Value) {
        let (now, count) = (self.now, self.processes[by].count);
        let process = &mut self.processes[by];
        let first_seen = *process.known.first_seen.get_or_insert(now);
        process.known.started = process.said.min(first_seen);
        process.known.named.extend(process.own.iter().map(|shard| (count, *shard)));
        let started = process.known.started;
        for shard in report["shards"].as_array().unwrap() {
            let id = shard["id"].as_u64().unwrap();
            let known = self.shards.get(&id);
            let outranks = |other: &(usize, u64, Value)| {
                other.0 != by && self.processes[other.0].known.started > started && now - other.1 < SILENCE
            };
            if known.is_some_and(outranks) {
                continue;
            }
            let none = json!({"heartbeatSent": 0.0, "heartbeatAcknowledged": 0.0, "latency": 0.0});
            let mut record = known.map_or(none, |known| known.2.clone());
            for (shown, said) in [("heartbeatSent", "sent_ms_ago"), ("heartbeatAcknowledged", "acknowledged_ms_ago")] {
                if let Some(ago) = shard[said].as_u64() {
                    record[shown] = seconds(now - ago).into();
                }
            }
            if let Some(latency) = shard["latency"].as_f64() {
                record["latency"] = latency.into();
            }
            self.shards.insert(id, (by, now, record));
        }
        self.processes[by].known.beat = now;
        self.processes[by].memory = report["memory"].as_u64().unwrap();
        let newest = self.living().max_by_key(|process| process.known.started).map_or(count, |process| process.count);
        self.shards.retain(|id, _| *id < newest);
    }

    fn living(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| self.now - process.known.beat < SILENCE)
    }

    fn status(&self) -> Value {
        let shards: BTreeMap<String, &Value> =
            self.shards.iter().map(|(id, shard)| (id.to_string(), &shard.2)).collect();
        let memory: u64 = self.living().map(|process| process.memory / 10_000).sum();
        let epoch = self.living().map(|process| process.known.started / 1000).min().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "a few hundred megabytes")]
        let memory = memory as f64 / 100.0;
        json!({"shards": shards, "memory": memory, "epoch": epoch})
    }

    fn roster(&self) -> Vec<Value> {
        let category = |member: &Value| self.team.iter().position(|other| other["category"] == member["category"]);
        let mut members = self.team.clone();
        members.sort_by_key(|member| {
            (category(member), member["position"].as_i64(), member["name"].as_str().map(ToOwned::to_owned))
        });
        for member in &mut members {
            member.as_object_mut().unwrap().remove("permissions");
        }
        members
    }

    fn good_words(&self) -> BTreeSet<String> {
        let good = self.feedback.values().filter(|entry| entry["rating"].as_u64().unwrap() >= 4);
        good.map(ToString::to_string).collect()
    }

    fn is_active(&self, subscription: &Value) -> bool {
        subscription["active_until"].as_u64().is_none_or(|until| self.now < until * 1000)
    }

    fn plus(&self, guild: u64) -> Value {
        let id = json!(guild_id(guild).to_string());
        let naming = self.subscriptions.iter().filter(|(_, one)| one["guilds"].as_array().unwrap().contains(&id));
        let best = naming.max_by_key(|(user, one)| {
            (self.is_active(one), one["active_until"].as_u64().unwrap_or(u64::MAX), Reverse(**user))
        });
        match best {
            None => json!({"plus": {"userid": "", "guilds": [], "slots": 0}, "active": false}),
            Some((_, one)) => json!({
                "plus": {"userid": one["userid"], "guilds": one["guilds"], "slots": one["slots"]},
                "active": self.is_active(one)
            }),
        }
    }

    fn guilds_of(&self, user: u64) -> Vec<Value> {
        let name = user.to_string();
        let team = self.team.iter().find(|member| member["discord_id"] == name);
        let team = team.map(|member| texts(&member["permissions"])).unwrap_or_default();
        let seen = self.guilds.iter().filter(|(number, _)| self.lists[&user].contains(number));
        let mut entries: Vec<Value> = seen
            .map(|(number, Known { guild, grants, staff })| {
                let id = guild_id(*number);
                let own = id.to_string();
                let held = staff.get(&user).into_iter().flatten().chain([&own]);
                let granted = held.filter_map(|role| grants.get(role)).flatten();
                let plus = self.plus(*number);
                let (role, keys) = Standing {
                    owner: guild["owner"] == name,
                    provider_bits: bits(user, *number),
                    granted: set(granted),
                    team: set(&team),
                    setup: guild["setup"] == true,
                    linked: guild["linked"] == true,
                    guild_plus: plus["active"] == true,
                    member_plus: self.subscriptions.get(&user).is_some_and(|one| self.is_active(one)),
                }
                .judge();
                let icon = match guild["icon"].as_str() {
                    None => format!("https://cdn.discordapp.com/embed/avatars/{}.png", number % 6),
                    Some(url) if url.contains(':') => url.to_owned(),
                    Some(hash) => format!("https://cdn.discordapp.com/icons/{id}/{hash}.png"),
                };
                let keys: BTreeMap<_, _> = Permission::ALL.iter().map(|key| (key.name(), keys.has(*key))).collect();
                let mut entry = json!({"id": own, "name": guild["name"], "icon": icon, "owner": guild["owner"],
                    "members": guild["members"].as_u64().unwrap_or(0), "service": true, "plus": plus,
                    "permissions": keys});
                if let Some(role) = role {
                    entry["role"] = format!("{role:?}").into();
                }
                entry
            })
            .collect();
        entries.sort_by_key(|entry| {
            let names = ["Owner", "Manager", "Administrator", "Moderator"];
            let rank = names.iter().position(|name| entry["role"] == **name).unwrap_or(names.len());
            (rank, entry["name"].to_string(), number_of(&entry["id"]))
        });
        entries
    }
}

fn set<'a>(names: impl IntoIterator<Item = &'a String>) -> PermissionSet {
    names.into_iter().map(|name| Permission::from_name(name).unwrap()).collect()
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double exactly")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

/// What the provider says that a person may do in a guild.
fn bits(user: u64, guild: u64) -> u64 {
    if user == MODERATOR && guild.is_multiple_of(5) { 0x20 } else { 0 }
}

/// The guilds that a person is in at first.
fn at_first(user: u64) -> BTreeSet<u64> {
    (1..=GUILDS).filter(|number| user != MEMBER || !number.is_multiple_of(3)).collect()
}

struct Dice(Random);

impl Dice {
    fn below(&self, end: u64) -> u64 {
        self.0.number() % end
    }

    fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn pick<T: Clone>(&self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()].clone()
    }

    fn some<T: Clone>(&self, from: &[T]) -> Vec<T> {
        from.iter().filter(|_| self.one_in(2)).cloned().collect()
    }

    fn user(&self) -> String {
        self.pick(&PEOPLE).1.to_string()
    }

    fn roles(&self, guild: u64) -> Vec<String> {
        let mut roles = self.some(&ROLES);
        if self.one_in(5) {
            roles.push(guild_id(guild));
        }
        roles.iter().map(u64::to_string).collect()
    }

    fn guild(&self, number: u64) -> Value {
        let icon = self.pick(&[Value::Null, json!("abc"), json!("https://example.com/i.png")]);
        let mut guild = json!({"id": guild_id(number).to_string(), "name": format!("n{}", self.below(1000)),
            "icon": icon, "owner": self.pick(&[self.user(), "7".to_owned(), "8".to_owned()])});
        if self.one_in(2) {
            guild["members"] = self.below(1000).into();
            guild["setup"] = self.one_in(2).into();
            guild["linked"] = self.one_in(2).into();
        }
        if !self.one_in(3) {
            let grants = self.roles(number).into_iter().map(|role| (role, json!([self.pick(&GRANTABLE)])));
            guild["grants"] = grants.collect::<serde_json::Map<_, _>>().into();
        }
        if !self.one_in(3) {
            let staff: BTreeMap<String, Vec<String>> =
                [self.user(), self.user()].into_iter().map(|user| (user, self.roles(number))).collect();
            guild["staff"] = json!(staff);
        }
        guild
    }

    fn person(&self) -> Value {
        let name = format!("p{}", self.below(100));
        json!({"id": self.pick(&["70", "71", "72"]), "username": name.to_lowercase(), "name": name,
            "avatar": format!("https://example.com/{}.png", self.below(9))})
    }

    fn subscription(&self, user: &str, now: u64) -> Value {
        let numbers: Vec<u64> = (1..=GUILDS).collect();
        let guilds: Vec<String> = self.some(&numbers).into_iter().map(|number| guild_id(number).to_string()).collect();
        let until = self.pick(&[Value::Null, json!(now / 1000 + 20 + self.below(200)), json!(now / 1000 - 5)]);
        json!({"userid": user, "slots": self.below(5), "guilds": guilds, "active_until": until})
    }

    fn team(&self) -> Vec<Value> {
        let ids = ["70".to_owned(), "71".to_owned(), OWNER.to_string(), MEMBER.to_string()];
        let mut members = self.some(&ids);
        if self.one_in(2) {
            members.reverse();
        }
        let member = |id| {
            let name = format!("t{}", self.below(100));
            json!({"discord_id": id, "username": name, "name": name, "avatar": "https://example.com/t.png",
                "role": "Helper", "color": "#5865F2", "category": self.pick(&["support", "direction"]),
                "position": self.below(3), "permissions": self.some(&TEAM_KEYS)})
        };
        members.into_iter().map(member).collect()
    }

    fn event(&self, now: u64) -> Value {
        let number = 1 + self.below(GUILDS);
        let guild = guild_id(number).to_string();
        let feedback = format!("f{}", self.below(5));
        let with = |kind: &str, mut fields: Value| {
            fields["type"] = kind.into();
            fields
        };
        match self.below(20) {
            0..=4 => with("guild", self.guild(number)),
            5 => json!({"type": "guild_gone", "id": guild}),
            6..=8 => json!({"type": "member", "guild": guild, "user": self.user(), "roles": self.roles(number)}),
            9 => json!({"type": "member_gone", "guild": guild, "user": self.user()}),
            10 | 11 => with("subscription", self.subscription(&self.user(), now)),
            12 => json!({"type": "subscription_gone", "userid": self.user()}),
            13 | 14 => json!({"type": "feedback", "id": feedback, "feedback": format!("w{}", self.below(1000)),
                "rating": 2 + self.below(4), "timestamp": self.below(1000), "submitter": self.person()}),
            15 => json!({"type": "feedback_gone", "id": feedback}),
            16 | 17 => json!({"type": "team", "members": self.team()}),
            18 => with("user", self.person()),
            _ => json!({"type": "of_tomorrow", "id": guild}),
        }
    }

    fn snapshot_of(&self, count: u64, shard: u64) -> Vec<Value> {
        let covered = (1..=GUILDS).filter(|number| number % count == shard && !self.one_in(4));
        covered
            .map(|number| {
                if self.one_in(4) {
                    json!({"id": guild_id(number).to_string(), "unavailable": true})
                } else {
                    self.guild(number)
                }
            })
            .collect()
    }
}

struct World {
    app: TestApp,
    bot: Bot,
    people: Vec<(&'static str, u64, Client)>,
    model: Model,
    dice: Dice,
    sent: Vec<Sent>,
    story: Story,
}

/// What has happened; told if it ends badly.
struct Story {
    seed: u64,
    steps: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let told = format!("seed {}, after {} steps:\n{}\n", self.seed, self.steps.len(), self.steps.join("\n"));
            let _ = std::io::stderr().write_all(told.as_bytes());
        }
    }
}

impl World {
    async fn new(seed: u64) -> Self {
        let app = TestApp::builder().set(SETTINGS).start().await;
        let mut model = Model { now: START.millis(), ..Model::default() };
        let mut people = Vec::new();
        for (name, user) in PEOPLE {
            model.lists.insert(user, at_first(user));
            tell_provider(&app, name, user, &model.lists[&user]);
            people.push((name, user, app.user(name).await));
        }
        let bot = app.bot("first").await;
        let dice = Dice(Random::seeded(seed));
        Self { app, bot, people, model, dice, sent: Vec::new(), story: Story { seed, steps: Vec::new() } }
    }

    fn note(&mut self, what: impl Into<String>) {
        self.story.steps.push(what.into());
    }

    /// A process starts, later than all others, says so and sends one of its shards.
    async fn another_process(&mut self) {
        let (number, count) = (self.model.processes.len(), 1 + self.dice.below(COUNTS));
        let own: Vec<u64> = (0..count).filter(|shard| *shard == 0 || !self.dice.one_in(4)).collect();
        // One clock in five runs ahead.
        let ahead = if self.dice.one_in(5) { 9_000_000 } else { 0 };
        let said = START.millis() - 1_000_000 + 10_000 * number as u64 + ahead;
        let name = format!("process-{number}");
        self.model.processes.push(Process { name, said, count, own, memory: 0, known: Life::new() });
        self.beat(number).await;
        self.compare().await;
        let sent = self.shard(number, 1);
        self.send(sent).await;
    }

    fn shard(&self, by: usize, sequence: u64) -> Sent {
        let process = &self.model.processes[by];
        let (count, shard) = if self.dice.one_in(5) {
            let count = 1 + self.dice.below(COUNTS);
            (count, self.dice.below(count))
        } else {
            (process.count, self.dice.pick(&process.own))
        };
        Sent { by, sequence, what: What::Shard(count, shard), lines: self.dice.snapshot_of(count, shard) }
    }

    fn all_subscriptions(&self, by: usize, sequence: u64) -> Sent {
        let users = PEOPLE.map(|(_, user)| user.to_string());
        let lines = self.dice.some(&users).into_iter().map(|user| self.dice.subscription(&user, self.model.now));
        Sent { by, sequence, what: What::Subscriptions, lines: lines.collect() }
    }

    fn events(&self, by: usize, sequence: u64) -> Sent {
        let lines = (0..self.dice.below(6)).map(|_| self.dice.event(self.model.now)).collect();
        Sent { by, sequence, what: What::Events, lines }
    }

    async fn beat(&mut self, by: usize) {
        let process = &self.model.processes[by];
        let maybe = |value: Value| if self.dice.one_in(3) { Value::Null } else { value };
        let shards = process.own.iter().map(|id| {
            json!({"id": id, "sent_ms_ago": maybe(self.dice.below(9000).into()),
                "acknowledged_ms_ago": maybe(self.dice.below(9000).into()), "latency": maybe(self.dice.below(200).into())})
        });
        let report = json!({"instance": process.name, "started_at": process.said / 1000, "shard_count": process.count,
            "memory": self.dice.below(1000) * 10_000, "shards": shards.collect::<Vec<_>>()});
        self.note(format!("heartbeat {report}"));
        self.model.beat(by, &report);
        let answer = self.bot.call(Method::PUT, "/bot/heartbeat").body(report.to_string()).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    fn path(what: What) -> (Method, String) {
        match what {
            What::Events => (Method::POST, "/bot/events".to_owned()),
            What::Shard(count, shard) => (Method::PUT, format!("/bot/shards/{count}/{shard}/guilds")),
            What::Subscriptions => (Method::PUT, "/bot/subscriptions".to_owned()),
        }
    }

    async fn post(&self, sent: &Sent, body: String) -> Answer {
        let (method, path) = Self::path(sent.what);
        let bot = self.bot.other(&self.model.processes[sent.by].name);
        bot.numbered(method, &path, sent.sequence).body(body).send().await
    }

    fn note_sent(&mut self, how: &str, sent: &Sent) {
        let (name, lines) = (&self.model.processes[sent.by].name, ndjson(&sent.lines));
        self.note(format!("{how}: {name} {:?} at {}\n{lines}", sent.what, sent.sequence));
    }

    async fn send(&mut self, sent: Sent) -> Expected {
        self.note_sent("sent", &sent);
        let body = if sent.what == What::Events { ndjson(&sent.lines) } else { snapshot(&sent.lines) };
        let answer = self.post(&sent, body).await;
        let expected = self.model.receive(&sent);
        let data = answer.data();
        let number = |name: &str| data[name].as_u64().unwrap_or_else(|| panic!("{data}"));
        match &expected {
            Expected::Taken { applied, ignored, next } => {
                let said = (answer.status, number("applied"), number("ignored"), number("next"));
                assert_eq!(said, (200, *applied as u64, *ignored as u64, *next), "{data}");
            }
            Expected::Refused { error, next } => {
                assert_eq!((answer.status, answer.error().as_str(), number("next")), (409, *error, *next));
            }
        }
        // Whoever has left is not on the provider's list either.
        for (name, user, _) in &self.people {
            tell_provider(&self.app, name, *user, &self.model.lists[user]);
        }
        self.sent.push(sent);
        self.compare().await;
        expected
    }

    /// Sends something of which nothing may count.
    async fn send_broken(&mut self, sent: Sent) {
        let whole = if sent.what == What::Events { ndjson(&sent.lines) } else { snapshot(&sent.lines) };
        let way = self.dice.below(4);
        self.note_sent(&format!("broken ({way})"), &sent);
        if way == 0 {
            // Without its end, or with a line that nobody can read.
            let cut = if sent.what == What::Events { whole + "{\"type\":" } else { ndjson(&sent.lines) };
            self.post(&sent, cut).await.refused(422, "line_invalid");
        } else if way == 1 {
            let wrong = ndjson(&sent.lines) + &json!({"end": sent.lines.len() + 1}).to_string();
            self.post(&sent, wrong).await.refused(422, "line_invalid");
        } else {
            let (method, path) = Self::path(sent.what);
            let headers = format!(
                "Authorization: Bearer {}\r\nFeed-Instance: {}\r\nFeed-Sequence: {}\r\nContent-Length: 1000000\r\n",
                self.bot.key.expose_secret(),
                self.model.processes[sent.by].name,
                sent.sequence
            );
            let mut wire = Wire::open(self.app.address).await;
            wire.send(request(method.as_str(), &path, &headers) + &whole).await;
            if way == 2 && sent.what != What::Events {
                let uploads = &self.app.app.uploads;
                eventually("the upload has begun", async || uploads.under_way() == 1).await;
            } else {
                wire.half_close().await;
                if let Some(answer) = wire.answer().await {
                    assert!(answer.status >= 400, "{}", answer.text());
                }
            }
            drop(wire);
        }
        let uploads = &self.app.app.uploads;
        eventually("the upload is over", async || uploads.under_way() == 0).await;
        // Whether it was a sign of life depends on how far it came; this is one in any case.
        self.beat(sent.by).await;
        self.compare().await;
    }

    async fn pass(&mut self, millis: u64, together_again: bool) {
        self.note(format!("{millis} ms pass"));
        if together_again {
            for (name, user, _) in &self.people {
                self.model.lists.insert(*user, at_first(*user));
                tell_provider(&self.app, name, *user, &self.model.lists[user]);
            }
        }
        self.model.now += millis;
        self.app.clock.advance(Duration::from_millis(millis));
        // What is already known must be right at once; then the lists are refreshed, behind.
        self.compare().await;
        self.app.settled().await;
    }

    async fn restart(self, emptied: bool) -> Self {
        let Self { app, bot, people, mut model, dice, sent, mut story } = self;
        story.steps.push(format!("the service starts anew{}", if emptied { ", and is empty" } else { "" }));
        let app = if emptied {
            model.emptied();
            app.restarted_after(EMPTIED, &[SETTINGS]).await
        } else {
            app.restarted(&[SETTINGS]).await
        };
        let bot = bot.at(&app);
        let people = people
            .into_iter()
            .map(|(name, user, client)| (name, user, app.anon().with_token(client.token())))
            .collect();
        Self { app, bot, people, model, dice, sent, story }
    }

    /// A well-behaved process has something to say of its own shards: whatever state the service is in, it is asked for its
    /// snapshots at most once.
    async fn insist(&mut self, by: usize) {
        let Process { count, own, .. } = self.model.processes[by].clone();
        let guilds: Vec<u64> = (1..=GUILDS).filter(|guild| own.contains(&(guild % count))).collect();
        let mut events = Vec::new();
        for _ in 0..3 {
            let mut event = self.dice.guild(self.dice.pick(&guilds));
            event["type"] = "guild".into();
            events.push(event);
        }
        self.beat(by).await;
        for asked in 0..2 {
            let sequence = self.model.processes[by].known.next;
            let sent = Sent { by, sequence, what: What::Events, lines: events.clone() };
            if matches!(self.send(sent).await, Expected::Taken { .. }) {
                return;
            }
            assert_eq!(asked, 0, "it is asked again and again");
            self.resync(by, sequence).await;
        }
        panic!("it is asked again and again");
    }

    async fn step(mut self) -> Self {
        let all = self.model.processes.len();
        let by = if self.dice.one_in(3) { usize::try_from(self.dice.below(all as u64)).unwrap() } else { all - 1 };
        let next = self.model.processes[by].known.next;
        match self.dice.below(43) {
            0..=13 => {
                let sent = self.events(by, next);
                self.send(sent).await;
            }
            14..=17 => {
                let sent = self.events(by, (next + self.dice.below(6)).saturating_sub(3).max(1));
                let sequence = sent.sequence;
                if matches!(self.send(sent).await, Expected::Refused { .. }) && self.dice.one_in(2) {
                    self.resync(by, sequence).await;
                }
            }
            18..=21 => {
                let sequence = (next + self.dice.below(3)).saturating_sub(1).max(1);
                let sent = self.shard(by, sequence);
                self.send(sent).await;
            }
            22 | 23 => {
                let sent = self.all_subscriptions(by, next);
                self.send(sent).await;
            }
            24..=27 => {
                let again = self.dice.pick(&self.sent);
                self.send(again).await;
            }
            28..=30 => {
                let sent = match self.dice.below(3) {
                    0 => self.events(by, next),
                    1 => self.shard(by, next),
                    _ => self.all_subscriptions(by, next),
                };
                self.send_broken(sent).await;
            }
            31..=33 => {
                self.beat(by).await;
                self.compare().await;
            }
            34 | 35 => self.pass(1 + self.dice.below(50_000), false).await,
            36 => self.pass(SILENCE, false).await,
            37 => self.pass(660_000, true).await,
            38 => self.another_process().await,
            39 => {
                self = self.restart(false).await;
                self.compare().await;
            }
            40 => {
                self = self.restart(true).await;
                self.compare().await;
                self.insist(by).await;
            }
            _ => self.insist(by).await,
        }
        self
    }

    async fn resync(&mut self, by: usize, sequence: u64) {
        let Process { count, own, .. } = self.model.processes[by].clone();
        for shard in own {
            let lines = self.dice.snapshot_of(count, shard);
            self.send(Sent { by, sequence, what: What::Shard(count, shard), lines }).await;
        }
        let sent = self.all_subscriptions(by, sequence);
        self.send(sent).await;
    }

    async fn compare(&self) {
        let anon = self.app.anon();
        let [one, two, three] = [0, 1, 2].map(|index| self.people[index].2.guilds());
        let (one, two, three, team, words, status, state) =
            tokio::join!(one, two, three, anon.get("/team"), anon.get("/feedback"), anon.get("/"), self.bot.state());
        for ((name, user, _), shown) in self.people.iter().zip([one, two, three]) {
            assert_eq!(json!(shown), json!(self.model.guilds_of(*user)), "the guilds of {name}");
        }
        assert_eq!(team.data(), json!(self.model.roster()));
        let words: BTreeSet<String> = words.data().as_array().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(words, self.model.good_words());
        let status = status.data();
        let bot = &status["health"]["bot"];
        let shown =
            json!({"shards": bot["shards"], "memory": status["resources"]["memory"], "epoch": bot["uptime"]["epoch"]});
        assert_eq!(shown, self.model.status());
        for process in &self.model.processes {
            let known = state["instances"].as_array().unwrap().iter().find(|one| one["instance"] == process.name);
            assert_eq!(known.map_or(1, |one| one["next"].as_u64().unwrap()), process.known.next, "{}", process.name);
        }
        let counts = json!([state["subscriptions"], state["feedback"], state["team"]]);
        let model = &self.model;
        assert_eq!(counts, json!([model.subscriptions.len(), model.feedback.len(), model.team.len()]));
    }
}

fn tell_provider(app: &TestApp, name: &str, user: u64, guilds: &BTreeSet<u64>) {
    let list = guilds.iter().map(|number| listed(guild_id(*number), bits(user, *number))).collect();
    app.sandbox.edit(name, |person| person.guilds = list);
}

async fn histories(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let mut world = World::new(seed).await;
        world.another_process().await;
        for _ in 0..STEPS {
            world = world.step().await;
        }
    }
}

#[tokio::test]
async fn histories_with_even_seeds_are_as_the_model_says() {
    histories((0..HISTORIES).filter(|seed| seed.is_multiple_of(2))).await;
}

#[tokio::test]
async fn histories_with_odd_seeds_are_as_the_model_says() {
    histories((0..HISTORIES).filter(|seed| !seed.is_multiple_of(2))).await;
}
