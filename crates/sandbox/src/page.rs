//! The page for choosing who to sign in as, in place of the provider's consent screen.

use http::StatusCode;
use http::header::HeaderValue;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use reqwest::Url;

use super::api::SPECIAL_CODES;
use super::grants::{Challenge, Terms};
use super::people::Person;
use super::reply::{self, Reply};
use super::{SandboxState, control, pairs, query, value};

/// Longer values are refused, because all of them are shown on the page.
const LONGEST: usize = 2048;

/// The checked parameters of the page.
struct Ask {
    terms: Terms,
    redirect: Option<Url>,
    state: Option<String>,
}

/// Lists the people to choose from. With `choice`, redirects with that person's code; with `cancel`, with a refusal.
pub(super) fn authorize(state: &SandboxState, encoded: &str) -> Reply {
    let asked = pairs(encoded.as_bytes());
    if let Some(sent) = value(&asked, "redirect_uri").filter(|sent| is_unregistered(state, sent)) {
        return unregistered(state, sent);
    }
    let ask = match check(state, &asked) {
        Ok(ask) => ask,
        Err(problem) => return error(&problem),
    };
    if value(&asked, "cancel").is_some() {
        let refusal = [
            ("error", "access_denied"),
            ("error_description", "The resource owner or authorization server denied the request"),
        ];
        return ask
            .redirect
            .as_ref()
            .map_or_else(|| error("You cancelled the sign-in."), |to| send_back(to, &refusal, &ask));
    }
    let Some(choice) = value(&asked, "choice") else { return choose(state, &asked, &ask) };
    let Some(person) = state.person(choice) else { return error("There's no one with that name here.") };
    let code = state.grants.lock().issue_code(&person.name, ask.terms.clone(), state.options.clock.now());
    match &ask.redirect {
        Some(to) => send_back(to, &[("code", &code)], &ask),
        None => show_code(state, &person, &code),
    }
}

/// Redirects to an address of our own.
pub(super) fn redirect(to: &str) -> Reply {
    HeaderValue::try_from(to).map_or_else(|_| error("That address isn't valid."), reply::redirect)
}

fn check(state: &SandboxState, asked: &[(String, String)]) -> Result<Ask, String> {
    let ours = &state.options.client_id;
    if asked.iter().any(|(_, value)| value.len() > LONGEST) {
        return Err("This page's address is too long.".to_owned());
    }
    match value(asked, "client_id") {
        Some(id) if id == ours => {}
        Some(id) => {
            return Err(format!("Unknown application: client_id is “{id}”, but this sandbox only knows “{ours}”."));
        }
        None => return Err(format!("client_id is missing. This sandbox's application is “{ours}”.")),
    }
    let redirect = value(asked, "redirect_uri").map(address).transpose()?;
    match value(asked, "response_type") {
        Some("code") => {}
        Some(_) => return Err("response_type must be “code”.".to_owned()),
        None => return Err("response_type is missing. Use response_type=code.".to_owned()),
    }
    let Some(scope) = value(asked, "scope").filter(|scope| !scope.trim().is_empty()) else {
        return Err("scope is missing. Use scope=identify+guilds.".to_owned());
    };
    let challenge = match (value(asked, "code_challenge"), value(asked, "code_challenge_method")) {
        (None, _) => None,
        (Some(challenge), Some("S256")) => Some(Challenge::S256(challenge.to_owned())),
        (Some(challenge), None | Some("plain")) => Some(Challenge::Plain(challenge.to_owned())),
        (Some(_), Some(_)) => return Err("code_challenge_method must be “S256” or “plain”.".to_owned()),
    };
    let terms =
        Terms { scope: scope.to_owned(), redirect_uri: value(asked, "redirect_uri").map(str::to_owned), challenge };
    Ok(Ask { terms, redirect, state: value(asked, "state").map(str::to_owned) })
}

/// A redirect address that a browser may be sent to: no scripts, no files, nobody's password.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| {
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        matches!(url.scheme(), "http" | "https") && plain
    });
    url.ok_or_else(|| "redirect_uri must be a plain http or https address.".to_owned())
}

/// Whether an address is valid but not registered. Compares character by character, like the provider.
fn is_unregistered(state: &SandboxState, sent: &str) -> bool {
    sent.len() <= LONGEST && address(sent).is_ok() && !state.redirect_uris.lock().iter().any(|known| known == sent)
}

