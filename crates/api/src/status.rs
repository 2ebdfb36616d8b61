//! `GET /`. Everything except the two latencies is serialised once per change of the health; a request adds its latencies.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use domain::health::{HealthSummary, ShardRecord, Uptime};
use serde::Serialize;
use telemetry::{Commit, Version};
use utoipa::ToSchema;

use super::envelope::{CLOSING, OPENING, append};

/// The status of the API and the bot.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub struct StatusData {
    /// The build of the running service.
    version: VersionData,
    /// The bot's resource usage.
    resources: Resources,
    /// The health of the API and the bot.
    health: HealthData,
}

/// The running version of the service.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub struct VersionData {
    /// The release.
    name: &'static str,
    /// The branch it was built from.
    branch: &'static str,
    /// The commit it was built from.
    commit: CommitData,
}

/// A commit.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Commit)]
pub struct CommitData {
    /// The commit hash.
    sha: &'static str,
    /// The commit message.
    message: &'static str,
    /// The author.
    author: &'static str,
    /// When it was committed, in epoch seconds.
    timestamp: u64,
}

/// The bot's resource usage.
#[derive(Debug, Serialize, ToSchema)]
pub struct Resources {
    /// Resident memory in megabytes (10^6 bytes), summed over the bot's running processes.
    memory: f64,
}

/// The health of the API and the bot.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
pub struct HealthData {
    /// The API's health.
    api: ApiHealth,
    /// The bot's health.
    bot: BotHealth,
}

/// The API's health.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApiHealth {
    /// Latencies.
    latency: Latency,
}

/// Latencies in milliseconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct Latency {
    /// From the client's `Sent-Epoch` to the request's arrival; `null` without a usable `Sent-Epoch`.
    #[schema(required = true)]
    response: Option<f64>,
    /// From the request's arrival to the response.
    process: f64,
}

/// The bot's health.
#[derive(Debug, Serialize, ToSchema)]
pub struct BotHealth {
    /// The shards by number.
    #[schema(value_type = BTreeMap<String, ShardData>)]
    shards: BTreeMap<u32, ShardData>,
    /// How long the bot has been running.
    uptime: UptimeData,
}

/// A shard's health.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ShardRecord)]
pub struct ShardData {
    /// Epoch seconds of the last heartbeat sent; 0 if unknown.
    heartbeat_sent: f64,
    /// Epoch seconds of the last heartbeat acknowledged; 0 if unknown.
    heartbeat_acknowledged: f64,
    /// The latency in milliseconds.
    latency: f64,
}

/// How long the bot has been running.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Uptime)]
pub struct UptimeData {
    /// "3 days, 4 hours", or "offline".
    readable: String,
    /// When the oldest running process started, in epoch seconds; 0 when offline.
    epoch: u64,
}

impl From<Version> for VersionData {
    fn from(Version { name, branch, commit }: Version) -> Self {
        let Commit { sha, message, author, timestamp } = commit;
        Self { name, branch, commit: CommitData { sha, message, author, timestamp } }
    }
}

impl From<ShardRecord> for ShardData {
    fn from(shard: ShardRecord) -> Self {
        Self {
            heartbeat_sent: shard.heartbeat_sent.fractional_seconds(),
            heartbeat_acknowledged: shard.heartbeat_acknowledged.fractional_seconds(),
            latency: shard.latency,
        }
    }
}

/// The body of a status as bytes, with a gap for the two latencies. Its parts are serialised by their types; only the nesting
/// order of [`StatusData`] is repeated here, and a test compares the two.
#[derive(Debug)]
pub struct StatusBody {
    before_response: Vec<u8>,
    after_process: Vec<u8>,
}

