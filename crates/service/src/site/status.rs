//! `/site/status`: the bot's status, uptime and incidents.

mod announcements;
mod atom;
mod availability;
mod incidents;
mod latency;
mod legend;
mod lookup;
mod series;
mod shards;

use domain::history::uptime::up_since;
use domain::history::{BotState, History, Observation};
use domain::saturating;
use domain::{Health, Time};
use maud::{Markup, html};
use telemetry::Version;

use super::calendar::TimeFormat;
use super::home::{number, shape_of};
use super::layout::{PageFrame, Section};
use super::numbers::{decimal, grouped};
use super::words::Words;
use super::{Language, Site};
pub(super) use announcements::at_home;
pub use atom::feed;
use shards::{ShardNow, TileState};

#[derive(Clone, Copy)]
pub struct StatusFacts<'a> {
    pub health: &'a Health,
    pub history: &'a History,
    pub now: Time,
}

/// The page being rendered: the facts, and what follows from them.
struct StatusPage<'a> {
    frame: PageFrame<'a>,
    facts: StatusFacts<'a>,
    /// The bot's state; `None` if it is not known.
    seen: Option<Observation>,
    shards: Vec<ShardNow>,
}

/// The whole page.
pub fn page(site: &Site, language: Language, facts: &StatusFacts<'_>) -> String {
    let page = StatusPage::new(site, language, facts);
    page.around(&html! {
        (page.announcements())
        (page.availability())
        (page.incidents())
        (page.technical_details())
    })
}

/// The shard of the server that a visitor has entered, without everything that makes the whole page large.
pub fn lookup_page(site: &Site, language: Language, facts: &StatusFacts<'_>, server: &str) -> String {
    let page = StatusPage::new(site, language, facts);
    page.around(&html! {
        (page.lookup(Some(server)))
        p { a href=(site.path("/site/status")) { (page.words().home.see_status) } }
    })
}

impl<'a> StatusPage<'a> {
    fn new(site: &'a Site, language: Language, facts: &StatusFacts<'a>) -> Self {
        let words = language.words();
        let frame = PageFrame {
            live: "status",
            ..PageFrame::new(site, language, Section::Status, words.shared.status, words.status.description)
        };
        let seen = site.observe(facts.health, facts.now);
        Self { frame, facts: *facts, seen, shards: shards::all(facts.health, site.listening_since, facts.now) }
    }
}

impl StatusPage<'_> {
    fn words(&self) -> &'static Words {
        self.frame.words()
    }

    /// The page with its title and the bot's state above this content.
    fn around(&self, content: &Markup) -> String {
        let now = TimeFormat::Seconds.element(self.words(), self.facts.now);
        self.frame.page(&html! {
            div class="wide stack status" {
                div class="page-head" {
                    h1 { (self.frame.title) }
                    p class="quiet" { ((self.words().status.as_of)(&now)) }
                }
                (self.state())
                (content)
            }
        })
    }

    /// Whether it is up and for how long, the details, and what to do.
    fn state(&self) -> Markup {
        let home = &self.words().home;
        let words = &self.words().status;
        let shared = &self.words().shared;
        let now = self.facts.now;
        let ago = |since: Time| (shared.ago)(now.since(since));
        let when = |since: Time| TimeFormat::Moment(now).element(self.words(), since);
        let plain = |text: &str| html! { (text) };
        let (shape, title, known, todo) = match &self.seen {
            Some(Observation { state: BotState::Up, shard_count, .. }) => {
                let span = self.up_since().map(|since| (shared.up_for)(now.since(since)));
                ("up", home.up, plain(&(words.all_online)(*shard_count, span.as_deref())), words.todo_up)
            }
            Some(seen @ Observation { state: BotState::Partial, silent, shard_count, .. }) => {
                let since = self.trouble_since(seen);
                let known = (words.some_offline)(*silent, *shard_count, &when(since), &ago(since));
                ("partial", home.partly_up, known, words.todo_partial)
            }
            Some(seen @ Observation { state: BotState::Down, .. }) => {
                let since = self.trouble_since(seen);
                let known = (words.no_reports)(&when(since), &ago(since));
                ("down", home.down, known, words.todo_down)
            }
            None if self.shards.is_empty() => {
                ("unknown", home.unknown, plain(words.never_reported), words.todo_unknown)
            }
            None => ("unknown", words.status_unknown, plain(words.just_started), words.todo_unknown),
        };
        html! {
            section class={ "card state " (shape) } aria-live="polite" {
                (shape_of(shape))
                div {
                    h2 { (title) }
                    p class="known" { (known) }
                    p { (todo) }
                }
            }
        }
    }

    /// When its current uptime began, if known: its start, or the end of the last incident.
    fn up_since(&self) -> Option<Time> {
        up_since(self.facts.health, &self.facts.history.incidents, self.seen.as_ref()?)
    }

    /// When it went down: the start of the open incident, which survives a restart of this service, or the last report.
    fn trouble_since(&self, seen: &Observation) -> Time {
        let open = self.facts.history.incidents.iter().find(|incident| incident.ended.is_none());
        open.map_or(seen.since, |open| open.began.min(seen.since))
    }

    /// What few visitors look for. It's open when some shards aren't up.
    fn technical_details(&self) -> Markup {
        let is_open = self.shards.iter().any(|shard| shard.state != TileState::Up);
        html! {
            details id="technical" class="technical" open[is_open] {
                summary { h2 { (self.words().status.technical) } }
                div class="stack" {
                    (self.numbers())
                    (self.lookup(None))
                    (self.shards())
                    (self.latency())
                }
            }
        }
    }

    fn numbers(&self) -> Markup {
        let (words, all) = (&self.words().status, self.words());
        let summary = self.facts.health.summary(self.facts.now);
        let latency = shards::average_latency(&self.shards);
        let count = |number: u64| grouped(number, all);
        let shards = saturating::to_u64(self.shards.len());
        let facts = [
            self.up_since().map(|since| (words.uptime, (all.shared.span)(self.facts.now.since(since)))),
            (!self.shards.is_empty())
                .then(|| ((words.shards_up)(shards), (words.of)(&count(self.count_up()), &count(shards)))),
            latency.map(|latency| (words.average_latency, milliseconds(latency))),
            (summary.memory > 0.0).then(|| (words.memory, megabytes(summary.memory, all))),
            Some((words.version, Version::NAME.to_owned())),
        ];
        html! {
            section aria-labelledby="facts" {
                h2 id="facts" class="visually-hidden" { (words.facts) }
                dl class="numbers status-facts" {
                    @for (label, value) in facts.into_iter().flatten() { (number(&value, label)) }
                }
            }
        }
    }
}

/// "41 ms"
fn milliseconds(latency: f64) -> String {
    format!("{latency:.0} ms")
}

/// "123.4 MB", or "1.2 GB"
fn megabytes(megabytes: f64, words: &Words) -> String {
    let (number, unit) = if megabytes < 1_000.0 { (megabytes, "MB") } else { (megabytes / 1_000.0, "GB") };
    format!("{} {unit}", decimal(number, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        assert_eq!(megabytes(123.44, Language::English.words()), "123.4 MB");
        assert_eq!(megabytes(1_550.0, Language::German.words()), "1,6 GB");
        assert_eq!(milliseconds(41.5), "42 ms");
    }
}
