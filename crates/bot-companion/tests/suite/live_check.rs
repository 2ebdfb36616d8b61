//! `check --live`, `healthcheck`, `completions` and `man`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use runtime::clock::Clock;
use serde_json::Value;

use crate::harness::binary::{Running, command, config_file, confined, run};
use crate::harness::{Folder, eventually, sandbox, sqlite_only};

type Variables<'a> = &'a [(&'a str, &'a str)];

async fn said(arguments: &[&str], variables: Variables<'_>) -> (i32, String, String) {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    let output = run(command).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The exit code and the lines of a live check: status and text by name.
async fn checked(config: &Path, variables: Variables<'_>) -> (i32, BTreeMap<String, (String, String)>) {
    let arguments = ["check", "--live", "--json", "--config", config.to_str().unwrap()];
    let quiet = [("COMPANION_HTTP_LISTEN", "127.0.0.1:0"), ("COMPANION_ADMIN_LISTEN", "off")];
    let (code, output, error) = said(&arguments, &[&quiet, variables].concat()).await;
    let lines: Value = serde_json::from_str(&output).unwrap_or_else(|_| panic!("{output}{error}"));
    let word = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let entry = |line: &Value| (word(line, "check"), (word(line, "status"), word(line, "text")));
    (code, lines.as_array().unwrap().iter().map(entry).collect())
}

/// Asserts that the check fails because of this line, which contains this.
async fn fails(config: &Path, variables: Variables<'_>, name: &str, parts: &[&str]) {
    let (code, lines) = checked(config, variables).await;
    let (status, text) = lines.get(name).unwrap_or_else(|| panic!("{name}: {lines:?}"));
    assert_eq!((code, status.as_str()), (1, "failed"), "{lines:?}");
    for part in parts {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

/// Every file below a folder, with its contents.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn serve(config: &Path) -> std::process::Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

#[tokio::test]
async fn beside_a_running_service_everything_is_found() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "admin.listen = \"127.0.0.1:0\"");
    let service = Running::start(serve(&config)).await;
    let answer = service.client().post("/auth").header("Idp-Code", provider.issue_code("owner")).send().await;
    assert_eq!(answer.status, 200);
    let address = service.address.to_string();
    let (code, lines) = checked(&config, &[("COMPANION_HTTP_LISTEN", &address)]).await;
    assert_eq!(code, 0, "{lines:?}");
    for (name, status, part) in [
        ("port", "ok", "is in use by a running bot-companion"),
        ("store", "ok", "answers"),
        ("schema", "ok", "as this release expects"),
        ("keys", "ok", "all 1 grants can be read"),
        ("bot", "warning", "no bot has ever reported"),
        ("provider", "ok", "answers"),
        ("credentials", "ok", "only the code was refused"),
        ("clock", "ok", "agrees"),
        ("certificate", "ok", "plain HTTP"),
    ] {
        let (found, text) = &lines[name];
        assert!(found == status && text.contains(part), "{name}: {found} {text}");
    }
    let plain = [("COMPANION_HTTP_LISTEN", address.as_str()), ("COMPANION_ADMIN_LISTEN", "off")];
    let (code, text, _) = said(&["check", "--live", "--config", config.to_str().unwrap()], &plain).await;
    assert!(code == 0 && text.contains("ok       credentials  accepted"), "{text}");
}

#[tokio::test]
async fn a_live_check_changes_nothing() {
    sqlite_only!("the server's own files change as it likes; there the connection is read-only");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let before = contents(folder.path());
    let (code, lines) = checked(&config, &[]).await;
    assert!(code == 0 && lines["store"].1.contains("the first start creates it"), "{lines:?}");
    assert_eq!(contents(folder.path()), before);

    let mut service = Running::start(serve(&config)).await;
    service.terminate();
    assert!(service.ended().await.success());
    let before = contents(folder.path());
    assert!(!before.contains_key("data.db-wal"), "{:?}", before.keys());
    let (code, lines) = checked(&config, &[]).await;
    assert!(code == 0 && lines["keys"].1.contains("all 0 grants"), "{lines:?}");
    assert_eq!(contents(folder.path()), before);
    fs::remove_file(folder.path().join("data.db.key")).unwrap();
    let (code, lines) = checked(&config, &[]).await;
    assert!(code == 0 && lines["keys"].1.contains("the first start creates one"), "{lines:?}");
    assert!(!folder.path().join("data.db.key").exists());
}

#[tokio::test]
async fn what_is_wrong_with_port_and_provider_is_found() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    fails(&config, &[("COMPANION_HTTP_LISTEN", &taken)], "port", &[&taken, "another program", "http.listen"]).await;
    fails(&config, &[("COMPANION_ADMIN_LISTEN", &taken)], "admin port", &[&taken, "admin.listen"]).await;
    drop(other);

    let wrong = [("COMPANION_IDP_CLIENT_SECRET", "wrong-secret")];
    fails(&config, &wrong, "credentials", &["invalid_client", "idp.client_secret", "one refused call"]).await;
    let away = [("COMPANION_IDP_BASE_URL", "http://127.0.0.1:1/api")];
    fails(&config, &away, "provider", &["http://127.0.0.1:1/api", "cannot be reached", "name resolution"]).await;
}

