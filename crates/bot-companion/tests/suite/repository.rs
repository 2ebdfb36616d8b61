//! What the repository promises about itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use domain::Permission;
use serde_json::Value;
use test_support::TestFolder;

use crate::harness::TestApp;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file that git tracks or would track.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let all = String::from_utf8(listed.stdout).unwrap();
    all.lines().filter(|path| root().join(path).is_file()).map(ToOwned::to_owned).collect()
}

fn document() -> Value {
    serde_json::from_str(&service::http::document()).unwrap()
}

/// Each documented operation: path, method, description.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().clone();
        methods.into_iter().map(|(method, operation)| (path.clone(), method, operation)).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_path).collect()
}

#[test]
fn the_committed_openapi_document_is_the_services_own() {
    assert!(read("openapi.json") == service::http::document(), "openapi.json is stale: run `make openapi`");
}

#[test]
fn the_sdks_and_documents_name_the_permission_keys_in_the_services_order() {
    let (all, grantable, team) = (&Permission::ALL[..], &Permission::GRANTABLE[..], &Permission::TEAM[..]);
    for (path, after, until, keys) in [
        ("docs/feed.md", "keys are", "|", grantable),
        ("docs/feed.md", "`permissions` are", ".", team),
        ("docs/sdk-js.md", "what the role grants:", ".", grantable),
        ("docs/sdk-python.md", "keys:", "|", grantable),
        ("docs/sdk-rust.md", "what they grant:", "|", grantable),
        ("sdk/js/README.md", "what the role grants:", ".", grantable),
        ("sdk/js/src/grants.ts", "GRANT_KEYS = [", "]", grantable),
        ("sdk/js/src/types.ts", "type GuildPermission =", ";", grantable),
        ("sdk/js/src/types.ts", "type TeamPermission =", ";", team),
        ("sdk/python/bot_companion/_types.py", "GuildPermission = Literal[", "]", grantable),
        ("sdk/python/bot_companion/_types.py", "TeamPermission = Literal[", "]", team),
        ("sdk/rust/src/callbacks.rs", "const KEYS: [&str; 6] = [", "]", grantable),
        ("sdk/rust/src/callbacks.rs", "pub position: u32,", "pub", team),
        ("sdk/web/src/schema.ts", " Permissions: {", "}", all),
    ] {
        let text = read(path);
        let list = text.split_once(after).and_then(|(_, rest)| rest.split_once(until)).map(|(list, _)| list);
        let words =
            list.unwrap_or_else(|| panic!("{path}: no {after}")).split(|c: char| !c.is_ascii_uppercase() && c != '_');
        let named: Vec<_> = words.filter(|word| word.len() > 1).collect();
        assert_eq!(named, keys.iter().map(|key| key.name()).collect::<Vec<_>>(), "{path}: {after}");
    }
}

#[tokio::test]
async fn every_documented_operation_is_served() {
    let app = TestApp::start().await;
    for (path, method, _) in operations(&document()) {
        let method = method.to_uppercase().parse().unwrap();
        // A live stream has no end to wait for.
        let status = app.anon().call(method, &path.replace("{id}", "1")).status().await;
        assert!(!matches!(status, 404 | 405), "{path}: {status}");
    }
}

