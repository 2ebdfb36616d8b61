//! Current announcements and maintenance, and updates to incidents and announcements.

use domain::Time;
use domain::history::announcement::AnnouncementState;
use domain::history::update::{Update, UpdateSubject};
use domain::history::{Announcement, History};
use maud::{Markup, html};

use super::StatusPage;
use super::incidents::{Happening, time_span};
use crate::config::SitePart;
use crate::site::calendar::TimeFormat;
use crate::site::layout::PageFrame;
use crate::site::links::linked;
use crate::site::words::Words;

/// How many current announcements the status page shows at the top. The others are in its list.
const MOST_AT_TOP: usize = 5;
/// How many of them the home page shows.
const MOST_AT_HOME: usize = 3;
/// How many characters of an announcement's text the home page shows.
const MOST_LETTERS_AT_HOME: usize = 160;
/// How many updates to one incident or announcement are shown.
const MOST_UPDATES: usize = 10;

/// Current announcements: maintenance in progress first, then the others, then scheduled maintenance, soonest first.
fn current(history: &History, now: Time) -> Vec<&Announcement> {
    let order = |announcement: &Announcement| match announcement.state(now) {
        AnnouncementState::InProgress => Some((0, 0)),
        AnnouncementState::Active => Some((1, 0)),
        AnnouncementState::Scheduled => Some((2, announcement.window.map_or(0, |window| window.begins.millis()))),
        AnnouncementState::Cancelled | AnnouncementState::Over => None,
    };
    let mut current: Vec<_> =
        history.announcements.iter().filter_map(|found| order(found).map(|order| (order, found))).collect();
    current.sort_by_key(|(order, _)| *order);
    current.into_iter().map(|(_, announcement)| announcement).collect()
}

/// The state of maintenance: "Scheduled".
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
    /// Current announcements, right below the bot's state.
    pub(super) fn announcements(&self) -> Markup {
        let at_top = self.at_top();
        html! {
            @if !at_top.is_empty() {
                section class="announcements" aria-label=(self.words().status.announcements) {
                    @for announcement in at_top { (self.announcement(announcement)) }
                }
            }
        }
    }

    pub(super) fn at_top(&self) -> Vec<&Announcement> {
        let mut current = current(self.facts.history, self.facts.now);
        current.truncate(MOST_AT_TOP);
        current
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

    pub(super) fn updates(&self, subject: UpdateSubject) -> Markup {
        updates(self.words(), self.facts.history, subject, self.facts.now)
    }
}

/// The updates to an incident or an announcement, newest first.
fn updates(words: &Words, history: &History, subject: UpdateSubject, now: Time) -> Markup {
    let mut updates: Vec<&Update> = history.updates_of(subject).collect();
    updates.reverse();
    updates.truncate(MOST_UPDATES);
    html! {
        @if !updates.is_empty() {
            ol class="updates" reversed aria-label=(words.happenings.updates) {
                @for update in updates {
                    li {
                        p {
                            strong { ((words.happenings.phase)(update.phase)) }
                            " " span class="quiet" { (TimeFormat::Moment(now).element(words, update.posted)) }
                        }
                        @if !update.text.is_empty() { p class="lines" dir="auto" { (linked(&update.text)) } }
                    }
                }
            }
        }
    }
}

/// What the home page shows of them: the first ones, and in any case the next maintenance.
fn first_at_home<'a>(current: &[&'a Announcement]) -> Vec<&'a Announcement> {
    let (first, others) = current.split_at(current.len().min(MOST_AT_HOME));
    let mut shown = first.to_vec();
    let is_maintenance = |announcement: &&&Announcement| announcement.window.is_some();
    if !shown.iter().any(|announcement| is_maintenance(&announcement))
        && let (Some(last), Some(next)) = (shown.last_mut(), others.iter().find(is_maintenance))
    {
        *last = next;
    }
    shown
}

/// Current announcements on the home page: titles that link to the status page, or everything if that page is hidden.
pub(in crate::site) fn at_home(frame: &PageFrame<'_>, history: &History, now: Time) -> Markup {
    let (words, current) = (frame.words(), current(history, now));
    let links = frame.site.shows(SitePart::Status);
    html! {
        @if !current.is_empty() {
            section class="announcements" aria-label=(words.status.announcements) {
                @for announcement in if links { first_at_home(&current) } else { current } {
                    @let address = frame.site.path(&format!("/site/status#announcement-{}", announcement.id));
                    article class="card announcement short" {
                        h2 {
                            @if links { a href=(address) { bdi { (announcement.title) } } } @else { bdi { (announcement.title) } }
                            (chip(words, announcement, now))
                        }
                        (window(words, announcement, now))
                        @if !links {
                            @if !announcement.text.is_empty() { p class="lines" dir="auto" { (linked(&announcement.text)) } }
                            (updates(words, history, UpdateSubject::Announcement(announcement.id), now))
                        } @else if announcement.window.is_none() && !announcement.text.is_empty() {
                            p class="quiet" dir="auto" { (beginning(&announcement.text)) }
                        }
                    }
                }
            }
        }
    }
}

/// The first words of a text.
fn beginning(text: &str) -> String {
    if text.chars().count() <= MOST_LETTERS_AT_HOME {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MOST_LETTERS_AT_HOME).collect();
    let words = cut.rsplit_once(char::is_whitespace).map_or(cut.as_str(), |(words, _)| words);
    format!("{}…", words.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_after_a_word() {
        assert_eq!(beginning("Short."), "Short.");
        let long = "word ".repeat(100);
        let cut = beginning(&long);
        assert!(cut.chars().count() <= MOST_LETTERS_AT_HOME && cut.ends_with("word…"), "{cut}");
        assert_eq!(beginning(&"ä".repeat(200)).chars().count(), MOST_LETTERS_AT_HOME + 1);
    }
}
