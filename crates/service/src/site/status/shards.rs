//! Every shard as a tile. A few are shown side by side, thousands in groups that open without a script. Those that aren't up come first,
//! in words.

use std::time::Duration;

use domain::health::is_silent;
use domain::history::observe;
use domain::saturating;
use domain::{Health, Time};
use maud::{Markup, html};

use super::legend::legend;
use super::{StatusPage, milliseconds};
use crate::site::home::shape_of;
use crate::site::numbers::grouped;

/// Up to this many tiles are shown side by side; more are grouped.
const UNGROUPED: usize = 60;
/// Up to this many shards have tiles. Beyond that there are only groups, and visitors look up their server.
const MOST_TILES: usize = 6_000;
const MOST_GROUPS: usize = 100;
/// The most lines about shards that aren't up.
const MOST_LINES: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileState {
    Up,
    Down,
    /// It has not had time to report, or this service has not listened for long enough.
    Unknown,
}

impl TileState {
    pub(super) const fn shape(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShardNow {
    pub(super) id: u32,
    pub(super) state: TileState,
    /// Milliseconds; only if it is up.
    pub(super) latency: Option<f64>,
    /// How long ago it last reported; `None` if never.
    pub(super) age: Option<Duration>,
}

/// All shards by number, including those that have never reported.
pub(super) fn all(health: &Health, watching_since: Time, now: Time) -> Vec<ShardNow> {
    // The number of shards is known no matter how long this service has listened.
    let Some(seen) = observe(health, Time::default(), now) else { return Vec::new() };
    let is_watched = is_silent(watching_since, now);
    let reported = |id: u32| health.shards.get(&id).map(|shard| shard.reported);
    let silent = (0..seen.shard_count).filter(|id| reported(*id).is_some_and(|at| is_silent(at, now))).count();
    // Shards that never reported count as silent once they have had time to report.
    let is_missing_silent = usize::try_from(seen.silent).is_ok_and(|counted| counted > silent);
    let state = |id: u32| match reported(id) {
        Some(at) if !is_silent(at, now) => TileState::Up,
        Some(_) if is_watched => TileState::Down,
        None if is_watched && is_missing_silent => TileState::Down,
        _ => TileState::Unknown,
    };
    let latency = |id: u32| health.shards.get(&id).map(|shard| shard.latency).filter(|latency| *latency > 0.0);
    (0..seen.shard_count)
        .map(|id| {
            let state = state(id);
            let latency = latency(id).filter(|_| state == TileState::Up);
            ShardNow { id, state, latency, age: reported(id).map(|at| now.since(at)) }
        })
        .collect()
}

impl StatusPage<'_> {
    pub(super) fn shards(&self) -> Markup {
        let words = &self.words().status;
        let is_grouped = self.shards.len() > UNGROUPED;
        html! {
            section aria-labelledby="shards" {
                h2 id="shards" { (words.shards) }
                @if self.shards.is_empty() {
                    p class="card empty" { (words.no_shards) }
                } @else {
                    p { ((self.words().shared.shards_up)(self.count_up(), saturating::to_u64(self.shards.len()))) "." }
                    (self.troubled())
                    @if self.shards.len() <= MOST_TILES {
                        p class="quiet tiles-text" { (words.legend_text) @if is_grouped { " " (words.open_group) } }
                        (legend(words.legend, &[
                            ("tile-up", words.up),
                            ("tile-down", words.down),
                            ("tile-unknown", words.unknown),
                        ]))
                    } @else {
                        p class="quiet" { (words.groups_only) }
                    }
                    @if is_grouped { (self.groups()) } @else { (self.tiles(&self.shards, false)) }
                }
            }
        }
    }

    /// The shards that aren't up, in words. Neighbours with the same state and time share a line.
    fn troubled(&self) -> Markup {
        let words = &self.words().status;
        let troubled: Vec<(&ShardNow, String)> = self
            .shards
            .iter()
            .filter(|shard| shard.state != TileState::Up)
            .map(|shard| (shard, self.last_report(shard)))
            .collect();
        let lines: Vec<&[(&ShardNow, String)]> = troubled
            .chunk_by(|(a, reported), (b, next)| b.id == a.id + 1 && a.state == b.state && reported == next)
            .collect();
        let is_down = troubled.iter().any(|(shard, _)| shard.state == TileState::Down);
        let worst = if is_down { TileState::Down } else { TileState::Unknown };
        let left = lines.iter().skip(MOST_LINES).map(|line| line.len()).sum::<usize>();
        html! {
            @if !lines.is_empty() {
                div class={ "card troubled " (worst.shape()) } {
                    h3 { (words.attention) }
                    ul {
                        @for line in lines.iter().take(MOST_LINES) {
                            @let (first, reported) = &line[0];
                            li {
                                span class={ "dot " (first.state.shape()) } aria-hidden="true" {}
                                strong { (self.range(first.id, line[line.len() - 1].0.id)) }
                                ": " (self.state_word(first.state)) ", " (reported)
                            }
                        }
                        @if left > 0 { li { ((words.and_more)(&self.count(left))) } }
                    }
                }
            }
        }
    }

    fn last_report(&self, shard: &ShardNow) -> String {
        let (words, ago) = (&self.words().status, self.words().shared.ago);
        shard.age.map_or_else(|| words.no_report.to_owned(), |age| (words.last_report)(&ago(age)))
    }

    fn state_word(&self, state: TileState) -> &'static str {
        let words = &self.words().status;
        match state {
            TileState::Up => words.up,
            TileState::Down => words.down,
            TileState::Unknown => words.unknown,
        }
    }

