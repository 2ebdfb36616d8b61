//! Latency over 24 hours: a line with gaps where there is no data.

use std::fmt::Write as _;
use std::time::Duration;

use domain::Time;
use domain::history::BotState;
use maud::{Markup, html};

use super::legend::legend;
use super::series::{ChartBucket, began, buckets, runs};
use super::{StatusPage, milliseconds};
use crate::site::calendar::TimeFormat;

const QUARTER: Duration = Duration::from_mins(15);
const HOUR: Duration = Duration::from_hours(1);
/// Quarters of a day.
const POINTS: usize = 96;

impl StatusPage<'_> {
    pub(super) fn latency(&self) -> Markup {
        let words = &self.words().status;
        let quarters = buckets(&self.facts.history.minutes, self.facts.now, QUARTER, POINTS);
        let latencies: Vec<f64> = quarters.iter().filter_map(|quarter| quarter.latency).collect();
        let is_known = quarters.iter().any(|quarter| quarter.known > 0);
        html! {
            section aria-labelledby="latency" {
                h2 id="latency" { (words.latency) }
                @if is_known {
                    div class="card chart" {
                        @let summary = summary(&latencies, words.latency_summary);
                        @if let Some(summary) = &summary { p { (summary) } }
                        (self.latency_chart(&quarters, &latencies, summary.as_deref().unwrap_or_default()))
                        (legend(words.legend, &[
                            ("line", words.average_latency),
                            ("low", self.words().shared.partly_up),
                            ("tall", self.words().shared.down),
                            ("unknown", words.no_data),
                        ]))
                        (self.latency_table())
                    }
                } @else {
                    p class="card empty" { (words.no_latency) }
                }
            }
        }
    }

    fn latency_chart(&self, quarters: &[ChartBucket], latencies: &[f64], summary: &str) -> Markup {
        let top = nice_top(latencies.iter().copied().fold(0.0, f64::max));
        let height = |latency: f64| 100.0 - latency / top * 100.0;
        let (mut line, mut area) = (String::new(), String::new());
        for (begin, length) in runs(quarters, |quarter| quarter.latency.is_some()) {
            let points: Vec<(usize, f64)> = (begin..begin + length)
                .filter_map(|index| quarters.get(index)?.latency.map(|latency| (index, height(latency))))
                .collect();
            draw_run(&points, &mut line, &mut area);
        }
        let begin = quarters.first().map_or(self.facts.now, |quarter| quarter.begins);
        html! {
            div class="plot" {
                div class="axis-y" aria-hidden="true" {
                    @for part in [top, top / 2.0, 0.0] { span { (milliseconds(part)) } }
                }
                svg class="hatched" viewBox="0 0 96 100" width="100%" height="180" preserveAspectRatio="none" role="img"
                    aria-labelledby="latency-title latency-text" {
                    title id="latency-title" { (self.words().status.latency_title) }
                    desc id="latency-text" { (summary) }
                    path class="known" d=(blocks(quarters, 100.0, |quarter| quarter.known > 0 || self.is_before(quarter, QUARTER))) {}
                    path class="grid" d="M0 0H96M0 50H96M0 100H96" {}
                    path class="area" d=(area) {}
                    path class="line" d=(line) {}
                    path class="partial" d=(blocks(quarters, 6.0, |quarter| quarter.worst == Some(BotState::Partial))) {}
                    path class="down" d=(blocks(quarters, 14.0, |quarter| quarter.worst == Some(BotState::Down))) {}
                }
                div class="axis-x" aria-hidden="true" {
                    @for hours in [0, 6, 12, 18, 24] { span { (self.clock(begin.after(HOUR * hours))) } }
                }
            }
        }
    }

    /// Whether a bucket of this length ended before the history began. Then it isn't a gap.
    fn is_before(&self, piece: &ChartBucket, length: Duration) -> bool {
        began(self.facts.history).is_some_and(|began| piece.begins.after(length) <= began)
    }

    /// "23:15", where a heading says UTC or there is no room to say it.
    fn clock(&self, time: Time) -> Markup {
        TimeFormat::Clock.element_with(time, &TimeFormat::Clock.text(self.words(), time))
    }

    fn latency_table(&self) -> Markup {
        let words = &self.words().status;
        let hours = buckets(&self.facts.history.minutes, self.facts.now, HOUR, 24);
        let state = |hour: &ChartBucket| match hour.worst {
            Some(BotState::Up) => self.words().shared.up,
            Some(BotState::Partial) => self.words().shared.partly_up,
            Some(BotState::Down) => self.words().shared.down,
            None => words.no_data,
        };
        html! {
            details id="latency-table" {
                summary { (words.as_table) }
                table {
                    thead {
                        tr {
                            th scope="col" { (words.hour) span data-utc { " (UTC)" } }
                            th scope="col" { (words.average) }
                            th scope="col" { (self.words().shared.status) }
                            th scope="col" { (words.recorded) }
                        }
                    }
                    tbody {
                        @for hour in hours.iter().rev().filter(|hour| !self.is_before(hour, HOUR)) {
                            tr {
                                th scope="row" { (self.clock(hour.begins)) }
                                td { (hour.latency.map_or_else(|| "–".to_owned(), milliseconds)) }
                                td { (state(hour)) }
                                td { ((words.minutes)(hour.known)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn summary(latencies: &[f64], say: fn(&str, &str, &str) -> String) -> Option<String> {
    let count = u32::try_from(latencies.len()).ok().filter(|count| *count > 0)?;
    let average = latencies.iter().sum::<f64>() / f64::from(count);
    let (lowest, highest) =
        latencies.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), latency| (low.min(*latency), high.max(*latency)));
    Some(say(&milliseconds(average), &milliseconds(lowest), &milliseconds(highest)))
}

/// A line through the middle of each quarter, and the area below it. A single point is as wide as its quarter.
fn draw_run(points: &[(usize, f64)], line: &mut String, area: &mut String) {
    let (Some((first, first_y)), Some((last, last_y))) = (points.first(), points.last()) else { return };
    let mut top = format!("{first} {first_y:.1}");
    for (index, y) in points {
        // Writing to a string cannot fail.
        let _ = write!(top, "L{index}.5 {y:.1}");
    }
    let end = last + 1;
    let _ = write!(top, "L{end} {last_y:.1}");
    let _ = write!(line, "M{top}");
    let _ = write!(area, "M{first} 100L{top}V100Z");
}

/// A block of this height at the bottom wherever the condition holds.
fn blocks(quarters: &[ChartBucket], height: f64, holds: impl Fn(&ChartBucket) -> bool) -> String {
    let mut path = String::new();
    for (begin, length) in runs(quarters, holds) {
        let _ = write!(path, "M{begin} 100v-{height}h{length}v{height}z");
    }
    path
}

/// The end of the scale: one, two or five times a power of ten, at least 50 ms.
fn nice_top(highest: f64) -> f64 {
    let mut top = 50.0;
    for factor in [2.0, 2.0, 2.5].into_iter().cycle() {
        if top >= highest || top >= 1e9 {
            break;
        }
        top *= factor;
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_ends_at_a_round_number() {
        for (highest, top) in [
            (0.0, 50.0),
            (50.0, 50.0),
            (51.0, 100.0),
            (180.0, 200.0),
            (201.0, 500.0),
            (501.0, 1_000.0),
            (1_001.0, 2_000.0),
        ] {
            assert!((nice_top(highest) - top).abs() < f64::EPSILON, "{highest}: {}", nice_top(highest));
        }
        assert!(nice_top(f64::MAX) <= 2e9);
    }

    #[test]
    fn a_gap_parts_the_line() {
        let bucket = |latency: Option<f64>| ChartBucket {
            begins: Time::default(),
            known: u32::from(latency.is_some()),
            worst: latency.map(|_| BotState::Up),
            latency,
        };
        let quarters = [bucket(Some(1.0)), bucket(None), bucket(Some(1.0)), bucket(Some(1.0))];
        assert_eq!(blocks(&quarters, 100.0, |quarter| quarter.known > 0), "M0 100v-100h1v100zM2 100v-100h2v100z");
        let (mut line, mut area) = (String::new(), String::new());
        draw_run(&[(2, 10.0), (3, 20.0)], &mut line, &mut area);
        assert_eq!(line, "M2 10.0L2.5 10.0L3.5 20.0L4 20.0");
        assert_eq!(area, "M2 100L2 10.0L2.5 10.0L3.5 20.0L4 20.0V100Z");
    }
}
