//! How long the bot has been up.

use super::super::Time;
use super::super::health::Health;
use super::{BotState, Incident, Observation};

/// Since when the bot has been up continuously, as far as is known: its start or the end of the last incident, whichever is
/// later. `None` if it is not up.
pub fn up_since(health: &Health, incidents: &[Incident], seen: &Observation) -> Option<Time> {
    let started = Time::from_seconds(health.summary(seen.at).uptime.epoch);
    if seen.state != BotState::Up || started == Time::default() {
        return None;
    }
    // The bot is up, so an open incident has just ended, with the report that brought it back.
    let ends = incidents.iter().map(|incident| incident.ended.unwrap_or(seen.since));
    // A clock that was ahead may have recorded an end that is yet to come.
    Some(ends.filter(|ended| *ended <= seen.at).fold(started, Time::max).min(seen.at))
}

#[cfg(test)]
mod tests {
    use super::super::observe;
    use super::*;
    use crate::Heartbeat;
    use crate::feed::InstanceId;
    use crate::health::ShardHeartbeat;

    const NOW: Time = Time::from_seconds(1_000_000);

    fn incident(began: u64, ended: Option<u64>) -> Incident {
        let (began, ended) = (Time::from_seconds(began), ended.map(Time::from_seconds));
        Incident { id: 1, worst: BotState::Down, began, ended, shards: 1, shard_count: 1 }
    }

    #[test]
    fn the_bot_is_up_since_its_start_or_since_the_last_incident() {
        let mut health = Health::default();
        let shards = vec![ShardHeartbeat { id: 0, sent: None, acknowledged: None, latency: None }];
        let instance = InstanceId::parse("key", "a").unwrap();
        let started_at = Time::from_seconds(990_000);
        health.merge(
            Heartbeat { instance, started_at, memory: 1, shard_count: 1, shards, leaving: false },
            Time::from_seconds(999_990),
        );
        let seen = observe(&health, Time::default(), NOW).unwrap();
        for (case, incidents, expected) in [
            ("none", vec![], 990_000),
            ("before its start", vec![incident(1, Some(989_000))], 990_000),
            ("after its start", vec![incident(995_000, Some(999_940)), incident(1, Some(2))], 999_940),
            ("it is over, and nobody has recorded that yet", vec![incident(995_000, None)], 999_990),
            ("recorded by a clock that is ahead", vec![incident(1, Some(2_000_000))], 990_000),
        ] {
            assert_eq!(up_since(&health, &incidents, &seen), Some(Time::from_seconds(expected)), "{case}");
        }
        for state in [BotState::Partial, BotState::Down] {
            assert_eq!(up_since(&health, &[], &Observation { state, ..seen.clone() }), None);
        }
    }
}
