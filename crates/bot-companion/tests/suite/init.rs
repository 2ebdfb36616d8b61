//! `bot-companion init`, typed at a terminal and run by a script.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::Folder;
use crate::harness::binary::{command, run};
use crate::harness::terminal::typed;

const SECRET: &str = "hush-hush-hush";

/// Exit code and all output of a command in this folder.
async fn outcome(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let mut asked = command(arguments);
    asked.current_dir(folder).envs(variables.iter().copied());
    let output = run(asked).await;
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// What `check` says about the file.
async fn checked(folder: &Path, variables: &[(&str, &str)]) -> (i32, String) {
    outcome(folder, &["check", "--config", "companion.toml"], variables).await
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn somebody_at_a_terminal_is_asked_and_the_secret_is_not_shown() {
    let folder = Folder::new();
    let mut asked = command(&["init"]);
    asked.current_dir(folder.path());
    let lines = [
        ("Application (client) ID", "123456789012345678"),
        ("Client secret", SECRET),
        ("Public address", "https://bot.example/"),
        ("Redirect URL", ""),
        ("Database", "sqlite:data/companion.db"),
        ("Listen on", ""),
        ("bot's name", "Lantern \u{1f3ee}"),
    ];
    let (code, shown) = tokio::task::spawn_blocking(move || typed(asked, &lines)).await.unwrap();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Lantern"), "what is typed is shown: {shown}");
    assert!(!shown.contains(SECRET), "the secret is shown: {shown}");
    let file = folder.path().join("companion.toml");
    assert_eq!(mode(&file), 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("# The address and port to listen on."), "the comments are there");
    assert!(text.contains("redirect_uri = [\"https://bot.example/site/dashboard\"]"), "{text}");
    assert!(text.contains(SECRET) && text.contains("name = \"Lantern \u{1f3ee}\""));
    let (code, said) = checked(folder.path(), &[]).await;
    assert!(code == 0 && said.ends_with("The configuration is fine.\n"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is made");
}

#[tokio::test]
async fn without_a_terminal_the_options_say_everything() {
    let folder = Folder::new();
    let (code, said) = outcome(folder.path(), &["init"], &[]).await;
    assert_eq!(code, 64, "{said}");
    for option in ["--client-id ID", "--client-secret-file FILE", "--redirect-uri URL"] {
        assert!(said.contains(option), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    fs::write(folder.path().join("secret"), format!("{SECRET}\n")).unwrap();
    let options = [
        "init",
        "--client-id",
        "1",
        "--client-secret-file",
        "secret",
        "--redirect-uri",
        "https://a.example/callback",
        "--redirect-uri",
        "http://localhost:3000/callback",
        "--listen",
        "127.0.0.1:9000",
        "--json",
    ];
    let (code, said) = outcome(folder.path(), &options, &[]).await;
    assert_eq!(code, 0, "{said}");
    let value: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value, json!({ "file": "companion.toml", "secret": "file", "store": "SQLite", "key_made": false }));
    let (code, said) = checked(folder.path(), &[]).await;
    assert_eq!(code, 0, "{said}");
    let before = fs::read(folder.path().join("companion.toml")).unwrap();
    let (code, said) = outcome(folder.path(), &options, &[]).await;
    assert!(code == 1 && said.contains("already exists") && said.contains("--force"), "{said}");
    assert_eq!(fs::read(folder.path().join("companion.toml")).unwrap(), before);
    // A service that reads it through its group still can.
    let file = folder.path().join("companion.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = outcome(folder.path(), &[&options[..], &["--force", "--name", "B"]].concat(), &[]).await;
    assert_eq!(code, 0, "{said}");
    assert_ne!(fs::read(&file).unwrap(), before);
    assert_eq!(mode(&file), 0o640, "and nobody else");
    let plain = &options[..options.len() - 1];
    let (code, said) = outcome(folder.path(), &[plain, &["--force"]].concat(), &[]).await;
    assert!(code == 0 && said.contains("with the owner and group it had") && !said.contains("only you"), "{said}");
}

#[tokio::test]
async fn a_secret_of_the_environment_stays_there_and_postgresql_gets_a_key() {
    let folder = Folder::new();
    let options = [
        "init",
        "--client-id",
        "1",
        "--public-url",
        "https://bot.example",
        "--store",
        "postgres://me:pass@127.0.0.1/data",
    ];
    let variables = [("COMPANION_IDP_CLIENT_SECRET", SECRET)];
    for (more, variables) in [(&[][..], &variables[..]), (&["--secret-from-environment", "--force"], &[])] {
        let (code, said) = outcome(folder.path(), &[&options[..], more].concat(), variables).await;
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("set COMPANION_IDP_CLIENT_SECRET or") && said.contains("a new key"), "{said}");
        assert!(!said.contains("pass") && !said.contains(SECRET), "{said}");
    }
    let text = fs::read_to_string(folder.path().join("companion.toml")).unwrap();
    assert!(!text.contains(SECRET) && text.contains("\n#client_secret = \"\"\n"), "{text}");
    assert!(text.contains("\nkeys = [\""), "{text}");
    let (code, said) = checked(folder.path(), &variables).await;
    assert_eq!(code, 0, "{said}");
    let (code, said) = checked(folder.path(), &[]).await;
    assert!(code == 78 && said.contains("idp.client_secret is not set"), "{said}");
}

#[tokio::test]
async fn what_check_would_refuse_is_not_written() {
    let folder = Folder::new();
    let fine = ["--client-id", "1", "--secret-from-environment", "--redirect-uri", "https://a.example/callback"];
    for (options, code) in [
        (&["--public-url", "https://a.example/path"][..], 64),
        (&["--store", "mysql://x"], 64),
        (&["--redirect-uri", "nowhere"], 64),
        // Two addresses of one origin.
        (&["--redirect-uri", "https://a.example/other"], 78),
    ] {
        let (found, said) = outcome(folder.path(), &[&["init"], &fine[..], options].concat(), &[]).await;
        assert_eq!(found, code, "{options:?}: {said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{options:?}");
    }
}