impl StatusBody {
    pub fn new(summary: HealthSummary, version: Version) -> Self {
        let (version, resources, bot) = parts(summary, version);
        let mut before_response = [OPENING, br#"{"version":"#].concat();
        append(&mut before_response, &version);
        before_response.extend_from_slice(br#","resources":"#);
        append(&mut before_response, &resources);
        before_response.extend_from_slice(br#","health":{"api":{"latency":{"response":"#);
        let mut after_process = br#"}},"bot":"#.to_vec();
        append(&mut after_process, &bot);
        after_process.extend_from_slice(b"}}");
        after_process.extend_from_slice(CLOSING);
        Self { before_response, after_process }
    }

    /// The whole body with these latencies; the response's is in milliseconds.
    pub fn with_latencies(&self, response: Option<f64>, process: Duration) -> Bytes {
        let mut body = Vec::with_capacity(self.before_response.len() + self.after_process.len() + 64);
        body.extend_from_slice(&self.before_response);
        // Writing to a vector cannot fail.
        let _ = match response {
            Some(response) => write!(body, "{response:.3}"),
            None => write!(body, "null"),
        };
        body.extend_from_slice(br#","process":"#);
        append_millis(&mut body, process);
        body.extend_from_slice(&self.after_process);
        body.into()
    }
}

/// Appends milliseconds with three decimals. Whole numbers cost a tenth of what a float does.
fn append_millis(body: &mut Vec<u8>, span: Duration) {
    let micros = (span + Duration::from_nanos(500)).as_micros();
    let (millis, rest) = (micros / 1000, (micros % 1000) as u16);
    if millis == 0 {
        body.push(b'0');
    } else {
        // Writing to a vector cannot fail.
        let _ = write!(body, "{millis}");
    }
    let digit = |number: u16| b'0' + (number % 10) as u8;
    body.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
}

fn parts(summary: HealthSummary, version: Version) -> (VersionData, Resources, BotHealth) {
    let HealthSummary { memory, shards, uptime: Uptime { readable, epoch } } = summary;
    let shards = shards.into_iter().map(|(id, shard)| (id, shard.into())).collect();
    (version.into(), Resources { memory }, BotHealth { shards, uptime: UptimeData { readable, epoch } })
}

#[cfg(test)]
mod tests {
    use domain::Time;

    use super::*;
    use crate::envelope::tests::Envelope;

    #[test]
    fn the_bytes_are_those_of_the_documented_type_whatever_the_values() {
        let shard = |latency| ShardRecord {
            heartbeat_sent: Time::from_millis(1_800_000_000_123),
            heartbeat_acknowledged: Time::default(),
            latency,
        };
        // Texts that look like the gap must not be mistaken for it.
        let texts = ["offline", r#"null,"process":0.0"#, r#"}},"bot":{"#];
        let shards = [BTreeMap::new(), BTreeMap::from([(0, shard(0.0)), (10, shard(41.5)), (2, shard(1e9))])];
        // Numbers that three decimals show in full, so that both ways of writing them agree.
        let latencies = [(None, 125), (Some(12.345), 1), (Some(3_599_999.999), 1_234_567)];
        for (readable, shards) in texts.iter().flat_map(|text| shards.iter().map(move |shards| (text, shards))) {
            let uptime = Uptime { readable: (*readable).to_owned(), epoch: 7 };
            let summary = HealthSummary { memory: 123.45, shards: shards.clone(), uptime };
            let body = StatusBody::new(summary.clone(), Version::UNKNOWN);
            for (response, micros) in latencies {
                let process = Duration::from_micros(micros);
                let (version, resources, bot) = parts(summary.clone(), Version::UNKNOWN);
                let api = ApiHealth { latency: Latency { response, process: process.as_secs_f64() * 1000.0 } };
                let data = StatusData { version, resources, health: HealthData { api, bot } };
                let documented = Envelope { code: 200, message: "OK".to_owned(), data };
                let expected = serde_json::to_string(&documented).unwrap();
                assert_eq!(body.with_latencies(response, process), expected);
            }
        }
    }

    #[test]
    fn latencies_have_three_decimals() {
        let summary = HealthSummary {
            memory: 0.0,
            shards: BTreeMap::new(),
            uptime: Uptime { readable: "offline".to_owned(), epoch: 0 },
        };
        let body = StatusBody::new(summary, Version::UNKNOWN);
        let text = |response, nanos| {
            String::from_utf8(body.with_latencies(response, Duration::from_nanos(nanos)).to_vec()).unwrap()
        };
        assert!(text(Some(1500.0), 400).contains(r#""latency":{"response":1500.000,"process":0.000}"#));
        assert!(text(None, 1_999_600).contains(r#""latency":{"response":null,"process":2.000}"#));
    }
}
