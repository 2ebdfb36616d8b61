//! The numbering, one request at a time, retries, resync.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};

use crate::batch;
use crate::core::{Core, Phase, State, has_changes, wait_until};
use crate::heartbeat;
use crate::numbering::{gap, snapshot_refused};
use crate::outage::Channel;
use crate::ownership::note_owners;
use crate::snapshots::{self, Refused, Shard, Written};
use crate::source::shard_of;
use crate::subscriptions;
use crate::transport::{Answer, Body, Request};

/// The next thing to do.
enum Step {
    Batch,
    Introduce,
    Snapshot(u32),
    Subscriptions,
    Probe,
    MakeBatch,
}

/// Sends forever. When the feed closes, sends what is left, each request once.
pub(crate) async fn run(core: &Arc<Core>) {
    let mut phase = core.phase.subscribe();
    let mut closing = async || drop(phase.wait_for(|phase| *phase != Phase::Open).await);
    while core.is_open() {
        if begin_work(core) {
            work(core).await;
        } else {
            let wake = async {
                tokio::select! {
                    biased;
                    () = core.wake.notified() => {}
                    () = closing() => {}
                }
            };
            wait_until(&*core.clock, Some(next_due(core)), wake).await;
        }
    }
    core.lock().is_working = true;
    // If the wait for a retry was cut short, this is the last try.
    work(core).await;
}

fn begin_work(core: &Core) -> bool {
    let mut state = core.lock();
    core.tick(&mut state);
    let now = core.clock.now();
    let is_due = state.start_at.is_some_and(|at| at <= now)
        || state.is_doubtful
        || state.subscriptions.is_stale
        || state.team.is_stale
        || state.marks.next_count().is_some_and(|at| at + core.limits.gather_time <= now);
    if is_due {
        state.start_at = None;
        state.is_working = true;
    }
    is_due
}

fn next_due(core: &Core) -> Duration {
    let state = core.lock();
    let count = state.marks.next_count().map(|at| at + core.limits.gather_time);
    [state.start_at, count].into_iter().flatten().fold(Core::next_tick(&state), Duration::min)
}

/// Does one thing after another until nothing is left.
async fn work(core: &Arc<Core>) {
    let requests = core.reporter.counters().requests;
    loop {
        let step = {
            let mut state = core.lock();
            core.tick(&mut state);
            let step = next_step(core, &mut state);
            state.is_working = step.is_some();
            if step.is_none() && core.are_own_shards_sent(&state) && core.reporter.counters().requests > requests {
                core.reporter.synced();
            }
            step
        };
        let Some(step) = step else { return };
        let done = AssertUnwindSafe(take_step(core, step)).catch_unwind().await;
        let delay = done.unwrap_or_else(|panic| {
            core.say_fault(&*panic);
            core.resync(&mut core.lock());
            Some(core.limits.longest_retry)
        });
        if let Some(delay) = delay
            && !pause(core, delay).await
        {
            return;
        }
    }
}

/// Waits. Returns whether to continue: closing ends the wait, and there is no second one.
async fn pause(core: &Core, delay: Duration) -> bool {
    let mut phase = core.phase.subscribe();
    tokio::select! {
        biased;
        _ = phase.wait_for(|phase| *phase != Phase::Open) => false,
        () = core.clock.sleep(delay) => true,
    }
}

fn next_step(core: &Core, state: &mut State) -> Option<Step> {
    if state.batch.is_some() {
        return Some(Step::Batch);
    }
    let shard = state.snapshots.next_stale();
    let has_subscriptions = state.subscriptions.is_stale || state.refused_subscriptions.retry.is_some();
    if !state.is_introduced && (shard.is_some() || has_subscriptions) {
        return Some(Step::Introduce);
    }
    if let Some(shard) = shard {
        return Some(Step::Snapshot(shard));
    }
    // Changes go between two tries.
    let changes_first = std::mem::take(&mut state.refused_subscriptions.changes_first);
    if has_subscriptions && !changes_first {
        return Some(Step::Subscriptions);
    }
    if state.is_doubtful {
        if state.snapshots.ready().next().is_some() {
            return Some(Step::Probe);
        }
        state.is_doubtful = false;
    }
    let has_counts = state.marks.next_count().is_some_and(|at| at <= core.clock.now());
    if has_changes(state) || !state.feedback.is_empty() || state.team.is_stale || has_counts {
        return Some(Step::MakeBatch);
    }
    has_subscriptions.then_some(Step::Subscriptions)
}

/// Returns the delay before the same is tried again, if necessary.
async fn take_step(core: &Arc<Core>, step: Step) -> Option<Duration> {
    match step {
        Step::Batch => batch::send(core).await,
        Step::Introduce => heartbeat::introduce(core).await,
        Step::Snapshot(shard) => send_snapshot(core, shard).await,
        Step::Subscriptions => subscriptions::send(core).await,
        Step::Probe => probe(core).await,
        Step::MakeBatch => {
            batch::make(core).await;
            None
        }
    }
}

