//! The examples in `docs/feed.md`, run as written.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::Folder;
use crate::harness::binary::{Running, command, run};
use crate::repository::read;

const MARK: &str = "\n@@@ the next example\n";

/// The code blocks of a page: their language and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect()
}

/// Each block that should run, with the block that shows its result.
fn examples(page: &str) -> Vec<(&str, Option<(&str, &str)>)> {
    let blocks = blocks(page);
    let shown = |place: usize| blocks.get(place + 1).copied().filter(|(kind, _)| matches!(*kind, "json" | "text"));
    let runs = blocks.iter().enumerate().filter(|(_, (kind, _))| *kind == "sh");
    runs.map(|(place, (_, text))| (*text, shown(place))).collect()
}

/// JSON values, one after the other; in those of the page, `…` matches anything.
fn values(text: &str) -> Vec<Value> {
    let text = text.replace("\"…\"", "…").replace('…', "\"…\"");
    let read = serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>();
    read.unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Whether a value matches what the page shows; `…` at the end of a list matches any number of others.
fn is_as(shown: &Value, value: &Value) -> bool {
    match (shown, value) {
        (Value::String(any), _) if any == "…" => true,
        (Value::Array(shown), Value::Array(items)) => {
            let open = shown.last().is_some_and(|last| last == "…");
            let known = shown.len() - usize::from(open);
            let length = if open { items.len() >= known } else { items.len() == known };
            length && shown[..known].iter().zip(items).all(|(shown, item)| is_as(shown, item))
        }
        (Value::Object(shown), Value::Object(fields)) => {
            shown.len() == fields.len()
                && shown.iter().all(|(name, shown)| fields.get(name).is_some_and(|field| is_as(shown, field)))
        }
        _ => shown == value,
    }
}

#[tokio::test]
#[ignore = "needs curl: run it with `make test-docs`"]
async fn the_examples_of_the_feeds_page_do_what_it_shows() {
    let found = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
    assert!(found.is_ok_and(|status| status.success()), "the examples need curl, which is not installed");
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let service = Running::start(command(&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()])).await;
    let banner = std::fs::read_to_string(&service.output).unwrap();
    let key = banner.lines().find_map(|line| line.trim().strip_prefix("bot key    ")).unwrap();

    let page = read("docs/feed.md");
    let examples = examples(&page);
    let paths = ["/bot/heartbeat", "/guilds\"", "/bot/subscriptions", "/bot/events", "/bot/state"];
    assert!(paths.iter().all(|path| examples.iter().any(|(text, _)| text.contains(path))), "a call has no example");
    let mut script = String::new();
    for (text, _) in &examples {
        write!(script, "printf '%s' '{MARK}'\n{text}").unwrap();
    }
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &script]).stdin(Stdio::null());
    shell.env("URL", format!("http://{}", service.address)).env("KEY", key).env("NO_PROXY", "127.0.0.1");
    let output = run(shell).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));

    let outputs: Vec<_> = said.split(MARK).skip(1).collect();
    assert_eq!(outputs.len(), examples.len());
    for ((text, shown), output) in examples.into_iter().zip(outputs) {
        let same = match shown {
            None => output.is_empty(),
            Some(("json", shown)) => {
                let (shown, values) = (values(shown), values(output));
                shown.len() == values.len() && shown.iter().zip(&values).all(|(shown, value)| is_as(shown, value))
            }
            Some((_, shown)) => output == shown,
        };
        assert!(same, "{text}\ngives\n{output}\nand the page shows\n{}", shown.map_or("nothing", |(_, shown)| shown));
    }
}
