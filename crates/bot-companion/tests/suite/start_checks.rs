//! What keeps `serve` from starting, `check --live` finds first: one list, the same words, the same exit code.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use runtime::clock::Clock;
use serde_json::Value;
use x509_cert::der::{Decode as _, Encode as _};

use crate::harness::binary::{Running, command, config_file, confined, run};
use crate::harness::{Folder, eventually, on_postgres, sandbox, sqlite_only};

const MOUNTS: &[&str] = &["--mount"];

/// `serve` and `check --live` with this configuration and these variables.
fn both(config: &Path, variables: &[(&str, &str)]) -> [Command; 2] {
    let config = config.to_str().unwrap();
    [&["serve", "--config", config][..], &["check", "--live", "--json", "--config", config]].map(|arguments| {
        let mut command = command(arguments);
        command.env("COMPANION_HTTP_LISTEN", "127.0.0.1:0").env("COMPANION_ADMIN_LISTEN", "off");
        command.envs(variables.iter().copied());
        command
    })
}

/// The exit code and all output.
async fn said(command: Command) -> (i32, String) {
    let output = run(command).await;
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Status and text of each line of a live check, by name.
fn lines(said: &str) -> BTreeMap<String, (String, String)> {
    let end = said.rfind("\n]").map_or(said.len(), |at| at + 2);
    let lines: Value = serde_json::from_str(&said[..end]).unwrap_or_else(|_| panic!("{said}"));
    let word = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let entry = |line: &Value| (word(line, "check"), (word(line, "status"), word(line, "text")));
    lines.as_array().unwrap().iter().map(entry).collect()
}

/// Asserts that both end with this code, the check because of this line, and that both say this.
async fn refuse([serve, check]: [Command; 2], name: &str, code: i32, part: &str) {
    let (served, log) = said(serve).await;
    assert!(
        served == code && log.contains(part),
        "serve ends with {served}, not {code}, or does not say {part:?}: {log}"
    );
    let (checked, text) = said(check).await;
    let found = lines(&text);
    let (status, said) = found.get(name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(checked == code && status == "failed" && said.contains(part), "{name} {checked}: {text}");
}

/// A certificate that is valid from this year to the next, and its key.
fn write_certificate(folder: &Path, year: i32) -> [(&'static str, String); 2] {
    let mut wanted = rcgen::CertificateParams::new(vec!["dashboard.example".to_owned()]).unwrap();
    wanted.not_before = rcgen::date_time_ymd(year, 1, 1);
    wanted.not_after = rcgen::date_time_ymd(year + 1000, 1, 1);
    let pair = rcgen::KeyPair::generate().unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&cert, wanted.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    [("COMPANION_TLS_CERT", shown(&cert)), ("COMPANION_TLS_KEY", shown(&key))]
}

/// The same certificate in X.509 version 1 format.
fn make_version_1(path: &Path) {
    let engine = base64::engine::general_purpose::STANDARD;
    let text = fs::read_to_string(path).unwrap();
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let mut certificate = x509_cert::Certificate::from_der(&engine.decode(body).unwrap()).unwrap();
    certificate.tbs_certificate.version = x509_cert::Version::V1;
    certificate.tbs_certificate.extensions = None;
    let body = engine.encode(certificate.to_der().unwrap());
    fs::write(path, format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")).unwrap();
}

#[tokio::test]
async fn a_picture_of_no_use_is_found_before_the_start_and_no_restart_is_asked_for() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("text.png"), "this is no picture").unwrap();
    fs::write(at("large.png"), [&b"\x89PNG\r\n\x1a\n"[..], &vec![0; 256 * 1024]].concat()).unwrap();
    for (icon, part) in [
        (at("absent.png"), "cannot be read"),
        (at("text.png"), "isn't a PNG, JPEG, WebP or GIF file"),
        (at("large.png"), "is larger than 256 KB"),
        ("/dev/zero".to_owned(), "is larger than 256 KB"),
    ] {
        refuse(both(&config, &[("COMPANION_SITE_ICON", &icon)]), "picture", 78, part).await;
        let mut plain = command(&["check", "--config", config.to_str().unwrap()]);
        plain.env("COMPANION_SITE_ICON", &icon);
        let (code, text) = said(plain).await;
        assert!(code == 78 && text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn unusable_previews_style_sheets_and_texts_are_found_before_the_start() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("small.png"), b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x40\0\0\0\x20\x08").unwrap();
    fs::write(at("drawn.svg"), "<svg/>").unwrap();
    fs::write(at("latin.css"), b"\xe9").unwrap();
    for (variable, file, name, part) in [
        ("COMPANION_SITE_PREVIEW", at("small.png"), "picture", "is 64 × 32 pixels: make it 1200 × 630"),
        ("COMPANION_SITE_PREVIEW", at("drawn.svg"), "picture", "isn't a PNG or JPEG file"),
        ("COMPANION_SITE_PREVIEW", at("absent.png"), "picture", "site.preview: "),
        ("COMPANION_SITE_STYLE", at("latin.css"), "site", "isn't UTF-8 text"),
        ("COMPANION_SITE_STYLE", "/dev/zero".to_owned(), "site", "is larger than 64 KB"),
        ("COMPANION_SITE_FEATURES", at("absent.md"), "site", "site.features: "),
    ] {
        refuse(both(&config, &[(variable, &file)]), name, 78, part).await;
    }
}

#[tokio::test]
async fn options_that_do_not_go_together_are_found_before_the_start() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    for (http, admin) in [("127.0.0.1:9", "127.0.0.1:9"), ("0.0.0.0:9", "127.0.0.1:9")] {
        let variables = [("COMPANION_HTTP_LISTEN", http), ("COMPANION_ADMIN_LISTEN", admin)];
        refuse(both(&config, &variables), "listeners", 78, "give admin.listen another port").await;
    }
    let variables = [("COMPANION_HTTP_BASE_PATH", "/api"), ("COMPANION_SITE_URL", "https://bot.example")];
    for command in both(&config, &variables) {
        let (code, text) = said(command).await;
        assert!(code == 78 && text.contains("write \"https://bot.example/api\""), "{text}");
    }
    let [_, check] = both(&config, &[("COMPANION_SITE_URL", "https://bot.example")]);
    let (code, text) = said(check).await;
    let (status, dashboard) = &lines(&text)["dashboard"];
    assert!(code == 0 && status == "warning", "{text}");
    assert!(dashboard.contains("nobody can sign in at https://bot.example/site/dashboard"), "{text}");
    let [mut serve, _] = both(&config, &[("COMPANION_SITE_URL", "https://bot.example")]);
    serve.env("COMPANION_LOG_FILTER", "info");
    let service = Running::start(serve).await;
    assert!(service.logged().contains(dashboard.as_str()), "{}", service.logged());
}

#[tokio::test]
async fn a_missing_client_secret_is_named_and_no_restart_is_asked_for() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let secret = folder.path().join("client-secret");
    let text = fs::read_to_string(&config).unwrap();
    let of_file = format!("idp.client_secret_file = \"{}\" #", secret.display());
    fs::write(&config, text.replace("idp.client_secret = ", &of_file)).unwrap();
    let missing = format!("the file {} cannot be read: No such file or directory", secret.display());
    for command in both(&config, &[]) {
        let (code, text) = said(command).await;
        assert!(code == 78 && text.contains(&missing), "{code}: {text}");
    }
    fs::write(&secret, "hush").unwrap();
    // As root of a namespace, which may not read what is of another user.
    for file in [&secret, &config] {
        if chown(file, Some(65_534), Some(65_534)).is_err() {
            break;
        }
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        for command in both(&config, &[]) {
            let Some(command) = confined("", MOUNTS, &command) else { break };
            let (code, text) = said(command).await;
            let parts = ["with mode 0600", "; run `chgrp 0 ", " && chmod 640 "];
            assert!(code == 78 && parts.iter().all(|part| text.contains(part)), "{file:?} {code}: {text}");
        }
        chown(file, Some(0), Some(0)).unwrap();
    }
    fs::write(&secret, "  \n").unwrap();
    for command in both(&config, &[]) {
        let (code, text) = said(command).await;
        assert!(code == 78 && text.contains("is empty: write idp.client_secret into it"), "{code}: {text}");
    }
}

#[tokio::test]
async fn risks_are_told_at_the_start_and_by_the_check() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let variables = [
        ("COMPANION_HTTP_LISTEN", "0.0.0.0:0"),
        ("COMPANION_ADMIN_LISTEN", "0.0.0.0:0"),
        ("COMPANION_HTTP_ALLOWED_ORIGINS", "http://a.example"),
        ("COMPANION_IDP_REDIRECT_URI", "http://a.example/callback"),
        ("COMPANION_LOG_FILTER", "info"),
    ];
    let parts = ["takes plain HTTP", "admin.listen (0.0.0.0:0)", "http://a.example/callback is http"];
    let [serve, check] = both(&config, &variables);
    let (code, text) = said(check).await;
    let log = Running::start(serve).await.logged();
    for part in parts {
        assert!(code == 0 && text.contains(part), "{part}: {text}");
        assert_eq!(
            log.lines().filter(|line| line.contains(" WARN ") && line.contains(part)).count(),
            1,
            "{part}: {log}"
        );
    }
    let mut plain = command(&["check", "--config", config.to_str().unwrap()]);
    plain.env("COMPANION_HTTP_TRUSTED_PROXIES", "0.0.0.0/0,::/0");
    let (code, text) = said(plain).await;
    assert!(code == 0 && text.contains("contains 0.0.0.0/0") && text.contains("contains ::/0"), "{text}");
}

#[tokio::test]
async fn a_certificate_or_key_of_no_use_is_named_for_what_it_is() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let files = write_certificate(folder.path(), 2020);
    let variables: Vec<_> = files.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let key = fs::read_to_string(folder.path().join("key.pem")).unwrap();
    for encrypted in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBHTBX\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIB\n-----END RSA PRIVATE KEY-----\n",
    ] {
        fs::write(folder.path().join("key.pem"), encrypted).unwrap();
        refuse(both(&config, &variables), "certificate", 78, "the key is encrypted").await;
        refuse(both(&config, &variables), "certificate", 78, "openssl pkey -in").await;
    }
    fs::write(folder.path().join("key.pem"), key).unwrap();
    make_version_1(&folder.path().join("cert.pem"));
    refuse(both(&config, &variables), "certificate", 78, "an X.509 version 1 certificate").await;
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_told_and_served() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let files = write_certificate(folder.path(), 2900);
    let variables: Vec<_> = files.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let [serve, check] = both(&config, &variables);
    let (code, text) = said(check).await;
    let (status, certificate) = &lines(&text)["certificate"];
    assert!(code == 1 && status == "failed" && certificate.contains("not valid before 2900-01-01"), "{text}");
    let service = Running::start(serve).await;
    let told = "the certificate is not valid yet, so browsers refuse it; check this machine's clock";
    eventually("it is told", async || service.logged().contains(told)).await;
    assert!(service.logged().contains("from=2900-01-01T00:00:00Z"), "{}", service.logged());
}

