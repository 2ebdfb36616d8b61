//! Takes the service and the model through the same random history.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use reqwest::Method;
use sandbox::people::MEMBER;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store::SnapshotId;

use super::checks::disagreement;
use super::generator::Generator;
use super::model::{Expected, Life, Model, Process, Request, Staged, What};
use super::{PEOPLE, SEED, SILENCE, tell_provider};
use crate::harness::{Answer, Bot, Client, EMPTIED, START, TestApp, Wire, eventually, ndjson, request};

const CONFIGURATION: &str = "[feed]\nrequests_per_second = 0";

pub struct World {
    pub app: TestApp,
    pub bot: Bot,
    pub people: Vec<(&'static str, u64, Client)>,
    pub model: Model,
    pub dice: Generator,
    /// Snapshots being staged.
    pub staged: Vec<(SnapshotId, Staged)>,
    /// Snapshots that a restart has cut off.
    pub cut_off: Vec<SnapshotId>,
    sent: Vec<Request>,
    story: Story,
}

/// What has happened; printed if the test fails.
struct Story {
    seed: u64,
    steps: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (seed, count, steps) = (self.seed, self.steps.len(), self.steps.join("\n"));
            let told = format!("{SEED}={seed} repeats this history, which ended after {count} steps:\n{steps}\n");
            let _ = std::io::stderr().write_all(told.as_bytes());
        }
    }
}

/// Runs one history for each seed.
pub async fn run(seeds: impl Iterator<Item = u64>, steps: usize) {
    for seed in seeds {
        let mut world = World::new(seed).await;
        world.start_process().await;
        for _ in 0..steps {
            world = world.step().await;
        }
        world.check_what_is_left().await;
    }
}

/// The guilds that a person is in at first.
fn first_list(user: u64, guilds: &[u64]) -> BTreeSet<u64> {
    guilds.iter().copied().filter(|number| user != MEMBER || !number.is_multiple_of(3)).collect()
}

impl World {
    async fn new(seed: u64) -> Self {
        let app = TestApp::builder().set(CONFIGURATION).start().await;
        let mut model = Model { now: START.millis(), ..Model::default() };
        let (mut people, dice) = (Vec::new(), Generator::new(seed));
        for (name, user) in PEOPLE {
            model.lists.insert(user, first_list(user, &dice.guilds));
            tell_provider(&app.sandbox, name, user, &model.lists[&user]);
            people.push((name, user, app.user(name).await));
        }
        let bot = app.bot("first").await;
        let story = Story { seed, steps: Vec::new() };
        Self { app, bot, people, model, dice, staged: Vec::new(), cut_off: Vec::new(), sent: Vec::new(), story }
    }

    pub fn note(&mut self, what: impl Into<String>) {
        self.story.steps.push(what.into());
    }

    /// When a process says it started: each at a different time, before the history begins.
    fn start_of(number: usize, place: u64) -> u64 {
        START.millis() - 1_000_000 + 10_000 * place + 1_000 * (number as u64 % 10)
    }

    /// A process starts, later than all others, says so and sends one of its shards.
    async fn start_process(&mut self) {
        let number = self.model.processes.len();
        let (count, own) = self.dice.own_shards();
        // One clock in five runs ahead.
        let ahead = if self.dice.one_in(5) { 9_000_000 } else { 0 };
        let said = Self::start_of(number, number as u64) + ahead;
        let name = format!("process-{number}");
        self.model.processes.push(Process { name, said, count, own, memory: 0, life: Life::new() });
        self.send_heartbeat(number).await;
        self.compare().await;
        let snapshot = self.snapshot(number, 1);
        self.send(snapshot).await;
    }

    /// A process changes what it says about itself: another start, or other shards.
    async fn restate(&mut self, by: usize) {
        if self.dice.one_in(2) {
            self.model.processes[by].said = Self::start_of(by, self.dice.below(20));
        } else {
            (self.model.processes[by].count, self.model.processes[by].own) = self.dice.own_shards();
        }
        self.send_heartbeat(by).await;
        self.compare().await;
    }

    /// Usually for one of the process's own shards.
    fn snapshot(&self, by: usize, sequence: u64) -> Request {
        let process = &self.model.processes[by];
        let is_other = self.dice.one_in(5);
        let shard = if is_other { self.dice.any_shard() } else { (process.count, self.dice.pick(&process.own)) };
        Request { by, sequence, what: What::Guilds(shard), lines: self.dice.snapshot_of(shard) }
    }

