//! The loader as users see it: files, environments, and the messages.

mod wrong;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use secrecy::ExposeSecret as _;
use test_support::TestFolder;

use super::layers::variable;
use super::*;

const NOTHING: [(&str, &str); 0] = [];
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn from_text(text: &str) -> Result<Config, ConfigError> {
    Config::load_over(&[Layer::new("companion.toml", text)], None, NOTHING)
}

fn from_environment(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::load(None, variables.iter().copied())
}

/// The documented options with their defaults, as the environment would write them.
fn documented() -> Vec<(String, String)> {
    let table: toml::Table = DEFAULTS.parse().unwrap();
    let mut options = Vec::new();
    for (section, entries) in &table {
        for (key, value) in entries.as_table().unwrap() {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(is_on) => is_on.to_string(),
                toml::Value::Array(items) => {
                    items.iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(",")
                }
                other => panic!("{other}"),
            };
            options.push((format!("{section}.{key}"), value));
        }
    }
    options
}

#[test]
fn the_defaults() {
    let config = Config::load(None, NOTHING).unwrap();
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.http.base_path, "");
    assert!(config.tls.is_none() && config.secrets.is_empty() && config.idp.redirect_uri.is_empty());
    assert_eq!(config.store.url.expose_secret(), "sqlite:bot-companion.db");
    assert_eq!(config.idp.base_url, "https://discord.com/api/v10");
    assert_eq!(config.idp.failure_budget, 1000);
    assert_eq!(config.idp.code_memory, Duration::from_mins(2));
    assert_eq!(config.sessions.idle, Duration::from_hours(7 * 24));
    assert_eq!(config.sessions.absolute, Duration::from_hours(30 * 24));
    assert_eq!(config.guilds.max_stale, Duration::from_hours(1));
    assert_eq!(config.limits.connections, 10_000);
    assert_eq!((config.log.filter.as_str(), config.log.format), ("info", LogFormat::Text));
}

#[test]
fn every_documented_variable_sets_its_option() {
    let defaults: Vec<_> = documented().into_iter().map(|(key, value)| (variable(&key), value)).collect();
    let mut config = Config::load(None, defaults.clone()).unwrap();
    // The one option that differs from its default.
    assert!(std::mem::take(&mut config.admin.is_set));
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::load(None, NOTHING).unwrap()));

    // No option accepts a control character, so each reports an error exactly if it is read.
    let wrong = defaults.into_iter().map(|(variable, _)| (variable, "\u{7}"));
    let error = Config::load(None, wrong).unwrap_err();
    let complained: BTreeSet<_> = error.problems().iter().filter_map(|line| line.split(": ").next()).collect();
    let expected: Vec<_> = documented().into_iter().map(|(key, _)| variable(&key)).collect();
    assert_eq!(complained, expected.iter().map(String::as_str).collect());
}

#[test]
fn an_undocumented_option_is_accepted_and_only_listed_or_proposed_if_it_is_set() {
    let config = from_text("store.wait = \"5s\"").unwrap();
    assert_eq!(config.store.wait, Duration::from_secs(5));
    let effective = |variables: &[(&str, &str)]| Config::effective(None, variables.iter().copied()).unwrap();
    let has_wait = |variables: &[(&str, &str)]| effective(variables).iter().any(|value| value.option == "store.wait");
    assert!(!has_wait(&[]) && has_wait(&[("COMPANION_STORE_WAIT", "5s")]));
    let proposed = from_text("idp.list_timeuot = \"5s\"").unwrap_err();
    assert_eq!(proposed.problems(), ["companion.toml:1: idp.list_timeuot is not an option"]);
}

#[test]
fn every_option_is_commented_with_its_variable() {
    let mut comment = String::new();
    let mut section = "";
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if line.starts_with('#') {
            comment.push_str(line);
        } else if let Some((key, _)) = line.split_once(" = ") {
            let key = format!("{section}.{key}");
            let variable = variable(&key);
            let expected = format!("# {variable}");
            assert!(comment.ends_with(&expected) && comment.len() > expected.len(), "{key}: {comment}");
            comment.clear();
        } else {
            comment.clear();
        }
    }
}