/// The words in backticks, outside blocks of code.
fn in_backticks(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect::<Vec<_>>().join("\n");
    prose.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

#[test]
fn every_path_that_the_architecture_names_exists() {
    // The documents leave out `crates/` and `src/`.
    let all: Vec<String> = files().iter().map(|path| format!("/{}", path.replacen("/src/", "/", 1))).collect();
    let is_path = |word: &&String| {
        let shaped = word.contains('/') || [".rs", ".md", ".toml"].iter().any(|end| word.ends_with(end));
        // A slash at the start means a route, a scheme means somewhere else, and anything with a space, a brace or a star isn't
        // a path, nor is a media type.
        shaped
            && !word.starts_with(['/', '.'])
            && !word.contains("://")
            && !word.contains([' ', '{', '*', '<'])
            && !word.starts_with("application/")
    };
    let exists = |word: &str| {
        let word = word.trim_end_matches('/').replacen("/src/", "/", 1);
        let word = word.split("::").next().unwrap_or(&word);
        // A path may be written from the repository's root or from any folder in it, as long as it names something there.
        all.iter().any(|path| path.ends_with(&format!("/{word}")) || path.contains(&format!("/{word}/")))
    };
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals.md"] {
        let named = in_backticks(&read(document));
        let lost: Vec<_> = named.iter().filter(is_path).filter(|word| !exists(word)).collect();
        assert!(named.len() > 30 && lost.is_empty(), "{document} names what is not there: {lost:?}");
    }
}

#[test]
fn every_test_that_the_page_on_security_names_exists() {
    let sources: String = files().iter().filter(|path| path.ends_with(".rs")).map(|path| read(path)).collect();
    let page = read("docs/security.md");
    // In the last column of a table; an option has a dot in it.
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let named: Vec<_> = last.flat_map(in_backticks).filter(|name| name.contains('_') && !name.contains('.')).collect();
    assert!(named.len() > 40, "{}", named.len());
    for name in named {
        assert!(sources.contains(&format!("fn {name}(")), "docs/security.md names a test `{name}`, which is not there");
    }
}

#[test]
fn every_log_line_that_the_page_for_operators_explains_is_in_the_source() {
    let source: String = files().into_iter().filter(|path| is_source(path)).map(|path| read(&path)).collect();
    // A long text is continued on the next line after a backslash.
    let source: String = source.split("\\\n").map(str::trim_start).collect();
    let page = read("docs/logs.md");
    let section = page.split("\n## Log lines\n").nth(1).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let quoted = rows.filter_map(|row| row.split(" | ").next()).flat_map(in_backticks);
    // An ellipsis replaces what is different each time.
    let parts: Vec<String> =
        quoted.flat_map(|line| line.split('…').map(|part| part.trim().to_owned()).collect::<Vec<_>>()).collect();
    assert!(parts.len() > 40, "{}", parts.len());
    let lost: Vec<_> = parts.iter().filter(|part| !source.contains(part.as_str())).collect();
    assert!(lost.is_empty(), "docs/logs.md explains log lines that the service does not write: {lost:?}");
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|&c| c.is_alphanumeric() || "-_ ".contains(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The text without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(is_prose).collect::<Vec<_>>().join("\n")
}

/// The relative links of these documents that lead nowhere.
fn dead_links(root: &Path, documents: &[String]) -> Vec<String> {
    let anchors = |path: &Path| -> BTreeSet<String> {
        let text = prose(&std::fs::read_to_string(path).unwrap());
        let headings = text.lines().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
    };
    let mut lost = Vec::new();
    for document in documents {
        let path = root.join(document);
        for target in prose(&std::fs::read_to_string(&path).unwrap())
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next())
        {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            if !linked.exists() || !(fragment.is_empty() || anchors(&linked).contains(fragment)) {
                lost.push(format!("{document} links to {target}, which is not there"));
            }
        }
    }
    lost
}

#[test]
fn every_link_and_anchor_in_the_documents_leads_somewhere() {
    let documents: Vec<_> = files().into_iter().filter(|path| path.ends_with(".md")).collect();
    nothing(&dead_links(&root(), &documents));
}