    fn all_subscriptions(&self, by: usize, sequence: u64) -> Request {
        Request { by, sequence, what: What::Subscriptions, lines: self.dice.all_subscriptions(self.model.now) }
    }

    fn events(&self, by: usize, sequence: u64) -> Request {
        let lines = self.dice.events(self.dice.below(6), self.model.now);
        Request { by, sequence, what: What::Events, lines }
    }

    async fn send_heartbeat(&mut self, by: usize) {
        self.send_last_heartbeat(by, false).await;
    }

    /// Sends a heartbeat that may be the process's last, as far as it knows.
    async fn send_last_heartbeat(&mut self, by: usize, leaving: bool) {
        let process = &self.model.processes[by];
        let report = json!({"instance": process.name, "started_at": process.said / 1000, "shard_count": process.count,
            "memory": self.dice.below(1000) * 10_000, "shards": self.dice.shard_reports(&process.own), "leaving": leaving});
        self.note(format!("heartbeat {report}"));
        self.model.receive_heartbeat(by, &report);
        let answer = self.bot.call(Method::PUT, "/bot/heartbeat").body(report.to_string()).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    async fn post(&self, sent: &Request, body: String) -> Answer {
        let (method, path) = sent.what.route();
        let bot = self.bot.other(&self.model.processes[sent.by].name);
        bot.numbered(method, &path, sent.sequence).body(body).send().await
    }

    fn note_sent(&mut self, how: &str, sent: &Request) {
        let (name, lines) = (&self.model.processes[sent.by].name, ndjson(&sent.lines));
        self.note(format!("{how}: {name} {:?} at {}\n{lines}", sent.what, sent.sequence));
    }

    async fn send(&mut self, sent: Request) -> Expected {
        self.note_sent("sent", &sent);
        let answer = self.post(&sent, sent.body()).await;
        let expected = self.model.receive(&sent);
        assert_eq!(disagreement(&self.model, &answer, &expected), None);
        // A member who has left a guild isn't on the provider's list either.
        for (name, user, _) in &self.people {
            tell_provider(&self.app.sandbox, name, *user, &self.model.lists[user]);
        }
        self.sent.push(sent);
        self.compare().await;
        expected
    }

    /// Sends a request that is cut off or wrong, so that none of it may count.
    async fn send_broken(&mut self, sent: Request) {
        let (whole, way) = (sent.body(), self.dice.below(4));
        self.note_sent(&format!("broken ({way})"), &sent);
        if way == 0 {
            // Without its end, or with a line that isn't JSON.
            let cut = if sent.what == What::Events { whole + "{\"type\":" } else { ndjson(&sent.lines) };
            self.post(&sent, cut).await.refused(422, "line_invalid");
        } else if way == 1 {
            let wrong = ndjson(&sent.lines) + &json!({"end": sent.lines.len() + 1}).to_string();
            self.post(&sent, wrong).await.refused(422, "line_invalid");
        } else {
            let (method, path) = sent.what.route();
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
        // Whether it counted as activity depends on how far it got; a heartbeat always does.
        self.send_heartbeat(sent.by).await;
        self.compare().await;
    }

    async fn pass(&mut self, millis: u64, everybody_returns: bool) {
        self.note(format!("{millis} ms pass"));
        if everybody_returns {
            for (name, user, _) in &self.people {
                self.model.lists.insert(*user, first_list(*user, &self.dice.guilds));
                tell_provider(&self.app.sandbox, name, *user, &self.model.lists[user]);
            }
        }
        self.model.now += millis;
        self.app.clock.advance(Duration::from_millis(millis));
        // What is already known must be right at once; then the lists are refreshed in the background.
        self.compare().await;
        self.app.settled().await;
    }

    async fn restart(self, is_emptied: bool) -> Self {
        let Self { app, bot, people, mut model, dice, staged, mut cut_off, sent, mut story } = self;
        cut_off.extend(staged.into_iter().map(|(snapshot, _)| snapshot));
        story.steps.push(format!("the service restarts{}", if is_emptied { " with an emptied store" } else { "" }));
        let app = if is_emptied {
            model.empty();
            app.restarted_after(EMPTIED, &[CONFIGURATION]).await
        } else {
            app.restarted(&[CONFIGURATION]).await
        };
        let bot = bot.at(&app);
        let people = people
            .into_iter()
            .map(|(name, user, client)| (name, user, app.anon().with_token(client.token())))
            .collect();
        // What was being staged is lost.
        Self { app, bot, people, model, dice, staged: Vec::new(), cut_off, sent, story }
    }

    /// A well-behaved process reports changes of its own shards: whatever state the service is in, it asks for the snapshots at
    /// most once.
    async fn insist(&mut self, by: usize) {
        let Process { count, own, .. } = self.model.processes[by].clone();
        let guilds: Vec<u64> =
            self.dice.guilds.iter().copied().filter(|guild| own.contains(&(guild % count))).collect();
        let mut events: Vec<Value> = (0..3).map(|_| self.dice.guild(self.dice.pick(&guilds))).collect();
        for event in &mut events {
            event["type"] = "guild".into();
        }
        self.send_heartbeat(by).await;
        for asked in 0..2 {
            let sequence = self.model.processes[by].life.next;
            let sent = Request { by, sequence, what: What::Events, lines: events.clone() };
            if matches!(self.send(sent).await, Expected::Accepted { .. }) {
                return;
            }
            assert_eq!(asked, 0, "it is asked again and again");
            self.resync(by, sequence).await;
        }
        panic!("it is asked again and again");
    }

    /// A process sends everything: its shards and the subscriptions.
    async fn resync(&mut self, by: usize, sequence: u64) {
        let Process { count, own, life, .. } = self.model.processes[by].clone();
        // Everything it ever named as its own, under other counts too: it is asked for them as long as one of them is free.
        let shards: BTreeSet<_> = own.into_iter().map(|id| (count, id)).chain(life.named).collect();
        for shard in shards {
            let lines = self.dice.snapshot_of(shard);
            self.send(Request { by, sequence, what: What::Guilds(shard), lines }).await;
        }
        let sent = self.all_subscriptions(by, sequence);
        self.send(sent).await;
    }

    async fn step(mut self) -> Self {
        let all = self.model.processes.len();
        let by = if self.dice.one_in(3) { self.dice.index(all) } else { all - 1 };
        let next = self.model.processes[by].life.next;
        let staged = (!self.staged.is_empty()).then(|| self.dice.index(self.staged.len()));
        match (self.dice.below(66), staged) {
            (0..=13, _) => {
                self.send(self.events(by, next)).await;
            }
            (14..=17, _) => {
                let sequence = (next + self.dice.below(6)).saturating_sub(3).max(1);
                let expected = self.send(self.events(by, sequence)).await;
                if matches!(expected, Expected::Refused { .. }) && self.dice.one_in(2) {
                    self.resync(by, sequence).await;
                }
            }
            (18..=21, _) => {
                let sequence = (next + self.dice.below(3)).saturating_sub(1).max(1);
                self.send(self.snapshot(by, sequence)).await;
            }
            (22 | 23, _) => {
                self.send(self.all_subscriptions(by, next)).await;
            }
            (24..=27, _) => {
                self.send(self.dice.pick(&self.sent)).await;
            }
            (28..=30, _) => {
                let sent = match self.dice.below(3) {
                    0 => self.events(by, next),
                    1 => self.snapshot(by, next),
                    _ => self.all_subscriptions(by, next),
                };
                self.send_broken(sent).await;
            }
            (kind @ 31..=33, _) => {
                self.send_last_heartbeat(by, kind == 33).await;
                self.compare().await;
            }
            (34 | 35, _) => self.pass(1 + self.dice.below(50_000), false).await,
            (36, _) => self.pass(SILENCE, false).await,
            (37, _) => self.pass(660_000, true).await,
            (38, _) => self.start_process().await,
            (39, _) => {
                self = self.restart(false).await;
                self.compare().await;
            }
            (40, _) => {
                self = self.restart(true).await;
                self.compare().await;
                self.insist(by).await;
            }
            (41 | 42, _) => self.insist(by).await,
            (43 | 44, _) => self.restate(by).await,
            (45..=47, _) => self.clean_up().await,
            (48..=51, _) | (_, None) => self.begin_staging(by).await,
            (52..=56, Some(index)) => self.stage_more(index).await,
            (57, Some(index)) => self.abandon_staged(index).await,
            (_, Some(index)) => self.commit_staged(index).await,
        }
        self
    }
}
