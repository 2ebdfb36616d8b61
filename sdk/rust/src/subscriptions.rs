//! Subscriptions: one per user, sent as a whole list. Lines that the service refuses are left out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Map, Value, json};

use crate::core::Core;
use crate::numbering::snapshot_refused;
use crate::outage::Channel;
use crate::sender::{digest, numbered, refused_lines};
use crate::snapshots::with_line_end;
use crate::transport::{Answer, Body, Request};

/// Subscriptions that the service refuses.
#[derive(Default)]
pub(crate) struct Refusals {
    /// Lines of the callback's last answer that are left out.
    lines: HashSet<String>,
    /// A digest of the answer that was refused too often: none of it is sent.
    pub(crate) blocked: Option<u128>,
    /// What is left of the last answer, to be sent again.
    pub(crate) retry: Option<List>,
    /// Changes go between two tries.
    pub(crate) changes_first: bool,
}

/// The callback's answer, as it is sent.
pub(crate) struct List {
    /// A digest of the whole answer.
    answer: u128,
    lines: Vec<String>,
    tries: u32,
}

pub(crate) async fn send(core: &Arc<Core>) -> Option<Duration> {
    let retry = {
        let mut state = core.lock();
        let retry = state.refused_subscriptions.retry.take();
        if std::mem::take(&mut state.subscriptions.is_stale) { None } else { retry }
    };
    let list = match retry {
        Some(list) => list,
        None => ask(core).await?,
    };
    let (sequence, after) = core.lock().numbering.of_snapshot();
    let end = json!({"end": list.lines.len()}).to_string();
    let body: Vec<Vec<u8>> = list.lines.iter().cloned().chain([end]).map(with_line_end).collect();
    let body = Body::Stream(stream::iter(body).boxed());
    let request = Request { after, ..numbered(core, "PUT", "/bot/subscriptions".to_owned(), sequence, body) };
    let refused = |status, data: &Map<String, Value>| refused_lines(status, data, list.lines.len());
    let handles = |status, data: &Map<String, Value>| status == 409 || !refused(status, data).is_empty();
    let (status, data) = match core.call(Channel::Sender, "the subscriptions", request, handles).await {
        Answer::Answered(200, _) => {
            let mut state = core.lock();
            state.numbering.arrived(sequence);
            state.refusals = 0;
            state.subscriptions.acknowledged = Some(digest(&list.lines));
            core.reporter.count(|counters| counters.lines_sent += list.lines.len() as u64);
            core.reporter.forget("subscriptions");
            return None;
        }
        Answer::Later(delay) => {
            failed(core, sequence);
            return Some(delay);
        }
        Answer::Answered(status, data) => (status, data),
    };
    if status == 409 {
        core.lock().subscriptions.is_stale = true;
        return snapshot_refused(core, sequence, &data);
    }
    let refused = refused(status, &data);
    core.reporter.count(|counters| counters.lines_refused += refused.len() as u64);
    for reason in refused.values() {
        core.reporter.warn_once(
            &format!("subscription {reason}"),
            &format!("the service refuses a subscription, which is left out: {reason}"),
        );
    }
    leave_out(core, list, |line| refused.contains_key(&line));
    None
}

/// There was no answer: the service may have the list or not.
fn failed(core: &Core, sequence: u64) {
    let mut state = core.lock();
    state.numbering.snapshot_failed(sequence);
    state.subscriptions.make_unknown();
}

/// Calls the callback. `None` if there is nothing to send.
async fn ask(core: &Arc<Core>) -> Option<List> {
    let callback = core.callbacks.subscriptions.as_ref()?;
    let Some(lines) = core.callback_time().limit("subscriptions", || callback()).await else {
        core.lock().subscriptions.retry_at = Some(core.clock.now() + core.limits.callback_retry);
        return None;
    };
    let mut lines = unite(lines, core.clock.epoch());
    let answer = digest(&lines);
    let mut state = core.lock();
    if state.refused_subscriptions.blocked == Some(answer) {
        return None;
    }
    state.refused_subscriptions.blocked = None;
    state.refused_subscriptions.keep_only(&lines);
    lines.retain(|line| line.len() <= core.limits.line_bytes && !state.refused_subscriptions.lines.contains(line));
    (state.subscriptions.acknowledged != Some(digest(&lines))).then_some(List { answer, lines, tries: 0 })
}

/// Leaves these lines out from now on, and sends the rest again; if that has happened too often, nothing.
fn leave_out(core: &Core, mut list: List, is_refused: impl Fn(usize) -> bool) {
    let most = core.limits.subscription_tries;
    let (refused, lines): (Vec<_>, Vec<_>) =
        std::mem::take(&mut list.lines).into_iter().enumerate().partition(|(line, _)| is_refused(*line));
    let mut state = core.lock();
    let refusals = &mut state.refused_subscriptions;
    refusals.lines.extend(refused.into_iter().map(|(_, line)| line));
    list.lines = lines.into_iter().map(|(_, line)| line).collect();
    list.tries += 1;
    if list.tries < most {
        refusals.retry = Some(list);
        refusals.changes_first = true;
        return;
    }
    refusals.blocked = Some(list.answer);
    drop(state);
    core.reporter.warn_once(
        "subscriptions",
        &format!(
            "subscriptions are still refused after {most} tries: none are sent until the callback returns something else, and \
             premium stays as the service has it"
        ),
    );
}

impl Refusals {
    /// Forgets lines that the callback no longer returns.
    fn keep_only(&mut self, lines: &[String]) {
        if !self.lines.is_empty() {
            let given: HashSet<&String> = lines.iter().collect();
            self.lines.retain(|line| given.contains(line));
        }
    }
}

/// One subscription per user, which is what the service keeps; a bot may have one per payment.
fn unite(lines: Vec<String>, now: f64) -> Vec<String> {
    let mut users: Vec<Vec<(String, Value)>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let entry: Value = serde_json::from_str(&line).unwrap_or_default();
        let user = entry["userid"].as_str().unwrap_or_default().to_owned();
        let place = *places.entry(user).or_insert(users.len());
        if place == users.len() {
            users.push(Vec::new());
        }
        users[place].push((line, entry));
    }
    users.into_iter().map(|entries| united(entries, now)).collect()
}

/// Guilds and slots together, until the latest end. What has ended does not count beside what has not: its guilds would get
/// premium again.
fn united(mut entries: Vec<(String, Value)>, now: f64) -> String {
    if entries.len() == 1 {
        return entries.swap_remove(0).0;
    }
    let end = |entry: &Value| entry["active_until"].as_f64().unwrap_or(f64::INFINITY);
    if entries.iter().any(|(_, entry)| end(entry) > now) {
        entries.retain(|(_, entry)| end(entry) > now);
    }
    let latest = entries.iter().max_by(|(_, one), (_, other)| end(one).total_cmp(&end(other)));
    let mut guilds: Vec<&Value> = Vec::new();
    let mut seen = HashSet::new();
    let named = entries.iter().filter_map(|(_, entry)| entry["guilds"].as_array()).flatten();
    guilds.extend(named.filter(|guild| seen.insert(guild.as_str())));
    json!({
        "userid": entries[0].1["userid"],
        "slots": entries.iter().filter_map(|(_, entry)| entry["slots"].as_i64()).fold(0, i64::saturating_add),
        "guilds": guilds,
        "active_until": latest.map_or(&Value::Null, |(_, entry)| &entry["active_until"]),
    })
    .to_string()
}