#[test]
fn a_range_in_a_comment_is_the_one_that_counts() {
    let mut compared = 0;
    for (key, _) in documented() {
        let variable = variable(&key);
        let (before, _) = DEFAULTS.split_once(&format!("# {variable}\n")).unwrap_or_default();
        let comment = before.rsplit("\n\n").next().unwrap().replace("\n#", "");
        let words: Vec<&str> = comment.split_whitespace().map(|word| word.trim_end_matches(['.', ';'])).collect();
        let is_range = |words: &&[&str]| {
            words[1] == "to" && [words[0], words[2]].iter().all(|end| end.as_bytes()[0].is_ascii_digit())
        };
        if let Some(range) = words.windows(3).find(is_range) {
            let problems = ["9999999999999999", "99999999d"]
                .map(|value| from_environment(&[(&variable, value)]).unwrap_err().to_string());
            let told = problems.iter().find_map(|problem| problem.split_once(" from "));
            assert_eq!(told.map(|(_, range)| range), Some(range.join(" ").as_str()), "{key}");
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared} ranges were found");
}

#[test]
fn later_layers_win() {
    let folder = TestFolder::new();
    let file = folder.path("companion.toml");
    fs::write(&file, "[log]\nfilter = \"debug\"\nformat = \"json\"\n").unwrap();
    let dev = Layer::new("dev", "log.filter = \"trace\"\nlimits.requests_burst = 7\nlog.format = \"text\"");
    let config = Config::load_over(&[dev], Some(&file), [("COMPANION_LOG_FILTER", "warn")]).unwrap();
    assert_eq!(
        (config.log.filter.as_str(), config.log.format, config.limits.requests_burst),
        ("warn", LogFormat::Json, 7)
    );
}

#[test]
fn a_whole_configuration() {
    let config = from_text(&format!(
        r#"
        secrets.keys = ["new:{KEY}", "old:{}"]
        http = {{ base_path = "api/", allowed_origins = ["HTTPS://Dash.Example:443", "https://dash.example", "http://localhost:3000"] }}
        limits.exempt = "10.0.0.0/8"
        idp.client_id = "1"
        idp.client_secret = "hush"
        idp.redirect_uri = ["https://dash.example/callback", "http://localhost:3000/callback"]
        limits.requests_per_second = 0
        tls = {{ cert = "a.pem", key = "b.pem" }}
        "#,
        KEY.trim_end_matches('='),
    ))
    .unwrap();
    assert_eq!(config.http.base_path, "/api");
    assert_eq!(config.http.allowed_origins, ["https://dash.example", "http://localhost:3000"]);
    assert_eq!(config.limits.exempt[0].to_string(), "10.0.0.0/8");
    assert_eq!(config.limits.requests_per_second, 0);
    assert_eq!(config.secrets[0].bytes()[31], 31);
    assert_eq!(config.secrets[1].id, "old");
    assert_eq!(config.tls.as_ref().unwrap().key.to_str(), Some("b.pem"));
    config.require_idp().unwrap();
}

#[test]
fn lists_in_the_environment() {
    let config = from_environment(&[
        ("COMPANION_HTTP_ALLOWED_ORIGINS", "https://a.example, https://b.example,"),
        ("COMPANION_IDP_REDIRECT_URI", "https://a.example/x"),
        ("COMPANION_LIMITS_EXEMPT", ""),
    ])
    .unwrap();
    assert_eq!(config.http.allowed_origins, ["https://a.example", "https://b.example"]);
    assert_eq!(config.idp.redirect_uri, ["https://a.example/x"]);
}

#[test]
fn the_files_that_hold_a_secret_are_known() {
    let folder = TestFolder::new();
    let (file, secret) = (folder.path("companion.toml"), folder.path("secret"));
    fs::write(&secret, "hush\n").unwrap();
    let variable = [("COMPANION_IDP_CLIENT_SECRET_FILE", secret.to_str().unwrap())];
    let found = |text: &str, variables: &[(&str, &str)]| {
        fs::write(&file, text).unwrap();
        let config = Config::load(Some(&file), variables.iter().copied()).unwrap();
        config.secret_files.into_iter().map(|found| (found.option, found.path)).collect::<Vec<_>>()
    };
    assert_eq!(found("idp.client_id = \"1\"\nidp.client_secret = \"\"\nsecrets.keys = []", &[]), []);
    assert_eq!(found("store.url = \"sqlite:a.db\"", &[]), []);
    let key = format!("secrets.keys = [\"one:{KEY}\"]\n");
    assert_eq!(found(&key, &[]), [("secrets.keys", file.clone())]);
    let url = format!("{key}store.url = \"postgres://me@a.example/data\"");
    assert_eq!(found(&url, &[]), [("secrets.keys", file.clone())], "a URL without a password is no secret");
    let url = url.replace("me@", "me:hush@");
    assert_eq!(found(&url, &[]), [("secrets.keys", file.clone()), ("store.url", file.clone())]);
    // A secret that the environment overrides is still in the file.
    let both = [("idp.client_secret", file.clone()), ("idp.client_secret", secret.clone())];
    assert_eq!(found("idp.client_secret = \"hush\"", &variable), both);
}

#[test]
fn the_sites_address_ends_with_the_base_path() {
    for (url, base_path) in [
        ("", "/api"),
        ("https://a.example", ""),
        ("https://a.example/api/", "/api"),
        ("https://a.example/x/api", "/api"),
    ] {
        from_text(&format!("site.url = \"{url}\"\nhttp.base_path = \"{base_path}\"")).unwrap();
    }
}

#[test]
fn wrong_files() {
    for (text, problems) in wrong::FILES {
        assert_eq!(from_text(text).unwrap_err().problems(), *problems, "{text}");
    }
}

#[test]
fn syntax_errors_have_line_and_column() {
    let error = from_text("[http]\nlisten = hush").unwrap_err();
    assert_eq!(error.problems(), ["companion.toml:2:10: string values must be quoted, expected literal string"]);
    let error = from_text("[http]\nlisten = \"a\"\nlisten = \"b\"").unwrap_err();
    assert_eq!(error.problems(), ["companion.toml:3:1: duplicate key"]);
}

#[test]
fn wrong_environments() {
    for (variables, problems) in wrong::ENVIRONMENTS {
        assert_eq!(from_environment(variables).unwrap_err().problems(), *problems, "{variables:?}");
    }
}

#[test]
fn variables_of_others_are_left_alone() {
    from_environment(&[
        ("PATH", "x"),
        ("COMPANIONS", "x"),
        ("COMPANION_URL", "x"),
        ("COMPANION_BOT_KEY", "x"),
        ("COMPANION_CONFIG", "x"),
        ("COMPANION_BUILD_BRANCH", "x"),
    ])
    .unwrap();
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let bytes = OsString::from_vec(vec![b'h', b'u', b's', b'h', 0xFF]);
    let error = Config::load(None, [("COMPANION_IDP_CLIENT_SECRET", bytes)]).unwrap_err();
    assert_eq!(error.to_string(), "COMPANION_IDP_CLIENT_SECRET: the value is not UTF-8 text");
}

#[test]
fn a_mistake_is_found_even_where_a_later_layer_hides_it() {
    let file = Layer::new("companion.toml", "limits.requests_burst = 0");
    let error = Config::load_over(&[file], None, [("COMPANION_LIMITS_REQUESTS_BURST", "5")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "companion.toml:1: limits.requests_burst = 0: write a whole number from 1 to 1000000"
    );
}

#[test]
fn secrets_from_files() {
    let folder = TestFolder::new();
    fs::write(folder.path("secret"), "hush\r\n").unwrap();
    fs::write(folder.path("keys"), format!("new:{KEY}\nold:{KEY}\n")).unwrap();
    let config = Config::load(
        None,
        [
            ("COMPANION_IDP_CLIENT_SECRET_FILE", folder.path("secret")),
            ("COMPANION_SECRETS_KEYS_FILE", folder.path("keys")),
        ],
    )
    .unwrap();
    assert_eq!(config.idp.client_secret.expose_secret(), "hush");
    assert_eq!(config.secrets.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["new", "old"]);
}

#[test]
fn a_secret_and_its_file_override_each_other_like_any_option() {
    let folder = TestFolder::new();
    let write = |name: &str, text: &str| {
        fs::write(folder.path(name), text).unwrap();
        folder.path(name).to_str().unwrap().to_owned()
    };
    let (one, two) = (write("one", "first\n"), write("two", "second"));
    let named = |file: &str| format!("idp.client_secret_file = \"{file}\"");
    let in_environment = |file: &str| ("COMPANION_IDP_CLIENT_SECRET_FILE", file.to_owned());
    let direct = ("COMPANION_IDP_CLIENT_SECRET", "direct".to_owned());
    for (text, variables, secret) in [
        (named(&one), vec![], "first"),
        (format!("{}\nidp.client_secret = \"\"", named(&one)), vec![], "first"),
        (named(&one), vec![in_environment(&two)], "second"),
        ("idp.client_secret = \"direct\"".to_owned(), vec![in_environment(&two)], "second"),
        (named(&one), vec![direct.clone()], "direct"),
        // A file that nothing reads need not be there.
        (named("/absent"), vec![direct], "direct"),
        (named("/absent"), vec![in_environment(&two)], "second"),
    ] {
        let layer = Layer::new("companion.toml", text.clone());
        let config = Config::load_over(&[layer], None, variables).unwrap();
        assert_eq!(config.idp.client_secret.expose_secret(), secret, "{text}");
    }
    // What is pasted often has more around it.
    for text in ["\u{feff}first", "first  \r\n", "\n first\n\n"] {
        let config = from_text(&named(&write("pasted", text))).unwrap();
        assert_eq!(config.idp.client_secret.expose_secret(), "first", "{text:?}");
    }
    let (empty, blank) = (write("empty", ""), write("blank", " \n"));
    let large = write("large", &"a".repeat(64 * 1024 + 1));
    let pipe = folder.path("pipe").to_str().unwrap().to_owned();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (text, problem) in [
        (named("/absent"), "the file /absent cannot be read: No such file or directory (os error 2)".to_owned()),
        (named(&empty), format!("the file {empty} is empty: write idp.client_secret into it")),
        (named(&blank), format!("the file {blank} is empty: write idp.client_secret into it")),
        (named(&large), format!("the file {large} is larger than 64 KB")),
        (named(&pipe), format!("the file {pipe} cannot be read: it isn't a regular file")),
        (
            format!("{}\nidp.client_secret = \"x\"", named(&one)),
            "idp.client_secret is set too; set only one of the two".to_owned(),
        ),
    ] {
        let error = from_text(&text).unwrap_err();
        assert_eq!(error.problems(), [format!("companion.toml:1: idp.client_secret_file: {problem}")]);
    }
    let lines = write("lines", "one\ntwo");
    let error = from_text(&named(&lines)).unwrap_err();
    assert!(error.problems()[0].starts_with(&format!("{lines}: idp.client_secret: write it on one line")), "{error}");
    // The keys that aren't there are not reported as not set.
    let keys = from_text("store.url = \"postgres://me@a.example/data\"\nsecrets.keys_file = \"/absent\"").unwrap_err();
    assert_eq!(keys.problems().len(), 1, "{keys}");
}

#[test]
fn key_ids_differ() {
    let error = from_text(&format!("secrets.keys = [\"a:{KEY}\", \"b:{KEY}\", \"a:{KEY}\"]")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "companion.toml:1: secrets.keys: key 3 has the same ID as an earlier one: give each its own"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Some(Path::new("/absent/companion.toml")), NOTHING).unwrap_err();
    assert_eq!(error.to_string(), "/absent/companion.toml: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn what_serve_needs() {
    let error = Config::load(None, NOTHING).unwrap().require_idp().unwrap_err();
    assert_eq!(
        error.problems(),
        [
            "idp.client_id is not set: write it in the configuration file, or set COMPANION_IDP_CLIENT_ID",
            "idp.client_secret is not set: write it into a file and name that in idp.client_secret_file (or \
             COMPANION_IDP_CLIENT_SECRET_FILE), or set COMPANION_IDP_CLIENT_SECRET",
            "idp.redirect_uri is not set: write it in the configuration file, or set COMPANION_IDP_REDIRECT_URI",
        ]
    );
}

#[test]
fn secrets_are_never_shown() {
    let layer = Layer::new("dev", format!("idp.client_secret = \"hush-hush\"\nsecrets.keys = \"a:{KEY}\""));
    let config = Config::load_over(std::slice::from_ref(&layer), None, NOTHING).unwrap();
    for shown in [format!("{config:?}"), format!("{config:#?}"), format!("{layer:?}")] {
        assert!(!shown.contains("hush") && !shown.contains(KEY) && !shown.contains("1, 2, 3"), "{shown}");
    }
    for text in [
        "idp.client_secret = \"hush\\u0007\"",
        "idp.client_secret = [\"hush\"]",
        "idp.client_secret = { hush = 1 }",
        "idp.client_secret = hush",
        "idp.client_secret = \"hush",
        "idp.client_secret = 'hush' hush",
        "[idp.client_secret]\nhush = 1",
        "secrets.keys = [\"hush:hush\"]",
        "secrets.keys = [[\"hush\"]]",
        "secrets.keys = \"hush\"",
        "secret.keys = \"hush\"",
        "idp.client_secert = \"hush\"",
        "idp.base_url = \"https://user:hush@provider.example\"",
    ] {
        let error = from_text(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".*", value in ".*", key in 0_usize..64) {
        let _ = from_text(&text);
        let documented = documented();
        let key = &documented[key % documented.len()].0;
        let _ = from_text(&format!("{key} = {text}"));
        let _ = from_text(&format!("{key} = {}", toml::Value::String(value.clone())));
        let _ = from_environment(&[(&variable(key), &value), (&format!("COMPANION_{text}"), &value)]);
    }

    #[test]
    fn no_toml_panics(text in r#"(\[{0,2}[a-z.]{1,6}\]{0,2}\n|(http|idp|limits|x)\.[a-z_]{1,8} = (\[|"|'|\{|-|0x|[0-9a-f:/.,"'\]} ]){0,12}\n){0,6}"#) {
        if let Err(error) = from_text(&text) {
            prop_assert!(error.problems().iter().all(|problem| !problem.contains('\n')));
        }
    }
}
