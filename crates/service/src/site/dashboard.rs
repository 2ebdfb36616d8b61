//! `/site/dashboard`: a user's servers. The page is a frame that `assets/dashboard.js` fills.

use domain::{Permission, Picture};
use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value};

use super::home::shape_of;
use super::layout::{PageFrame, Section};
use super::words::dashboard::DashboardWords;
use super::{Language, Site, assets};
use crate::config::{IdpConfig, SitePart, origin_of};

/// The page's path, under the base path.
pub const PATH: &str = "/site/dashboard";

/// The client. Its address contains a hash that the script can't know, so the page passes it on (`data-client`). Loading it alongside
/// the script saves a round trip.
const CLIENT: &str = "companion.js";

/// Keys that describe a server, the same for everyone. They aren't permissions.
const SERVER_FACTS: [Permission; 3] = [Permission::Setup, Permission::ErlcLinked, Permission::ServicePlusGuild];
/// Keys that describe a person in every server, in addition to those of the bot's team.
const PERSON_FACTS: [Permission; 1] = [Permission::ServicePlusMember];

/// How many empty cards stand for the list while it's loading.
const SKELETONS: usize = 4;

/// Whether users can sign in on the page at the requested address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignIn {
    Ready,
    /// Only at this address.
    At(String),
    /// No redirect address points to it.
    NotSetUp,
}

/// Whether users can sign in on the page at this host: whether the redirect address from `GET /auth` leads back to it.
pub fn sign_in_at(site: &Site, idp: &IdpConfig, host: &str) -> SignIn {
    let page = site.path(PATH);
    let leads_to_page = |uri: &str| leads_to(uri, &page);
    let is_here = |uri: &str| {
        let origin = origin_of(uri).unwrap_or_default();
        let public = site.config.url.as_deref().and_then(origin_of);
        origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
            // A proxy may have changed the host.
            || public.is_some_and(|public| public == origin)
    };
    if idp.redirect_uri_at(host).is_some_and(|uri| leads_to_page(uri) && is_here(uri)) {
        return SignIn::Ready;
    }
    let elsewhere = idp.redirect_uri.iter().find(|uri| leads_to_page(uri));
    elsewhere.map_or(SignIn::NotSetUp, |uri| SignIn::At(uri.clone()))
}

/// Whether an address has exactly this path.
pub fn leads_to(uri: &str, path: &str) -> bool {
    let own = uri.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
    own == Some(path)
}

pub fn page(site: &Site, language: Language, sign_in: &SignIn) -> String {
    let title = language.words().shared.dashboard;
    let words = &language.words().dashboard;
    let frame = PageFrame {
        scripts: if *sign_in == SignIn::Ready { &[CLIENT, "dashboard.js"] } else { &[] },
        ..PageFrame::new(site, language, Section::Dashboard, title, words.description)
    };
    // By convention, the operator's first link is where people can reach the team.
    let contact = site.config.links.first();
    frame.page(&html! {
        div id="dashboard" class="wide stack dashboard" data-pictures=(site.pictures.allowed())
            data-default-picture=(site.pictures.safe(&Picture::default()))
            data-manage=[&site.config.manage_url] data-client=(site.path(&assets::path(CLIENT)))
            data-contact=[contact.map(|link| &link.label)] data-contact-url=[contact.map(|link| &link.url)] {
            div {
                h1 { (title) }
                p id="problem" class="message bad" role="alert" {}
                p id="notice" class="message" role="status" {}
                p id="announcement" class="visually-hidden" role="status" {}
            }
            @match sign_in {
                SignIn::Ready => {
                    (without_script(&frame))
                    p id="loading" class="quiet needs-script" { (words.loading) }
                    (signed_out(words))
                    div id="signed-in" class="stack" hidden {
                        (person(words))
                        (views(&frame))
                        div id="view-servers" class="stack" {
                            (servers(&frame))
                            (missing(words))
                        }
                        div id="view-add" hidden { (invitable(words)) }
                        div id="view-sessions" hidden { (sessions(words)) }
                    }
                    script type="application/json" id="words" { (PreEscaped(script_words(words))) }
                }
                SignIn::At(_) | SignIn::NotSetUp => (not_set_up(site, words, sign_in)),
            }
        }
    })
}

