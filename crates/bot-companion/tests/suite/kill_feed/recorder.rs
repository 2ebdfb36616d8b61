//! A bot that sends one request at a time and remembers what was acknowledged, as a model of the feed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use reqwest::Method;
use runtime::clock::Clock;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::life::Life;
use super::site::GUILDS;
use crate::feed_model::checks::disagreement;
use crate::feed_model::generator::Generator;
use crate::feed_model::model::{self, Expected, Model, Process, Request, What};
use crate::feed_model::{PEOPLE, guild_id};
use crate::harness::client::Call;
use crate::harness::{Answer, Client};

/// The recorder's guilds that each person sees.
pub type Version = BTreeMap<u64, Vec<Value>>;

const MOST_PROCESSES: usize = 4;
/// The first number of guilds that nobody sees; they make a snapshot long enough to be cut off.
const UNSEEN: u64 = 1_001;

/// Subscriptions and team are sent as a whole, so only one of the two bots sends each.
#[derive(Clone, Copy, PartialEq)]
pub enum Says {
    Subscriptions,
    Team,
}

#[derive(Default)]
pub struct Counts {
    pub acknowledged: u64,
    /// Requests that a kill cut off.
    pub cut: u64,
    /// How many of those had been applied.
    pub applied: u64,
}

pub struct Recorder {
    key: String,
    clock: Clock,
    /// When its first process started, in milliseconds.
    began: u64,
    pub dice: Generator,
    pub says: Says,
    pub counts: Counts,
    /// What was acknowledged.
    pub model: Model,
    /// The unanswered request, and the model if it is applied.
    pub(super) pending: Option<(Request, Model)>,
    /// Whether nothing visible tells if the pending request was applied.
    pub(super) is_uncertain: bool,
    /// Whether each guild is counted once, because none has moved to a shard of another count since everything was cleaned up.
    pub(super) is_counted_once: bool,
    /// What to send next.
    queue: VecDeque<(usize, What)>,
    sent: VecDeque<Request>,
    started: usize,
}

/// The service is gone, or has done something wrong.
struct Over;

impl Recorder {
    pub fn new(key: &str, seed: u64) -> Self {
        let clock = Clock::system();
        let mut dice = Generator::new(seed);
        dice.guilds = GUILDS.filter(|number| !number.is_multiple_of(2)).collect();
        dice.counts = vec![2, 4, 6];
        dice.feedback = 3;
        let lists = PEOPLE.iter().map(|(_, user)| (*user, GUILDS.collect())).collect();
        let mut recorder = Self {
            key: key.to_owned(),
            began: clock.now().seconds() * 1000 - 1_000_000,
            clock,
            dice,
            says: Says::Subscriptions,
            counts: Counts::default(),
            model: Model { lists, ..Model::default() },
            pending: None,
            is_uncertain: false,
            is_counted_once: true,
            queue: VecDeque::new(),
            sent: VecDeque::new(),
            started: 0,
        };
        recorder.set_says(Says::Subscriptions);
        recorder
    }

    fn set_says(&mut self, says: Says) {
        self.says = says;
        // A member who has left would be missing from a list that was being fetched; the other bot sends that.
        self.dice.omitted = match says {
            Says::Subscriptions => vec!["member_gone", "team"],
            Says::Team => vec!["member_gone", "subscription", "subscription_gone"],
        };
    }

    pub fn version(&self) -> Version {
        version(&self.model)
    }

    pub(super) fn call(&self, client: &Client, method: Method, path: &str) -> Call {
        client.call(method, path).header("Authorization", format!("Bearer {}", self.key))
    }

    async fn send_heartbeat(&mut self, client: &Client, by: usize) -> Result<(), Over> {
        let process = &self.model.processes[by];
        let report = json!({"instance": process.name, "started_at": process.said / 1000, "shard_count": process.count,
            "memory": 10_000, "shards": self.dice.shard_reports(&process.own)});
        let call = self.call(client, Method::PUT, "/bot/heartbeat").body(report.to_string());
        let answer = call.try_send().await.map_err(|_| Over)?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.model.now = self.clock.now().millis();
        self.model.receive_heartbeat(by, &report);
        Ok(())
    }