#[tokio::test]
async fn a_full_disk_is_found_before_the_start() {
    sqlite_only!("its disk is the server's");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let url = format!("sqlite:{}/data.db", data.display());
    let mounted = |options: &str| {
        let script = format!("mount -t tmpfs -o {options} none {} &&", data.display());
        let [serve, check] =
            both(&config, &[("COMPANION_STORE_URL", &url)]).map(|command| confined(&script, MOUNTS, &command));
        Some([serve?, check?])
    };
    for (options, part) in [
        ("size=64k", "is full, with"),
        ("size=128m,nr_inodes=1", "no free inodes"),
        ("ro", "cannot be written: Read-only file system"),
    ] {
        let Some(commands) = mounted(options) else { return };
        refuse(commands, "files", 1, part).await;
    }
    let Some([serve, check]) = mounted("size=16m") else { return };
    let (code, text) = said(check).await;
    let (status, files) = &lines(&text)["files"];
    assert!(code == 0 && status == "warning" && files.contains("almost full, with 1"), "{text}");
    let service = Running::start(serve).await;
    assert!(service.logged().contains("almost full, with 1"), "{}", service.logged());
}

#[tokio::test]
async fn a_device_is_not_a_database() {
    sqlite_only!("its files are the server's");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let commands = both(&config, &[("COMPANION_STORE_URL", "sqlite:/dev/null")]);
    refuse(commands, "files", 1, "/dev/null: it is a device or a pipe, not a file: correct store.url").await;
}

