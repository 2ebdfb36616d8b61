//! The report on the process and its shards.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::core::{Core, wait_until};
use crate::outage::Channel;
use crate::sender::say_connected;
use crate::transport::{Answer, Body, Request};

/// Sends heartbeats forever: at each interval, and when a shard has become ready.
pub(crate) async fn run(core: &Arc<Core>) {
    let mut not_before = Duration::ZERO;
    loop {
        let due = {
            let state = core.lock();
            let regular = state.last_heartbeat.unwrap_or(core.start) + core.limits.heartbeat_interval;
            state.report_at.map_or(regular, |report| report.min(regular)).max(not_before)
        };
        if due > core.clock.now() {
            wait_until(&*core.clock, Some(due), core.shards_known.notified()).await;
        } else if core.source.shards().is_empty() {
            core.shards_known.notified().await;
        } else if let Ok(_only_one) = core.heartbeat_turn.try_lock() {
            if let Some(delay) = send(core, Channel::Heartbeat).await {
                not_before = core.clock.now() + delay;
            }
        } else {
            // The sender's first heartbeat counts as well.
            drop(core.heartbeat_turn.lock().await);
        }
    }
}

/// Introduces the process before its first snapshot, because its start time decides who owns the shards. Returns the delay
/// before the next try, if one is needed.
pub(crate) async fn introduce(core: &Arc<Core>) -> Option<Duration> {
    let _only_one = core.heartbeat_turn.lock().await;
    if core.lock().is_introduced { None } else { send(core, Channel::Introduction).await }
}

/// The last heartbeat, sent once: the service gives this process's shards to the next one at once.
pub(crate) async fn leave(core: &Arc<Core>) {
    let has_reported = core.lock().last_heartbeat.is_some();
    if has_reported {
        let mut body = body(core);
        body["leaving"] = true.into();
        send_body(core, Channel::Heartbeat, &body).await;
    }
}

/// Sends a heartbeat. Returns the delay before the next try, if the service did not accept it.
async fn send(core: &Arc<Core>, channel: Channel) -> Option<Duration> {
    {
        let mut state = core.lock();
        state.last_heartbeat = Some(core.clock.now());
        state.report_at = None;
    }
    send_body(core, channel, &body(core)).await
}

async fn send_body(core: &Arc<Core>, channel: Channel, body: &Value) -> Option<Duration> {
    let request = Request {
        method: "PUT",
        path: "/bot/heartbeat".to_owned(),
        instance: None,
        sequence: None,
        after: None,
        body: Body::Json(body.to_string().into_bytes()),
    };
    match core.call(channel, "heartbeat", request, |status, _| matches!(status, 409 | 413 | 422)).await {
        Answer::Later(delay) => return Some(delay),
        Answer::Answered(200, _) => {
            core.reporter.count(|counters| counters.heartbeats += 1);
            core.check_replaced(&mut core.lock());
        }
        Answer::Answered(status, data) => {
            let reason = data.get("reason").and_then(Value::as_str).unwrap_or("no reason given");
            core.reporter
                .warn_once("heartbeat", &format!("the service refuses the heartbeat (status {status}): {reason}"));
        }
    }
    let mut state = core.lock();
    state.is_introduced = true;
    say_connected(core, &mut state);
    None
}

fn body(core: &Core) -> Value {
    let shards: Vec<Value> = core
        .source
        .shards()
        .iter()
        .map(|shard| {
            json!({
                "id": shard.id,
                "sent_ms_ago": shard.sent_ms_ago,
                "acknowledged_ms_ago": shard.acknowledged_ms_ago,
                "latency": shard.latency,
            })
        })
        .collect();
    json!({
        "instance": core.instance,
        "started_at": core.started_at,
        "memory": resident_memory(),
        "library": core.source.library(),
        "shard_count": core.source.shard_count(),
        "shards": shards,
    })
}

/// This process's resident memory, in bytes; 0 where the system does not report it.
fn resident_memory() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}
