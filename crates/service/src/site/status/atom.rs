//! `/site/incidents.atom`: incidents and announcements as an Atom feed (RFC 4287).

use domain::Time;
use domain::history::History;
use maud::{Markup, PreEscaped, html};

use super::incidents::{Happening, affected, time_span};
use crate::site::calendar::TimeFormat;
use crate::site::{Language, Site};

/// The most entries.
const MOST: usize = 50;
const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";

/// The feed, most recently changed first.
pub fn feed(site: &Site, language: Language, history: &History, now: Time) -> String {
    let words = language.words();
    let incidents = history.incidents.iter().map(Happening::Incident);
    let mut entries: Vec<Happening<'_>> =
        incidents.chain(history.announcements.iter().map(Happening::Announcement)).collect();
    let updated = |entry: &Happening<'_>| updated(history, *entry, now);
    entries.sort_by_cached_key(|entry| std::cmp::Reverse(updated(entry)));
    entries.truncate(MOST);
    // An empty feed is as old as the build.
    let last = entries.first().map_or(site.built, updated);
    let name = legal(&site.config.name);
    html! {
        (PreEscaped(PROLOGUE))
        feed xmlns="http://www.w3.org/2005/Atom" xml:lang=(language.tag()) {
            id { (id(site, "incidents")) }
            title { ((words.status.feed_title)(&name)) }
            subtitle { (words.status.feed_subtitle) }
            updated { (last.iso8601()) }
            author { name { (name) } }
            @if let Some(address) = site.address("/site/incidents.atom") {
                link rel="self" type="application/atom+xml" href=(address) {}
            }
            @if let Some(address) = site.address("/site/status") {
                link rel="alternate" type="text/html" href=(address) {}
            }
            @for entry in entries { (self::entry(site, language, history, entry, now)) }
        }
    }
    .into_string()
}

fn entry(site: &Site, language: Language, history: &History, entry: Happening<'_>, now: Time) -> Markup {
    let words = language.words();
    let name = entry.subject().to_string();
    let span = || time_span(words, entry, now, false).into_string();
    let (title, mark, mut parts) = match entry {
        Happening::Incident(incident) => {
            let mark = if incident.ended.is_some() { words.status.over } else { words.status.ongoing };
            (affected(words, incident), mark, vec![span()])
        }
        Happening::Announcement(announcement) => {
            let window = announcement.window.map(|_| format!("{}: {}", words.happenings.maintenance, span()));
            let mark = (words.happenings.state)(announcement.state(now));
            (legal(&announcement.title), mark, window.into_iter().chain([legal(&announcement.text)]).collect())
        }
    };
    parts.extend(history.updates_of(entry.subject()).rev().map(|update| {
        let (phase, posted) = ((words.happenings.phase)(update.phase), TimeFormat::Date.utc(words, update.posted));
        format!("{phase} ({posted})\n{}", legal(&update.text)).trim_end().to_owned()
    }));
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        // Without a link, an entry must have content.
        parts.push(title.clone());
    }
    html! {
        entry {
            // Numbers may be reused after the last one is deleted; an entry's ID must not be.
            id { (id(site, &format!("{name}/{}", entry.known_since().seconds()))) }
            title { (title) " (" (mark) ")" }
            published { (entry.known_since().iso8601()) }
            updated { (updated(history, entry, now).iso8601()) }
            @if let Some(address) = site.address(&format!("/site/status#{name}")) {
                link rel="alternate" type="text/html" href=(address) {}
            }
            content type="text" { (parts.join("\n\n")) }
        }
    }
}

fn updated(history: &History, entry: Happening<'_>, now: Time) -> Time {
    let changed = match entry {
        Happening::Incident(incident) => incident.ended.unwrap_or(incident.began),
        Happening::Announcement(announcement) => announcement.changed(now),
    };
    history.updates_of(entry.subject()).map(|update| update.posted).fold(changed, Time::max)
}

/// A permanent ID. The public address makes it globally unique; without one, the bot's name has to do.
fn id(site: &Site, name: &str) -> String {
    site.address(&format!("/site/status#{name}")).unwrap_or_else(|| {
        let letters = site.config.name.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        format!("tag:bot-companion.invalid,2026:{}/{name}", letters.to_ascii_lowercase())
    })
}

/// Removes the characters that XML can't contain, not even escaped.
fn legal(text: &str) -> String {
    let is_legal = |letter: char| match letter {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => letter >= ' ',
    };
    text.chars().filter(|letter| is_legal(*letter)).collect()
}
