//! The body of `PUT /bot/heartbeat`. It is parsed straight into its few typed fields and everything else is skipped, so that it
//! takes no more memory than its shards.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json::{Name, Reason, not_json, seconds, wrong};
use super::{InstanceId, MAX_SHARDS};
use crate::Time;
use crate::health::{Heartbeat, ShardHeartbeat};

/// A petabyte, so that a sum over all processes stays far from its column's limit.
const MEMORY: u64 = 1 << 50;

/// A report with this key that arrived `now`. It contains ages, so that the sender's clock does not matter.
pub fn heartbeat(key: &str, body: &[u8], now: Time) -> Result<Heartbeat, Reason> {
    let report: HeartbeatBody<'_> = serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Reason::new(format!(
            "A heartbeat must be a JSON object with `shards`, a list of at most {MAX_SHARDS} objects."
        )),
        _ => not_json(&error),
    })?;
    let instance = report.instance.text().and_then(|name| InstanceId::parse(key, name));
    let instance = instance.ok_or_else(|| wrong("instance", "1 to 64 letters, digits, `_` or `-`"))?;
    let shard_count = report.shard_count.whole_up_to(MAX_SHARDS.into()).filter(|count| *count > 0);
    let shard_count = shard_count.and_then(|count| u32::try_from(count).ok());
    let shard_count =
        shard_count.ok_or_else(|| wrong("shard_count", format_args!("a whole number from 1 to {MAX_SHARDS}")))?;
    let memory = match report.memory {
        Scalar::Null => Some(0),
        ref given => given.whole_up_to(MEMORY),
    };
    let Some(ShardList(shards)) = report.shards else {
        return Err(wrong("shards", format_args!("a list of at most {MAX_SHARDS}")));
    };
    let shards = shards.into_iter().map(|shard| shard.into_heartbeat(shard_count, now));
    Ok(Heartbeat {
        instance,
        started_at: seconds(report.started_at.number())
            .ok_or_else(|| wrong("started_at", "a time in epoch seconds"))?,
        memory: memory.ok_or_else(|| wrong("memory", format_args!("a whole number from 0 to {MEMORY}")))?,
        shard_count,
        shards: shards.collect::<Result<_, _>>()?,
        leaving: report.leaving.flag().ok_or_else(|| wrong("leaving", "true or false"))?,
    })
}

/// A value that isn't a list or an object; their contents are skipped.
#[derive(Clone, Debug, Default)]
enum Scalar<'a> {
    #[default]
    Null,
    Whole(i64),
    Number(f64),
    Text(Cow<'a, str>),
    Flag(bool),
    Other,
}

impl Scalar<'_> {
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Null is false.
    fn flag(&self) -> Option<bool> {
        match self {
            Self::Null => Some(false),
            Self::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    fn whole_up_to(&self, most: u64) -> Option<u64> {
        let Self::Whole(number) = self else { return None };
        u64::try_from(*number).ok().filter(|number| *number <= most)
    }

    fn number(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "what is too large for a double is out of every range")]
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl<'de> Visitor<'de> for ScalarVisitor {
            type Value = Scalar<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Flag(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Whole(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Scalar<'de>, E> {
                #[expect(clippy::cast_precision_loss, reason = "no field takes a whole number as large as this")]
                Ok(i64::try_from(value).map_or(Scalar::Number(value as f64), Scalar::Whole))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Number(value))
            }

            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Cow::Borrowed(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Cow::Owned(value.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar<'de>, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Scalar<'de>, A::Error> {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// The fields of the body as sent.
#[derive(Default)]
struct HeartbeatBody<'a> {
    instance: Scalar<'a>,
    started_at: Scalar<'a>,
    memory: Scalar<'a>,
    shard_count: Scalar<'a>,
    shards: Option<ShardList>,
    leaving: Scalar<'a>,
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
                        "instance" => report.instance = entries.next_value()?,
                        "started_at" => report.started_at = entries.next_value()?,
                        "memory" => report.memory = entries.next_value()?,
                        "shard_count" => report.shard_count = entries.next_value()?,
                        "shards" => report.shards = entries.next_value()?,
                        "leaving" => report.leaving = entries.next_value()?,
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

/// A shard's fields, or what is wrong with the first invalid one.
struct ShardFields {
    id: Option<u32>,
    sent: Option<f64>,
    acknowledged: Option<f64>,
    latency: Option<f64>,
    wrong: Option<Field>,
}

#[derive(Clone, Copy)]
enum Field {
    Sent,
    Acknowledged,
    Latency,
}

impl ShardFields {
    fn into_heartbeat(self, count: u32, now: Time) -> Result<ShardHeartbeat, Reason> {
        const AGE: &str = "a number that is not negative, or null";
        let ago = |age: f64| now.before(Duration::try_from_secs_f64(age / 1000.0).unwrap_or(Duration::MAX));
        let id = self.id.filter(|id| *id < count);
        let id = id.ok_or_else(|| wrong("id", "a shard's number below `shard_count`").within("`shards`"))?;
        match self.wrong {
            Some(Field::Sent) => return Err(wrong("sent_ms_ago", AGE).within("`shards`")),
            Some(Field::Acknowledged) => return Err(wrong("acknowledged_ms_ago", AGE).within("`shards`")),
            Some(Field::Latency) => return Err(wrong("latency", "milliseconds, or null").within("`shards`")),
            None => {}
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
                let mut shard = ShardFields { id: None, sent: None, acknowledged: None, latency: None, wrong: None };
                // Null and absent are the same; anything else must be a number in its range.
                let number = |value: &Scalar<'_>, field, negative: bool, wrong: &mut Option<Field>| {
                    let number = value.number().filter(|number| negative || *number >= 0.0);
                    if number.is_none() && !matches!(value, Scalar::Null) {
                        wrong.get_or_insert(field);
                    }
                    number
                };
                while let Some(Name(name)) = entries.next_key()? {
                    match &*name {
                        "id" => {
                            let id: Scalar<'_> = entries.next_value()?;
                            shard.id = id.whole_up_to(u32::MAX.into()).and_then(|id| u32::try_from(id).ok());
                        }
                        "sent_ms_ago" => {
                            shard.sent = number(&entries.next_value()?, Field::Sent, false, &mut shard.wrong);
                        }
                        "acknowledged_ms_ago" => {
                            shard.acknowledged =
                                number(&entries.next_value()?, Field::Acknowledged, false, &mut shard.wrong);
                        }
                        "latency" => {
                            shard.latency = number(&entries.next_value()?, Field::Latency, true, &mut shard.wrong);
                        }
                        _ => drop(entries.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(shard)
            }
        }
        deserializer.deserialize_map(ShardVisitor)
    }
}