#[tokio::test]
async fn a_file_of_another_user_is_not_one_that_cannot_be_created() {
    sqlite_only!("its files are the server's");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let [mut serve, _] = both(&config, &[]);
    serve.env("COMPANION_LOG_FILTER", "info");
    let mut service = Running::start(serve).await;
    service.terminate();
    assert!(service.ended().await.success());
    let take_away = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
        // Root may do as it likes with its own files, but not with those of a user who does not exist in its namespace.
        if fs::metadata(path).unwrap().uid() == 0 {
            chown(path, Some(54321), None).unwrap();
        }
    };
    let refused = async |name: &str, code: i32, parts: &[&str]| {
        for part in parts {
            let [serve, check] = both(&config, &[]).map(|command| confined("", MOUNTS, &command));
            let (Some(serve), Some(check)) = (serve, check) else { return };
            refuse([serve, check], name, code, part).await;
        }
    };
    let key = folder.path().join("data.db.key");
    let kept = fs::read(&key).unwrap();
    take_away(&key);
    // The owner may read it, even without root's rights.
    if fs::metadata(&key).unwrap().uid() == 54321 {
        refused("key file", 78, &["data.db.key cannot be read: Permission denied", "it belongs to user "]).await;
    }
    fs::remove_file(&key).unwrap();
    fs::write(&key, kept).unwrap();
    take_away(&folder.file());
    let parts = ["data.db cannot be opened: Permission denied", "it belongs to user ", "with mode 0400", "; run `ch"];
    refused("files", 1, &parts).await;
    let Some(create) =
        confined("", MOUNTS, &command(&["key", "create", "--label", "x", "--config", config.to_str().unwrap()]))
    else {
        return;
    };
    let (code, text) = said(create).await;
    assert!(code == 1 && text.contains(parts[0]) && !text.contains("cannot be created"), "{text}");
}

