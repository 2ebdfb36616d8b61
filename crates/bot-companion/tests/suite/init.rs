//! `bot-companion init`, typed at a terminal and run by a script.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::Folder;
use crate::harness::binary::{command, confined, run};
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

/// The commands below "Next:", without comments.
fn next_commands(said: &str) -> Vec<&str> {
    let (_, commands) = said.split_once("Next:").unwrap_or_else(|| panic!("{said}"));
    let commands = commands.lines().map(|line| line.split('#').next().unwrap().trim());
    commands.filter(|line| !line.is_empty()).collect()
}

#[tokio::test]
async fn somebody_at_a_terminal_is_told_at_once_what_is_wrong_with_an_answer() {
    let folder = Folder::new();
    let mut asked = command(&["init"]);
    asked.current_dir(folder.path());
    let lines = [
        ("Public address", "bot.example"),
        ("the scheme is missing", "http://bot.example"),
        ("use https", "https://bot.example/"),
        ("Application (client) ID", ""),
        ("consists of digits", "abc"),
        ("consists of digits", "123456789012345678"),
        ("File for the client secret", ""),
        ("bot's name", "Lantern \u{1f3ee}"),
    ];
    let (code, shown) = tokio::task::spawn_blocking(move || typed(asked, &lines)).await.unwrap();
    assert_eq!(code, 0, "{shown}");
    let (file, secret) = (folder.path().join("companion.toml"), folder.path().join("client-secret"));
    assert_eq!(mode(&file), 0o600);
    let text = fs::read_to_string(&file).unwrap();
    for line in [
        "trusted_proxies = [\"127.0.0.1\", \"::1\"]",
        "redirect_uri = [\"https://bot.example/site/dashboard\"]",
        &format!("client_secret_file = \"{}\"", secret.display()),
        "name = \"Lantern \u{1f3ee}\"",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let (code, said) = checked(folder.path(), &[]).await;
    let missing = format!("idp.client_secret_file: the file {} cannot be read: No such file", secret.display());
    assert!(code == 78 && said.contains(&missing), "{said}");

    // What it says to do next, word for word.
    let next = next_commands(&shown);
    let [install, check, serve] = next[..] else { panic!("{shown}") };
    assert_eq!(install, format!("install -m 600 /dev/stdin {}", secret.display()));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("echo {SECRET} | {install}")]);
    assert!(run(shell).await.status.success());
    assert_eq!(mode(&secret), 0o600);
    assert_eq!(check, "bot-companion check --live --config companion.toml");
    assert_eq!(serve, "bot-companion serve --config companion.toml");
    assert_eq!(checked(folder.path(), &[]).await, (0, "The configuration is fine.\n".to_owned()));
}

#[tokio::test]
async fn an_input_that_ends_early_writes_nothing() {
    let folder = Folder::new();
    let mut asked = command(&["init"]);
    asked.current_dir(folder.path());
    // The second line is the terminal's key for the end of the input.
    let lines = [("Public address", "https://bot.example"), ("client) ID", "\u{4}")];
    let (code, shown) = tokio::task::spawn_blocking(move || typed(asked, &lines)).await.unwrap();
    assert!(code == 1 && shown.contains("nothing was written"), "{code}: {shown}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_units_configuration_is_for_its_user() {
    for (folder, file) in [("/", "/etc/bot-companion/companion.toml"), ("/etc/bot-companion", "companion.toml")] {
        let wanted = command(&["init", file, "--client-id", "1", "--public-url", "https://a.example"]);
        let script = format!("mount -t tmpfs none /etc && mkdir /etc/bot-companion && cd {folder} &&");
        let Some(wanted) = confined(&script, &["--mount"], &wanted) else { return };
        let output = run(wanted).await;
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let expected = [
            "install -m 640 -g bot-companion /dev/stdin /etc/bot-companion/client-secret",
            &format!("chgrp bot-companion {file} && chmod 640 {file}"),
            &format!("runuser -u bot-companion -- bot-companion check --live --config {file}"),
            "systemctl enable --now bot-companion",
        ];
        assert_eq!(next_commands(&said), expected, "{said}");
    }
}

#[tokio::test]
async fn what_it_prints_next_works_with_any_path_and_below_a_base_path() {
    let folder = Folder::new();
    let options = ["--client-id", "1", "--public-url", "https://BOT.example:443/api/"];
    let (file, secret) = ("it's mine.toml", "new folder/secret");
    let all = [&["init", file, "--client-secret-file", secret], &options[..]].concat();
    let (code, said) = outcome(folder.path(), &all, &[]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Register https://bot.example/api/site/dashboard as a redirect"), "{said}");
    let [install, check, _] = next_commands(&said)[..] else { panic!("{said}") };
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(folder.path()).args(["-c", &format!("echo {SECRET} | {install}")]);
    assert!(run(shell).await.status.success(), "{install}");
    assert_eq!(mode(&folder.path().join(secret)), 0o600);
    assert_eq!(check, "bot-companion check --live --config 'it'\\''s mine.toml'");
    let found = outcome(folder.path(), &["check", "--config", file], &[]).await;
    assert_eq!(found, (0, "The configuration is fine.\n".to_owned()));
}

#[tokio::test]
async fn nothing_is_asked_for_a_file_that_cannot_be_written() {
    let folder = Folder::new();
    for (file, problem) in [("absent/companion.toml", "there is no folder"), (".", "is a folder")] {
        let (code, said) = outcome(folder.path(), &["init", file, "--force"], &[]).await;
        assert!(code == 1 && said.contains(problem), "{code}: {said}");
    }
}

#[tokio::test]
async fn without_a_terminal_the_options_say_everything() {
    let folder = Folder::new();
    let (code, said) = outcome(folder.path(), &["init"], &[]).await;
    assert_eq!(code, 64, "{said}");
    for option in ["--client-id ID", "--public-url URL", "--redirect-uri URL"] {
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
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(SECRET) && text.contains("/secret\"\n"), "the file is named, by its full path: {text}");
    assert!(!text.contains("trusted_proxies"), "without a public address, there need not be a proxy: {text}");
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
    assert!(!text.contains(SECRET) && !text.contains("client_secret"), "{text}");
    assert!(text.contains("\nkeys = [\""), "{text}");
    let (code, said) = checked(folder.path(), &variables).await;
    assert_eq!(code, 0, "{said}");
    let (code, said) = checked(folder.path(), &[]).await;
    assert!(code == 78 && said.contains("idp.client_secret is not set"), "{said}");
}

#[tokio::test]
async fn what_check_would_refuse_is_not_written() {
    let folder = Folder::new();
    let fine = ["--redirect-uri", "https://a.example/callback"];
    for (options, code) in [
        (&["--public-url", "a.example"][..], 64),
        (&["--public-url", "http://a.example"], 64),
        (&["--client-id", "abc"], 64),
        (&["--listen", "localhost:8080"], 64),
        (&["--store", "mysql://x"], 78),
        (&["--redirect-uri", "nowhere"], 64),
        (&["--client-secret-file", "/"], 64),
        (&["--client-secret-file", "~/secret"], 64),
        (&["--public-url", "https://a.example/x y"], 64),
        // Two addresses of one origin.
        (&["--redirect-uri", "https://a.example/other"], 78),
    ] {
        let id: &[&str] = if options.contains(&"--client-id") { &[] } else { &["--client-id", "1"] };
        let (found, said) = outcome(folder.path(), &[&["init"], id, &fine[..], options].concat(), &[]).await;
        assert_eq!(found, code, "{options:?}: {said}");
        assert!(code == 64 || said.contains("nothing was written"), "{options:?}: {said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{options:?}");
    }
}
