//! What `backup` and `restore` print and write, beyond the drill in `upkeep.rs`.

use std::fs;
use std::path::Path;

use runtime::clock::Clock;
use serde_json::{Value, json};

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::terminal::typed;
use crate::harness::{Folder, sandbox, sqlite_only};

const OLD: &str = "old:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
/// Another key under another ID.
const NEW: &str = "new:QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
/// Another key under the old one's ID.
const WRONG: &str = "old:Q0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0M=";

async fn output(config: &Path, keys: Option<&str>, arguments: &[&str]) -> std::process::Output {
    let mut asked = command(arguments);
    asked.arg("--config").arg(config);
    if let Some(keys) = keys {
        asked.env("COMPANION_SECRETS_KEYS", keys);
    }
    run(asked).await
}

/// Standard output of a command that succeeds.
async fn done(config: &Path, keys: Option<&str>, arguments: &[&str]) -> String {
    let output = output(config, keys, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A store with one grant, whose service is stopped; the keys may come from the environment. Returns
/// its user's token.
async fn with_a_grant(config: &Path, provider: &sandbox::Sandbox, keys: Option<&str>) -> String {
    let mut asked = command(&["serve", "--listen", "127.0.0.1:0"]);
    asked.arg("--config").arg(config);
    if let Some(keys) = keys {
        asked.env("COMPANION_SECRETS_KEYS", keys);
    }
    let mut service = Running::start(asked).await;
    let answer = service.client().post("/auth").header("Idp-Code", provider.issue_code("owner")).send().await;
    let token = answer.data()["token"].as_str().unwrap().to_owned();
    service.terminate();
    assert!(service.ended().await.success());
    token
}

#[tokio::test]
async fn backup_and_restore_say_which_grants_the_keys_open() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    with_a_grant(&config, &provider, Some(OLD)).await;
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let cases = [
        (OLD, 1, "1 of 1 grant in it can be decrypted with the keys configured here: 1 with the key old."),
        (NEW, 0, "1 grant can't be read without the key old, which is not configured"),
        (WRONG, 0, "1 grant can't be read with the key old"),
    ];
    for (number, (keys, readable, said)) in cases.into_iter().enumerate() {
        let (text, value) = (file(&format!("text-{number}")), file(&format!("json-{number}")));
        let told = done(&config, Some(keys), &["backup", &text]).await;
        assert!(told.contains(said), "{told}");
        let report: Value =
            serde_json::from_str(&done(&config, Some(keys), &["backup", &value, "--json"]).await).unwrap();
        assert_eq!((&report["grants"]["total"], &report["grants"]["readable"]), (&json!(1), &json!(readable)));
        let restore = ["restore", &value, "--replace", "--keep-sessions"];
        let told = done(&config, Some(keys), &restore).await;
        assert!(told.contains(said), "{told}");
        let report = done(&config, Some(keys), &[&restore[..], &["--json"]].concat()).await;
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["grants"]["readable"], json!(readable), "{report}");
        assert_eq!(report["grants"]["keys"].as_array().unwrap().last().unwrap()["id"], "old");
    }
}