/// The script's words, as JSON that can't close the element around it.
fn script_words(words: &DashboardWords) -> String {
    let permissions: Map<String, Value> =
        Permission::ALL.into_iter().map(|key| (key.name().to_owned(), (words.permission)(key).into())).collect();
    let mut all = serde_json::to_value(&words.script).unwrap_or_default();
    all["permissionNames"] = permissions.into();
    all["serverFacts"] = SERVER_FACTS.map(Permission::name).to_vec().into();
    all["personFacts"] = Permission::TEAM.into_iter().chain(PERSON_FACTS).map(Permission::name).collect();
    all.to_string().replace('<', "\\u003c")
}

fn without_script(frame: &PageFrame<'_>) -> Markup {
    let site = frame.site;
    let words = &frame.words().dashboard;
    let shared = &frame.words().shared;
    html! {
        noscript {
            div class="card prose" {
                h2 { (words.needs_script) }
                p { (words.needs_script_why) }
                ul class="plain-links" {
                    li { a href=(site.path("/site/")) { (shared.home) } }
                    @if site.shows(SitePart::Status) { li { a href=(site.path("/site/status")) { (shared.status) } } }
                    @if site.shows(SitePart::Docs) { li { a href=(site.path("/docs")) { (shared.reference) } } }
                }
            }
        }
    }
}

/// What the operator has to do.
fn not_set_up(site: &Site, words: &DashboardWords, sign_in: &SignIn) -> Markup {
    html! {
        section id="not-set-up" class="card prose" {
            h2 { (words.not_set_up) }
            @if let SignIn::At(address) = sign_in {
                p { (words.works_at) " " a href=(address) { (address) } }
            }
            p {
                (words.operator_adds.0)
                @match site.address(PATH) {
                    Some(address) => code { (address) },
                    None => (words.this_pages_address),
                }
                (words.operator_adds.1)
            }
        }
    }
}

fn signed_out(words: &DashboardWords) -> Markup {
    html! {
        section id="signed-out" class="card welcome" aria-labelledby="sign-in-title" hidden {
            h2 id="sign-in-title" { (words.sign_in_title) }
            ul class="gives" {
                @for line in words.sign_in_gives {
                    li { (shape_of("up")) span { (line) } }
                }
            }
            p { button id="sign-in" class="button primary" type="button" { (words.sign_in) } }
            p class="quiet" { (words.sign_in_privacy) }
        }
    }
}

fn person(words: &DashboardWords) -> Markup {
    html! {
        section id="person" class="card who" aria-label=(words.you) {
            img id="avatar" class="round" alt="" width="56" height="56";
            div class="grow" {
                p class="name clamp" { bdi id="person-name" {} }
                p class="quiet clamp" { bdi id="person-username" {} }
                ul id="person-facts" class="chips" {}
            }
            button id="sign-out" class="button" type="button" { (words.sign_out) }
        }
    }
}

/// Links to the page's views. Their fragments aren't element IDs, so that opening a view doesn't scroll.
fn views(frame: &PageFrame<'_>) -> Markup {
    let words = &frame.words().dashboard;
    html! {
        nav id="views" class="views" aria-label=(frame.title) {
            ul {
                li {
                    a href="#my-servers" data-view="view-servers" {
                        span { (words.servers) } " " span id="servers-count" class="chip" {}
                    }
                }
                li {
                    a href="#add-bot" data-view="view-add" {
                        span { (words.invitable) } " " span id="invitable-count" class="chip" {}
                    }
                }
                li { a href="#my-sessions" data-view="view-sessions" { span { (words.sessions_short) } } }
            }
        }
    }
}

