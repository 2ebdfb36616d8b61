//! Availability over 90 days: a bar for each day, in three rows of 30, so that it can be read on a phone. The chart starts with the
//! row of the first recorded day; earlier days in that row are small marks.

use std::fmt::Write as _;

use domain::Time;
use domain::history::Day;
use maud::{Markup, html};

use super::StatusPage;
use super::legend::legend;
use super::series::{DAY_MINUTES, days, known_minutes, passed_minutes, percent_up, since_first_known, unknown_minutes};
use crate::site::layout::table_head;

const DAYS: u64 = 90;
/// Bars per row.
const ROW: usize = 30;
/// Even a minute of downtime must be visible.
const SMALLEST: f64 = 20.0;

impl StatusPage<'_> {
    pub(super) fn availability(&self) -> Markup {
        let words = &self.words().status;
        let all = days(&self.facts.history.days, self.facts.now, DAYS);
        let days = since_first_known(&all);
        let is_young = days.len() < all.len();
        let known = days.iter().filter(|day| known_minutes(day) > 0).count();
        html! {
            section aria-labelledby="availability" {
                h2 id="availability" { (words.availability) }
                @if let Some(percent) = percent_up(days, self.words()) {
                    div class="card chart" {
                        p {
                            ((words.availability_summary)(&percent, known))
                            @if let Some(first) = days.first().filter(|_| is_young) {
                                " " ((self.words().happenings.recorded_since)(&self.day_name(first)))
                            }
                        }
                        div class="months" {
                            @for (index, row) in days.rchunks(ROW).rev().enumerate() { (self.bars(index, row)) }
                        }
                        (legend(words.legend, &[
                            ("up", self.words().shared.up),
                            ("partial", self.words().shared.partly_up),
                            ("down", self.words().shared.down),
                            ("unknown", words.no_data),
                        ]))
                        (self.availability_table(days))
                    }
                } @else {
                    p class="card empty" { (words.no_availability) }
                }
            }
        }
    }

    /// A row of bars with the days at its ends.
    fn bars(&self, index: usize, row: &[Day]) -> Markup {
        let words = &self.words().status;
        let name = |day: Option<&Day>| day.map_or_else(String::new, |day| self.day_name(day));
        let (first, last) = (name(row.first()), name(row.last()));
        let percent = self.percent(row);
        let span = if row.len() > 1 { (words.days)(&first, &last) } else { last.clone() };
        let before = ROW.saturating_sub(row.len());
        let drawn = draw(row, before, self.facts.now);
        html! {
            figure {
                svg class="hatched" viewBox="0 0 300 100" width="100%" height="84" preserveAspectRatio="none" role="img"
                    aria-labelledby={ "days-" (index) } {
                    title id={ "days-" (index) } { (span) ": " (percent) }
                    path class="known" d=(drawn.background) {}
                    path class="up" d=(drawn.up) {}
                    path class="partial" d=(drawn.partial) {}
                    path class="down" d=(drawn.down) {}
                    @if before > 0 {
                        path class="before" d=(drawn.before) {}
                        rect class="hit" x="0" y="0" width=(before * 10) height="100" {
                            title { (self.words().happenings.not_recorded) }
                        }
                    }
                    @for (index, day) in row.iter().enumerate() {
                        rect class="hit" x=((before + index) * 10) y="0" width="10" height="100" {
                            title { (self.day_name(day)) ": " (self.percent(std::slice::from_ref(day))) }
                        }
                    }
                }
                figcaption class="quiet" {
                    span { @if row.len() > 1 { (first) } }
                    span class="percent" { (percent) }
                    span { (last) }
                }
            }
        }
    }

    fn day_name(&self, day: &Day) -> String {
        let (_, month, day) = day.begins.date();
        (self.words().status.day)(month, day)
    }

    fn percent(&self, days: &[Day]) -> String {
        let words = &self.words().status;
        let percent = percent_up(days, self.words());
        percent.map_or_else(|| words.no_data_for_days.to_owned(), |percent| (words.percent_up)(&percent))
    }

    /// The days with data, as numbers.
    fn availability_table(&self, days: &[Day]) -> Markup {
        let words = &self.words().status;
        let shared = &self.words().shared;
        html! {
            details id="availability-table" {
                summary { (words.as_table) }
                table {
                    (table_head(&[words.day_column, shared.up, shared.partly_up, shared.down, words.no_data]))
                    tbody {
                        @for day in days.iter().rev() {
                            tr {
                                th scope="row" { (self.day_name(day)) }
                                td { (percent_up(std::slice::from_ref(day), self.words()).unwrap_or_else(|| "–".to_owned())) }
                                td { ((words.minutes)(day.partial)) }
                                td { ((words.minutes)(day.down)) }
                                td { ((words.minutes)(unknown_minutes(day, self.facts.now))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The paths of a row of bars.
#[derive(Debug, Default, PartialEq, Eq)]
struct Bars {
    /// Covers the hatched background, except where there is no data.
    background: String,
    /// A mark for each day before the first recorded one.
    before: String,
    up: String,
    partial: String,
    down: String,
}

/// Each bar is ten wide and a day high. From the bottom: up, partly up, down, each thinner than the one before; then unknown.
fn draw(row: &[Day], before: usize, now: Time) -> Bars {
    let mut bars = Bars::default();
    for x in (0..before).map(|index| index * 10) {
        // Writing to a string cannot fail.
        let _ = write!(bars.background, "M{x} 0h10v100h-10z");
        let _ = write!(bars.before, "M{} 94h8v6h-8z", x + 1);
    }
    for (index, day) in row.iter().enumerate() {
        let heights = heights(day, now);
        let unknown = heights.unknown_from..heights.unknown_to;
        let x = (before + index) * 10;
        let block = |path: &mut String, inset: f64, from: f64, to: f64| {
            if to - from > 0.05 {
                #[expect(clippy::cast_precision_loss, reason = "there are 30 bars")]
                let x = x as f64 + inset;
                let _ = write!(path, "M{x} {:.1}h{}V{:.1}H{x}z", 100.0 - to, 10.0 - 2.0 * inset, 100.0 - from);
            }
        };
        block(&mut bars.background, 0.0, 0.0, unknown.start);
        block(&mut bars.background, 0.0, unknown.end, 100.0);
        let _ = write!(bars.background, "M{x} 0h1v100h-1zM{} 0h1v100h-1z", x + 9);
        block(&mut bars.up, 1.0, 0.0, heights.up);
        block(&mut bars.partial, 2.5, heights.up, heights.partial);
        block(&mut bars.down, 3.75, heights.partial, heights.unknown_from);
    }
    bars
}

/// Where the parts of a bar end, from the bottom, out of 100.
#[derive(Debug, PartialEq)]
struct Heights {
    up: f64,
    partial: f64,
    unknown_from: f64,
    unknown_to: f64,
}

fn heights(day: &Day, now: Time) -> Heights {
    let whole = f64::from(passed_minutes(day, now).max(known_minutes(day)).clamp(1, DAY_MINUTES));
    let share = |minutes: u32| f64::from(minutes) / f64::from(DAY_MINUTES) * 100.0;
    let seen = |minutes: u32| if minutes > 0 { share(minutes).max(SMALLEST) } else { 0.0 };
    let top = (whole / f64::from(DAY_MINUTES) * 100.0).min(100.0);
    let (partial, down) = (seen(day.partial), seen(day.down));
    // What is left for the rest keeps its proportions.
    let left = (top - partial - down).max(0.0);
    let (up, unknown) = (f64::from(day.up), f64::from(unknown_minutes(day, now)));
    let up = if up > 0.0 { left * up / (up + unknown) } else { 0.0 };
    let known = (up + partial + down).min(100.0);
    Heights { up, partial: (up + partial).min(100.0), unknown_from: known, unknown_to: top.max(known) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// 2027-01-15T00:00:00Z
    const TODAY: Time = Time::from_seconds(1_799_971_200);

    fn day(up: u32, partial: u32, down: u32) -> Day {
        Day { begins: TODAY, up, partial, down }
    }

    #[test]
    fn a_bar_shows_each_part_and_nothing_unknown_as_down() {
        let (midnight, noon) = (TODAY.after(Duration::from_hours(24)), TODAY.after(Duration::from_hours(12)));
        let parts = |up, partial, unknown_from, unknown_to| Heights { up, partial, unknown_from, unknown_to };
        for (case, day, now, expected) in [
            ("a good day", day(1_440, 0, 0), midnight, parts(100.0, 100.0, 100.0, 100.0)),
            ("nothing is known", day(0, 0, 0), midnight, parts(0.0, 0.0, 0.0, 100.0)),
            ("half of it is to come", day(720, 0, 0), noon, parts(50.0, 50.0, 50.0, 50.0)),
            ("half is unknown", day(720, 0, 0), midnight, parts(50.0, 50.0, 50.0, 100.0)),
            ("a minute is seen", day(1_439, 0, 1), midnight, parts(80.0, 80.0, 100.0, 100.0)),
            ("both are seen", day(1_438, 1, 1), midnight, parts(60.0, 80.0, 100.0, 100.0)),
            ("a bad day", day(0, 0, 1_440), midnight, parts(0.0, 0.0, 100.0, 100.0)),
            ("it has just begun", day(0, 0, 1), TODAY, parts(0.0, 0.0, 20.0, 20.0)),
        ] {
            assert_eq!(heights(&day, now), expected, "{case}");
        }
    }

    #[test]
    fn the_ground_is_covered_except_where_nothing_is_known() {
        let midnight = TODAY.after(Duration::from_hours(24));
        let bars = draw(&[day(1_440, 0, 0), day(0, 0, 0)], 0, midnight);
        assert_eq!(bars.up, "M1 0.0h8V100.0H1z");
        assert_eq!((bars.partial.as_str(), bars.down.as_str()), ("", ""));
        let gaps = ["M0 0h1v100h-1zM9 0h1v100h-1z", "M10 0h1v100h-1zM19 0h1v100h-1z"];
        assert_eq!(bars.background, format!("M0 0.0h10V100.0H0z{}{}", gaps[0], gaps[1]));
        let young = draw(&[day(1_440, 0, 0)], 2, midnight);
        assert_eq!((young.before.as_str(), young.up.as_str()), ("M1 94h8v6h-8zM11 94h8v6h-8z", "M21 0.0h8V100.0H21z"));
        assert!(young.background.starts_with("M0 0h10v100h-10zM10 0h10v100h-10z"), "nothing is missing there");
    }
}