/// A provider whose clock stands still, for as many calls.
fn provider_at(date: &'static str, calls: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/api", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().take(calls) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let body = "{\"error\":\"invalid_grant\"}";
            let head = format!(
                "HTTP/1.1 400 Bad Request\r\nDate: {date}\r\nConnection: close\r\nContent-Length: {}\r\n",
                body.len()
            );
            stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        }
    });
    url
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_found() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let url = provider_at("Sun, 06 Nov 1994 08:49:37 GMT", 1);
    fails(&config, &[("COMPANION_IDP_BASE_URL", &url)], "clock", &["ahead of the provider's", "NTP"]).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_certificate_is_found() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let write = |names: &[&str], year: i32| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut wanted = rcgen::CertificateParams::new(names).unwrap();
        wanted.not_after = rcgen::date_time_ymd(year, 1, 1);
        let pair = rcgen::KeyPair::generate().unwrap();
        fs::write(&cert, wanted.self_signed(&pair).unwrap().pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
    };
    let files = [("COMPANION_TLS_CERT", cert.to_str().unwrap()), ("COMPANION_TLS_KEY", key.to_str().unwrap())];
    write(&["dashboard.example", "192.0.2.7"], 2999);
    let (code, lines) = checked(&config, &files).await;
    let (status, text) = &lines["certificate"];
    assert!(code == 0 && status == "ok", "{lines:?}");
    assert!(text.contains("for dashboard.example, 192.0.2.7 and valid until 2999-01-01T00:00:00Z"), "{text}");
    write(&["dashboard.example"], 2001);
    fails(&config, &files, "certificate", &["cert.pem expired at 2001-01-01T00:00:00Z", "renew it"]).await;
    write(&[], 2999);
    fails(&config, &files, "certificate", &["names nobody"]).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_store_is_found() {
    sqlite_only!("these are files");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let mut service = Running::start(serve(&config)).await;
    let answer = service.client().post("/auth").header("Idp-Code", provider.issue_code("owner")).send().await;
    assert_eq!(answer.status, 200);
    service.terminate();
    assert!(service.ended().await.success());

    let key = format!("other:{}=", "A".repeat(43));
    let other = [("COMPANION_SECRETS_KEYS", key.as_str())];
    fails(&config, &other, "keys", &["1 grants in the database cannot be read", "secrets.keys"]).await;
    let (code, text, _) = said(&["check", "--config", config.to_str().unwrap()], &other).await;
    assert!(code == 0 && text.contains("Warning: 1 grants in the database cannot be read"), "{text}");
    let kept = folder.path().join("kept.key");
    fs::rename(folder.path().join("data.db.key"), &kept).unwrap();
    fails(&config, &[], "keys", &["data.db.key is missing", "put it back"]).await;
    fs::rename(&kept, folder.path().join("data.db.key")).unwrap();

    rusqlite::Connection::open(folder.file()).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    fails(&config, &[], "schema", &["version 1000", "run the newer release, or restore a backup"]).await;
    rusqlite::Connection::open(folder.file()).unwrap().pragma_update(None, "user_version", 9).unwrap();
    fails(&config, &[], "store", &["schema version 9", "made by an unreleased version"]).await;
    fs::write(folder.path().join("text.db"), "this is no database, however long it is. ".repeat(200)).unwrap();
    let url = format!("sqlite:{}", folder.path().join("text.db").display());
    fails(&config, &[("COMPANION_STORE_URL", &url)], "store", &["text.db: ", "file is not a database"]).await;
}

#[tokio::test]
async fn a_database_server_that_is_away_is_found() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let key = format!("one:{}=", "A".repeat(43));
    let away = [("COMPANION_STORE_URL", "postgres://me:hushhush@127.0.0.1:1/data"), ("COMPANION_SECRETS_KEYS", &key)];
    fails(&config, &away, "store", &["database `data` at 127.0.0.1:1", "refused", "start the database"]).await;
    let (_, lines) = checked(&config, &away).await;
    assert!(!format!("{lines:?}").contains("hush"), "{lines:?}");
}