fn servers(frame: &PageFrame<'_>) -> Markup {
    let words = &frame.words().dashboard;
    html! {
        section id="servers-section" aria-labelledby="servers-title" {
            h2 id="servers-title" class="visually-hidden" tabindex="-1" { (words.servers) }
            p id="bot-silent" class="message warn" role="status" hidden { (words.bot_silent) }
            div id="servers-failed" class="message bad" role="alert" hidden {
                p id="servers-problem" {}
                button id="try-again" class="button small" type="button" { (frame.words().shared.try_again) }
            }
            div id="search-row" class="search-row" hidden {
                label class="visually-hidden" for="search" { (words.search) }
                input id="search" type="search" autocomplete="off" spellcheck="false" maxlength="200" placeholder=(words.search);
                p id="matches" class="quiet" role="status" {}
            }
            div id="servers-loading" class="servers" hidden {
                p class="visually-hidden" { (words.loading) }
                @for _ in 0..SKELETONS { div class="card server skeleton" aria-hidden="true" {} }
            }
            ul id="servers" class="servers" aria-labelledby="servers-title" {}
            button id="more-servers" class="button more" type="button" hidden {}
            p id="no-matches" hidden { button id="why-missing" class="button small" type="button" { (words.missing) } }
            div id="no-servers" class="card empty" hidden {
                h3 { (words.no_servers) }
                p { (words.no_servers_what) }
                @if let Some(invite) = &frame.site.invite_url {
                    p { a class="button primary" href=(invite) target="_blank" rel="noopener noreferrer" { (words.invite) } }
                }
            }
            p id="list-row" class="list-row quiet" hidden {
                span id="list-age" {}
                " "
                button id="refresh" class="button small" type="button" { (words.refresh) }
                " "
                span id="list-state" role="status" {}
            }
        }
    }
}

fn invitable(words: &DashboardWords) -> Markup {
    html! {
        section id="invitable-section" aria-labelledby="invitable-title" {
            h2 id="invitable-title" class="visually-hidden" tabindex="-1" { (words.invitable) }
            p id="invitable-what" class="quiet" { (words.invitable_what) }
            p id="none-invitable" class="card empty" hidden { (words.none_invitable) }
            ul id="invitable" class="servers" aria-labelledby="invitable-title" {}
            button id="more-invitable" class="button more" type="button" hidden {}
        }
    }
}

fn missing(words: &DashboardWords) -> Markup {
    html! {
        details id="missing-section" class="missing-why" {
            summary { (words.missing) }
            div class="card" {
                form id="missing" class="ask" {
                    label for="missing-server" { (words.missing_label) }
                    div class="ask-row" {
                        input id="missing-server" type="text" autocomplete="off" spellcheck="false" maxlength="200" required;
                        button class="button" type="submit" { (words.missing_ask) }
                    }
                }
                div id="missing-answer" class="prose" role="status" {}
            }
        }
    }
}

fn sessions(words: &DashboardWords) -> Markup {
    html! {
        section id="sessions-section" aria-labelledby="sessions-title" {
            h2 id="sessions-title" tabindex="-1" { (words.sessions) }
            p class="quiet" { (words.sessions_what) }
            p id="sessions-problem" class="message bad" role="alert" {}
            ul id="sessions" class="card sessions" aria-labelledby="sessions-title" {}
            p class="list-row" {
                button id="sign-out-everywhere" class="button" type="button" { (words.sign_out_everywhere) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_words_cannot_end_their_element_and_are_the_same_in_each_language() {
        fn keys(value: &Value, path: &str, into: &mut Vec<String>) {
            match value.as_object() {
                Some(fields) => fields.iter().for_each(|(name, value)| keys(value, &format!("{path}.{name}"), into)),
                None => into.push(path.to_owned()),
            }
        }
        let mut found = Vec::new();
        for language in Language::ALL {
            let text = script_words(&language.words().dashboard);
            assert!(!text.contains('<'), "{text}");
            let mut names = Vec::new();
            let parsed: Value = serde_json::from_str(&text).unwrap();
            keys(&parsed, "", &mut names);
            assert_eq!(parsed["permissionNames"].as_object().unwrap().len(), Permission::ALL.len());
            // The same placeholders.
            let mut places: Vec<_> = text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).collect();
            places.retain(|(name, _)| name.chars().all(|letter| letter.is_ascii_lowercase()));
            let mut places: Vec<_> = places.into_iter().map(|(name, _)| name.to_owned()).collect();
            places.sort();
            found.push((names, places));
        }
        assert_eq!(found[0], found[1]);
    }
}
