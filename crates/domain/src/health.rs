//! The bot's health: what its processes report, how reports are merged, and what is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Time;
use super::feed::{InstanceId, ShardKey};

/// A bot process that is inactive for this long counts as gone: its heartbeat is forgotten, and its shards are free. It sends a
/// heartbeat every 15 seconds, so five may be lost.
pub const SILENCE: Duration = Duration::from_secs(90);

/// Whether the last activity was long enough ago to count as silence; exactly 90 seconds is.
pub fn is_silent(last_sign: Time, now: Time) -> bool {
    now.since(last_sign) >= SILENCE
}

/// What a bot process reports about itself and its own shards.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    pub instance: InstanceId,
    /// When it started, according to itself.
    pub started_at: Time,
    /// Resident memory in bytes.
    pub memory: u64,
    /// The total number of shards.
    pub shard_count: u32,
    pub shards: Vec<ShardHeartbeat>,
    /// Whether this is its last report, because it stops.
    pub leaving: bool,
}

impl Heartbeat {
    /// The shards that the process names as its own.
    pub fn own_shards(&self) -> impl Iterator<Item = ShardKey> {
        self.shards.iter().filter_map(|shard| ShardKey::new(self.shard_count, shard.id))
    }
}

/// What a process reports about one shard; unknown values keep their last one.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardHeartbeat {
    pub id: u32,
    /// When it last sent a heartbeat.
    pub sent: Option<Time>,
    /// When one was last acknowledged.
    pub acknowledged: Option<Time>,
    /// Milliseconds.
    pub latency: Option<f64>,
}

/// The last report of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    pub started_at: Time,
    /// Resident memory in bytes.
    pub memory: u64,
    pub reported: Time,
    /// The total number of shards, as far as it knows.
    pub shard_count: u32,
}

/// The last known record of a shard.
#[derive(Clone, Debug, PartialEq)]
pub struct Shard {
    pub instance: InstanceId,
    /// When that process started.
    pub started_at: Time,
    pub reported: Time,
    /// When it last sent a heartbeat; zero if never known.
    pub sent: Time,
    /// When one was last acknowledged; zero if never known.
    pub acknowledged: Time,
    /// Milliseconds; zero if never known.
    pub latency: f64,
}

/// Everything known about the bot's health.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Processes, alive or not.
    pub instances: BTreeMap<InstanceId, Instance>,
    pub shards: BTreeMap<u32, Shard>,
}

impl Health {
    /// Merges a report that arrived `now`. The latest-started living process wins each shard; shards beyond the newest
    /// process's count are removed, and so are processes that have been silent for long. `heartbeat.started_at` is the start that
    /// counts. A process that leaves is removed, and its shards keep their last records until another one reports them.
    pub fn merge(&mut self, heartbeat: Heartbeat, now: Time) {
        self.instances.retain(|_, instance| !is_silent(instance.reported, now));
        if heartbeat.leaving {
            self.instances.remove(&heartbeat.instance);
            return;
        }
        for report in heartbeat.shards.into_iter().filter(|shard| shard.id < heartbeat.shard_count) {
            let known = self.shards.get(&report.id);
            let outranked = known.is_some_and(|shard| {
                // A process may later report another start time; the last one counts. Of two that started at the same time, one
                // must win, and it doesn't matter which.
                let process = self.instances.get(&shard.instance).filter(|_| shard.instance != heartbeat.instance);
                process.is_some_and(|process| {
                    (process.started_at, &shard.instance) > (heartbeat.started_at, &heartbeat.instance)
                        && !is_silent(shard.reported, now)
                })
            });
            if outranked {
                continue;
            }
            let record = Shard {
                instance: heartbeat.instance.clone(),
                started_at: heartbeat.started_at,
                reported: now,
                sent: report.sent.or(known.map(|shard| shard.sent)).unwrap_or_default(),
                acknowledged: report.acknowledged.or(known.map(|shard| shard.acknowledged)).unwrap_or_default(),
                latency: report
                    .latency
                    .filter(|latency| latency.is_finite())
                    .or(known.map(|shard| shard.latency))
                    .unwrap_or_default(),
            };
            self.shards.insert(report.id, record);
        }
        let instance = Instance {
            started_at: heartbeat.started_at,
            memory: heartbeat.memory,
            reported: now,
            shard_count: heartbeat.shard_count,
        };
        self.instances.insert(heartbeat.instance, instance);
        // The newest process knows the current count; an older one in a rolling restart does not.
        if let Some(newest) = self.instances.values().max_by_key(|instance| instance.started_at) {
            let count = newest.shard_count;
            self.shards.retain(|id, _| *id < count);
        }
    }

    /// How long ago any process last reported; `None` if none is known.
    pub fn report_age(&self, now: Time) -> Option<Duration> {
        self.latest_report().map(|reported| now.since(reported))
    }

