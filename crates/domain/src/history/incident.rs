//! When an incident begins, gets worse and ends.

use super::super::Time;
use super::{BotState, Observation};

/// A period in which the bot was not up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    pub id: u64,
    /// The worst state: [`BotState::Partial`] or [`BotState::Down`].
    pub worst: BotState,
    pub began: Time,
    /// When it ended; `None` while it lasts.
    pub ended: Option<Time>,
    /// How many shards were affected at worst.
    pub shards: u32,
    pub shard_count: u32,
}

/// What an observation means for the open incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncidentStep {
    Stays,
    /// A new incident starts.
    Opens {
        worst: BotState,
        began: Time,
        shards: u32,
        shard_count: u32,
    },
    Worsens {
        worst: BotState,
        /// How many shards were affected at worst.
        shards: u32,
        shard_count: u32,
    },
    Ends(Time),
}

/// What this observation means for the open incident, if there is one.
pub fn step(open: Option<&Incident>, seen: &Observation) -> IncidentStep {
    let Observation { state, silent, shard_count, since, .. } = *seen;
    match open {
        None if state == BotState::Up => IncidentStep::Stays,
        None => IncidentStep::Opens { worst: state, began: since, shards: silent, shard_count },
        Some(open) if state == BotState::Up => IncidentStep::Ends(since.max(open.began)),
        Some(open) if (state, silent) > (open.worst, open.shards) => {
            IncidentStep::Worsens { worst: state, shards: silent, shard_count }
        }
        Some(_) => IncidentStep::Stays,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Time = Time::from_seconds(1_800_000_000);

    fn ago(seconds: u64) -> Time {
        NOW.before(Duration::from_secs(seconds))
    }

    fn seen(state: BotState, silent: u32, shard_count: u32, since: Time) -> Observation {
        Observation { at: NOW, state, latency: Some(5.0), silent, shard_count, since }
    }

    #[test]
    fn an_incident_opens_gets_worse_and_ends() {
        use BotState::{Down, Partial, Up};
        let open = |worst, shards| Incident { id: 7, worst, began: ago(500), ended: None, shards, shard_count: 4 };
        let table: [(&str, Option<Incident>, Observation, IncidentStep); 11] = [
            ("nothing happens", None, seen(Up, 0, 4, NOW), IncidentStep::Stays),
            (
                "some shards fall silent",
                None,
                seen(Partial, 2, 4, ago(95)),
                IncidentStep::Opens { worst: Partial, began: ago(95), shards: 2, shard_count: 4 },
            ),
            (
                "all fall silent",
                None,
                seen(Down, 4, 4, ago(91)),
                IncidentStep::Opens { worst: Down, began: ago(91), shards: 4, shard_count: 4 },
            ),
            ("it goes on", Some(open(Partial, 2)), seen(Partial, 2, 4, ago(95)), IncidentStep::Stays),
            ("fewer, but down", Some(open(Down, 2)), seen(Partial, 3, 4, ago(95)), IncidentStep::Stays),
            ("it gets better", Some(open(Down, 4)), seen(Partial, 1, 4, ago(95)), IncidentStep::Stays),
            (
                "more shards",
                Some(open(Partial, 2)),
                seen(Partial, 3, 4, ago(95)),
                IncidentStep::Worsens { worst: Partial, shards: 3, shard_count: 4 },
            ),
            (
                "then all of them",
                Some(open(Partial, 2)),
                seen(Down, 4, 4, ago(95)),
                IncidentStep::Worsens { worst: Down, shards: 4, shard_count: 4 },
            ),
            (
                "all of fewer",
                Some(open(Partial, 3)),
                seen(Down, 2, 2, ago(95)),
                IncidentStep::Worsens { worst: Down, shards: 2, shard_count: 2 },
            ),
            ("it is over", Some(open(Down, 4)), seen(Up, 0, 4, ago(10)), IncidentStep::Ends(ago(10))),
            ("never before it began", Some(open(Down, 4)), seen(Up, 0, 4, ago(900)), IncidentStep::Ends(ago(500))),
        ];
        for (case, open, seen, expected) in table {
            assert_eq!(step(open.as_ref(), &seen), expected, "{case}");
        }
    }
}
