//! The body of `PUT /bot/heartbeat`.

use std::time::Duration;

use super::json::{Fields, Json, Reason, object, wrong};
use super::{InstanceId, MAX_SHARDS};
use crate::domain::Time;
use crate::domain::health::{Heartbeat, ShardBeat};

/// A report that arrived `now`; it tells ages, so that the sender's clock does not matter.
pub fn heartbeat(body: &[u8], now: Time) -> Result<Heartbeat, Reason> {
    let fields = object(body)?;
    let instance = fields.get("instance").and_then(Json::text).and_then(InstanceId::parse);
    let instance = instance.ok_or_else(|| wrong("instance", "1 to 64 letters, digits, `_` or `-`"))?;
    let shard_count = u32::try_from(fields.count("shard_count", 0..=MAX_SHARDS.into())?).unwrap_or(0);
    if shard_count == 0 {
        return Err(wrong("shard_count", format_args!("a whole number from 1 to {MAX_SHARDS}")));
    }
    let shards = fields.list("shards", MAX_SHARDS as usize)?.iter().map(|value| {
        let Json::Map(fields) = value else { return Err(wrong("shards", "a list of objects")) };
        shard(fields, shard_count, now).map_err(|reason| reason.within("`shards`"))
    });
    Ok(Heartbeat {
        started_at: fields.time("started_at")?,
        memory: memory(&fields)?,
        shard_count,
        shards: shards.collect::<Result<_, _>>()?,
        instance: instance.as_str().to_owned(),
    })
}

fn memory(fields: &Fields<'_>) -> Result<u64, Reason> {
    // A petabyte: a sum over all processes stays far from the end of its column.
    fields.count("memory", 0..=1 << 50)
}

fn shard(fields: &Fields<'_>, count: u32, now: Time) -> Result<ShardBeat, Reason> {
    let id = fields.get("id").and_then(Json::whole).and_then(|id| u32::try_from(id).ok());
    let ago = |name| Ok::<_, Reason>(fields.amount(name)?.map(|age| now.before(millis(age))));
    // Libraries say -1 where they do not know it yet.
    let latency = match fields.get("latency").map(Json::number) {
        None => None,
        Some(Some(latency)) => Some(latency).filter(|latency| *latency >= 0.0),
        Some(None) => return Err(wrong("latency", "milliseconds, or null")),
    };
    Ok(ShardBeat {
        id: id.filter(|id| *id < count).ok_or_else(|| wrong("id", "a shard's number below `shard_count`"))?,
        sent: ago("sent_ms_ago")?,
        acknowledged: ago("acknowledged_ms_ago")?,
        latency,
    })
}

fn millis(age: f64) -> Duration {
    Duration::try_from_secs_f64(age / 1000.0).unwrap_or(Duration::MAX)
}
