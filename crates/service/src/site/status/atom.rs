//! `/site/incidents.atom`: incidents and announcements as an Atom feed (RFC 4287).

use domain::Time;
use domain::history::History;
use maud::{Markup, PreEscaped, html};

use super::incidents::{Happening, affected, time_span};
use crate::site::{Language, Site};

/// The most entries.
const MOST: usize = 50;
const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";

/// The feed, most recently changed first.
pub fn feed(site: &Site, language: Language, history: &History) -> String {
    let words = language.words();
    let incidents = history.incidents.iter().map(Happening::Incident);
    let mut entries: Vec<Happening<'_>> =
        incidents.chain(history.announcements.iter().map(Happening::Announcement)).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(updated(*entry)));
    entries.truncate(MOST);
    // An empty feed is as old as the build.
    let updated = entries.first().map_or(site.built, |entry| updated(*entry));
    let name = legal(&site.config.name);
    html! {
        (PreEscaped(PROLOGUE))
        feed xmlns="http://www.w3.org/2005/Atom" xml:lang=(language.tag()) {
            id { (id(site, "incidents")) }
            title { ((words.status.feed_title)(&name)) }
            subtitle { (words.status.feed_subtitle) }
            updated { (updated.iso8601()) }
            author { name { (name) } }
            @if let Some(address) = site.address("/site/incidents.atom") {
                link rel="self" type="application/atom+xml" href=(address) {}
            }
            @if let Some(address) = site.address("/site/status") {
                link rel="alternate" type="text/html" href=(address) {}
            }
            @for entry in entries { (self::entry(site, language, entry)) }
        }
    }
    .into_string()
}

fn entry(site: &Site, language: Language, entry: Happening<'_>) -> Markup {
    let words = language.words();
    let (name, title, mut text) = match entry {
        Happening::Incident(incident) => (
            format!("incident-{}", incident.id),
            affected(words, incident),
            time_span(words, entry, None).into_string(),
        ),
        Happening::Announcement(announcement) => {
            (format!("announcement-{}", announcement.id), legal(&announcement.title), legal(&announcement.text))
        }
    };
    if text.is_empty() {
        // Without a link, an entry must have content.
        text.clone_from(&title);
    }
    let mark = if entry.ended().is_some() { words.status.over } else { words.status.ongoing };
    html! {
        entry {
            // Numbers may be reused after the last one is deleted; an entry's ID must not be.
            id { (id(site, &format!("{name}/{}", entry.began().seconds()))) }
            title { (title) " (" (mark) ")" }
            published { (entry.began().iso8601()) }
            updated { (updated(entry).iso8601()) }
            @if let Some(address) = site.address(&format!("/site/status#{name}")) {
                link rel="alternate" type="text/html" href=(address) {}
            }
            content type="text" { (text) }
        }
    }
}

fn updated(entry: Happening<'_>) -> Time {
    entry.ended().unwrap_or_else(|| entry.began())
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
