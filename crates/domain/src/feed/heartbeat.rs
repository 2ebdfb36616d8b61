//! The body of `PUT /bot/heartbeat`. It is parsed straight into its few typed fields and everything else is skipped, so that it
//! takes no more memory than its shards.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json::{Fields, Json, Name, Reason, Scalar, not_json, wrong};
use super::{InstanceId, MAX_SHARDS};
use crate::Time;
use crate::health::{Heartbeat, ShardHeartbeat};

/// A petabyte, so that a sum over all processes stays far from its column's limit.
const MEMORY: u64 = 1 << 50;

/// A report with this key that arrived `now`. It contains ages, so that the sender's clock does not matter.
pub fn heartbeat(key: &str, body: &[u8], now: Time) -> Result<Heartbeat, Reason> {
    let HeartbeatBody { fields, shards } = serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Reason::new(format!(
            "A heartbeat must be a JSON object with `shards`, a list of at most {MAX_SHARDS} objects."
        )),
        _ => not_json(&error),
    })?;
    let instance = fields.get("instance").and_then(Json::text).and_then(|name| InstanceId::parse(key, name));
    let instance = instance.ok_or_else(|| wrong("instance", "1 to 64 letters, digits, `_` or `-`"))?;
    let shard_count = fields.whole("shard_count", 1..=MAX_SHARDS)?;
    let ShardList(shards) = shards.ok_or_else(|| wrong("shards", format_args!("a list of at most {MAX_SHARDS}")))?;
    Ok(Heartbeat {
        instance,
        started_at: fields.time("started_at")?,
        memory: fields.count("memory", MEMORY)?,
        shard_count,
        shards: shards.into_iter().map(|shard| shard.into_heartbeat(shard_count, now)).collect::<Result<_, _>>()?,
        leaving: fields.flag("leaving")?,
    })
}

/// The body as sent.
#[derive(Default)]
struct HeartbeatBody<'a> {
    /// All but the shards.
    fields: Fields<'a>,
    shards: Option<ShardList>,
}

impl<'de> Deserialize<'de> for HeartbeatBody<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BodyVisitor;
        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = HeartbeatBody<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<HeartbeatBody<'de>, A::Error> {
                let mut report = HeartbeatBody::default();
                while let Some(Name(name)) = entries.next_key()? {
                    match &*name {
                        "shards" => report.shards = entries.next_value()?,
                        "instance" | "started_at" | "memory" | "shard_count" | "leaving" => {
                            let Scalar(value) = entries.next_value()?;
                            report.fields.set(name, value);
                        }
                        _ => drop(entries.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(report)
            }
        }
        deserializer.deserialize_map(BodyVisitor)
    }
}

/// The list of shards; no longer than there can be shards.
struct ShardList(Vec<ShardFields>);

impl<'de> Deserialize<'de> for ShardList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = ShardList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of shards")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ShardList, A::Error> {
                let mut shards = Vec::new();
                while let Some(shard) = items.next_element()? {
                    if shards.len() == MAX_SHARDS as usize {
                        return Err(A::Error::custom("too many shards"));
                    }
                    shards.push(shard);
                }
                Ok(ShardList(shards))
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

/// A shard's fields, and the name of the first invalid one.
#[derive(Default)]
struct ShardFields {
    id: Option<u32>,
    sent: Option<f64>,
    acknowledged: Option<f64>,
    latency: Option<f64>,
    wrong: Option<&'static str>,
}

impl ShardFields {
    /// A number in its range. Null and absent are the same; anything else is wrong.
    fn number(&mut self, name: &'static str, least: f64, Scalar(value): Scalar<'_>) -> Option<f64> {
        let number = value.number().filter(|number| *number >= least);
        if number.is_none() && !matches!(value, Json::Null) {
            self.wrong.get_or_insert(name);
        }
        number
    }

    fn into_heartbeat(self, count: u32, now: Time) -> Result<ShardHeartbeat, Reason> {
        let ago = |age: f64| now.before(Duration::try_from_secs_f64(age / 1000.0).unwrap_or(Duration::MAX));
        let id = self.id.filter(|id| *id < count);
        let id = id.ok_or_else(|| wrong("id", "a shard's number below `shard_count`").within("`shards`"))?;
        if let Some(name) = self.wrong {
            let wanted =
                if name == "latency" { "milliseconds, or null" } else { "a number that is not negative, or null" };
            return Err(wrong(name, wanted).within("`shards`"));
        }
        Ok(ShardHeartbeat {
            id,
            sent: self.sent.map(ago),
            acknowledged: self.acknowledged.map(ago),
            // Libraries report -1 if they do not know it yet.
            latency: self.latency.filter(|latency| *latency >= 0.0),
        })
    }
}

impl<'de> Deserialize<'de> for ShardFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShardVisitor;
        impl<'de> Visitor<'de> for ShardVisitor {
            type Value = ShardFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a shard")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ShardFields, A::Error> {
                let mut shard = ShardFields::default();
                while let Some(Name(name)) = entries.next_key()? {
                    match &*name {
                        "id" => {
                            let Scalar(id) = entries.next_value()?;
                            shard.id = id.whole().and_then(|id| u32::try_from(id).ok());
                        }
                        "sent_ms_ago" => shard.sent = shard.number("sent_ms_ago", 0.0, entries.next_value()?),
                        "acknowledged_ms_ago" => {
                            shard.acknowledged = shard.number("acknowledged_ms_ago", 0.0, entries.next_value()?);
                        }
                        "latency" => shard.latency = shard.number("latency", f64::MIN, entries.next_value()?),
                        _ => drop(entries.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(shard)
            }
        }
        deserializer.deserialize_map(ShardVisitor)
    }
}