    /// When any process last reported; `None` if none is known.
    pub fn latest_report(&self) -> Option<Time> {
        let instances = self.instances.values().map(|instance| instance.reported);
        instances.chain(self.shards.values().map(|shard| shard.reported)).max()
    }

    fn living(&self, now: Time) -> impl Iterator<Item = &Instance> {
        self.instances.values().filter(move |instance| !is_silent(instance.reported, now))
    }

    pub fn summary(&self, now: Time) -> HealthSummary {
        let started = self.living(now).map(|instance| instance.started_at).min();
        let bytes = self.living(now).map(|instance| instance.memory).fold(0, u64::saturating_add);
        HealthSummary {
            memory: megabytes(bytes),
            shards: self.shards.iter().map(|(id, shard)| (*id, ShardRecord::of(shard))).collect(),
            uptime: Uptime {
                readable: started.map_or_else(|| "offline".to_owned(), |started| readable(now.since(started))),
                epoch: started.map_or(0, Time::seconds),
            },
        }
    }

    /// How long a summary made at `now` is valid if nothing is reported.
    pub fn summary_valid_until(&self, now: Time) -> Time {
        // An uptime's text changes every second in the first minute, and every minute after that.
        self.living(now)
            .map(|instance| {
                let age = now.since(instance.started_at).as_secs();
                let step = if age < 60 { 1 } else { 60 };
                let next_text = instance.started_at.after(Duration::from_secs((age / step + 1) * step));
                next_text.min(instance.reported.after(SILENCE))
            })
            .min()
            .unwrap_or(Time::from_millis(u64::MAX))
    }
}

#[expect(clippy::cast_precision_loss, reason = "two decimals of a megabyte lie far above the precision lost")]
fn megabytes(bytes: u64) -> f64 {
    (bytes as f64 / 10_000.0).round() / 100.0
}

#[derive(Clone, Debug, PartialEq)]
pub struct HealthSummary {
    /// Megabytes in use, summed over the living processes.
    pub memory: f64,
    pub shards: BTreeMap<u32, ShardRecord>,
    pub uptime: Uptime,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ShardRecord {
    /// When it last sent a heartbeat; zero if never known.
    pub heartbeat_sent: Time,
    /// When one was last acknowledged; zero if never known.
    pub heartbeat_acknowledged: Time,
    /// Milliseconds.
    pub latency: f64,
}

impl ShardRecord {
    fn of(shard: &Shard) -> Self {
        Self { heartbeat_sent: shard.sent, heartbeat_acknowledged: shard.acknowledged, latency: shard.latency }
    }
}

/// How long the bot has been running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// "3 days, 4 hours", or "offline".
    pub readable: String,
    /// Epoch seconds at which the oldest living process started; 0 when offline.
    pub epoch: u64,
}

impl Uptime {
    /// Whether any process is alive.
    pub fn is_online(&self) -> bool {
        self.epoch > 0
    }
}

