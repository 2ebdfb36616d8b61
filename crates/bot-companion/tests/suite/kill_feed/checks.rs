//! Compares what the service shows after a kill with the recorder's model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::life::Findings;
use super::recorder::{Recorder, Says};
use crate::feed_model::model::{Model, What};
use crate::feed_model::{PEOPLE, number_of};
use crate::harness::{Client, PATIENCE};

/// What is shown, part by part.
type Parts = BTreeMap<String, Value>;

impl Recorder {
    /// After a kill: everything acknowledged is there, and the request without an answer either completely or not at all.
    pub async fn check(
        &mut self,
        client: &Client,
        people: &[(&str, u64, String)],
        place: &str,
        findings: &mut Findings,
    ) {
        let state = self.state(client).await;
        let seen = self.observe(client, people, &state).await;
        let before = self.parts(&self.model);
        let after = self.pending.as_ref().map(|(_, after)| self.parts(after));
        let is_after = after.as_ref() == Some(&seen);
        if seen == before || is_after {
            if seen == before {
                self.is_uncertain |= is_after;
            } else {
                self.counts.applied += 1;
                let after = self.pending.as_ref().map(|(_, after)| after.clone()).unwrap();
                self.note_applied(after);
            }
            let miscount = self.miscount_of_unseen(client, &state).await;
            findings.lost.extend(miscount.map(|wrong| format!("{place}: {wrong}")));
            return;
        }
        let after = after.as_ref().unwrap_or(&before);
        let names: BTreeSet<_> = seen.keys().chain(before.keys()).chain(after.keys()).collect();
        let of = |parts: &Parts, name: &str| parts.get(name).cloned().unwrap_or_default();
        let differs = |name: &&&String| of(&seen, name) != of(&before, name);
        let told = names.iter().filter(differs).take(10).map(|name| {
            let [seen, before, after] = [&seen, &before, after].map(|parts| of(parts, name));
            format!("\n  {name}: {seen}\n    acknowledged: {before}\n    under way: {after}")
        });
        let told = format!("{place}:{}", told.collect::<String>());
        // Some parts as before and others as after the unanswered request means that it was half applied, and so do only its
        // first events.
        let is_mixed =
            names.iter().all(|name| [&before, after].map(|parts| of(parts, name)).contains(&of(&seen, name)));
        let is_half = is_mixed || self.is_some_of_pending(&seen);
        if is_half { findings.half_applied.push(told) } else { findings.lost.push(told) }
    }

    /// Whether this is what shows if only some of the pending events were applied.
    fn is_some_of_pending(&self, seen: &Parts) -> bool {
        let without_numbers = |mut parts: Parts| {
            parts.retain(|name, _| !name.starts_with("next of "));
            parts
        };
        let seen = without_numbers(seen.clone());
        self.pending.as_ref().filter(|(request, _)| request.what == What::Events).is_some_and(|(request, _)| {
            (0..request.lines.len()).any(|count| {
                let (mut model, mut some) = (self.model.clone(), request.clone());
                some.lines.truncate(count);
                model.receive(&some);
                without_numbers(self.parts(&model)) == seen
            })
        })
    }

    fn parts(&self, model: &Model) -> Parts {
        let mut parts = Parts::new();
        for (name, user) in PEOPLE {
            parts.extend(guild_parts(name, model.guilds_of(user)));
        }
        parts.insert("feedback".to_owned(), json!(model.shown_feedback()));
        if self.says == Says::Team {
            parts.insert("team".to_owned(), json!(model.roster()));
        }
        parts.extend(
            model.processes.iter().map(|process| (format!("next of {}", process.name), process.life.next.into())),
        );
        let sender = |by: &usize| model.processes[*by].name.clone().into();
        parts.extend(model.sent.iter().map(|((count, id), (by, _))| (format!("shard {count}/{id}"), sender(by))));
        parts
    }

