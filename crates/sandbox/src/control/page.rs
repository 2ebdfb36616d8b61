//! The page of the switches: only forms, so it works without scripts.

use http::StatusCode;
use http::header::{self, HeaderMap};
use maud::{Markup, html};

use super::routes::PATH;
use super::switches::{About, Act, Switch, Target};
use super::{Positions, Reach};
use crate::page::document;
use crate::people::Person;
use crate::reply::{self, Reply};

/// How many people to offer; a load test brings thousands.
const CHOICES: usize = 100;

/// The switches, with what just went wrong.
pub(super) fn list(
    people: &[Person],
    on: &Positions,
    headers: &HeaderMap,
    problem: Option<(StatusCode, &str)>,
) -> Reply {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:8081");
    let body = html! {
        h1 { "Simulate failures" }
        p {
            "See what your dashboard does when things go wrong. A switch takes effect with the service's next response."
        }
        @if let Some((_, problem)) = problem { p class="problem" role="alert" { (problem) } }
        form method="post" action=(PATH) {
            p {
                "On now: " strong { (summary(on)) } ". " button name="to" value="all-off" { "Turn everything off" }
            }
        }
        h2 { "Switches" }
        @for switch in Switch::ALL { (section(people, switch.about(), on.get(&switch), host)) }
        h2 { "One-time actions" }
        @for act in Act::ALL { (once(people, act.about(), host)) }
        p { a href="/" { "Choose who to sign in as" } }
    };
    let status = problem.map_or(StatusCode::OK, |(status, _)| status);
    reply::form_page(status, document("Simulate failures", &body))
}

fn summary(on: &Positions) -> String {
    let shown = on.iter().map(|(switch, reach)| format!("{}{}", switch.about().name, whom(reach)));
    let all = shown.collect::<Vec<_>>().join(", ");
    if all.is_empty() { "nothing".to_owned() } else { all }
}

fn whom(reach: &Reach) -> String {
    if reach.everybody {
        return String::new();
    }
    format!(" for {}", reach.people.iter().map(String::as_str).collect::<Vec<_>>().join(" and "))
}

fn section(people: &[Person], about: About, reach: Option<&Reach>, host: &str) -> Markup {
    let state = reach.map_or_else(|| "off".to_owned(), |reach| format!("on{}", whom(reach)));
    let person = if about.target == Target::Person { "/owner" } else { "" };
    html! {
        section id=(about.name) {
            h3 { (about.title) " " span class={ "state" @if reach.is_some() { " on" } } { (state) } }
            p class="soft" { (about.shows) }
            @if reach.is_some_and(|reach| reach.everybody) {
                (form(about, &html! {}, "off", "Turn off"))
            } @else {
                @for name in reach.iter().flat_map(|reach| &reach.people) {
                    @let hidden = html! { input type="hidden" name="person" value=(name); };
                    (form(about, &hidden, "off", &format!("Turn off for {name}")))
                }
                (form(about, &chooser(people, about), "on", "Turn on"))
            }
            p { code { "curl -X PUT http://" (host) (PATH) "/" (about.name) (person) } }
        }
    }
}

fn once(people: &[Person], about: About, host: &str) -> Markup {
    html! {
        section id=(about.name) {
            h3 { (about.title) }
            p class="soft" { (about.shows) }
            (form(about, &chooser(people, about), "now", "Do it now"))
            p { code { "curl -X POST http://" (host) (PATH) "/" (about.name) "/owner" } }
        }
    }
}

fn form(about: About, fields: &Markup, to: &str, label: &str) -> Markup {
    html! {
        form method="post" action=(PATH) {
            input type="hidden" name="switch" value=(about.name);
            (fields) " "
            button name="to" value=(to) aria-label={ (label) ": " (about.title) } { (label) }
        }
    }
}

/// A choice of people, if there is one.
fn chooser(people: &[Person], about: About) -> Markup {
    html! {
        @if about.target != Target::Everybody {
            label {
                "For "
                select name="person" {
                    @if about.target == Target::Either { option value="" { "everybody" } }
                    @for person in people.iter().take(CHOICES) { option { (person.name) } }
                }
            }
        }
    }
}