#[tokio::test]
async fn a_restore_makes_no_key_and_says_where_the_old_one_belongs() {
    sqlite_only!("only SQLite gets a key file next to the database");
    let (folder, elsewhere, provider) = (Folder::new(), Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    with_a_grant(&config, &provider, None).await;
    let file = folder.path().join("backup");
    done(&config, None, &["backup", file.to_str().unwrap()]).await;
    let config = config_file(&elsewhere, &provider, "");
    let told = done(&config, None, &["restore", file.to_str().unwrap()]).await;
    let key = elsewhere.path().join("data.db.key");
    assert!(told.contains("0 of 1 grant in it can be decrypted"), "{told}");
    assert!(told.contains(&format!("There is no key file at {}", key.display())), "{told}");
    assert!(!key.exists(), "a new key would take the place of the right one");
    fs::copy(folder.path().join("data.db.key"), &key).unwrap();
    let told = done(&config, None, &["restore", file.to_str().unwrap(), "--replace"]).await;
    assert!(told.contains("1 of 1 grant") && !told.contains("There is no key file"), "{told}");
}

#[tokio::test]
async fn a_backup_goes_to_standard_output_and_nowhere_else() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    done(&config, None, &["key", "create", "--label", "lantern"]).await;
    let listed = done(&config, None, &["key", "list"]).await;
    let here = folder.path().join("here");
    fs::create_dir(&here).unwrap();
    let mut asked = command(&["backup", "-"]);
    asked.arg("--config").arg(&config).current_dir(&here);
    let output = run(asked).await;
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(output.stdout.starts_with(b"bot-companion backup 2\n"), "standard output is the backup");
    assert!(told.contains("were written to standard output") && told.contains("It holds no grants."), "{told}");
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0, "a file was made");

    // It is a complete backup, with nothing after its end.
    let file = folder.path().join("backup");
    fs::write(&file, &output.stdout).unwrap();
    done(&config, None, &["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!(done(&config, None, &["key", "list"]).await, listed);

    let output = self::output(&config, None, &["backup", "-", "--json"]).await;
    let report: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&report["file"], &report["bytes"]), (&json!("-"), &Value::Null));
    assert!(output.stdout.starts_with(b"bot-companion backup 2\n"));
    let output = self::output(&config, None, &["restore", "-"]).await;
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it must be a file"));
}

#[tokio::test]
async fn a_backup_into_a_pipe_that_is_closed_fails() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    done(&config, None, &["key", "create", "--label", "lantern"]).await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut asked = command(&["backup", "-"]);
    asked.arg("--config").arg(&config).stdout(writer).stderr(std::process::Stdio::piped());
    let output = tokio::task::spawn_blocking(move || asked.spawn().unwrap().wait_with_output().unwrap()).await.unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("could not be written to standard output"), "{told}");
}

/// The backup with a different text in its header and the matching checksum.
fn tampered(whole: &[u8], from: &str, to: &str) -> Vec<u8> {
    let place = whole.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    let body = [&whole[..place], to.as_bytes(), &whole[place + from.len()..whole.len() - 32]].concat();
    let checksum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body);
    [&body, checksum.as_ref()].concat()
}

#[tokio::test]
async fn a_tampered_backup_reaches_neither_the_terminal_nor_the_store() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    done(&config, None, &["key", "create", "--label", "lantern"]).await;
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    done(&config, None, &["backup", &file("good")]).await;
    let whole = fs::read(file("good")).unwrap();
    let listed = done(&config, None, &["key", "list"]).await;
    // The digits go in front of the real counter, which makes it larger than in any store.
    let release = format!("\"release\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let cases = [
        (release.as_str(), "\"release\":\"\\u001b[2J\"", "names no release"),
        ("\"counter\":", "\"counter\":9007199254740993", "an impossible counter"),
    ];
    for (from, to, why) in cases {
        // With another schema, the message names the release.
        for (schema, other) in [("\"schema\":", "\"schema\":"), ("\"schema\":", "\"schema\":9")] {
            let wrong = tampered(&tampered(&whole, from, to), schema, other);
            fs::write(file("wrong"), wrong).unwrap();
            let output = output(&config, None, &["restore", &file("wrong"), "--replace"]).await;
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains(why) && !told.contains('\u{1b}'), "{told:?}");
        }
    }
    assert_eq!(done(&config, None, &["key", "list"]).await, listed);
}