#[tokio::test]
async fn a_healthcheck_says_whether_requests_are_taken() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "admin.listen = \"127.0.0.1:0\"\nlimits.drain_delay = \"1m\"");
    let mut service = Running::start(serve(&config)).await;
    let mark = "metrics and health are on http://";
    eventually("the admin listener is there", async || service.logged().contains(mark)).await;
    let admin = service.logged().split_once(mark).unwrap().1.split('/').next().unwrap().to_owned();
    let address = service.address.to_string();
    let config = config.to_str().unwrap();
    let healthcheck = ["healthcheck", "--config", config];
    let by_admin = [("COMPANION_ADMIN_LISTEN", admin.as_str())];
    let by_service = [("COMPANION_ADMIN_LISTEN", "off"), ("COMPANION_HTTP_LISTEN", address.as_str())];
    for variables in [&by_admin[..], &by_service] {
        assert_eq!(said(&healthcheck, variables).await, (0, "ready\n".to_owned(), String::new()));
    }
    let (code, ..) = said(&["healthcheck", "--config", config, "--listen", &address], &[]).await;
    assert_eq!(code, 0);
    service.terminate();
    eventually("it drains", async || service.logged().contains("stopping: ")).await;
    for variables in [&by_admin[..], &by_service] {
        let (code, output, error) = said(&healthcheck, variables).await;
        assert_eq!((code, output.as_str()), (1, ""), "{error}");
        assert!(error.contains("is shutting down"), "{error}");
    }
    service.kill();
    let _ = service.ended().await;
    for variables in [&by_admin[..], &by_service] {
        let (code, _, error) = said(&healthcheck, variables).await;
        assert!(code == 1 && error.contains("does not answer"), "{error}");
    }
}

/// Another program, which answers every request with this.
fn program(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).unwrap();
        }
    });
    address
}

#[tokio::test]
async fn no_other_program_answers_a_healthcheck() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let config = config.to_str().unwrap();
    for body in ["hi", "{\"status\":\"ready\"}", "{\"data\":{\"status\":\"ready\"}}"] {
        let address = program(body);
        for variables in [
            &[("COMPANION_ADMIN_LISTEN", address.as_str())][..],
            &[("COMPANION_ADMIN_LISTEN", "off"), ("COMPANION_HTTP_LISTEN", address.as_str())],
        ] {
            let (code, output, error) = said(&["healthcheck", "--config", config], variables).await;
            let is_told = error.contains("not the way this service does") || error.contains("does not answer");
            assert!(code == 1 && output.is_empty() && is_told, "{body}: {error}");
        }
    }
    // Without a configuration, anything on the default port would be asked.
    let (code, output, error) = said(&["healthcheck"], &[]).await;
    assert!(code == 78 && output.is_empty() && error.contains("no configuration was given"), "{output}{error}");
}

#[tokio::test]
async fn another_bot_companion_with_the_default_admin_address_does_not_answer_a_healthcheck() {
    let (folder, other, provider) = (Folder::new(), Folder::new(), sandbox(Clock::system()));
    let (ours, theirs) = (
        config_file(&folder, &provider, "http.listen = \"127.0.0.1:8081\""),
        config_file(&other, &provider, "http.listen = \"127.0.0.1:8082\""),
    );
    let (ours, theirs) = (ours.to_str().unwrap(), theirs.to_str().unwrap());
    // The other one is running, and ours is not.
    let script = format!(
        "ip link set lo up && {{ \"$1\" serve --config {theirs} & }}; other=$!; until \"$1\" healthcheck --config {theirs} >&2; do sleep 0.1; \
         done; \"$1\" healthcheck --config {ours}; code=$?; kill -9 $other; exit $code;"
    );
    let Some(command) = confined(&script, &["--net"], &command(&["serve"])) else { return };
    let output = run(command).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{error}");
    assert!(error.contains("ready\n") && error.contains("127.0.0.1:8081/ready does not answer"), "{error}");
}

#[tokio::test]
async fn shells_and_man_learn_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, text, _) = said(&["completions", shell], &[]).await;
        assert!(code == 0 && text.contains("healthcheck") && text.contains("keep-sessions"), "{shell}");
    }
    let (code, page, _) = said(&["man"], &[]).await;
    assert!(code == 0 && page.contains(".TH bot-companion 1") && page.contains("Exit codes"), "{page}");
    let (code, page, _) = said(&["man", "key", "create"], &[]).await;
    let title = format!(".TH bot-companion-key-create 1  \"bot-companion {}\"", env!("CARGO_PKG_VERSION"));
    assert!(code == 0 && page.contains(&title), "{page}");
    assert!(page.contains("\\-\\-label"), "{page}");
    let (code, _, error) = said(&["man", "nothing"], &[]).await;
    assert!(code == 64 && error.contains("there is no command `nothing`"), "{error}");
}