/// Shows what was sent, what is registered, and how to register another address.
fn unregistered(state: &SandboxState, sent: &str) -> Reply {
    let registered = state.redirect_uris.lock().clone();
    // A quote would end the quoted argument in the command.
    let example = if sent.contains('\'') { "URL" } else { sent };
    let body = html! {
        h1 { "This redirect address isn't registered" }
        p { "The link to this page has this " code { "redirect_uri" } ":" }
        (commands(sent))
        p { "These are registered. It must match one of them, character for character:" }
        ul {
            @for uri in &registered { li { code { (uri) } } }
            @if registered.is_empty() { li { "none" } }
        }
        p { "Use one of these or register another one. With " code { "dev" } ":" }
        (commands(&format!("bot-companion dev --redirect-uri '{example}'")))
        p {
            "In production, add it to the service's " code { "idp.redirect_uri" } " and its origin to "
            code { "http.allowed_origins" } ", and register the same address for your application with the provider."
        }
    };
    reply::page(StatusCode::BAD_REQUEST, document("Unknown redirect address", &body))
}

/// Long commands scroll, also by keyboard, so that no line breaks inside an option.
fn commands(text: &str) -> Markup {
    html! { pre tabindex="0" role="region" aria-label="Commands" { (text) } }
}

fn send_back(to: &Url, answer: &[(&str, &str)], ask: &Ask) -> Reply {
    let mut to = to.clone();
    to.query_pairs_mut().extend_pairs(answer).extend_pairs(ask.state.as_deref().map(|state| ("state", state)));
    redirect(to.as_str())
}

fn choose(state: &SandboxState, asked: &[(String, String)], ask: &Ask) -> Reply {
    let link = |name: &str, value: &str| {
        let kept = asked.iter().filter(|(key, _)| key != name).map(|(key, value)| (key.as_str(), value.as_str()));
        query("", kept.chain([(name, value)]))
    };
    let body = html! {
        h1 { "Who do you want to sign in as?" }
        p {
            "The application " code { (state.options.client_id) } " is asking for " code { (ask.terms.scope) } ". "
            @if let Some(to) = &ask.redirect {
                "You'll go back to " strong { (to.origin().ascii_serialization()) } "."
            } @else {
                "You'll get a code for the command line."
            }
        }
        ul {
            @for person in state.people.lock().iter() {
                @let shown = person.global_name.as_deref().unwrap_or(&person.username);
                li {
                    a class="person" href=(link("choice", &person.name)) {
                        span class={ "face hue" (provider::picture::default_number(person.id)) } aria-hidden="true" { (initial(shown)) }
                        span {
                            strong { bdi { (shown) } } " "
                            small { (person.name) " · @" (person.username) }
                            small { (person.about) }
                        }
                    }
                }
            }
        }
        @if ask.redirect.is_some() { p { a href=(link("cancel", "1")) { "Cancel" } } } @else { (command_line(state)) }
    };
    reply::page(StatusCode::OK, document("Choose a person", &body))
}

fn show_code(state: &SandboxState, person: &Person, code: &str) -> Reply {
    let body = html! {
        h1 { "A code for " bdi { (person.global_name.as_deref().unwrap_or(&person.username)) } }
        p { "It works once, within 100 seconds:" }
        (commands(&sign_in(state, code)))
        p class="soft" { "Go back to get another one." }
    };
    reply::page(StatusCode::OK, document("Your code", &body))
}

/// How to sign in without a browser.
fn command_line(state: &SandboxState) -> Markup {
    let each: String = state.people.lock().iter().map(|person| sign_in(state, &person.name) + "\n").collect();
    html! {
        h2 { "On the command line" }
        p { "Each name also works as a code, as often as you like:" }
        (commands(&each))
        p { "These codes cause errors. This is what the service gets from the sandbox:" }
        dl { @for (code, what) in SPECIAL_CODES { dt { code { (code) } } dd { (what) } } }
        p { a href=(control::PATH) { "Simulate other failures" } ": guild lists, sessions, the bot." }
    }
}

fn sign_in(state: &SandboxState, code: &str) -> String {
    let service = state.options.service_url.as_deref().unwrap_or("$SERVICE_URL");
    format!("curl -X POST \"{}/auth\" -H 'Idp-Code: {code}'", service.trim_end_matches('/'))
}

fn error(problem: &str) -> Reply {
    let body = html! {
        h1 { "That didn't work" }
        p { (problem) }
        p { a href="/" { "Choose a person" } }
    };
    reply::page(StatusCode::BAD_REQUEST, document("Error", &body))
}

pub(super) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · sandbox" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                main {
                    p class="tag" { "Sandbox: these people aren't real" }
                    (body)
                }
            }
        }
    };
    page.into_string()
}

fn initial(name: &str) -> String {
    name.chars().find(|character| character.is_alphanumeric()).unwrap_or('?').to_uppercase().collect()
}
