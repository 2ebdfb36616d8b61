//! `/docs` and `/docs/feed`: everything is on the pages, and what they tell people to do works.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::harness::documented::{document, error_codes, resolve};
use crate::harness::{Answer, TestApp, soon};
use crate::repository::read;

const PAGES: [&str; 2] = ["/docs", "/docs/feed"];
/// The address in commands while the service does not know its own.
const LOCAL: &str = "http://127.0.0.1:8080";

async fn page(app: &TestApp, path: &str) -> String {
    let answer = app.anon().get(path).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
    answer.text()
}

/// The text that people read in this markup.
fn text(markup: &str) -> String {
    let without_tags: String =
        markup.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        .iter()
        .fold(without_tags, |text, (escaped, letter)| text.replace(escaped, letter))
}

/// The values of this attribute.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    page.split(&format!(" {attribute}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Method, path and description of every documented operation.
fn operations() -> Vec<(String, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation))
    });
    methods.collect()
}

/// The part of the page about an operation.
fn part<'a>(page: &'a str, operation: &Value) -> &'a str {
    let id = operation["operationId"].as_str().unwrap();
    let begin = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("{id} is not on the page"));
    page[begin..].split("</article>").next().unwrap()
}

/// The command of an operation, as the page shows it.
fn command(page: &str, operation: &Value) -> String {
    let part = part(page, operation);
    let command = part.split("class=\"code command\">").nth(1).unwrap().split("</pre>").next().unwrap();
    text(command)
}

#[tokio::test]
async fn every_operation_is_on_the_page_with_all_that_it_takes_and_answers() {
    let app = TestApp::start().await;
    let page = page(&app, "/docs").await;
    let operations = operations();
    assert!(operations.len() > 20);
    for (method, path, operation) in operations {
        let markup = part(&page, operation);
        let shown = text(markup);
        let name = operation["operationId"].as_str().unwrap();
        for expected in [&*method, path, operation["summary"].as_str().unwrap()] {
            assert!(shown.contains(expected), "{name} does not show {expected}");
        }
        assert!(command(&page, operation).starts_with("curl -sS "), "{name} has no command");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = parameter["name"].as_str().unwrap();
            assert!(markup.contains(&format!("<td><code>{parameter}</code>")), "{name} does not show {parameter}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            if !status.starts_with(['4', '5']) {
                assert!(shown.contains(status.as_str()), "{name} does not show {status}");
                continue;
            }
            for code in error_codes(response) {
                assert!(markup.contains(&format!("<code>{code}</code>")), "{name} does not show {code}");
            }
        }
    }
}

#[tokio::test]
async fn every_error_is_on_the_page_with_its_sentence() {
    let app = TestApp::start().await;
    let shown = text(&page(&app, "/docs").await);
    let examples = document()["components"]["examples"].as_object().unwrap().values();
    let errors: Vec<_> =
        examples.map(|example| &example["value"]).filter(|value| value["data"]["error"].is_string()).collect();
    assert!(errors.len() > 25, "{}", errors.len());
    for error in errors {
        let sentence = error["message"].as_str().unwrap().replace('`', "");
        let expected = format!("{} {} {sentence}", error["code"], error["data"]["error"].as_str().unwrap());
        assert!(shown.contains(&expected), "{expected}");
    }
}

#[tokio::test]
async fn every_field_of_an_answer_is_on_the_page() {
    let app = TestApp::start().await;
    let page = page(&app, "/docs").await;
    let shown = text(&page);
    let schemas = document()["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas.iter().filter(|(name, _)| !name.contains("Error") && !name.ends_with("Response")) {
        for (field, given) in schema["properties"].as_object().into_iter().flatten() {
            assert!(page.contains(&format!("{field}</code>")), "{name} has {field}");
            let told = given["description"].as_str().or_else(|| resolve(given)["description"].as_str());
            let told = told.unwrap_or_default().replace('`', "").replace('\n', " ");
            assert!(shown.contains(&told), "{name}.{field}: {told}");
        }
    }
}

