//! `/control`: the switches over HTTP. `GET` lists them, as a page for browsers and as JSON for everything else. `PUT` and
//! `DELETE` of `/control/SWITCH` or `/control/SWITCH/PERSON` turn them on and off, `DELETE` of `/control` turns everything off,
//! and `POST` of `/control/ACT/PERSON` does something once. The page's forms, which cannot `PUT`, send a `POST` of `/control`.

use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::switches::{About, Act, Switch, Target};
use super::{Positions, Reach, act, page};
use crate::people::Person;
use crate::reply::{self, Reply};
use crate::{SandboxState, pairs, value};

pub(crate) const PATH: &str = "/control";

/// Why something cannot be done: a status and a sentence.
pub(super) type NotSwitched = (StatusCode, String);

/// Answers a request for this path, which starts with [`PATH`].
pub(crate) async fn answer(state: &SandboxState, head: &Parts, body: &[u8]) -> Reply {
    let rest = head.uri.path().strip_prefix(PATH).unwrap_or_default();
    let reading = matches!(head.method, Method::GET | Method::HEAD);
    if !reading && !is_from_here(&head.headers) {
        let why = "Only the sandbox's own page and command-line tools can use the switches, not other pages.";
        return refuse((StatusCode::FORBIDDEN, why.to_owned()));
    }
    let people = state.people.lock().clone();
    let for_page = wants_page(&head.headers);
    match (&head.method, rest) {
        (&Method::GET | &Method::HEAD, "") => match state.control.positions(&people).await {
            Ok(on) if for_page => page::list(&people, &on, &head.headers, None),
            Ok(on) => reply::json(StatusCode::OK, &listing(&on)),
            Err(problem) => refuse((StatusCode::SERVICE_UNAVAILABLE, problem)),
        },
        (&Method::POST, "") => match submitted(state, &people, &pairs(body)).await {
            Ok(name) => see(name),
            Err((status, problem)) => {
                let on = state.control.positions(&people).await.unwrap_or_default();
                page::list(&people, &on, &head.headers, Some((status, &problem)))
            }
        },
        (&Method::DELETE, "") => match state.control.reset(&people).await {
            Ok(()) => reply::json(StatusCode::OK, &listing(&Positions::new())),
            Err(problem) => refuse((StatusCode::CONFLICT, problem)),
        },
        (method, rest) => changed(state, &people, method, rest).await.unwrap_or_else(refuse),
    }
}

/// A change through its path.
async fn changed(state: &SandboxState, people: &[Person], method: &Method, rest: &str) -> Result<Reply, NotSwitched> {
    let (name, person) = rest
        .trim_start_matches('/')
        .split_once('/')
        .map_or_else(|| (rest.trim_start_matches('/'), None), |(name, person)| (name, Some(person)));
    let person = person.map(|name| find(people, name)).transpose()?;
    let wrong_method = |allowed| (StatusCode::METHOD_NOT_ALLOWED, format!("Send {allowed}."));
    if let Some(act) = Act::named(name) {
        if *method != Method::POST {
            return Err(wrong_method("POST"));
        }
        perform(state, act, person).await?;
        return Ok(reply::json(StatusCode::OK, &about(act.about())));
    }
    let switch = Switch::named(name).ok_or_else(|| unknown(name))?;
    let to = match *method {
        Method::PUT => true,
        Method::DELETE => false,
        _ => return Err(wrong_method("PUT to turn it on or DELETE to turn it off")),
    };
    turn(state, people, switch, person, to).await?;
    let on = state.control.positions(people).await.map_err(|problem| (StatusCode::SERVICE_UNAVAILABLE, problem))?;
    Ok(reply::json(StatusCode::OK, &position(switch, on.get(&switch))))
}

/// A change through the page's form. Returns the name of what was changed.
async fn submitted(
    state: &SandboxState,
    people: &[Person],
    form: &[(String, String)],
) -> Result<&'static str, NotSwitched> {
    let (name, to) = (value(form, "switch").unwrap_or_default(), value(form, "to").unwrap_or_default());
    let named = value(form, "person").filter(|name| !name.is_empty());
    let person = named.map(|name| find(people, name)).transpose()?;
    if to == "all-off" {
        state.control.reset(people).await.map_err(|problem| (StatusCode::CONFLICT, problem))?;
        return Ok("");
    }
    if let Some(act) = Act::named(name) {
        perform(state, act, person).await?;
        return Ok(act.about().name);
    }
    let switch = Switch::named(name).ok_or_else(|| unknown(name))?;
    turn(state, people, switch, person, to == "on").await?;
    Ok(switch.about().name)
}

