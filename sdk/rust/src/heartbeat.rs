//! The report on the process and its shards.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::core::Core;
use crate::outage::Channel;
use crate::transport::{Answer, Body, Request};

/// Sends one in every interval, for ever.
pub(crate) async fn run(core: &Arc<Core>) {
    let mut due = core.clock.now() + core.limits.heartbeat_interval;
    loop {
        core.clock.sleep(due.saturating_sub(core.clock.now())).await;
        due = core.clock.now() + core.limits.heartbeat_interval;
        if let Some(delay) = send(core, Channel::Heartbeat).await {
            due = due.max(core.clock.now() + delay);
        }
    }
}

/// Sends one. Gives the delay after which it is to be tried again, if the service did not take it.
pub(crate) async fn send(core: &Arc<Core>, channel: Channel) -> Option<Duration> {
    let body = body(core)?;
    let request = Request {
        method: "PUT",
        path: "/bot/heartbeat".to_owned(),
        instance: None,
        sequence: None,
        body: Body::Json(body.to_string().into_bytes()),
    };
    match core.call(channel, "heartbeat", request).await {
        Answer::Later(delay) => Some(delay),
        Answer::Answered(200, _) => {
            core.reporter.count(|counters| counters.heartbeats += 1);
            None
        }
        Answer::Answered(status, data) => {
            let reason = data.get("reason").and_then(Value::as_str).unwrap_or("no reason is given");
            core.reporter
                .warn_once("heartbeat", &format!("the service refuses the heartbeat (status {status}): {reason}"));
            None
        }
    }
}

/// `None` while no shard is known.
fn body(core: &Core) -> Option<Value> {
    let shards = core.source.shards();
    if shards.is_empty() {
        return None;
    }
    let shards: Vec<Value> = shards
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
    Some(json!({
        "instance": core.instance,
        "started_at": core.started_at,
        "memory": resident_memory(),
        "library": core.source.library(),
        "shard_count": core.source.shard_count(),
        "shards": shards,
    }))
}

/// What this process holds in memory, in bytes; 0 where the system does not tell.
fn resident_memory() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}