#[tokio::test]
async fn a_backup_is_not_written_to_a_terminal() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    done(&config, None, &["key", "create", "--label", "lantern"]).await;
    let mut asked = command(&["backup", "-"]);
    asked.arg("--config").arg(&config);
    let (code, shown) = tokio::task::spawn_blocking(move || typed(asked, &[])).await.unwrap();
    assert_eq!(code, 64, "{shown}");
    assert!(
        shown.contains("redirect the output, or give a file name") && !shown.contains("bot-companion backup 2"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_key_file_of_no_use_does_not_stand_in_the_way_of_a_backup() {
    sqlite_only!("only SQLite gets a key file next to the database");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    with_a_grant(&config, &provider, None).await;
    fs::write(folder.path().join("data.db.key"), "rubbish").unwrap();
    let told = done(&config, None, &["backup", folder.path().join("backup").to_str().unwrap()]).await;
    assert!(told.contains("0 of 1 grant in it can be decrypted"), "{told}");
}

#[tokio::test]
async fn a_store_moves_to_the_other_kind_and_back_with_its_sessions() {
    let (folder, other, provider) = (Folder::new(), Folder::new(), sandbox(Clock::system()));
    let (config, back) = (config_file(&folder, &provider, ""), config_file(&other, &provider, ""));
    let file = format!("sqlite:{}", folder.path().join("moved.db").display());
    let asked = |config: &Path, url: Option<&str>, arguments: &[&str]| {
        let mut asked = command(arguments);
        asked.arg("--config").arg(config).env("COMPANION_SECRETS_KEYS", OLD);
        asked.envs(url.map(|url| ("COMPANION_STORE_URL", url)));
        asked
    };
    let token = with_a_grant(&config, &provider, Some(OLD)).await;
    for (number, (from, to)) in
        [((&config, None), (&config, Some(&*file))), ((&config, Some(&*file)), (&back, None))].into_iter().enumerate()
    {
        let backup = folder.path().join(format!("moving-{number}"));
        let backup = backup.to_str().unwrap();
        assert!(run(asked(from.0, from.1, &["backup", backup])).await.status.success());
        let restored = run(asked(to.0, to.1, &["restore", backup, "--keep-sessions"])).await;
        let told = String::from_utf8_lossy(&restored.stdout);
        assert!(told.contains("1 of 1 grant in it can be decrypted"), "{told}");
        let mut service = Running::start(asked(to.0, to.1, &["serve", "--listen", "127.0.0.1:0"])).await;
        assert_eq!(service.client().with_token(&token).get("/sessions").await.status, 200);
        service.terminate();
        assert!(service.ended().await.success());
    }
}

#[tokio::test]
async fn a_folder_of_backups_keeps_the_latest_and_every_other_file() {
    let (folder, backups, provider) = (Folder::new(), Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    with_a_grant(&config, &provider, Some(OLD)).await;
    let to = backups.path().join("backups");
    fs::create_dir(&to).unwrap();
    let old = ["companion-2020-01-01T000000Z.backup", "companion-2020-01-02T000000Z.backup"];
    for name in old.iter().copied().chain(["companion-2020-01-01.backup", "notes.txt"]) {
        fs::write(to.join(name), name).unwrap();
    }
    let report = done(&config, Some(OLD), &["backup", "--to", to.to_str().unwrap(), "--keep", "2", "--json"]).await;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["deleted"], json!([old[0]]));
    let written = Path::new(report["file"].as_str().unwrap());
    assert_eq!(written.parent(), Some(to.as_path()));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(written).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut left: Vec<_> =
        fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    let name = written.file_name().unwrap().to_str().unwrap();
    assert_eq!(left, ["companion-2020-01-01.backup", old[1], name, "notes.txt"]);
    done(&config, Some(OLD), &["restore", written.to_str().unwrap(), "--replace"]).await;

    let to = to.to_str().unwrap();
    for (arguments, code, told) in [
        (&["backup", "--to", to, "--keep", "0"][..], 64, "keep at least 1"),
        (&["backup", "--keep", "7", "somewhere"], 64, "cannot be used with"),
        (&["backup", "--to", to, "somewhere"], 64, "cannot be used with"),
        (&["backup"], 64, "--to"),
        (&["backup", "--to", "/nowhere/at/all"], 1, "there is no folder /nowhere/at/all"),
    ] {
        let output = output(&config, Some(OLD), arguments).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && said.contains(told), "{arguments:?}: {said}");
    }
}