/// The two largest units of a duration: "3 days, 4 hours".
fn readable(span: Duration) -> String {
    let seconds = span.as_secs();
    let units = [(seconds / 86_400, "day"), (seconds / 3600 % 24, "hour"), (seconds / 60 % 60, "minute")];
    let named = |(count, unit): (u64, &str)| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    match units.iter().position(|(count, _)| *count > 0) {
        None => named((seconds, "second")),
        Some(first) => {
            let shown: Vec<_> =
                units[first..].iter().take(2).filter(|(count, _)| *count > 0).copied().map(named).collect();
            shown.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_seconds(1_000_000);

    fn heartbeat(instance: &str, started: u64, shard_count: u32, shards: &[(u32, Option<f64>)]) -> Heartbeat {
        Heartbeat {
            instance: InstanceId::parse("key", instance).unwrap(),
            started_at: Time::from_seconds(started),
            memory: 12_345_678,
            shard_count,
            shards: shards
                .iter()
                .map(|(id, latency)| ShardHeartbeat { id: *id, sent: Some(NOW), acknowledged: None, latency: *latency })
                .collect(),
            leaving: false,
        }
    }

    #[test]
    fn uptime_reads_like_a_person_says_it() {
        let table = [
            (0, "0 seconds"),
            (1, "1 second"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (3600, "1 hour"),
            (3661, "1 hour, 1 minute"),
            (86_400, "1 day"),
            (3 * 86_400 + 4 * 3600 + 59, "3 days, 4 hours"),
            (86_400 + 60, "1 day"),
        ];
        for (seconds, text) in table {
            assert_eq!(readable(Duration::from_secs(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn unknown_fields_keep_their_last_value_and_the_rest_is_zero() {
        let mut health = Health::default();
        health.merge(heartbeat("a", 10, 1, &[(0, Some(12.5))]), NOW);
        health.merge(heartbeat("a", 10, 1, &[(0, None)]), NOW);
        health.merge(heartbeat("a", 10, 1, &[(0, Some(f64::NAN))]), NOW);
        let shard = &health.summary(NOW).shards[&0];
        assert_eq!((shard.heartbeat_sent, shard.heartbeat_acknowledged), (NOW, Time::default()));
        assert!((shard.latency - 12.5).abs() < f64::EPSILON);
    }

    #[test]
    fn the_latest_started_living_process_owns_a_shard() {
        let mut health = Health::default();
        health.merge(heartbeat("new", 20, 2, &[(0, Some(1.0))]), NOW);
        health.merge(heartbeat("old", 10, 2, &[(0, Some(9.0)), (1, Some(9.0))]), NOW);
        assert_eq!(health.shards[&0].instance.name.as_str(), "new");
        assert_eq!(health.shards[&1].instance.name.as_str(), "old");
        health.merge(heartbeat("old", 10, 2, &[(0, Some(9.0))]), NOW.after(SILENCE));
        assert_eq!(health.shards[&0].instance.name.as_str(), "old", "the newer one is silent by now");
    }

    #[test]
    fn a_process_that_says_another_start_counts_as_started_then_for_all_its_shards() {
        let mut health = Health::default();
        health.merge(heartbeat("a", 10, 2, &[(0, Some(1.0)), (1, Some(1.0))]), NOW);
        health.merge(heartbeat("a", 30, 2, &[(0, Some(2.0))]), NOW);
        health.merge(heartbeat("b", 20, 2, &[(0, Some(9.0)), (1, Some(9.0))]), NOW);
        assert!(health.shards.values().all(|shard| shard.instance.name.as_str() == "a"), "{:?}", health.shards);
    }

    #[test]
    fn of_two_that_started_at_the_same_time_one_keeps_the_shard() {
        let mut health = Health::default();
        for instance in ["b", "a", "b", "a"] {
            health.merge(heartbeat(instance, 10, 1, &[(0, Some(1.0))]), NOW);
            assert_eq!(health.shards[&0].instance.name.as_str(), "b");
        }
    }

    #[test]
    fn a_process_that_leaves_is_gone_at_once_and_its_shards_are_free() {
        let mut health = Health::default();
        health.merge(heartbeat("old", 10, 1, &[(0, Some(1.0))]), NOW);
        health.merge(heartbeat("new", 20, 1, &[(0, Some(2.0))]), NOW);
        health.merge(Heartbeat { leaving: true, ..heartbeat("new", 20, 1, &[(0, Some(3.0))]) }, NOW);
        assert_eq!(health.instances.len(), 1);
        assert!((health.shards[&0].latency - 2.0).abs() < f64::EPSILON, "its last record stays");
        health.merge(heartbeat("old", 10, 1, &[(0, Some(4.0))]), NOW);
        assert_eq!(health.shards[&0].instance.name.as_str(), "old");
    }

    #[test]
    fn shards_beyond_the_newest_count_go() {
        let mut health = Health::default();
        health.merge(heartbeat("a", 10, 4, &[(0, None), (3, None)]), NOW);
        health.merge(heartbeat("b", 20, 2, &[(0, None), (7, None)]), NOW);
        assert_eq!(health.shards.keys().copied().collect::<Vec<_>>(), [0]);
        health.merge(heartbeat("a", 10, 4, &[(3, None)]), NOW);
        assert_eq!(health.shards.keys().copied().collect::<Vec<_>>(), [0], "an older process brings none back");
    }

    #[test]
    fn absurd_memories_do_not_overflow() {
        let mut health = Health::default();
        for instance in ["a", "b", "c"] {
            health.merge(Heartbeat { memory: u64::MAX, ..heartbeat(instance, 10, 1, &[]) }, NOW);
        }
        assert!(health.summary(NOW).memory > 1e13);
    }

    #[test]
    fn silence_takes_memory_and_uptime_but_not_the_shards() {
        let mut health = Health::default();
        health.merge(heartbeat("a", 10, 1, &[(0, Some(1.0))]), NOW);
        let live = health.summary(NOW);
        assert!((live.memory - 12.35).abs() < f64::EPSILON);
        assert_eq!(live.uptime.epoch, 10);
        let silent = health.summary(NOW.after(SILENCE));
        assert!(silent.memory.abs() < f64::EPSILON);
        assert_eq!(silent.uptime, Uptime { readable: "offline".to_owned(), epoch: 0 });
        assert_eq!(silent.shards.len(), 1);
        assert_eq!(health.summary_valid_until(NOW), NOW.after(Duration::from_secs(30)), "the next whole minute");
    }

    #[test]
    fn silence_begins_at_exactly_90_seconds() {
        let last = Time::from_seconds(1_000_000);
        for (millis, is_over) in [(0, false), (89_999, false), (90_000, true), (90_001, true)] {
            assert_eq!(is_silent(last, last.after(Duration::from_millis(millis))), is_over, "{millis}");
        }
        assert!(!is_silent(last, last.before(SILENCE)), "a sign from the future");
    }
}
