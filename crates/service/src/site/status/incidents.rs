//! Incidents and announcements, newest first.

use domain::Time;
use domain::history::update::UpdateSubject;
use domain::history::{Announcement, BotState, Incident};
use maud::{Markup, html};

use super::StatusPage;
use crate::site::calendar::TimeFormat;
use crate::site::home::shape_of;
use crate::site::links::linked;
use crate::site::words::Words;

/// How many are shown at once.
const SHOWN: usize = 10;
/// How many more can be opened.
const FOLDED: usize = 90;
/// How many characters to show of the text of a past announcement.
const TEXT: usize = 1_000;

/// Something that happened.
#[derive(Clone, Copy)]
pub(super) enum Happening<'a> {
    Incident(&'a Incident),
    Announcement(&'a Announcement),
}

impl Happening<'_> {
    /// When it became known.
    pub(super) fn known_since(self) -> Time {
        match self {
            Self::Incident(incident) => incident.began,
            Self::Announcement(announcement) => announcement.posted,
        }
    }

    pub(super) fn began(self) -> Time {
        match self {
            Self::Incident(incident) => incident.began,
            Self::Announcement(announcement) => announcement.window.map_or(announcement.posted, |window| window.begins),
        }
    }

    fn is_over(self, now: Time) -> bool {
        match self {
            Self::Incident(incident) => incident.ended.is_some(),
            Self::Announcement(announcement) => announcement.over_since(now).is_some(),
        }
    }

    fn ended(self, now: Time) -> Option<Time> {
        match self {
            Self::Incident(incident) => incident.ended,
            Self::Announcement(announcement) => {
                // Scheduled maintenance has an end too; cancelled maintenance is shown as it was planned.
                let planned = announcement.window.map(|window| window.ends);
                let ended = announcement.over_since(now).filter(|ended| *ended >= self.began());
                ended.or(planned)
            }
        }
    }

    pub(super) fn subject(self) -> UpdateSubject {
        match self {
            Self::Incident(incident) => UpdateSubject::Incident(incident.id),
            Self::Announcement(announcement) => UpdateSubject::Announcement(announcement.id),
        }
    }
}

pub(super) fn affected(words: &Words, incident: &Incident) -> String {
    let words = &words.status;
    let is_all = incident.worst == BotState::Down || incident.shards >= incident.shard_count;
    if is_all && incident.shard_count != 1 {
        words.affected_all.to_owned()
    } else {
        (words.affected)(incident.shards, incident.shard_count)
    }
}

/// When something begins and ends, and how long it lasts. Feeds get plain text that stays true as time passes.
pub(super) fn time_span(words: &Words, happening: Happening<'_>, now: Time, is_page: bool) -> Markup {
    let (began, span) = (happening.began(), words.shared.span);
    let shown = |time: Time, format: TimeFormat, text: &str| {
        if is_page {
            format.element_with(time, text)
        } else {
            html! { (text) }
        }
    };
    let moment = if is_page { TimeFormat::Moment(now) } else { TimeFormat::Date };
    if let Some(ended) = happening.ended(now) {
        // One "UTC" is enough for both.
        let (from, end) = (shown(began, moment, &moment.text(words, began)), TimeFormat::EndOf(began));
        (words.status.lasted)(&from, &shown(ended, end, &end.utc(words, ended)), &span(ended.since(began)))
    } else {
        let from = shown(began, moment, &moment.utc(words, began));
        (words.status.lasts)(&from, is_page.then(|| span(now.since(began))).as_deref())
    }
}

impl StatusPage<'_> {
    pub(super) fn incidents(&self) -> Markup {
        let words = &self.words().status;
        let (history, at_top) = (self.facts.history, self.at_top());
        let is_at_top = |announcement: &Announcement| at_top.iter().any(|shown| shown.id == announcement.id);
        let others = history.announcements.iter().filter(|announcement| !is_at_top(announcement));
        let mut all: Vec<Happening<'_>> = history.incidents.iter().map(Happening::Incident).collect();
        all.extend(others.map(Happening::Announcement));
        all.sort_by_key(|happening| (happening.is_over(self.facts.now), std::cmp::Reverse(happening.began())));
        let (shown, older) = all.split_at(all.len().min(SHOWN));
        html! {
            section aria-labelledby="incidents" {
                h2 id="incidents" { (words.incidents) }
                @if all.is_empty() {
                    p class="card empty" { (words.no_incidents) }
                } @else {
                    (self.happenings(shown))
                    @if !older.is_empty() {
                        details id="older" class="older" {
                            summary { (words.older) }
                            (self.happenings(older.get(..FOLDED).unwrap_or(older)))
                        }
                    }
                }
                p class="feeds" {
                    a href=(self.frame.site.path("/site/incidents.atom")) type="application/atom+xml" { (words.subscribe) }
                    " "
                    a href=(self.frame.site.path("/site/incidents.json")) type="application/json" { (self.words().happenings.as_json) }
                }
            }
        }
    }

    fn happenings(&self, happenings: &[Happening<'_>]) -> Markup {
        html! {
            ol class="happenings" {
                @for happening in happenings {
                    @match happening {
                        Happening::Incident(incident) => { (self.incident(incident)) }
                        Happening::Announcement(announcement) => { (self.listed_announcement(announcement)) }
                    }
                }
            }
        }
    }

    fn incident(&self, incident: &Incident) -> Markup {
        let words = self.words();
        let shape = incident.worst.name();
        html! {
            li class="card happening" id={ "incident-" (incident.id) } {
                (shape_of(shape))
                div {
                    h3 {
                        (affected(words, incident))
                        @if incident.ended.is_none() { " " span class={ "chip " (shape) } { (words.status.ongoing) } }
                    }
                    p class="quiet" { (time_span(words, Happening::Incident(incident), self.facts.now, true)) }
                    (self.updates(UpdateSubject::Incident(incident.id)))
                }
            }
        }
    }

    fn listed_announcement(&self, announcement: &Announcement) -> Markup {
        let (words, now) = (self.words(), self.facts.now);
        let posted = TimeFormat::Date.element(words, announcement.posted);
        let longest = if announcement.over_since(now).is_some() { TEXT } else { usize::MAX };
        let text: String = announcement.text.chars().take(longest).collect();
        let is_cut = text.len() < announcement.text.len();
        html! {
            li class="card happening" id={ "announcement-" (announcement.id) } {
                (megaphone())
                div {
                    h3 { bdi { (announcement.title) } " " span class="chip" { ((words.happenings.state)(announcement.state(now))) } }
                    @if !text.is_empty() { p class="lines" dir="auto" { (linked(&text)) @if is_cut { "…" } } }
                    p class="quiet" {
                        @if announcement.window.is_some() {
                            (words.happenings.maintenance) " · "
                            (time_span(words, Happening::Announcement(announcement), now, true))
                        } @else {
                            (words.status.announcement) " · " ((words.status.posted)(&posted))
                        }
                    }
                    (self.updates(UpdateSubject::Announcement(announcement.id)))
                }
            }
        }
    }
}

/// The sign of an announcement.
fn megaphone() -> Markup {
    html! {
        svg class="shape news" viewBox="0 0 24 24" width="40" height="40" aria-hidden="true" {
            circle class="fill" cx="12" cy="12" r="11" {}
            path class="line" d="M7 10.5v3h2.5l5 3v-9l-5 3zM17 11v2" {}
        }
    }
}
