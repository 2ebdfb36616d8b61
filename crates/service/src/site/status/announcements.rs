//! Announcements and maintenance that visitors should know about now, and the updates to whatever happens.

use domain::Time;
use domain::history::announcement::AnnouncementState;
use domain::history::update::{Update, UpdateSubject};
use domain::history::{Announcement, History};
use maud::{Markup, html};

use super::StatusPage;
use super::incidents::{Happening, time_span};
use crate::site::calendar::TimeFormat;
use crate::site::layout::PageFrame;
use crate::site::links::linked;
use crate::site::words::Words;

/// How many announcements that hold are shown.
const MOST_HOLDING: usize = 5;
/// How many of them the home page shows.
const MOST_AT_HOME: usize = 3;
/// How many updates to one thing are shown, newest first.
const MOST_UPDATES: usize = 10;

/// Announcements that hold, then maintenance to come, in the order in which it does.
fn holding(history: &History, now: Time) -> Vec<&Announcement> {
    let order = |announcement: &Announcement| match announcement.state(now) {
        AnnouncementState::InProgress => Some((0, 0)),
        AnnouncementState::Active => Some((1, 0)),
        AnnouncementState::Scheduled => Some((2, announcement.window.map_or(0, |window| window.begins.millis()))),
        AnnouncementState::Cancelled | AnnouncementState::Over => None,
    };
    let mut holding: Vec<_> =
        history.announcements.iter().filter_map(|found| order(found).map(|order| (order, found))).collect();
    holding.sort_by_key(|(order, _)| *order);
    holding.into_iter().map(|(_, announcement)| announcement).collect()
}

/// What it is, if it is more than an announcement: "Scheduled".
fn chip(words: &Words, announcement: &Announcement, now: Time) -> Markup {
    let state = announcement.state(now);
    html! {
        @if announcement.window.is_some() {
            " " span class={ "chip" @if state == AnnouncementState::InProgress { " partial" } } { ((words.happenings.state)(state)) }
        }
    }
}

/// "Maintenance · 20 Nov, 20:00 to 20:30 UTC (30 minutes)"
fn window(words: &Words, announcement: &Announcement, now: Time) -> Markup {
    html! {
        @if announcement.window.is_some() {
            p class="window" {
                (words.happenings.maintenance) " · " (time_span(words, Happening::Announcement(announcement), now, true))
            }
        }
    }
}

impl StatusPage<'_> {
    /// Announcements that hold, before everything else.
    pub(super) fn announcements(&self) -> Markup {
        let holding = holding(self.facts.history, self.facts.now);
        html! {
            @if !holding.is_empty() {
                section class="announcements" aria-label=(self.words().status.announcements) {
                    @for announcement in holding.into_iter().take(MOST_HOLDING) { (self.announcement(announcement)) }
                }
            }
        }
    }

    fn announcement(&self, announcement: &Announcement) -> Markup {
        let (words, now) = (self.words(), self.facts.now);
        let posted = TimeFormat::Date.element(words, announcement.posted);
        html! {
            article class="card announcement" id={ "announcement-" (announcement.id) } {
                h2 { bdi { (announcement.title) } (chip(words, announcement, now)) }
                (window(words, announcement, now))
                @if !announcement.text.is_empty() { p class="lines" dir="auto" { (linked(&announcement.text)) } }
                (self.updates(UpdateSubject::Announcement(announcement.id)))
                p class="quiet" { ((words.status.posted)(&posted)) }
            }
        }
    }

    /// The updates to something, newest first.
    pub(super) fn updates(&self, subject: UpdateSubject) -> Markup {
        let words = self.words();
        let mut updates: Vec<&Update> = self.facts.history.updates_of(subject).collect();
        updates.reverse();
        updates.truncate(MOST_UPDATES);
        html! {
            @if !updates.is_empty() {
                ol class="updates" reversed aria-label=(words.happenings.updates) {
                    @for update in updates {
                        li {
                            p {
                                strong { ((words.happenings.phase)(update.phase)) }
                                " " span class="quiet" { (TimeFormat::Moment.element(words, update.posted)) }
                            }
                            @if !update.text.is_empty() { p class="lines" dir="auto" { (linked(&update.text)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Announcements that hold, on the home page: what it is about, and where the rest is.
pub(in crate::site) fn at_home(frame: &PageFrame<'_>, history: &History, now: Time) -> Markup {
    let (words, holding) = (frame.words(), holding(history, now));
    html! {
        @if !holding.is_empty() {
            section class="announcements" aria-label=(words.status.announcements) {
                @for announcement in holding.into_iter().take(MOST_AT_HOME) {
                    @let address = frame.site.path(&format!("/site/status#announcement-{}", announcement.id));
                    article class="card announcement short" {
                        h2 { a href=(address) { bdi { (announcement.title) } } (chip(words, announcement, now)) }
                        (window(words, announcement, now))
                    }
                }
            }
        }
    }
}