/// Runs a command to its end, or a stream to its first event, and returns the last line of output.
async fn last_line(mut shell: Command) -> String {
    let run = move || {
        let mut running = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut last = String::new();
        for line in lines {
            last = line;
            if last == "event: changed" {
                running.kill().unwrap();
                break;
            }
        }
        running.wait().unwrap();
        last
    };
    // Outside the runtime, on which the service answers.
    soon("curl says something", tokio::task::spawn_blocking(run)).await.unwrap()
}

#[tokio::test]
#[ignore = "needs curl: run it with `make test-docs`"]
async fn the_commands_of_the_page_work() {
    let app = TestApp::start().await;
    let page = page(&app, "/docs").await;
    let bot = app.bot("reference").await;
    // In page order: a bot's events come after its snapshot.
    let mut operations = operations();
    operations.sort_by_key(|(_, _, operation)| part(&page, operation).as_ptr());
    assert!(operations.len() > 20);
    for (method, path, operation) in operations {
        let shown = command(&page, operation);
        let command = shown.replacen(LOCAL, &format!("http://{}", app.address), 1);
        assert_ne!(shown, command, "{shown} does not name the service");
        let mut shell = Command::new("sh");
        shell.args(["-euc", &format!("exec {command} -w '\\n%{{http_code}}'")]).env("NO_PROXY", "127.0.0.1");
        shell.env("CODE", app.sandbox.issue_code("owner"));
        if command.contains("$TOKEN") {
            shell.env("TOKEN", app.user("owner").await.token());
        }
        shell.env("KEY", bot.key.expose_secret()).env("INSTANCE", &bot.instance);
        let last = last_line(shell).await;
        let is_stream = command.contains("curl -sS -N");
        // The example IDs belong to nobody here.
        let expected = match () {
            () if is_stream => "event: changed",
            () if path.contains("{id}") => "404",
            () => "200",
        };
        assert_eq!(last, expected, "{method} {path}: {command}");
    }
}

#[tokio::test]
async fn commands_and_links_name_the_service_as_it_is_configured() {
    let app = TestApp::builder().set("http.base_path = \"/api\"").start().await;
    let below = page(&app, "/api/docs").await;
    assert!(text(&below).contains(&format!("curl -sS {LOCAL}/api/team")));
    assert!(below.contains("href=\"/api/docs/feed\"") && below.contains("href=\"/api/openapi.json\""));
    assert!(page(&app, "/api/docs/feed").await.contains("href=\"/api/docs#sendHeartbeat\""));
    let app = TestApp::builder().set("site.url = \"https://bot.example\"").start().await;
    assert!(text(&page(&app, "/docs").await).contains("curl -sS https://bot.example/team"));
    assert!(page(&app, "/docs/feed").await.contains("rel=\"canonical\" href=\"https://bot.example/docs/feed\""));
}

#[tokio::test]
async fn the_page_of_the_feed_has_all_of_the_document() {
    let app = TestApp::start().await;
    let page = page(&app, "/docs/feed").await;
    let shown = text(&page);
    let document = read("docs/feed.md");
    let mut headings = 0;
    for (index, block) in document.split("```").enumerate() {
        if index % 2 == 1 {
            let code = block.split_once('\n').unwrap().1.trim_end();
            assert!(shown.contains(code), "{code}");
            continue;
        }
        for heading in block.lines().filter(|line| line.starts_with('#')) {
            let name = heading.trim_start_matches('#').trim();
            let level = heading.len() - heading.trim_start_matches('#').len();
            assert!(page.contains(&format!("<h{level}")) && shown.contains(name), "{heading}");
            headings += 1;
        }
        for cell in block.lines().filter(|line| line.starts_with("| ")).flat_map(|line| line.split(" | ")) {
            let told = cell.trim_matches(['|', ' ']).replace('`', "");
            assert!(shown.contains(&told) || told.contains("]("), "{told}");
        }
    }
    assert!(headings > 10, "{headings}");
    assert!(page.contains("href=\"/docs\"") && page.contains("href=\"/docs#sendEvents\""));
}

