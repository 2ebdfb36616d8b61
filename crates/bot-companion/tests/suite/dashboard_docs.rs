//! The examples in `docs/dashboard.md`, run as written: one shell runs every command on the page, from top to bottom.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::Value;

use crate::harness::Folder;
use crate::harness::binary::{Running, command, run};
use crate::repository::read;
use crate::switches::{Dev, json};

const MARK: &str = "\n@@@ the next command\n";

/// The addresses of `make run`, as shown on the page.
const SERVICE: &str = "127.0.0.1:8080";
const SANDBOX: &str = "127.0.0.1:8081";

/// A stream does not end on its own: for a call with `-sN`, only the first event is waited for.
const FIRST_EVENT: &str = r#"
curl() {
    if [[ " $* " != *" -sN "* ]]; then command curl "$@"; return; fi
    local line process
    exec {events}< <(exec curl "$@")
    process=$!
    while IFS= read -r line <&"$events"; do
        if [ -z "$line" ]; then break; fi
        printf '%s\n' "$line"
    done
    kill "$process"
    exec {events}<&-
}
"#;

/// The commands on the page, each with the output that the page shows. A block may be indented as part of a list.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let (text, _) = block.split_once("```").unwrap();
        let indent = text.len() - text.trim_start_matches(' ').len();
        for line in text.lines().map(|line| line.get(indent..).unwrap_or_default()) {
            if let Some(command) = line.strip_prefix("$ ") {
                examples.push((command.to_owned(), String::new()));
            } else if let Some((_, shown)) = examples.last_mut() {
                writeln!(shown, "{line}").unwrap();
            }
        }
    }
    examples
}

/// Whether a text matches what the page shows; `…` matches anything.
fn is_as(shown: &str, text: &str) -> bool {
    let (shown, text) = (shown.trim_end(), text.trim_end());
    let mut parts = shown.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
        last = Some(part);
    }
    // The last part must end the text.
    last.map_or(rest.is_empty(), |part| text.ends_with(part))
}

#[test]
fn dots_stand_for_anything() {
    for (shown, text, same) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("a…c", "abc", true),
        ("a…c", "abcd", false),
        ("…c…e", "abcde", true),
        ("…e…c", "abcde", false),
        ("a…b", "a", false),
        ("{\"id\":\"…\"}", "{\"id\":\"5\"}", true),
    ] {
        assert_eq!(is_as(shown, text), same, "{shown} {text}");
    }
}

#[tokio::test]
#[ignore = "needs curl: run it with `make test-docs`"]
async fn the_examples_of_the_dashboards_page_do_what_it_shows() {
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let service = Running::start(command(&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()])).await;
    let options = service.client().get("/auth").await.data();
    let sandbox = options["authorize_url"].as_str().unwrap().split('/').nth(2).unwrap().to_owned();
    let here = |text: &str| text.replace(SANDBOX, &sandbox).replace(SERVICE, &service.address.to_string());

    let examples = examples(&read("docs/dashboard.md"));
    for path in
        ["/auth", "/me\n", "/guilds\n", "/guilds/8", "/guilds/invitable", "/stats", "/live", "/me/live", "/sessions"]
    {
        let has = |(command, _): &(String, String)| format!("{command}\n").contains(&format!("{SERVICE}{path}"));
        assert!(examples.iter().any(has), "{path} has no example");
    }
    let mut script = FIRST_EVENT.to_owned();
    for (command, _) in &examples {
        write!(script, "printf '%s' '{MARK}'\n{}\n", here(command)).unwrap();
    }
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &script]).stdin(Stdio::null()).env("NO_PROXY", "127.0.0.1");
    let output = run(shell).await;
    let said = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));

    let outputs: Vec<_> = said.split(MARK).skip(1).collect();
    assert_eq!(outputs.len(), examples.len());
    let mut differences = String::new();
    for ((command, shown), output) in examples.iter().zip(outputs) {
        let shown = here(shown);
        if !is_as(&shown, output) {
            write!(differences, "{command}\ngives\n{output}\nand the page shows\n{shown}\n").unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[tokio::test]
async fn the_page_of_the_api_names_every_switch() {
    let dev = Dev::start(&[]).await;
    let page = read("docs/dashboard.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Simulate failures")).unwrap();
    let listed = json(&dev.control(Method::GET, "").await);
    let name = |each: &Value| each["name"].as_str().unwrap().to_owned();
    for switch in listed["switches"].as_array().unwrap() {
        let row = format!("| `{}` | {} |", name(switch), switch["for"].as_str().unwrap());
        assert!(section.contains(&row), "{row}");
    }
    assert!(listed["acts"].as_array().unwrap().iter().all(|act| section.contains(&format!("`{}`", name(act)))));
    // Its examples are run with all others of the page.
    assert!(section.contains("```console"));
}