async fn turn(
    state: &SandboxState,
    people: &[Person],
    switch: Switch,
    person: Option<&Person>,
    to: bool,
) -> Result<(), NotSwitched> {
    let About { name, target, .. } = switch.about();
    match (target, person) {
        (Target::Everybody, Some(_)) => {
            return Err((StatusCode::BAD_REQUEST, format!("{name} applies to everybody. Leave the person out.")));
        }
        (Target::Person, None) => return Err(nobody_named(name, people)),
        _ => {}
    }
    let done = state.control.set(people, switch, person, to).await;
    done.map_err(|problem| (StatusCode::CONFLICT, problem))
}

async fn perform(state: &SandboxState, what: Act, person: Option<&Person>) -> Result<(), NotSwitched> {
    let people = state.people.lock().clone();
    let person = person.ok_or_else(|| nobody_named(what.about().name, &people))?;
    act(state, what, person).await.map_err(|problem| (StatusCode::CONFLICT, problem))
}

fn find<'a>(people: &'a [Person], name: &str) -> Result<&'a Person, NotSwitched> {
    let found = people.iter().find(|person| person.name == name);
    found.ok_or_else(|| {
        (StatusCode::NOT_FOUND, format!("There's no one with that name. Choose one of: {}.", names(people)))
    })
}

fn nobody_named(what: &str, people: &[Person]) -> NotSwitched {
    (StatusCode::BAD_REQUEST, format!("Name a person: {PATH}/{what}/PERSON. Choose one of: {}.", names(people)))
}

fn unknown(name: &str) -> NotSwitched {
    let all = Switch::ALL.map(|switch| switch.about().name).into_iter().chain(Act::ALL.map(|act| act.about().name));
    let known = all.collect::<Vec<_>>().join(", ");
    (StatusCode::NOT_FOUND, format!("There's no switch “{name}”. Choose one of: {known}."))
}

fn names(people: &[Person]) -> String {
    people.iter().take(20).map(|person| person.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Everything, as listed by `GET`.
fn listing(on: &Positions) -> Value {
    let switches: Vec<Value> = Switch::ALL.iter().map(|switch| position(*switch, on.get(switch))).collect();
    let acts: Vec<Value> = Act::ALL.iter().map(|act| about(act.about())).collect();
    json!({ "switches": switches, "acts": acts })
}

fn position(switch: Switch, reach: Option<&Reach>) -> Value {
    let mut shown = about(switch.about());
    shown["on"] = reach.is_some().into();
    shown["people"] = reach.map(|reach| reach.people.iter().cloned().collect::<Vec<_>>()).unwrap_or_default().into();
    shown
}

fn about(about: About) -> Value {
    let target = match about.target {
        Target::Everybody => "everybody",
        Target::Person => "a person",
        Target::Either => "everybody or a person",
    };
    json!({ "name": about.name, "for": target, "shows": about.shows })
}

fn refuse((status, problem): NotSwitched) -> Reply {
    reply::json(status, &json!({ "error": problem }))
}

/// Sends the browser back to the page, to what was changed.
fn see(name: &str) -> Reply {
    let to = HeaderValue::try_from(format!("{PATH}#{name}")).unwrap_or(HeaderValue::from_static(PATH));
    let mut reply = reply::redirect(to);
    *reply.status_mut() = StatusCode::SEE_OTHER;
    reply
}

fn wants_page(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept.to_str().is_ok_and(|text| text.contains("text/html")))
}

/// Whether a change comes from the sandbox's own page or from no page at all. Any page may send a form here, so this must be
/// checked: a browser names its page in `Sec-Fetch-Site`, an old one in `Origin`, a command line in neither.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    match (text("sec-fetch-site"), text("origin"), text("host")) {
        (Some(site), ..) => matches!(site, "same-origin" | "none"),
        (None, Some(origin), Some(host)) => origin.strip_prefix("http://") == Some(host),
        (None, Some(_), None) => false,
        (None, None, _) => true,
    }
}
