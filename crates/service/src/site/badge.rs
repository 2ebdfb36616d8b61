//! Badges: small pictures and JSON that other sites show.

use domain::Time;
use domain::health::is_silent;
use domain::history::BotState;
use maud::{Markup, html};
use serde::Serialize;

use super::Language;
use super::numbers::grouped;
use crate::views::site::SiteFacts;

/// A badge: a label, a message and a colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    label: &'static str,
    message: String,
    colour: BadgeColour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BadgeColour {
    Good,
    Middling,
    Bad,
    Plain,
}

impl BadgeColour {
    /// White text is readable on each of them.
    const fn hex(self) -> &'static str {
        match self {
            Self::Good => "#23783f",
            Self::Middling => "#8a5a00",
            Self::Bad => "#b3261e",
            Self::Plain => "#3a5fb0",
        }
    }
}

/// The JSON of an "endpoint badge", for shields.io and similar services.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointBadge<'a> {
    schema_version: u8,
    label: &'a str,
    message: &'a str,
    color: &'a str,
    is_error: bool,
}

impl Badge {
    /// The badge with this name, for a bot in this state; `None` if there is no such badge.
    pub fn named(name: &str, facts: &SiteFacts, state: Option<BotState>, now: Time) -> Option<Self> {
        let number = |number| grouped(number, Language::English.words());
        let (label, message, colour) = match name {
            "status" => match state {
                Some(BotState::Up) => ("bot", "up".to_owned(), BadgeColour::Good),
                Some(BotState::Partial) => ("bot", "partly up".to_owned(), BadgeColour::Middling),
                Some(BotState::Down) => ("bot", "down".to_owned(), BadgeColour::Bad),
                None => ("bot", "unknown".to_owned(), BadgeColour::Plain),
            },
            "shards" => {
                let (up, all) = shards_up(facts, now);
                let colour = match state {
                    None => BadgeColour::Plain,
                    Some(_) if up == all => BadgeColour::Good,
                    Some(_) if up == 0 => BadgeColour::Bad,
                    Some(_) => BadgeColour::Middling,
                };
                ("shards", format!("{up}/{all}"), colour)
            }
            "guilds" => ("servers", number(facts.stats.guilds), BadgeColour::Plain),
            _ => return None,
        };
        Some(Self { label, message, colour })
    }

    pub fn svg(&self) -> String {
        let Self { label, message, colour } = self;
        let (left, right) = (width(label), width(message));
        let whole = left + right;
        // A badge is XML, so every element needs an end tag.
        let text = |middle: u32, text: &str| -> Markup {
            html! { text x=(middle) y="14" { (text) } }
        };
        html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(whole) height="20" role="img" aria-label={ (label) ": " (message) } {
                title { (label) ": " (message) }
                clipPath id="round" { rect width=(whole) height="20" rx="4" {} }
                g clip-path="url(#round)" {
                    rect width=(left) height="20" fill="#3c4048" {}
                    rect x=(left) width=(right) height="20" fill=(colour.hex()) {}
                }
                g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" {
                    (text(left / 2, label))
                    (text(left + right / 2, message))
                }
            }
        }
        .into_string()
    }

    pub fn json(&self) -> Vec<u8> {
        let Self { label, message, colour } = self;
        let is_error = *colour == BadgeColour::Bad;
        let badge = EndpointBadge { schema_version: 1, label, message, color: colour.hex(), is_error };
        serde_json::to_vec(&badge).unwrap_or_default()
    }
}

/// How many shards are up, and how many there are.
fn shards_up(facts: &SiteFacts, now: Time) -> (usize, usize) {
    let shards = facts.health.shards.values();
    let up = shards.clone().filter(|shard| !is_silent(shard.reported, now)).count();
    (up, shards.count())
}

/// The approximate width of a text at this size in pixels, with padding on both sides.
fn width(text: &str) -> u32 {
    let tenths: u32 = text
        .chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | '.' | ',' | ' ' | '/' | '|' => 42,
            'm' | 'w' => 102,
            _ => 70,
        })
        .sum();
    tenths / 10 + 12
}

#[cfg(test)]
mod tests {
    use domain::Stats;

    use super::*;

    #[test]
    fn a_badge_is_a_picture_and_json() {
        let facts = SiteFacts { stats: Stats { guilds: 12_345, ..Stats::default() }, ..SiteFacts::default() };
        let badge = Badge::named("guilds", &facts, None, Time::default()).unwrap();
        let svg = badge.svg();
        assert!(
            svg.starts_with("<svg xmlns=")
                && svg.contains(">12,345</text>")
                && svg.contains("aria-label=\"servers: 12,345\"")
                && svg.matches("<rect").count() == svg.matches("</rect>").count()
        );
        let expected =
            r##"{"schemaVersion":1,"label":"servers","message":"12,345","color":"#3a5fb0","isError":false}"##;
        assert_eq!(String::from_utf8(badge.json()).unwrap(), expected);
        assert_eq!(Badge::named("status", &facts, None, Time::default()).unwrap().message, "unknown");
        assert_eq!(Badge::named("other", &facts, None, Time::default()), None);
    }
}