#[test]
fn every_link_and_path_in_the_installed_documents_leads_somewhere() {
    let folder = TestFolder::new();
    let units = folder.path("usr/lib/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    for unit in files().iter().filter_map(|path| path.strip_prefix("deploy/")).filter(|name| name.starts_with("bot-")) {
        std::fs::copy(root().join("deploy").join(unit), units.join(unit)).unwrap();
    }
    let installs = root().join("packaging/deb/documents.py");
    assert!(Command::new("python3").arg(installs).arg(folder.root()).status().unwrap().success());

    let documents = folder.path("usr/share/doc/bot-companion");
    let names = std::fs::read_dir(&documents).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: Vec<_> = names.filter(|name| name.ends_with(".md")).collect();
    assert!(pages.len() > 30, "{pages:?}");
    let mut lost = dead_links(&documents, &pages);
    for page in pages {
        let text = std::fs::read_to_string(documents.join(&page)).unwrap();
        // A path in a command, like /usr/share/doc/bot-companion/examples/nginx.conf.
        for (start, _) in text.match_indices("/usr/share/doc/bot-companion/examples/") {
            let path = text[start..].split([' ', '`', '\n']).next().unwrap();
            if !folder.path(&path[1..]).is_file() {
                lost.push(format!("{page} names {path}, which is not there"));
            }
        }
    }
    nothing(&lost);
    let alerts = std::fs::read_to_string(documents.join("examples/prometheus/alerts.yml")).unwrap();
    assert!(alerts.contains("runbook_url: /usr/share/doc/bot-companion/alerts.md#"), "{alerts}");
}

#[test]
fn the_readme_and_the_guide_set_the_service_up_with_the_same_commands() {
    let readme = read("README.md");
    let (_, production) = readme.split_once("## Run it in production").unwrap();
    let commands: Vec<_> = production.lines().filter(|line| line.starts_with("# ") && !line.contains("apt ")).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for page in ["docs/first-bot.md", "packaging/deb/files/README.Debian"] {
        let page = read(page);
        for command in &commands {
            let (command, _) = command[2..].split_once("    #").unwrap_or((&command[2..], ""));
            assert!(page.contains(command), "{command}: {page}");
        }
    }
}

#[test]
fn every_page_of_docs_that_a_file_names_exists_and_is_in_the_index() {
    let mut lost = Vec::new();
    for path in files() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for rest in text.split("docs/").skip(1) {
            let name = rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
            let is_page = !name.is_empty() && rest[name.len()..].starts_with(".md");
            if is_page && !root().join(format!("docs/{name}.md")).is_file() {
                lost.push(format!("{path} names docs/{name}.md, which is not there"));
            }
        }
    }
    let index = read("docs/README.md");
    for page in files().iter().filter_map(|path| path.strip_prefix("docs/")).filter(|page| page.ends_with(".md")) {
        if page != "README.md" && !index.contains(&format!("]({page})")) {
            lost.push(format!("docs/README.md does not list {page}"));
        }
    }
    nothing(&lost);
}

/// The first two cells of each row of a page's tables whose first cell is in backticks.
fn first_cells(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once(" | ").map(|(first, rest)| (format!("`{first}"), rest.to_owned())))
        .map(|(first, rest)| (first, rest.split(" | ").next().unwrap_or_default().to_owned()))
        .collect()
}

#[test]
fn the_page_on_configuration_has_each_with_its_default() {
    let mut section = String::new();
    let mut expected = Vec::new();
    for line in read("crates/service/src/config/default.toml").lines() {
        if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            expected.push((format!("`{section}.{key}`"), format!("`{value}`")));
        }
    }
    assert!(expected.len() > 60, "{}", expected.len());
    assert_eq!(first_cells(&read("docs/configuration.md")), expected, "docs/configuration.md beside default.toml");
}

