//! The page of the switches: forms and nothing else, so it works without scripts.

use std::fmt::Write as _;

use http::StatusCode;
use http::header::{self, HeaderMap};

use super::routes::PATH;
use super::switches::{About, Act, Switch, Target};
use super::{Positions, Reach};
use crate::sandbox::page::{document, escape};
use crate::sandbox::people::Person;
use crate::sandbox::reply::{self, Reply};

/// How many people one can choose from; a load test brings thousands.
const CHOICES: usize = 100;

/// The switches, with what went wrong just now.
pub(super) fn list(
    people: &[Person],
    on: &Positions,
    headers: &HeaderMap,
    problem: Option<(StatusCode, &str)>,
) -> Reply {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:8081");
    let mut html = "<h1>Make it fail</h1>\n<p>What your dashboard does when things go wrong. Each switch shows in the next answer of \
                    the service, and so does switching it off.</p>\n"
        .to_owned();
    if let Some((_, problem)) = problem {
        let _ = writeln!(html, "<p class=\"problem\" role=\"alert\">{}</p>", escape(problem));
    }
    let _ = writeln!(
        html,
        "<form method=\"post\" action=\"{PATH}\"><p>On now: <strong>{}</strong>. <button name=\"to\" value=\"all-off\">Switch \
         everything off</button></p></form>",
        escape(&summary(on)),
    );
    for switch in Switch::ALL {
        html.push_str(&section(people, switch.about(), on.get(&switch), host));
    }
    html.push_str("<h2>Once</h2>\n");
    for act in Act::ALL {
        html.push_str(&once(people, act.about(), host));
    }
    html.push_str("<p><a href=\"/\">Choose a person to sign in as</a></p>");
    let status = problem.map_or(StatusCode::OK, |(status, _)| status);
    reply::form_page(status, document("Make it fail", &html))
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

fn section(people: &[Person], about: About, reach: Option<&Reach>, host: &str) -> String {
    let state = reach.map_or_else(|| "off".to_owned(), |reach| format!("on{}", whom(reach)));
    let class = if reach.is_some() { "state on" } else { "state" };
    let mut html = head(about, &format!(" <span class=\"{class}\">{}</span>", escape(&state)));
    let everybody_on = reach.is_some_and(|reach| reach.everybody);
    if everybody_on {
        html.push_str(&form(about.name, "", "off", "Switch off", about.title));
    } else {
        for name in reach.iter().flat_map(|reach| &reach.people) {
            let hidden = format!("<input type=\"hidden\" name=\"person\" value=\"{}\">", escape(name));
            html.push_str(&form(about.name, &hidden, "off", &format!("Switch off for {name}"), about.title));
        }
        html.push_str(&form(about.name, &chooser(people, about), "on", "Switch on", about.title));
    }
    let person = if about.target == Target::Person { "/owner" } else { "" };
    let _ = writeln!(
        html,
        "<p><code>curl -X PUT http://{}{PATH}/{}{person}</code></p>\n</section>",
        escape(host),
        about.name
    );
    html
}

fn once(people: &[Person], about: About, host: &str) -> String {
    let mut html = head(about, "");
    html.push_str(&form(about.name, &chooser(people, about), "now", "Do it", about.title));
    let _ = writeln!(
        html,
        "<p><code>curl -X POST http://{}{PATH}/{}/owner</code></p>\n</section>",
        escape(host),
        about.name
    );
    html
}

fn head(about: About, state: &str) -> String {
    let About { name, title, shows, .. } = about;
    format!("<section id=\"{name}\">\n<h3>{}{state}</h3>\n<p class=\"soft\">{}</p>\n", escape(title), escape(shows))
}

fn form(name: &str, fields: &str, to: &str, label: &str, title: &str) -> String {
    format!(
        "<form method=\"post\" action=\"{PATH}\"><input type=\"hidden\" name=\"switch\" value=\"{name}\">{fields} \
         <button name=\"to\" value=\"{to}\" aria-label=\"{label}: {title}\">{label}</button></form>\n",
        label = escape(label),
        title = escape(title),
    )
}

/// A choice of people, where there is one.
fn chooser(people: &[Person], about: About) -> String {
    if about.target == Target::Everybody {
        return String::new();
    }
    let mut html = "<label>For <select name=\"person\">".to_owned();
    if about.target == Target::Either {
        html.push_str("<option value=\"\">everybody</option>");
    }
    for person in people.iter().take(CHOICES) {
        let _ = write!(html, "<option>{}</option>", escape(&person.name));
    }
    html.push_str("</select></label>");
    html
}