async fn send_snapshot(core: &Arc<Core>, shard: u32) -> Option<Duration> {
    let (count, (sequence, after)) = {
        let mut state = core.lock();
        let count = state.snapshots.shard_count;
        state.snapshots.begin(shard);
        state.marks.drop_guilds(|guild| shard_of(guild, count) == shard);
        (count, state.numbering.of_snapshot())
    };
    let mut guilds = core.source.guild_ids(shard);
    guilds.retain(|guild| shard_of(*guild, count) == shard);
    core.forget_other_guilds(shard, &guilds);
    let written: Written = Arc::default();
    let body = Body::Stream(snapshots::lines(core, guilds, &written));
    let request = numbered(core, "PUT", format!("/bot/shards/{count}/{shard}/guilds"), sequence, body);
    let request = Request { after, ..request };
    let refused = |status, data: &Map<String, Value>| {
        refused_lines(status, data, written.lock().unwrap_or_else(PoisonError::into_inner).len())
    };
    let handles = |status, data: &Map<String, Value>| status == 409 || !refused(status, data).is_empty();
    let answer = core.call(Channel::Sender, &format!("the snapshot of shard {shard}"), request, handles).await;
    let replaced = std::mem::take(&mut core.lock().replaced);
    let (status, data) = match answer {
        Answer::Answered(200, data) => {
            core.reporter.count(|counters| {
                counters.snapshots += 1;
                counters.lines_sent += written.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
            });
            let mut state = core.lock();
            state.numbering.arrived(sequence);
            state.refusals = 0;
            state.snapshots.end(shard, Shard::Sent);
            note_owners(&mut state, &data);
            say_connected(core, &mut state);
            core.reporter.forget("changes");
            return None;
        }
        Answer::Answered(status, data) => (status, data),
        Answer::Later(delay) => {
            let mut state = core.lock();
            state.numbering.snapshot_failed(sequence);
            state.snapshots.end(shard, Shard::Stale);
            drop(state);
            core.put_back(replaced);
            return Some(delay);
        }
    };
    core.lock().snapshots.end(shard, Shard::Stale);
    core.put_back(replaced);
    if status == 409 {
        return snapshot_refused(core, sequence, &data);
    }
    let refused = refused(status, &data);
    let written = std::mem::take(&mut *written.lock().unwrap_or_else(PoisonError::into_inner));
    for (line, reason) in refused {
        let guild = written[line];
        let what = match core.lock().snapshots.refuse(guild) {
            Refused::Unavailable => "stays as it was",
            Refused::LeftOut => "is left out",
        };
        core.reporter.count(|counters| counters.lines_refused += 1);
        core.reporter.warn_once(
            &format!("refused {guild}"),
            &format!("the service refuses guild {guild}, which {what} until it changes: {reason}"),
        );
    }
    None
}

/// Logs once that every one of this process's shards has been sent.
pub(crate) fn say_connected(core: &Core, state: &mut State) {
    if state.snapshots.is_connected || !core.are_own_shards_sent(state) || core.source.expects_shards() {
        return;
    }
    state.snapshots.is_connected = true;
    let guilds: usize = state.snapshots.ready().map(|shard| core.source.guild_ids(shard).len()).sum();
    let shards = state.snapshots.ready().count();
    let plural = |count, name| if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") };
    core.reporter.info(&format!(
        "connected to {} as {}: {}, {}, {} staff{}",
        core.url,
        core.source.name().unwrap_or_else(|| "the bot".to_owned()),
        plural(guilds, "guild"),
        plural(shards, "shard"),
        state.staff.len(),
        if core.callbacks.grants.is_some() { "" } else { " (no `grants` callback)" },
    ));
}

/// Sends no events under the next number: a response without a gap means that the service still has everything before it.
async fn probe(core: &Arc<Core>) -> Option<Duration> {
    let sequence = core.lock().numbering.next;
    let request = numbered(core, "POST", "/bot/events".to_owned(), sequence, Body::Lines(Vec::new()));
    match core.call(Channel::Sender, "a request without events", request, |status, _| status == 409).await {
        Answer::Later(delay) => Some(delay),
        Answer::Answered(200, data) => {
            let mut state = core.lock();
            state.is_doubtful = false;
            state.resyncs = 0;
            note_owners(&mut state, &data);
            None
        }
        Answer::Answered(_, data) => {
            let mut state = core.lock();
            gap(core, &mut state, sequence, &data)
        }
    }
}

/// A request with this process's name and a number.
pub(crate) fn numbered(core: &Core, method: &'static str, path: String, sequence: u64, body: Body) -> Request {
    Request { method, path, instance: Some(core.instance.clone()), sequence: Some(sequence), after: None, body }
}

/// The lines that a 422 refuses, counted from 0 and in order, and why. Only lines that were sent count.
pub(crate) fn refused_lines(status: u16, data: &Map<String, Value>, sent: usize) -> BTreeMap<usize, String> {
    if status != 422 {
        return BTreeMap::new();
    }
    let all = data.get("lines").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let refused = |line: &Map<String, Value>| {
        let index = usize::try_from(line.get("line")?.as_u64()?.checked_sub(1)?).ok()?;
        (index < sent).then(|| (index, reason(line).to_owned()))
    };
    // An older service only names the first one.
    [data].into_iter().chain(all).filter_map(refused).collect()
}

/// The reason that a response gives.
pub(crate) fn reason(data: &Map<String, Value>) -> &str {
    ["reason", "error"].iter().find_map(|name| data.get(*name)?.as_str()).unwrap_or("no reason given")
}

/// A digest that tells whether two lists of lines are the same, without keeping them.
pub(crate) fn digest(lines: &[String]) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, lines).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
