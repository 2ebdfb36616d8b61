//! What the service says when it starts, and when it cannot: keys that were created or are missing, files that others can read,
//! why a store cannot be opened.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use runtime::clock::Clock;

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, on_postgres, sandbox, sqlite_only};

fn serve(config: &Path) -> Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

async fn signed_in(service: &Running, code: &str) {
    let answer = service.client().post("/auth").header("Idp-Code", code).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

async fn stopped(mut service: Running) -> String {
    service.terminate();
    assert!(service.ended().await.success());
    service.logged()
}

/// The output of a command, and its exit code.
async fn said(command: Command) -> (i32, String) {
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[tokio::test]
async fn a_key_that_is_made_is_said_and_a_lost_one_is_missed() {
    sqlite_only!("a server's keys are always given");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let key = folder.path().join("data.db.key");
    let made = "created a key for the provider's tokens";
    let first = Running::start(serve(&config)).await;
    signed_in(&first, &provider.issue_code("owner")).await;
    signed_in(&first, &provider.issue_code("member")).await;
    let log = stopped(first).await;
    assert!(log.contains(made) && log.contains("data.db.key"), "{log}");
    assert!(!log.contains("cannot be read"), "{log}");

    let log = stopped(Running::start(serve(&config)).await).await;
    assert!(!log.contains(made) && !log.contains("cannot be read"), "{log}");

    let old = folder.path().join("old.key");
    fs::rename(&key, &old).unwrap();
    let log = stopped(Running::start(serve(&config)).await).await;
    let lost = "2 grants in the database cannot be read, because the key that encrypted them is not configured";
    assert!(log.contains(made) && log.contains(lost), "{log}");
    assert!(log.contains("have to sign in again") && log.contains("put the old key file back at"), "{log}");

    // The new key is there now; the old grants are still missed, at each start.
    let log = stopped(Running::start(serve(&config)).await).await;
    assert!(!log.contains(made) && log.contains(lost) && log.contains("add that key to secrets.keys"), "{log}");

    fs::rename(&old, &key).unwrap();
    let log = stopped(Running::start(serve(&config)).await).await;
    assert!(!log.contains(made) && !log.contains("cannot be read"), "{log}");
}

#[tokio::test]
async fn files_that_others_can_read_are_warned_of_with_what_to_run() {
    sqlite_only!("its files are the server's");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let log = stopped(Running::start(serve(&config)).await).await;
    assert!(!log.contains("chmod"), "{log}");
    let (database, key) = (folder.file(), folder.path().join("data.db.key"));
    fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let warnings = [
        format!("everyone on this machine can read the database; run `chmod 600 {}`", database.display()),
        format!("others can read the key file; run `chmod 600 {}`", key.display()),
    ];
    let log = stopped(Running::start(serve(&config)).await).await;
    let (code, checked) = said(command(&["check", "--config", config.to_str().unwrap()])).await;
    assert_eq!(code, 0, "{checked}");
    for warning in warnings {
        assert!(log.contains(&warning), "{warning}: {log}");
        assert!(checked.contains(&format!("Warning: {warning}")), "{warning}: {checked}");
    }
    // The group may read the database, for backups.
    fs::set_permissions(&database, fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let log = stopped(Running::start(serve(&config)).await).await;
    assert!(!log.contains("chmod"), "{log}");
}

#[tokio::test]
async fn secrets_that_others_can_read_are_warned_of_with_what_to_run() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let at = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(at("cert.pem"), made.cert.pem()).unwrap();
    let secrets = [
        (at("key.pem"), "tls.key", made.signing_key.serialize_pem()),
        (at("keys"), "secrets.keys", folder_key(&folder)),
        (at("secret"), "idp.client_secret", "hushhush".to_owned()),
    ];
    for (path, _, text) in &secrets {
        fs::write(path, text).unwrap();
    }
    let set = |mode: u32| {
        let held = secrets.iter().map(|(path, ..)| path).chain([&config]);
        held.for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap());
    };
    let with_files = |mut command: Command| {
        command.env("COMPANION_TLS_CERT", at("cert.pem")).env("COMPANION_TLS_KEY", at("key.pem"));
        command.env("COMPANION_IDP_CLIENT_SECRET_FILE", at("secret"));
        command.env("COMPANION_SECRETS_KEYS_FILE", at("keys")).env("COMPANION_LOG_FILTER", "info");
        command
    };
    let check = || with_files(command(&["check", "--config", config.to_str().unwrap()]));
    set(0o644);
    let log = stopped(Running::start(with_files(serve(&config))).await).await;
    let (code, checked) = said(check()).await;
    assert_eq!(code, 0, "{checked}");
    let own = (config.clone(), "idp.client_secret", String::new());
    for (path, option, _) in secrets.iter().chain([&own]) {
        let path = path.display();
        let part = format!("everyone on this machine can read {path}, which contains {option}");
        for said in [&log, &checked] {
            let line = said.lines().find(|line| line.contains(&part)).unwrap_or_else(|| panic!("{part}: {said}"));
            assert!(line.contains(&format!("`chmod o-rwx {path}`")), "{line}");
        }
    }
    assert!(!log.contains("hushhush") && !checked.contains("hushhush"));
    // The group may be the service's own.
    set(0o640);
    let (code, checked) = said(check()).await;
    assert!(code == 0 && !checked.contains("chmod"), "{checked}");
}

/// A key for this folder's store; on PostgreSQL the configured one.
fn folder_key(folder: &Folder) -> String {
    if on_postgres() { folder.key() } else { format!("one:{}=", "A".repeat(43)) }
}

#[tokio::test]
async fn an_unverified_connection_over_the_network_is_warned_of() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    for (url, warned) in [
        ("postgres://me:hushhush@db.example/data", true),
        ("postgres://me:hushhush@db.example/data?sslmode=require", true),
        ("postgres://me:hushhush@db.example/data?sslmode=verify-full", false),
        ("postgres://me:hushhush@127.0.0.1/data", false),
    ] {
        let mut check = command(&["check", "--config", config.to_str().unwrap()]);
        check.env("COMPANION_STORE_URL", url).env("COMPANION_SECRETS_KEYS", format!("one:{}=", "A".repeat(43)));
        let (code, text) = said(check).await;
        assert_eq!(code, 0, "{text}");
        assert_eq!(text.contains("PostgreSQL at db.example:5432 is not verified"), warned, "{text}");
        assert_eq!(text.contains("sslmode=verify-full"), warned, "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
}

#[tokio::test]
async fn the_start_and_each_failure_name_the_file_and_the_remedy() {
    sqlite_only!("its errors are others");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let log = stopped(Running::start(serve(&config)).await).await;
    let start = log.lines().find(|line| line.contains("starting")).unwrap();
    assert!(start.contains("SQLite") && start.contains(folder.file().to_str().unwrap()), "{start}");

    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "hello").unwrap();
    fs::write(at("text.db"), "this is no database, however long it is. ".repeat(200)).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let newer = rusqlite::Connection::open(at("newer.db")).unwrap();
    newer.execute_batch("CREATE TABLE x (y); PRAGMA user_version = 1000").unwrap();
    for (path, what, remedy) in [
        (at("file/data.db"), "cannot be created", "part of the path is a file, not a folder"),
        (at("folder"), "cannot be created: Is a directory", "add the name of a file in it to store.url"),
        (at("text.db"), "file is not a database", "correct store.url, or restore a backup"),
        (at("newer.db"), "schema version 1000", "run that one, or restore a backup"),
    ] {
        let url = format!("sqlite:{}", path.display());
        for mut failing in
            [serve(&config), command(&["key", "create", "--label", "x", "--config", config.to_str().unwrap()])]
        {
            failing.env("COMPANION_STORE_URL", &url);
            let (code, text) = said(failing).await;
            assert_eq!(code, 1, "{text}");
            let line = text.lines().find(|line| line.starts_with("bot-companion: ")).unwrap();
            for part in [path.to_str().unwrap(), what, remedy] {
                assert!(line.contains(part), "{part} is missing: {line}");
            }
        }
    }
}

#[tokio::test]
async fn a_database_server_that_refuses_is_named_with_the_remedy_and_without_the_password() {
    if !on_postgres() {
        println!("only for PostgreSQL: it needs a server");
        return;
    }
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let log = stopped(Running::start(serve(&config)).await).await;
    let server: tokio_postgres::Config = folder.server_url().parse().unwrap();
    let name = server.get_dbname().unwrap();
    let start = log.lines().find(|line| line.contains("starting")).unwrap();
    assert!(start.contains("PostgreSQL") && start.contains(&format!("database `{name}` at ")), "{start}");

    let port = server.get_ports().first().copied().unwrap_or(5432);
    let host = match &server.get_hosts()[0] {
        tokio_postgres::config::Host::Tcp(host) => host.clone(),
        tokio_postgres::config::Host::Unix(folder) => folder.to_str().unwrap().replace('/', "%2F"),
    };
    let user = server.get_user().unwrap();
    for (url, parts) in [
        (
            format!("postgres://{user}:hushhush@{host}:{port}/nobody_made_this"),
            ["database `nobody_made_this` at ", "does not exist", "createdb"],
        ),
        (
            "postgres://me:hushhush@name.invalid/data".to_owned(),
            ["database `data` at name.invalid:5432", "lookup address", "correct the host in store.url"],
        ),
        (format!("postgres://{user}:hushhush@{host}:{port}/{name}?sslmode=require"), ["database `", "TLS", "ssl"]),
    ] {
        let mut failing = serve(&config);
        failing.env("COMPANION_STORE_URL", &url).env("COMPANION_STORE_START_WAIT", "0s");
        let (code, text) = said(failing).await;
        assert_eq!(code, 1, "{text}");
        for part in parts {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        assert!(!text.contains("hush"), "{text}");
    }
}