    async fn observe(&self, client: &Client, people: &[(&str, u64, String)], state: &Value) -> Parts {
        let mut parts = Parts::new();
        for (name, _, token) in people {
            let shown = client.with_token(token).guilds().await;
            let own = |entry: &Value| !number_of(&entry["id"]).is_multiple_of(2);
            parts.extend(guild_parts(name, shown.into_iter().filter(own).collect()));
        }
        let shown = client.get("/feedback").await.data();
        let own = |entry: &&Value| entry["feedback"].as_str().unwrap().starts_with('w');
        let feedback: BTreeSet<String> =
            shown.as_array().unwrap().iter().filter(own).map(ToString::to_string).collect();
        parts.insert("feedback".to_owned(), json!(feedback));
        if self.says == Says::Team {
            parts.insert("team".to_owned(), client.get("/team").await.data());
        }
        for process in &self.model.processes {
            let known = state["instances"].as_array().unwrap().iter().find(|one| one["instance"] == process.name);
            parts.insert(format!("next of {}", process.name), known.map_or(1.into(), |one| one["next"].clone()));
        }
        let shards = own_shards(state);
        let name = |shard: &Value| format!("shard {}/{}", shard["shard_count"], shard["shard_id"]);
        parts.extend(shards.map(|shard| (name(shard), shard["instance"].clone())));
        parts
    }

    async fn state(&self, client: &Client) -> Value {
        self.call(client, Method::GET, "/bot/state").send().await.data()
    }

    /// The models that nothing visible can tell apart.
    fn possible(&self) -> impl Iterator<Item = &Model> {
        let pending = self.pending.as_ref().map(|(_, after)| after).filter(|_| self.is_uncertain);
        std::iter::once(&self.model).chain(pending)
    }

    /// Whether the guilds are counted correctly, including those that nobody sees.
    async fn miscount_of_unseen(&mut self, client: &Client, state: &Value) -> Option<String> {
        if self.possible().all(|model| self.counts_once(model)) {
            return self.miscount_in(state);
        }
        // Until everything is cleaned up, guilds that have moved to another shard count twice. Usually this is not waited for,
        // so that some kills come before its end.
        if self.dice.one_in(3) {
            let settled = timeout(PATIENCE, self.settle(client)).await;
            return settled.err().map(|_| format!("the guilds are not {}, for good", self.model.guilds.len()));
        }
        let (counted, least) = (guilds_counted(state), self.possible().map(|model| model.guilds.len() as u64).min()?);
        (counted < least).then(|| format!("{counted} guilds are counted, and there are {least}"))
    }

    /// Waits until everything is cleaned up and the guilds are counted correctly.
    async fn settle(&mut self, client: &Client) {
        while self.miscount(client).await.is_some() {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// How the service's guild count differs from the model's, once everything is cleaned up.
    pub async fn miscount(&mut self, client: &Client) -> Option<String> {
        let wrong = self.miscount_in(&self.state(client).await);
        // Duplicates make the number larger, so the right number means that there are none.
        self.is_counted_once |= wrong.is_none() && !self.is_uncertain;
        wrong
    }

    fn miscount_in(&self, state: &Value) -> Option<String> {
        let counted = guilds_counted(state);
        let fits = self.possible().any(|model| model.guilds.len() as u64 == counted);
        (!fits).then(|| format!("{counted} guilds are counted, and there are {}", self.model.guilds.len()))
    }
}

/// The recorder's shards: those with odd IDs.
fn own_shards(state: &Value) -> impl Iterator<Item = &Value> {
    let shards = state["shards"].as_array().unwrap().iter();
    shards.filter(|shard| !shard["shard_id"].as_u64().unwrap().is_multiple_of(2))
}

fn guilds_counted(state: &Value) -> u64 {
    own_shards(state).map(|shard| shard["guilds"].as_u64().unwrap()).sum()
}

fn guild_parts(person: &str, guilds: Vec<Value>) -> Parts {
    guilds.into_iter().map(|entry| (format!("guild {} for {person}", entry["id"]), entry)).collect()
}