#[tokio::test]
async fn a_low_port_without_the_right_is_told_from_one_that_is_taken() {
    let first: u16 =
        fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap().trim().parse().unwrap();
    if first <= 80 {
        return println!("not here: everybody may listen on low ports");
    }
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    for (variable, name) in [("COMPANION_HTTP_LISTEN", "port"), ("COMPANION_ADMIN_LISTEN", "admin port")] {
        let commands = both(&config, &[(variable, "127.0.0.1:80")]).map(|command| confined("", MOUNTS, &command));
        let [Some(serve), Some(check)] = commands else { return };
        refuse([serve, check], name, 1, "; ports below 1024 need extra privileges: let systemd open it").await;
    }
}

#[tokio::test]
async fn what_a_database_server_does_not_allow_is_found_before_the_start() {
    if !on_postgres() {
        println!("only for PostgreSQL: it needs a server");
        return;
    }
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let url = folder.server_url();
    let commands = || both(&config, &[("COMPANION_STORE_CONNECTIONS", "999")]);
    let [_, check] = commands();
    let (code, text) = said(check).await;
    let (status, connections) = &lines(&text)["connections"];
    assert!(code == 1 && status == "failed" && connections.contains("store.connections is 999"), "{text}");
    assert!(connections.contains("raise max_connections"), "{text}");
    // A server that is too busy to report its limits does not delay startup, and then there is no warning.
    eventually("a start tells of it", async || {
        let [serve, _] = commands();
        Running::start(serve).await.logged().contains(connections.as_str())
    })
    .await;

    let role = format!("suite_role_{}", std::process::id());
    folder
        .sql(&format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 3; REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
        .await;
    let theirs = url.replacen("postgres://postgres@", &format!("postgres://{role}@"), 1);
    assert_ne!(theirs, url);
    let variables = [("COMPANION_STORE_URL", theirs.as_str()), ("COMPANION_STORE_START_WAIT", "0s")];
    let [serve, check] = both(&config, &variables);
    let (code, text) = said(serve).await;
    assert!(code == 1 && text.contains("permission denied for schema public"), "{text}");
    folder.sql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")).await;
    let (code, text) = said(check).await;
    let found = lines(&text);
    let (status, said) = &found["role"];
    assert!(code == 1 && status == "failed", "{text}");
    assert!(said.contains(&format!("GRANT CREATE ON SCHEMA public TO {role}")), "{text}");
    assert!(found["connections"].1.contains("raise the role's CONNECTION LIMIT"), "{text}");
    folder.sql(&format!("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}; DROP ROLE {role}")).await;
}