    fn range(&self, first: u32, last: u32) -> String {
        let words = &self.words().status;
        if first == last { (words.shard)(first) } else { (words.shard_range)(&first.to_string(), &last.to_string()) }
    }

    fn count(&self, count: usize) -> String {
        grouped(saturating::to_u64(count), self.words())
    }

    pub(super) fn count_up(&self) -> u64 {
        saturating::to_u64(self.shards.iter().filter(|shard| shard.state == TileState::Up).count())
    }

    fn groups(&self) -> Markup {
        // A round number per group, so that a shard is easy to find by its number.
        let size = [50, 100, 1_000].into_iter().find(|size| self.shards.len() / size < MOST_GROUPS).unwrap_or(1_000);
        let has_tiles = self.shards.len() <= MOST_TILES;
        html! {
            div class="groups" {
                @for group in self.shards.chunks(size) {
                    @if has_tiles {
                        details class="card group" id={ "shards-" (group[0].id) } {
                            summary { (self.group_summary(group)) }
                            (self.tiles(group, true))
                        }
                    } @else {
                        div class="card group" { (self.group_summary(group)) }
                    }
                }
            }
        }
    }

    fn group_summary(&self, group: &[ShardNow]) -> Markup {
        let words = &self.words().status;
        let count = |state| group.iter().filter(|shard| shard.state == state).count();
        let up = count(TileState::Up);
        let shape = match (up, count(TileState::Unknown)) {
            (up, _) if up == group.len() => "up",
            (0, unknown) if unknown == group.len() => "unknown",
            (0, _) => "down",
            _ => "partial",
        };
        let latency = average_latency(group);
        let (first, last) = (group[0].id, group[group.len() - 1].id);
        html! {
            (shape_of(shape))
            span class="range" { (first) "–" (last) }
            span class="quiet" {
                @if up == group.len() { (words.all_up) } @else { ((words.some_up)(up, group.len())) }
                @if let Some(latency) = latency { " · " (milliseconds(latency)) }
            }
        }
    }

    fn tiles(&self, shards: &[ShardNow], is_compact: bool) -> Markup {
        let words = &self.words().status;
        html! {
            ul class=(if is_compact { "tiles compact" } else { "tiles" }) {
                @for shard in shards {
                    // Most are up, so leaving out the attribute keeps a page with thousands small.
                    li class=[(shard.state != TileState::Up).then(|| shard.state.shape())] {
                        b { (shard.id) }
                        " " (self.state_word(shard.state))
                        i {
                            @if let Some(latency) = shard.latency { (milliseconds(latency)) " · " }
                            @if let Some(age) = shard.age { ((words.short_span)(age)) } @else { "–" }
                        }
                    }
                }
            }
        }
    }
}

/// Milliseconds, averaged over the shards that are up; `None` if none of them has a latency.
pub(super) fn average_latency(shards: &[ShardNow]) -> Option<f64> {
    let latencies = shards.iter().filter_map(|shard| shard.latency);
    let (sum, number) = latencies.fold((0.0, 0_u32), |(sum, number), latency| (sum + latency, number + 1));
    (number > 0).then(|| sum / f64::from(number))
}

#[cfg(test)]
mod tests {
    use domain::Heartbeat;
    use domain::feed::InstanceId;
    use domain::health::ShardHeartbeat;

    use super::*;

    const NOW: Time = Time::from_seconds(1_800_000_000);

    fn health(started: u64, reports: &[(u64, u32)]) -> Health {
        let mut health = Health::default();
        for (ago, id) in reports {
            let beat = Heartbeat {
                instance: InstanceId::parse("key", "bot").unwrap(),
                started_at: NOW.before(Duration::from_secs(started)),
                memory: 1,
                shard_count: 3,
                shards: vec![ShardHeartbeat { id: *id, sent: None, acknowledged: None, latency: Some(40.0) }],
                leaving: false,
            };
            health.merge(beat, NOW.before(Duration::from_secs(*ago)));
        }
        health
    }

    #[test]
    fn a_shard_is_up_down_or_unknown() {
        use TileState::{Down, Unknown, Up};
        for (case, started, watching, reports, expected) in [
            ("one is silent, one missing", 500, 500, &[(100, 0), (10, 1)][..], [Down, Up, Down]),
            ("the process is new", 80, 500, &[(10, 0), (10, 1)], [Up, Up, Unknown]),
            ("nobody has watched for long", 500, 80, &[(100, 0), (10, 1)], [Unknown, Up, Unknown]),
            ("all are silent", 500, 500, &[(100, 0), (100, 1)], [Down, Down, Down]),
            ("exactly 90 seconds", 500, 90, &[(90, 0), (89, 1), (10, 2)], [Down, Up, Up]),
        ] {
            let health = health(started, reports);
            let shards = all(&health, NOW.before(Duration::from_secs(watching)), NOW);
            let states: Vec<_> = shards.iter().map(|shard| shard.state).collect();
            assert_eq!(states, expected, "{case}");
            assert!(shards.iter().all(|shard| shard.latency.is_some() == (shard.state == Up)), "{case}");
        }
        assert_eq!(all(&Health::default(), Time::default(), NOW), []);
    }
}
