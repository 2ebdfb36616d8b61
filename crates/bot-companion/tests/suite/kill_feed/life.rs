//! One life of the service, from its start to its kill, with everything that happens in between.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::recorder::{Recorder, Version};
use super::site::{Site, sign_in};
use crate::feed_model::number_of;
use crate::harness::{Client, PATIENCE};

/// What went wrong.
#[derive(Default)]
pub struct Findings {
    pub lost: Vec<String>,
    pub half_applied: Vec<String>,
    pub other: Vec<String>,
}

impl Findings {
    pub fn any(&self) -> bool {
        !(self.lost.is_empty() && self.half_applied.is_empty() && self.other.is_empty())
    }
}

/// What the users of one life of the service share.
pub struct Life {
    pub findings: RefCell<Findings>,
    /// What the recorder's guilds look like after each of its requests.
    pub versions: RefCell<Vec<Version>>,
    /// The index of the last acknowledged version.
    pub acknowledged: Cell<usize>,
    /// A request was acknowledged, or none will be.
    pub first: Notify,
    is_killed: Cell<bool>,
}

impl Life {
    /// A request got no answer, which is only right after the kill.
    pub fn note_break(&self, what: &str) {
        if !self.is_killed.get() {
            self.findings.borrow_mut().other.push(format!("{what} broke before the kill"));
        }
    }

    /// Whether what this person sees is one of the versions since the last one acknowledged before the read.
    fn explains(&self, name: &str, user: u64, acknowledged: usize, shown: &[Value]) -> bool {
        let versions = self.versions.borrow();
        let (older, possible) = versions.split_at(acknowledged);
        if possible.iter().any(|version| version[&user] == shown) {
            return true;
        }
        let mut findings = self.findings.borrow_mut();
        let is_old = older.iter().any(|version| version[&user] == shown);
        let kind = if is_old { &mut findings.lost } else { &mut findings.half_applied };
        kind.push(format!("a read of {name}: {shown:?}; acknowledged {:?}", possible[0][&user]));
        false
    }
}

pub async fn run(site: &mut Site, recorder: &mut Recorder, findings: &mut Findings) {
    let mut service = site.spawn();
    if site.kills > 0 && recorder.dice.one_in(10) {
        // It may be killed before it listens, too.
        sleep(Duration::from_millis(recorder.dice.below(300))).await;
        site.kill(&mut service, findings);
        site.early += 1;
        return;
    }
    service.listens().await;
    let client = service.client();
    check(site, recorder, &client, findings).await;
    if findings.any() {
        site.kill(&mut service, findings);
        return;
    }
    let longest = recorder.dice.pick(&[20, 100, 400]);
    let pause = Duration::from_millis(recorder.dice.below(longest));
    let life = Life {
        findings: RefCell::new(std::mem::take(findings)),
        versions: RefCell::new(vec![recorder.version()]),
        acknowledged: Cell::new(0),
        first: Notify::new(),
        is_killed: Cell::new(false),
    };
    let people = site.people.clone();
    let ((), reads, visitors, ()) = tokio::join!(
        recorder.run(&client, &life),
        read(&client, &people, &life),
        keep_signing_in(&client, site, &life),
        async {
            if timeout(PATIENCE, life.first.notified()).await.is_err() {
                life.findings.borrow_mut().other.push("nothing is acknowledged".to_owned());
            }
            sleep(pause).await;
            life.is_killed.set(true);
            if service.has_ended() {
                life.findings
                    .borrow_mut()
                    .other
                    .push(format!("the service has ended by itself:\n{}", service.logged()));
            } else {
                service.kill();
            }
        }
    );
    *findings = life.findings.into_inner();
    site.kills += 1;
    site.reads += reads;
    site.sign_ins += visitors.len() as u64;
    site.visitors.extend(visitors);
    let old = site.visitors.len().saturating_sub(3);
    site.visitors.drain(..old);
}

/// Asserts that everything acknowledged before the last kill is there.
pub async fn check(site: &Site, recorder: &mut Recorder, client: &Client, findings: &mut Findings) {
    let place = format!("after kill {}", site.kills);
    site.check_sessions(client, &place, findings).await;
    if !findings.any() {
        recorder.check(client, &site.people, &place, findings).await;
    }
}

/// Reads until the service is gone. Acknowledged changes are in the next read, and a read never shows a half. Returns how
/// often.
async fn read(client: &Client, people: &[(&str, u64, String)], life: &Life) -> u64 {
    for count in 0_usize.. {
        let (name, user, token) = &people[count % people.len()];
        let least = life.acknowledged.get();
        let call = client.with_token(token).call(reqwest::Method::GET, "/guilds");
        let Ok(answer) = call.try_send().await else {
            life.note_break("a read");
            return count as u64;
        };
        if answer.status != 200 {
            life.findings.borrow_mut().other.push(format!("a read: {}", answer.text()));
            return count as u64;
        }
        let mut shown: Vec<Value> = answer.data().as_array().unwrap().clone();
        shown.retain(|entry| !number_of(&entry["id"]).is_multiple_of(2));
        if !life.explains(name, *user, least, &shown) {
            return count as u64;
        }
        sleep(Duration::from_millis(20)).await;
    }
    unreachable!("there is no end to numbers")
}

/// Signs in until the service is gone, and returns the acknowledged sessions.
async fn keep_signing_in(client: &Client, site: &Site, life: &Life) -> Vec<String> {
    let mut sessions = Vec::new();
    while let Some(token) = sign_in(client, &site.provider.issue_code("newcomer")).await {
        sessions.push(token);
        sleep(Duration::from_millis(if sessions.len().is_multiple_of(2) { 10 } else { 50 })).await;
    }
    life.note_break("a sign-in");
    sessions
}