    /// A process starts, later than all others, and will send all of its shards.
    async fn start_process(&mut self, client: &Client) -> Result<(), Over> {
        let (count, own) = self.dice.own_shards();
        let (name, by) = (format!("recorder-{}", self.started), self.model.processes.len());
        let said = self.began + 10_000 * self.started as u64;
        self.started += 1;
        self.queue.extend(own.iter().map(|id| (by, What::Guilds((count, *id)))));
        self.model.processes.push(Process { name, said, count, own, memory: 0, life: model::Life::new() });
        let beaten = self.send_heartbeat(client, by).await;
        if beaten.is_err() {
            // Whether the service knows it is uncertain; it is never heard of again.
            self.model.processes.pop();
            self.queue.retain(|(sender, _)| *sender != by);
        }
        beaten
    }

    fn make_request(&mut self) -> Request {
        let queued = self.queue.pop_front();
        let by = queued.map_or_else(|| self.dice.index(self.model.processes.len()), |(by, _)| by);
        let process = &self.model.processes[by];
        let next = process.life.next;
        let near = |spread: u64| (next + self.dice.below(spread)).saturating_sub(spread / 2).max(1);
        let (what, sequence) = match (queued, self.dice.below(100)) {
            (Some((_, what)), _) => (what, next),
            (None, 0..=7) => (What::Events, near(6)),
            (None, 8..=37) => {
                let own = (process.count, self.dice.pick(&process.own));
                let shard = if self.dice.one_in(5) { self.dice.any_shard() } else { own };
                (What::Guilds(shard), near(3))
            }
            (None, 38..=45) if self.says == Says::Subscriptions => (What::Subscriptions, next),
            (None, 46..=53) if !self.sent.is_empty() => return self.sent[self.dice.index(self.sent.len())].clone(),
            _ => (What::Events, next),
        };
        Request { by, sequence, what, lines: self.lines(what) }
    }

    fn lines(&self, what: What) -> Vec<Value> {
        // All subscriptions last long, because real time passes here.
        let far = self.clock.now().millis() + 1_000_000_000;
        match what {
            What::Events => self.dice.events(20 + self.dice.below(60), far),
            What::Subscriptions => self.dice.all_subscriptions(far),
            What::Guilds((count, id)) => {
                let last = UNSEEN + 400 + 2 * self.dice.below(1_300);
                let unseen = (UNSEEN..last).filter(|number| number % count == id).map(|number| {
                    json!({"id": guild_id(number).to_string(), "name": format!("u{number}"), "icon": null, "owner": "5",
                        "members": self.dice.below(1000), "setup": true, "grants": {}, "staff": {}})
                });
                unseen.chain(self.dice.snapshot_of((count, id))).collect()
            }
        }
    }

    /// Sends one request after the other, until the service is gone.
    pub async fn run(&mut self, client: &Client, life: &Life) {
        if self.run_on(client, life).await.is_err() {
            life.note_break("the feed");
            self.counts.cut += u64::from(self.pending.is_some());
        }
        life.first.notify_one();
    }

    async fn run_on(&mut self, client: &Client, life: &Life) -> Result<(), Over> {
        for by in 0..self.model.processes.len() {
            self.send_heartbeat(client, by).await?;
        }
        while !life.findings.borrow().any() {
            let is_due = self.model.processes.len() < MOST_PROCESSES && self.dice.one_in(30);
            if self.pending.is_none() && (self.model.processes.is_empty() || is_due) {
                self.start_process(client).await?;
            }
            let request = match self.pending.take() {
                Some((request, _)) => request,
                None => self.make_request(),
            };
            self.send(client, request, life).await?;
        }
        Ok(())
    }

    async fn post(&self, client: &Client, request: &Request) -> reqwest::Result<Answer> {
        let (method, path) = request.what.route();
        let call = self.call(client, method, &path).header("Feed-Instance", &self.model.processes[request.by].name);
        let size = self.dice.pick(&[4_096, 65_536]);
        let pause = Duration::from_millis(self.dice.pick(&[0, 0, 2]));
        let body = Bytes::from(request.body());
        let pieces = stream::unfold(body, move |mut rest| async move {
            if rest.is_empty() {
                return None;
            }
            sleep(pause).await;
            let piece = rest.split_to(size.min(rest.len()));
            Some((Ok::<_, Infallible>(Frame::data(piece)), rest))
        });
        let body = reqwest::Body::wrap(StreamBody::new(pieces));
        call.header("Feed-Sequence", request.sequence.to_string()).body(body).try_send().await
    }