#[tokio::test]
async fn every_link_within_a_page_leads_somewhere_and_headings_are_in_order() {
    let app = TestApp::start().await;
    for path in PAGES {
        let page = page(&app, path).await;
        let ids = values(&page, "id");
        let places: BTreeSet<_> = ids.iter().copied().collect();
        assert_eq!(places.len(), ids.len(), "{path}: an id is there twice");
        let links: Vec<_> = values(&page, "href").into_iter().filter_map(|link| link.strip_prefix('#')).collect();
        assert!(links.len() > 10, "{path}");
        for link in links {
            assert!(places.contains(link), "{path}#{link}");
        }
        let mut level = 0;
        for next in page.split("<h").skip(1).filter_map(|rest| rest.get(..1)?.parse::<u8>().ok()) {
            assert!(next <= level + 1, "{path}: a heading of level {next} follows one of level {level}");
            level = next;
        }
        assert_eq!(page.matches("<h1").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn german_visitors_get_german_around_the_english_of_the_api() {
    let app = TestApp::start().await;
    let get = |path| app.anon().call(Method::GET, path).header("Accept-Language", "de").send();
    let page = get("/docs").await.text();
    for expected in ["<html lang=\"de\"", "<h4>Antwort</h4>", "<h3 lang=\"en\">", "<td lang=\"en\">"] {
        assert!(page.contains(expected), "{expected}");
    }
    let feed = get("/docs/feed").await.text();
    assert!(feed.contains("<html lang=\"de\"") && feed.contains("<article class=\"document\" lang=\"en\">"));
    assert!(!self::page(&app, "/docs").await.contains("<h3 lang="), "the whole page is English");
}

#[tokio::test]
async fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
    let app = TestApp::start().await;
    for path in PAGES {
        let answer = app.anon().get(path).await;
        let policy = answer.header("content-security-policy").to_owned();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|own| own == part), "{path}: {policy}");
        }
        let page = answer.text();
        assert!(!page.contains("<style") && values(&page, "style").is_empty(), "{path}");
        assert!(!page.contains(" onclick=") && !page.contains("javascript:"), "{path}");
        for script in page.split("<script").skip(1) {
            assert!(script.contains(" src=\"/site/assets/") && script.contains("\"></script>"), "{path}: {script:.80}");
        }
        for source in values(&page, "src") {
            assert!(source.starts_with("/site/"), "{path}: {source}");
        }
    }
}

#[tokio::test]
async fn a_page_with_all_that_belongs_to_it_is_small() {
    let app = TestApp::start().await;
    let compressed = async |path: &str| {
        let call = app.anon().call(Method::GET, path).header("Accept-Encoding", "gzip");
        let answer: Answer = call.send().await;
        assert_eq!(answer.status, 200, "{path}");
        answer.body.len()
    };
    for path in PAGES {
        let page = page(&app, path).await;
        let own = [values(&page, "href"), values(&page, "src")].concat();
        let assets: BTreeSet<_> = own.into_iter().filter(|link| link.starts_with("/site/assets/")).collect();
        assert!(assets.len() >= 3, "{path}: {assets:?}");
        let mut size = compressed(path).await;
        for asset in assets {
            size += compressed(asset).await;
        }
        assert!(size <= 60 * 1024, "{path}: {size} bytes");
    }
}

#[tokio::test]
async fn below_the_reference_an_unknown_path_is_a_page() {
    let app = TestApp::start().await;
    for path in ["/docs/", "/docs/nothing", "/docs/feed/more"] {
        let answer = app.anon().get(path).await;
        assert_eq!((answer.status, answer.header("content-type")), (404, "text/html; charset=utf-8"), "{path}");
        assert!(answer.text().contains("<h1>"), "{path}");
    }
}

#[tokio::test]
async fn a_page_that_a_browser_has_is_not_sent_again() {
    let app = TestApp::start().await;
    for path in PAGES {
        let tag = app.anon().get(path).await.header("etag").to_owned();
        let again = app.anon().call(Method::GET, path).header("If-None-Match", tag).send().await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
}
