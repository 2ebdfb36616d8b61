//! The page on which one chooses whom to sign in as: the provider's consent screen, in short.

use std::fmt::Write as _;

use http::StatusCode;
use http::header::HeaderValue;
use reqwest::Url;

use super::api::SPECIAL_CODES;
use super::grants::{Challenge, Terms};
use super::people::Person;
use super::reply::{self, Reply};
use super::{SandboxState, control, pairs, query, value};

/// Nobody's address or state is longer, and everything here comes back on the page.
const LONGEST: usize = 2048;

/// Commands; a long one is scrolled, also by keyboard, so that no line breaks inside an option.
const PRE: &str = "<pre tabindex=\"0\" role=\"region\" aria-label=\"Commands\">";

/// What the page was asked for, checked.
struct Ask {
    terms: Terms,
    redirect: Option<Url>,
    state: Option<String>,
}

/// Shows who there is; with `choice`, sends that person's code on its way; with `cancel`, a refusal.
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
        return ask.redirect.as_ref().map_or_else(|| error("Nobody signed in."), |to| send_back(to, &refusal, &ask));
    }
    let Some(choice) = value(&asked, "choice") else { return choose(state, &asked, &ask) };
    let Some(person) = state.person(choice) else { return error("There is nobody of that name here.") };
    let code = state.grants.lock().issue_code(&person.name, ask.terms.clone(), state.options.clock.now());
    match &ask.redirect {
        Some(to) => send_back(to, &[("code", &code)], &ask),
        None => show_code(state, &person, &code),
    }
}

/// Leads to an address of our own.
pub(super) fn redirect(to: &str) -> Reply {
    HeaderValue::try_from(to).map_or_else(|_| error("That address cannot be used."), reply::redirect)
}

