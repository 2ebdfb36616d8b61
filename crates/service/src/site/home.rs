//! `/site/`: the bot's home page.

use domain::feedback::FeedbackEntry;
use domain::history::uptime::up_since;
use domain::history::{BotState, History, Observation};
use domain::{Health, Stats, TeamMember, Time};
use maud::{Markup, html};

use super::calendar::TimeFormat;
use super::features::Features;
use super::layout::{PageFrame, Section};
use super::numbers::{decimal, grouped};
use super::reference::markdown;
use super::status::at_home;
use super::{Language, Site, role_colours};
use crate::config::SitePart;
use crate::views::site::SiteFacts;

/// The lowest average that is shown among the numbers.
const GOOD_RATING: f64 = 4.0;

pub fn page(site: &Site, language: Language, facts: &SiteFacts, history: &History, now: Time) -> String {
    let frame = PageFrame {
        live: "status stats team feedback",
        ..PageFrame::new(site, language, Section::Home, "", &site.config.tagline)
    };
    let words = &frame.words().home;
    let shows = |part, has_any: bool| has_any && site.shows(part);
    let is_empty = facts.team.is_empty() && facts.reviews.is_empty() && facts.stats == Stats::default();
    frame.page(&html! {
        link rel="stylesheet" href=(site.path("/site/roles.css"));
        (hero(&frame))
        div class="wide stack" {
            (state(&frame, &facts.health, history, now))
            (at_home(&frame, history, now))
            (does(&frame))
            @if is_empty {
                p class="card empty" { (words.nothing_yet) }
            } @else {
                @if shows(SitePart::Numbers, true) { (numbers(&frame, facts.stats)) }
                @if shows(SitePart::Reviews, !facts.reviews.is_empty()) { (reviews(&frame, &facts.reviews, now)) }
                @if shows(SitePart::Team, !facts.team.is_empty()) { (team(&frame, &facts.team)) }
            }
        }
    })
}

fn hero(frame: &PageFrame<'_>) -> Markup {
    let (site, words) = (frame.site, &frame.words().home);
    html! {
        section class="hero" {
            div class="wide" {
                img class="face" src=(frame.icon()) alt="" width="96" height="96";
                h1 dir="auto" { (site.config.name) }
                @if !site.config.tagline.is_empty() { p class="tagline" dir="auto" { (site.config.tagline) } }
                p class="actions" {
                    @if let Some(invite) = &site.invite_url {
                        a class="button primary" href=(invite) rel="noopener noreferrer" { (words.invite) }
                    }
                    @if site.shows(SitePart::Dashboard) {
                        a class={ "button" @if site.invite_url.is_none() { " primary" } } href=(site.path("/site/dashboard")) { (words.open_dashboard) }
                    }
                }
            }
        }
    }
}

/// Whether the bot is up, as words and a shape.
fn state(frame: &PageFrame<'_>, health: &Health, history: &History, now: Time) -> Markup {
    let (words, shared) = (&frame.words().home, &frame.words().shared);
    let seen = frame.site.observe(health, now);
    let (shape, title, detail) = match &seen {
        Some(seen @ Observation { state: BotState::Up, .. }) => {
            let since = up_since(health, &history.incidents, seen);
            ("up", words.up, since.map(|since| (shared.up_for)(now.since(since))))
        }
        Some(Observation { state: BotState::Partial, silent, shard_count, .. }) => {
            let up = shard_count.saturating_sub(*silent);
            ("partial", words.partly_up, Some((shared.shards_up)(up.into(), (*shard_count).into())))
        }
        Some(Observation { state: BotState::Down, .. }) => {
            let age = health.report_age(now);
            ("down", words.down, age.map(|age| (words.last_seen)(&(shared.ago)(age))))
        }
        None => ("unknown", words.unknown, None),
    };
    html! {
        section class={ "card state " (shape) } aria-live="polite" {
            (shape_of(shape))
            div {
                h2 { (title) }
                @if let Some(detail) = detail { p { (detail) } }
            }
            @if frame.site.shows(SitePart::Status) { a href=(frame.site.path("/site/status")) { (words.see_status) } }
        }
    }
}