#[test]
fn the_page_on_errors_has_every_code() {
    /// The codes that an error's field `error` may have, anywhere in the document.
    fn codes(part: &Value, found: &mut BTreeSet<String>) {
        match part {
            Value::Object(fields) => {
                let listed = fields.get("properties").and_then(|properties| properties["error"]["enum"].as_array());
                found.extend(listed.into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned));
                fields.values().for_each(|field| codes(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| codes(item, found)),
            _ => {}
        }
    }
    let mut expected = BTreeSet::new();
    codes(&document(), &mut expected);
    assert!(expected.len() > 30, "{expected:?}");
    let named = first_cells(&read("docs/errors.md")).into_iter().flat_map(|(first, _)| in_backticks(&first)).collect();
    assert_eq!(expected, named, "docs/errors.md beside the OpenAPI document");
}

/// Whether it is Rust source of the service itself.
fn is_source(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs")
}

/// Fails with all findings at once.
fn nothing(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// The schema's migrations with their checksums (CRC-32). New ones are added here; released ones are never edited, because
/// existing databases were created by them.
const MIGRATIONS: [(&str, u32); 1] = [("migrations/0010_start.sql", 0xA97B_CDF9)];

#[test]
fn no_migration_is_edited() {
    let of = |path: &str| {
        let name = path.strip_prefix("crates/store/src/")?;
        (name.starts_with("migrations/") && name.ends_with(".sql")).then(|| name.to_owned())
    };
    let there: BTreeSet<String> = files().iter().filter_map(|path| of(path)).collect();
    assert_eq!(there, MIGRATIONS.iter().map(|(name, _)| (*name).to_owned()).collect(), "MIGRATIONS lists all of them");
    for (name, checksum) in MIGRATIONS {
        let now = crc32fast::hash(read(&format!("crates/store/src/{name}")).as_bytes());
        assert!(
            now == checksum,
            "{name} has the checksum {now:#010x}. If it is new, write that here; if it is released, it must not be edited: write a new one"
        );
    }
}

#[test]
fn nothing_is_left_to_do_and_nothing_is_unsafe() {
    // Assembled here, so that this file isn't among the findings.
    let words = [format!("TO{}", "DO"), format!("FIX{}", "ME"), format!("XX{}", "X")];
    for path in files() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for word in &words {
                assert!(!line.contains(word.as_str()), "{path}:{}: {word}", number + 1);
            }
            let unsafe_code = path.ends_with(".rs") && line.contains(&format!("un{} {{", "safe"));
            assert!(!unsafe_code, "{path}:{}", number + 1);
        }
    }
    assert!(read("Cargo.toml").contains("unsafe_code = \"forbid\""));
}

#[test]
fn the_pages_of_the_sdks_have_the_same_sections() {
    let sections = |language: &str| -> Vec<String> {
        let page = read(&format!("docs/sdk-{language}.md"));
        page.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect()
    };
    let expected = sections("python");
    assert_eq!(expected.first().map(String::as_str), Some("Install"));
    for language in ["js", "rust"] {
        assert_eq!(sections(language), expected, "docs/sdk-{language}.md beside docs/sdk-python.md");
    }
}

#[test]
fn the_units_of_systemd_stop_at_a_wrong_configuration_and_the_page_for_operators_makes_their_user() {
    let units = ["deploy/bot-companion.service", "deploy/bot-companion@.service"].map(read);
    for unit in &units {
        let has = |line: &str| unit.lines().any(|found| found == line);
        assert!(has("RestartPreventExitStatus=78") && has("UMask=0077") && has("NoNewPrivileges=yes"), "{unit}");
        assert!(!unit.contains("ExecStartPre"), "systemd restarts a unit whatever the exit code of that was");
        // If the clock is set after the service has started, the service keeps the old time for five minutes.
        let targets = "network-online.target time-sync.target";
        assert!(has(&format!("Wants={targets}")) && has(&format!("After={targets}")), "{unit}");
        assert!(
            unit.contains("\nExecStart=/usr/local/bin/bot-companion serve --config /etc/bot-companion/companion.toml")
        );
    }
    let user = units[0].lines().find_map(|line| line.strip_prefix("User=")).unwrap();
    let make = units[0].lines().find_map(|line| line.strip_prefix("#   useradd ")).unwrap();
    assert!(make.split(' ').next_back() == Some(user), "{make}");
    let page = read("docs/systemd.md");
    assert!(page.contains(&format!("# useradd {make}\n")), "the page and the unit make the same user");
    assert!(page.contains("deploy/bot-companion.service") && !page.contains("\n[Service]\n"), "the unit is a file");
}
