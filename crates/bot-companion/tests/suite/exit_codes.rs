//! What a command's exit code means, and what it refuses to do without a configuration.

use std::path::Path;

use runtime::clock::Clock;

use crate::harness::binary::{command, config_file, run};
use crate::harness::{Folder, sandbox};

type Words<'a> = &'a [&'a str];
type Variables<'a> = &'a [(&'a str, &'a str)];

/// Exit code and all output of a command in this folder.
async fn outcome(folder: &Path, arguments: Words<'_>, variables: Variables<'_>) -> (i32, String) {
    let mut command = command(arguments);
    command.current_dir(folder).envs(variables.iter().copied());
    let output = run(command).await;
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn each_kind_of_end_has_its_exit_code() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let config = config.to_str().unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "hello").unwrap();
    let broken = broken.to_str().unwrap();
    let tls: &[(&str, &str)] = &[("COMPANION_TLS_CERT", broken), ("COMPANION_TLS_KEY", broken)];
    let cases: &[(Words, Variables, i32)] = &[
        (&["--help"], &[], 0),
        (&["key", "create", "--help"], &[], 0),
        (&["--version"], &[], 0),
        (&["check", "--config", config], &[], 0),
        (&[], &[], 64),
        (&["serv"], &[], 64),
        (&["check", "--colour"], &[], 64),
        (&["serve", "--listen", "nowhere"], &[], 64),
        (&["key", "create", "--label", "", "--config", config], &[], 64),
        (&["dev", "--listen", "0.0.0.0:0"], &[], 64),
        (&["check"], &[], 78),
        (&["serve"], &[], 78),
        (&["check", "--config", "/absent/companion.toml"], &[], 78),
        (&["key", "list", "--config", "/absent/companion.toml"], &[], 78),
        (&["check", "--config", config], &[("COMPANION_HTTP_LISTEN", "nowhere")], 78),
        (&["check", "--config", config], &[("COMPANION_LOG_FILTER", "info,bot_companion=debgu")], 78),
        (&["check", "--config", config], &[("COMPANION_STORE_URL", "postgres://one/data")], 78),
        (&["check", "--config", config], tls, 78),
        (&["serve", "--config", config, "--listen", "127.0.0.1:0"], tls, 78),
        (&["users", "unblock", "--config", config, "x"], &[], 64),
        (&["key", "revoke", "--config", config, "nobody"], &[("COMPANION_STORE_URL", "sqlite:absent.db")], 78),
        (&["team", "import", "--config", config, "absent.toml"], &[], 1),
    ];
    for (arguments, variables, expected) in cases {
        let (code, said) = outcome(folder.path(), arguments, variables).await;
        assert_eq!(code, *expected, "{arguments:?} {variables:?}: {said}");
    }
}

#[tokio::test]
async fn a_filter_for_the_log_that_means_nothing_is_refused() {
    let folder = Folder::new();
    for (filter, said) in [
        (
            "info,bot_companion=debgu",
            "COMPANION_LOG_FILTER: log.filter = \"info,bot_companion=debgu\": \"debgu\" is not a level; write",
        ),
        ("inof", "\"inof\" is not a level; write"),
    ] {
        let (code, text) = outcome(folder.path(), &["serve"], &[("COMPANION_LOG_FILTER", filter)]).await;
        assert!(code == 78 && text.contains(said), "{code} {text}");
    }
}

#[tokio::test]
async fn no_command_makes_a_store_in_the_current_folder_without_a_configuration() {
    let folder = Folder::new();
    let here = folder.path().join("here");
    std::fs::create_dir(&here).unwrap();
    let create = ["key", "create", "--label", "lantern"];
    for arguments in [&create[..], &["key", "list"], &["users", "blocked"], &["team", "export"]] {
        let (code, said) = outcome(&here, arguments, &[]).await;
        assert_eq!(code, 78, "{said}");
        assert!(said.contains("here/bot-companion.db") && said.contains("--config"), "{said}");
        assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0, "{arguments:?} has made something");
    }
    let (code, said) = outcome(&here, &create, &[("COMPANION_STORE_URL", "sqlite:other.db")]).await;
    assert_eq!(code, 0, "{said}");
    let (code, said) = outcome(&here, &["key", "list", "--json"], &[("COMPANION_STORE_URL", "sqlite:other.db")]).await;
    let keys: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, keys[0]["label"].as_str()), (0, Some("lantern")), "{said}");
    assert!(keys[0]["created"].as_str().unwrap().ends_with('Z') && keys[0]["revoked"].is_null(), "{said}");
    // Once there is one, it is used without further ado.
    std::fs::rename(here.join("other.db"), here.join("bot-companion.db")).unwrap();
    let (code, said) = outcome(&here, &create, &[]).await;
    assert_eq!(code, 0, "{said}");
}
