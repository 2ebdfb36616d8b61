//! The bot's state at a moment, as far as its reports tell.

use super::super::Time;
use super::super::health::{Health, Instance, SILENCE, is_silent};
use super::BotState;
use crate::saturating;

#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub at: Time,
    pub state: BotState,
    /// Milliseconds, averaged over the shards that are up; `None` if none of them has reported any.
    pub latency: Option<f64>,
    pub silent: u32,
    pub shard_count: u32,
    /// The last report of what is silent or, if nothing is, the latest of all.
    pub since: Time,
}

/// The bot's state `now`, seen by a replica that has watched it since `watching_since`. `None` if that is unknown: the bot has
/// never reported, the demo bot has left (it reports no shards then), or something looks silent and the replica has not watched
/// for as long as silence takes. While no replica ran, nothing could report, so the time before does not count as silence.
pub fn observe(health: &Health, watching_since: Time, now: Time) -> Option<Observation> {
    let is_old = |reported: Time| is_silent(reported, now);
    let latest = health.latest_report()?;
    let newest = newest(health, is_old);
    let highest = health.shards.keys().next_back().map_or(0, |id| id.saturating_add(1));
    let shard_count = newest.map_or(highest, |newest| newest.shard_count);
    let shards = || health.shards.iter().filter(|(id, _)| **id < shard_count).map(|(_, shard)| shard);
    let silent = || shards().filter(|shard| is_old(shard.reported));
    // A shard that was never reported counts as silent once the process that should have it has run for long enough. Since when
    // is unknown, so it counts from now.
    let missing = shard_count.saturating_sub(count(shards()));
    let missing_since = newest.filter(|newest| missing > 0 && is_old(newest.started_at)).map(|_| now.before(SILENCE));
    let since = silent().map(|shard| shard.reported).chain(missing_since).min();
    let state = match since {
        _ if is_old(latest) => BotState::Down,
        Some(_) => BotState::Partial,
        None => BotState::Up,
    };
    let has_left = state == BotState::Down && shard_count == 0;
    if has_left || state != BotState::Up && !is_silent(watching_since, now) {
        return None;
    }
    let (silent, since) = match state {
        BotState::Up => (0, latest),
        BotState::Partial => {
            let missing = if missing_since.is_some() { missing } else { 0 };
            (count(silent()).saturating_add(missing), since.unwrap_or(latest).max(watching_since))
        }
        BotState::Down => (shard_count, latest.max(watching_since)),
    };
    let up = shards().filter(|shard| !is_old(shard.reported));
    Some(Observation {
        at: now,
        state,
        latency: mean(up.map(|shard| shard.latency)),
        silent,
        shard_count,
        since: since.min(now),
    })
}

/// The process that knows the current number of shards: the latest-started living one, or of all if none is alive.
fn newest(health: &Health, is_old: impl Fn(Time) -> bool) -> Option<&Instance> {
    health.instances.values().max_by_key(|instance| (!is_old(instance.reported), instance.started_at))
}

fn count<T>(things: impl Iterator<Item = T>) -> u32 {
    saturating::to_u32(things.count())
}