    async fn send(&mut self, client: &Client, request: Request, life: &Life) -> Result<(), Over> {
        self.model.now = self.clock.now().millis();
        let mut after = self.model.clone();
        let expected = after.receive(&request);
        // If it may have been applied before the kill, it may also come as a repeat.
        let again = self.is_uncertain.then(|| {
            let mut again = after.clone();
            let expected = again.receive(&request);
            (again, expected)
        });
        life.versions.borrow_mut().push(version(&after));
        self.pending = Some((request, after));
        let (request, after) = self.pending.as_ref().unwrap();
        let Ok(answer) = self.post(client, request).await else { return Err(Over) };
        if answer.status == 429 {
            // An upload that was cut off is still being cleaned up.
            sleep(Duration::from_millis(50)).await;
            return Ok(());
        }
        let wrong = disagreement(after, &answer, &expected);
        let (after, expected) = match (wrong, again) {
            (None, _) => (after.clone(), expected),
            (Some(_), Some((again, expected))) if disagreement(&again, &answer, &expected).is_none() => {
                (again, expected)
            }
            (Some(wrong), _) => {
                let Request { by, sequence, what, .. } = request;
                let told = format!("{} {what:?} at {sequence}: {wrong}", self.model.processes[*by].name);
                life.findings.borrow_mut().other.push(told);
                return Ok(());
            }
        };
        let (request, _) = self.pending.take().unwrap();
        self.note_applied(after);
        self.counts.acknowledged += 1;
        life.acknowledged.set(life.versions.borrow().len() - 1);
        life.first.notify_one();
        if matches!(expected, Expected::Refused { error: "resync_required", .. }) {
            let Process { count, own, .. } = &self.model.processes[request.by];
            self.queue.extend(own.iter().map(|id| (request.by, What::Guilds((*count, *id)))));
        }
        self.sent.push_back(request);
        if self.sent.len() > 10 {
            self.sent.pop_front();
        }
        Ok(())
    }

    /// A request was applied, and this is the model after it.
    pub(super) fn note_applied(&mut self, after: Model) {
        self.is_counted_once = self.counts_once(&after);
        (self.model, self.is_uncertain) = (after, false);
    }

    /// Whether each guild is counted once after a request.
    pub(super) fn counts_once(&self, after: &Model) -> bool {
        if after.commits == self.model.commits {
            return self.is_counted_once;
        }
        // Where shards of two counts overlap, a snapshot's guilds also count for another one until everything is cleaned up.
        let counts: BTreeSet<u64> = after.sent.keys().map(|(count, _)| *count).collect();
        counts.len() <= 1
    }

    /// Takes over what only one bot may send.
    pub async fn hand_over(&mut self, client: &Client, says: Says) {
        // Its last request may have been cut off.
        let mut left: Vec<Request> = self.pending.take().map(|(request, _)| request).into_iter().collect();
        let by = self.model.processes.len() - 1;
        left.push(Request { by, sequence: 0, what: What::Subscriptions, lines: Vec::new() });
        let team = json!({"type": "team", "members": []});
        left.push(Request { by, sequence: 0, what: What::Events, lines: vec![team] });
        for by in 0..=by {
            assert!(self.send_heartbeat(client, by).await.is_ok());
        }
        for mut request in left {
            if request.sequence == 0 {
                request.sequence = self.model.processes[by].life.next;
            }
            self.model.now = self.clock.now().millis();
            let answer = self.post(client, &request).await.unwrap();
            let mut after = self.model.clone();
            let expected = after.receive(&request);
            let wrong = disagreement(&after, &answer, &expected);
            assert!(self.is_uncertain || wrong.is_none(), "{wrong:?}");
            self.note_applied(after);
        }
        self.set_says(says);
        self.sent.clear();
    }
}

fn version(model: &Model) -> Version {
    PEOPLE.iter().map(|(_, user)| (*user, model.guilds_of(*user))).collect()
}