/// A sign that differs in shape, not only in colour: a check mark, an exclamation mark, a cross, a question mark.
pub(super) fn shape_of(shape: &str) -> Markup {
    let drawn = match shape {
        "up" => "M7 12.5l3.5 3.5L17 9",
        "partial" => "M12 6.5v7M12 16.5v.5",
        "down" => "M8 8l8 8M16 8l-8 8",
        _ => "M9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.4-1 .9-1 1.7M12 16.7v.3",
    };
    html! {
        svg class={ "shape " (shape) } viewBox="0 0 24 24" width="40" height="40" aria-hidden="true" {
            @match shape {
                "partial" => { path class="fill" d="M12 1.5L23.5 22H.5z" {} }
                "down" => { rect class="fill" x="1.5" y="1.5" width="21" height="21" rx="4" {} }
                _ => { circle class="fill" cx="12" cy="12" r="11" {} }
            }
            path class="line" d=(drawn) {}
        }
    }
}

/// What the bot does: the first sections of the operator's page about it.
fn does(frame: &PageFrame<'_>) -> Markup {
    let (site, words) = (frame.site, &frame.words().home);
    let sections = site.features.as_ref().map(Features::sections).unwrap_or_default();
    html! {
        @if !sections.is_empty() {
            section aria-labelledby="does" {
                h2 id="does" { (words.does) }
                ul class="does" {
                    @for (title, text) in &sections {
                        li class="card" { h3 dir="auto" { (title) } (markdown(site, text)) }
                    }
                }
                p class="does-more" { a href=(site.path("/site/features")) { (words.does_more) } }
            }
        }
    }
}

fn numbers(frame: &PageFrame<'_>, stats: Stats) -> Markup {
    let (words, all) = (&frame.words().home, frame.words());
    let shown = |number| grouped(number, all);
    html! {
        section aria-labelledby="numbers" {
            h2 id="numbers" { (words.numbers) }
            dl class="numbers" {
                (number(&shown(stats.guilds), (words.servers)(stats.guilds)))
                (number(&shown(stats.members), (words.members)(stats.members)))
                // Don't advertise a poor rating.
                @if let Some(average) = stats.ratings.average().filter(|average| *average >= GOOD_RATING) {
                    @let ratings = (words.ratings)(stats.ratings.count, &shown(stats.ratings.count));
                    (number(&decimal(average, all), &format!("{} · {ratings}", words.rating)))
                }
            }
        }
    }
}

pub(super) fn number(value: &str, label: &str) -> Markup {
    html! { div class="card number" { dt { (label) } dd { (value) } } }
}

fn reviews(frame: &PageFrame<'_>, reviews: &[FeedbackEntry], now: Time) -> Markup {
    // Full rows of three.
    let reviews = if reviews.len() < 3 { reviews } else { &reviews[..reviews.len() / 3 * 3] };
    let (words, shared) = (&frame.words().home, &frame.words().shared);
    html! {
        section aria-labelledby="reviews" {
            h2 id="reviews" { (words.reviews) }
            ul class="reviews" {
                @for review in reviews {
                    @let written = Time::from_seconds(review.timestamp);
                    li class="card review" {
                        p class="stars" role="img" aria-label=((words.stars)(review.rating)) {
                            @for star in 1..=5_u8 {
                                span class=[(star > review.rating).then_some("off")] aria-hidden="true" { "★" }
                            }
                        }
                        // A review that's taller than its card scrolls, also by keyboard.
                        blockquote dir="auto" tabindex=[is_long(&review.feedback).then_some("0")] { (review.feedback) }
                        p class="person" {
                            img src=(frame.site.pictures.safe(&review.submitter.avatar)) alt="" width="32" height="32" loading="lazy";
                            span {
                                bdi { (review.submitter.name) }
                                " "
                                time class="quiet" datetime=(written.iso8601()) data-format="ago"
                                    title=(TimeFormat::Date.utc(frame.words(), written)) { ((shared.ago)(now.since(written))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn is_long(text: &str) -> bool {
    text.chars().count() > 150 || text.lines().count() > 5
}

fn team(frame: &PageFrame<'_>, team: &[TeamMember]) -> Markup {
    html! {
        section aria-labelledby="team" {
            h2 id="team" { (frame.words().home.team) }
            ul class="team" {
                @for member in team {
                    li class="card member" {
                        img src=(frame.site.pictures.safe(&member.avatar)) alt="" width="48" height="48" loading="lazy";
                        div {
                            p class="name" { bdi { (member.name) } }
                            p class={ "role " (role_colours::role_class(&member.color).unwrap_or_default()) } { bdi { (member.role) } }
                        }
                    }
                }
            }
        }
    }
}