/// The mean of the known latencies; zero means unknown.
fn mean(latencies: impl Iterator<Item = f64>) -> Option<f64> {
    let known = latencies.filter(|latency| latency.is_finite() && *latency > 0.0);
    let (sum, number) = known.fold((0.0, 0_u32), |(sum, number), latency| (sum + latency, number.saturating_add(1)));
    (number > 0).then(|| sum / f64::from(number))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Heartbeat;
    use crate::feed::InstanceId;
    use crate::health::ShardHeartbeat;

    const NOW: Time = Time::from_seconds(1_000_000);
    const ALWAYS: Time = Time::from_seconds(1);

    fn ago(seconds: u64) -> Time {
        NOW.before(Duration::from_secs(seconds))
    }

    /// A process that started and reported this many seconds ago, with these shards and latencies.
    fn reports(
        health: &mut Health,
        name: &str,
        (started, reported): (u64, u64),
        shard_count: u32,
        shards: &[(u32, f64)],
    ) {
        let heartbeat = |(id, latency): &(u32, f64)| ShardHeartbeat {
            id: *id,
            sent: None,
            acknowledged: None,
            latency: (*latency > 0.0).then_some(*latency),
        };
        let heartbeat = Heartbeat {
            instance: InstanceId::parse("key", name).unwrap(),
            started_at: ago(started),
            memory: 1,
            shard_count,
            shards: shards.iter().map(heartbeat).collect(),
            leaving: false,
        };
        health.merge(heartbeat, ago(reported));
    }

    /// State, silent shards, all shards, and for how many seconds.
    type Seen = (BotState, u32, u32, u64);
    /// When the process started and reported, how many shards there are, and which are its own.
    type Report<'a> = ((u64, u64), u32, &'a [(u32, f64)]);

    fn seen(health: &Health, watching: Time) -> Option<Seen> {
        observe(health, watching, NOW).map(|seen| {
            assert_eq!(seen.at, NOW);
            (seen.state, seen.silent, seen.shard_count, NOW.since(seen.since).as_secs())
        })
    }

    #[test]
    fn a_bot_that_has_never_reported_is_unknown() {
        assert_eq!(seen(&Health::default(), ALWAYS), None);
    }

    #[test]
    fn a_bot_that_has_left_is_not_down() {
        let mut health = Health::default();
        reports(&mut health, "a", (200_000, 100), 2, &[(0, 1.0), (1, 1.0)]);
        reports(&mut health, "a", (200_000, 95), 0, &[]);
        assert_eq!(seen(&health, ALWAYS), None);
        reports(&mut health, "b", (40, 30), 1, &[(0, 1.0)]);
        assert_eq!(seen(&health, ALWAYS), Some((BotState::Up, 0, 1, 30)));
    }

    #[test]
    fn a_bot_is_down_once_nothing_has_reported_for_90_seconds() {
        for (reported, expected) in [
            (0, (BotState::Up, 0, 2, 0)),
            (89, (BotState::Up, 0, 2, 89)),
            (90, (BotState::Down, 2, 2, 90)),
            (100_000, (BotState::Down, 2, 2, 100_000)),
        ] {
            let mut health = Health::default();
            reports(&mut health, "a", (200_000, reported), 2, &[(0, 1.0), (1, 1.0)]);
            assert_eq!(seen(&health, ALWAYS), Some(expected), "{reported}");
        }
    }

    #[test]
    fn a_bot_is_partly_up_while_a_shard_is_silent_or_missing() {
        let table: [(&str, Report<'_>, Seen); 6] = [
            ("all shards", ((500, 0), 2, &[(0, 1.0), (1, 1.0)]), (BotState::Up, 0, 2, 0)),
            ("one is silent", ((500, 0), 2, &[(0, 1.0)]), (BotState::Partial, 1, 2, 300)),
            ("both are silent, and the process is not", ((500, 0), 2, &[]), (BotState::Partial, 2, 2, 300)),
            ("one was never reported", ((500, 0), 3, &[(0, 1.0), (1, 1.0)]), (BotState::Partial, 1, 3, 90)),
            ("a new process has not got to it yet", ((89, 0), 3, &[(0, 1.0), (1, 1.0)]), (BotState::Up, 0, 3, 0)),
            ("one silent, one missing", ((500, 0), 3, &[(0, 1.0)]), (BotState::Partial, 2, 3, 300)),
        ];
        for (case, (times, shard_count, shards), expected) in table {
            let mut health = Health::default();
            reports(&mut health, "a", (times.0.max(300), 300), 2, &[(0, 1.0), (1, 1.0)]);
            reports(&mut health, "b", times, shard_count, shards);
            assert_eq!(seen(&health, ALWAYS), Some(expected), "{case}");
        }
    }

    #[test]
    fn the_newest_living_process_says_how_many_shards_there_are() {
        let mut health = Health::default();
        reports(&mut health, "old", (5_000, 95), 2, &[(0, 1.0), (1, 1.0)]);
        reports(&mut health, "new", (4_000, 94), 4, &[(2, 1.0)]);
        reports(&mut health, "old", (5_000, 10), 2, &[(0, 1.0), (1, 1.0)]);
        assert_eq!(seen(&health, ALWAYS), Some((BotState::Up, 0, 2, 10)), "the newer one is gone");
        reports(&mut health, "new", (4_000, 5), 4, &[(2, 1.0)]);
        assert_eq!(seen(&health, ALWAYS), Some((BotState::Partial, 1, 4, 90)), "it is back, and has no shard 3");
    }

    #[test]
    fn what_was_not_watched_is_unknown_and_does_not_count_as_silence() {
        // The last report, how long it has been watched, and the result.
        for (reported, watching, expected) in [
            (10, 1, Some((BotState::Up, 0, 1, 10))),
            (95, 0, None),
            (95, 89, None),
            (95, 90, Some((BotState::Down, 1, 1, 90))),
            (5_000, 89, None),
            (5_000, 120, Some((BotState::Down, 1, 1, 120))),
            (5_000, 6_000, Some((BotState::Down, 1, 1, 5_000))),
        ] {
            let mut health = Health::default();
            reports(&mut health, "a", (9_000, reported), 1, &[(0, 1.0)]);
            assert_eq!(seen(&health, ago(watching)), expected, "{reported} {watching}");
        }
        let mut health = Health::default();
        reports(&mut health, "a", (9_000, 200), 2, &[(0, 1.0), (1, 1.0)]);
        reports(&mut health, "a", (9_000, 1), 2, &[(0, 1.0)]);
        assert_eq!(seen(&health, ago(80)), None, "it may have reported shard 1 while nobody watched");
        assert_eq!(seen(&health, ago(100)), Some((BotState::Partial, 1, 2, 100)));
    }

    #[test]
    fn reports_of_a_clock_that_is_ahead_count_as_of_now() {
        let mut health = Health::default();
        reports(&mut health, "a", (0, 0), 1, &[(0, 1.0)]);
        let earlier = observe(&health, ALWAYS, ago(5_000)).unwrap();
        assert_eq!((earlier.state, earlier.since), (BotState::Up, ago(5_000)));
    }

    #[test]
    fn the_latency_is_the_mean_over_shards_that_are_up_and_have_one() {
        let latency = |health: &Health| observe(health, ALWAYS, NOW).unwrap().latency;
        let mut health = Health::default();
        reports(&mut health, "a", (500, 200), 4, &[(0, 1_000.0), (1, 0.0)]);
        assert_eq!(latency(&health), None, "it is down");
        reports(&mut health, "a", (500, 10), 4, &[(1, 0.0)]);
        assert_eq!(latency(&health), None, "none is known");
        reports(&mut health, "a", (500, 0), 4, &[(1, 20.0), (2, 40.0), (3, 0.0)]);
        assert_eq!(latency(&health), Some(30.0));
    }
}