fn check(state: &SandboxState, asked: &[(String, String)]) -> Result<Ask, String> {
    let ours = &state.options.client_id;
    if asked.iter().any(|(_, value)| value.len() > LONGEST) {
        return Err("The address of this page is too long.".to_owned());
    }
    match value(asked, "client_id") {
        Some(id) if id == ours => {}
        Some(id) => {
            return Err(format!("Unknown application: client_id is “{id}”, but this sandbox only knows “{ours}”."));
        }
        None => return Err(format!("client_id is missing; this sandbox knows the application “{ours}”.")),
    }
    let redirect = value(asked, "redirect_uri").map(address).transpose()?;
    match value(asked, "response_type") {
        Some("code") => {}
        Some(_) => return Err("response_type must be “code”.".to_owned()),
        None => return Err("response_type is missing; write response_type=code.".to_owned()),
    }
    let Some(scope) = value(asked, "scope").filter(|scope| !scope.trim().is_empty()) else {
        return Err("scope is missing; write scope=identify+guilds.".to_owned());
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

/// Whether an address could be sent to but is not registered. The provider compares letter by letter, and so does this.
fn is_unregistered(state: &SandboxState, sent: &str) -> bool {
    sent.len() <= LONGEST && address(sent).is_ok() && !state.redirect_uris.lock().iter().any(|known| known == sent)
}

/// Says what was sent, what is registered, and how to register another.
fn unregistered(state: &SandboxState, sent: &str) -> Reply {
    let mut registered = String::new();
    for uri in state.redirect_uris.lock().iter() {
        let _ = writeln!(registered, "<li><code>{}</code></li>", escape(uri));
    }
    // Quotes would not survive in a command line.
    let example = if sent.contains('\'') { "URL" } else { sent };
    let body = format!(
        "<h1>This redirect address is not registered</h1>\n<p>The link to this page has the <code>redirect_uri</code></p>\n\
         {PRE}{sent}</pre>\n<p>These are registered, and they are compared letter by letter:</p>\n<ul>\n{}</ul>\n\
         <p>Send one of these, or register another. With <code>dev</code>:</p>\n\
         {PRE}bot-companion dev --redirect-uri '{}'</pre>\n\
         <p>In production it stands in <code>idp.redirect_uri</code> of the service, its origin in \
         <code>http.allowed_origins</code>, and the same address among the redirects of your application at the provider.</p>",
        if registered.is_empty() { "<li>none</li>\n" } else { &registered },
        escape(example),
        sent = escape(sent),
    );
    reply::page(StatusCode::BAD_REQUEST, document("Unknown redirect address", &body))
}

fn send_back(to: &Url, answer: &[(&str, &str)], ask: &Ask) -> Reply {
    let mut to = to.clone();
    to.query_pairs_mut().extend_pairs(answer).extend_pairs(ask.state.as_deref().map(|state| ("state", state)));
    redirect(to.as_str())
}

fn choose(state: &SandboxState, asked: &[(String, String)], ask: &Ask) -> Reply {
    let link = |name: &str, value: &str| {
        let kept = asked.iter().filter(|(key, _)| key != name).map(|(key, value)| (key.as_str(), value.as_str()));
        escape(&query("", kept.chain([(name, value)])))
    };
    let mut list = String::new();
    for person in state.people.lock().iter() {
        let shown = person.global_name.as_deref().unwrap_or(&person.username);
        let _ = writeln!(
            list,
            "<li><a class=\"person\" href=\"{}\"><span class=\"face hue{}\" aria-hidden=\"true\">{}</span>\
             <span><strong><bdi>{}</bdi></strong> <small>{} · @{}</small><small>{}</small></span></a></li>",
            link("choice", &person.name),
            crate::picture::default_number(person.id),
            escape(&initial(shown)),
            escape(shown),
            escape(&person.name),
            escape(&person.username),
            escape(&person.about),
        );
    }
    let (after, cancel) = match &ask.redirect {
        Some(to) => (
            format!("You will go back to <strong>{}</strong>.", escape(&to.origin().ascii_serialization())),
            format!("<p><a href=\"{}\">Cancel</a></p>", link("cancel", "1")),
        ),
        None => ("You will get a code to try out on the command line.".to_owned(), String::new()),
    };
    let commands = if ask.redirect.is_none() { command_line(state) } else { String::new() };
    let body = format!(
        "<h1>Who do you want to be?</h1>\n<p>The application <code>{}</code> asks for <code>{}</code>. {after}</p>\n\
         <ul>\n{list}</ul>\n{cancel}{commands}",
        escape(&state.options.client_id),
        escape(&ask.terms.scope),
    );
    reply::page(StatusCode::OK, document("Choose a person", &body))
}

fn show_code(state: &SandboxState, person: &Person, code: &str) -> Reply {
    let body = format!(
        "<h1>A code for <bdi>{}</bdi></h1>\n<p>It works once, within 100 seconds:</p>\n{PRE}{}</pre>\n\
         <p class=\"soft\">Go back for another one.</p>",
        escape(person.global_name.as_deref().unwrap_or(&person.username)),
        escape(&sign_in(state, code)),
    );
    reply::page(StatusCode::OK, document("Your code", &body))
}

/// How to sign in without a browser.
fn command_line(state: &SandboxState) -> String {
    let mut html =
        format!("<h2>On the command line</h2>\n<p>Each name is also a code, as often as you like:</p>\n{PRE}");
    for person in state.people.lock().iter() {
        let _ = writeln!(html, "{}", escape(&sign_in(state, &person.name)));
    }
    html.push_str(
        "</pre>\n<p>These codes make trouble; in brackets is what the sandbox answers the service:</p>\n<dl>\n",
    );
    for (code, what) in SPECIAL_CODES {
        let _ = writeln!(html, "<dt><code>{code}</code></dt><dd>{what}</dd>");
    }
    html.push_str("</dl>\n");
    let _ = writeln!(
        html,
        "<p><a href=\"{}\">Make other things fail</a>: guild lists, sessions, the bot.</p>",
        control::PATH
    );
    html
}

fn sign_in(state: &SandboxState, code: &str) -> String {
    let service = state.options.service_url.as_deref().unwrap_or("$SERVICE_URL");
    format!("curl -X POST \"{}/auth\" -H 'Idp-Code: {code}'", service.trim_end_matches('/'))
}

fn error(problem: &str) -> Reply {
    let body =
        format!("<h1>This does not work</h1>\n<p>{}</p>\n<p><a href=\"/\">Choose a person</a></p>", escape(problem));
    reply::page(StatusCode::BAD_REQUEST, document("Something is wrong", &body))
}

pub(super) fn document(title: &str, body: &str) -> String {
    let style = include_str!("page.css");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} · sandbox</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n<p class=\"tag\">Sandbox: nobody here is real</p>\n{body}\n</main>\n</body>\n</html>\n"
    )
}

fn initial(name: &str) -> String {
    name.chars().find(|character| character.is_alphanumeric()).unwrap_or('?').to_uppercase().collect()
}

pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            plain => escaped.push(plain),
        }
    }
    escaped
}
