//! What a running service takes over without a restart: a renewed certificate, and a changed configuration on SIGHUP.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use domain::Time;
use reqwest::Method;
use runtime::clock::Clock;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use service::config::Config;
use service::reload::Reload;
use service::server::CertificateWatch;
use service::systemd::ServiceManager;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::binary::{Running, command, config_file};
use crate::harness::{Client, Folder, ORIGIN, TestApp, eventually, request, sandbox};

const DAY: Duration = Duration::from_hours(24);

/// A certificate for this machine, and its key.
struct Pair {
    cert: String,
    key: String,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Self { cert: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn expiring(at: Time) -> Self {
        let mut wanted = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        wanted.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(at.seconds());
        let key = rcgen::KeyPair::generate().unwrap();
        Self { cert: wanted.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()
    }

    fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("cert.pem"), &self.cert).unwrap();
        std::fs::write(folder.join("key.pem"), &self.key).unwrap();
    }
}

/// Replaces what is at `path` in one step, as careful programs do.
fn replace(path: &Path, make: impl FnOnce(&Path)) {
    let aside = path.with_extension("aside");
    make(&aside);
    std::fs::rename(aside, path).unwrap();
}

/// A client that trusts these certificates.
fn connector(pairs: &[&Pair], resumption: bool) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    for pair in pairs {
        roots.add(pair.der()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    if !resumption {
        config.resumption = Resumption::disabled();
    }
    TlsConnector::from(Arc::new(config))
}

/// The certificate that a new connection gets, after a request on it was answered.
async fn shown(app: &TestApp, connector: &TlsConnector) -> std::io::Result<CertificateDer<'static>> {
    let stream = TcpStream::connect(app.address).await?;
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
    stream.write_all(request("GET", "/ready", "Connection: close\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    Ok(stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned())
}

#[tokio::test]
async fn a_certificate_is_replaced_under_load_and_no_handshake_fails() {
    let app = Arc::new(TestApp::builder().secure().start().await);
    let folder = app.folder.path().to_owned();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let first = Pair { cert: read("cert.pem"), key: read("key.pem") };
    let next: Vec<Pair> = (0..5).map(|_| Pair::new()).collect();
    let all: Vec<&Pair> = std::iter::once(&first).chain(&next).collect();
    let mut watch = CertificateWatch::new(app.tls.clone().unwrap(), app.clock.clone());
    let watching = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        loop {
            pace.tick().await;
            watch.look();
        }
    });

    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (app, stop, done) = (Arc::clone(&app), Arc::clone(&stop), Arc::clone(&done));
            let connector = connector(&all, number % 2 == 0);
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    shown(&app, &connector).await.unwrap();
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();

    let fresh = connector(&all, false);
    let names = ["cert.pem", "key.pem"];
    for (index, pair) in next.iter().enumerate() {
        let version = folder.join(format!("v{index}"));
        pair.write(&version);
        match index {
            // Overwritten, one after the other, with time in between.
            0 => {
                std::fs::write(folder.join("cert.pem"), &pair.cert).unwrap();
                let before = done.load(Ordering::SeqCst);
                eventually("handshakes in between", async || done.load(Ordering::SeqCst) > before + 50).await;
                std::fs::write(folder.join("key.pem"), &pair.key).unwrap();
            }
            // Renamed over.
            1 => {
                for name in names {
                    replace(&folder.join(name), |aside| {
                        std::fs::write(aside, std::fs::read(version.join(name)).unwrap()).unwrap();
                    });
                }
            }
            // Links to each file, as created by certbot.
            2 => {
                for name in names {
                    replace(&folder.join(name), |aside| symlink(version.join(name), aside).unwrap());
                }
            }
            // A link to the folder, as created by Kubernetes; first it is put in place, then it is replaced.
            _ => {
                replace(&folder.join("data"), |aside| symlink(&version, aside).unwrap());
                for name in names {
                    replace(&folder.join(name), |aside| symlink(folder.join("data").join(name), aside).unwrap());
                }
            }
        }
        eventually("the new certificate", async || shown(&app, &fresh).await.unwrap() == pair.der()).await;
        let before = done.load(Ordering::SeqCst);
        eventually("handshakes with it", async || done.load(Ordering::SeqCst) > before + 50).await;
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.expect("no handshake fails");
    }
    watching.abort();
}

#[tokio::test]
async fn a_certificate_of_no_use_keeps_the_old_one_until_it_is_mended() {
    let app = TestApp::builder().secure().start().await;
    let folder = app.folder.path();
    let tls = app.tls.clone().unwrap();
    let first = Pair { cert: std::fs::read_to_string(folder.join("cert.pem")).unwrap(), key: String::new() };
    let (second, third) = (Pair::new(), Pair::new());
    let client = connector(&[&first, &second, &third], false);
    let mut watch = CertificateWatch::new(tls, app.clock.clone());
    let mut look = || (0..4).for_each(|_| watch.look());
    look();
    for (name, wrong) in
        [("cert.pem", ""), ("cert.pem", "nonsense"), ("key.pem", "nonsense"), ("cert.pem", second.cert.as_str())]
    {
        std::fs::write(folder.join(name), wrong).unwrap();
        look();
        assert_eq!(shown(&app, &client).await.unwrap(), first.der(), "{name} = {wrong:.8}");
    }
    std::fs::remove_file(folder.join("cert.pem")).unwrap();
    look();
    assert_eq!(shown(&app, &client).await.unwrap(), first.der(), "no file at all");
    third.write(folder);
    look();
    assert_eq!(shown(&app, &client).await.unwrap(), third.der());
}

#[tokio::test]
async fn when_the_certificate_expires_is_known() {
    let app = TestApp::builder().secure().start().await;
    let tls = app.tls.clone().unwrap();
    assert!(tls.expires().unwrap() > app.clock.now().after(365 * DAY));
    let soon = app.clock.now().after(12 * DAY);
    Pair::expiring(soon).write(app.folder.path());
    let mut watch = CertificateWatch::new(Arc::clone(&tls), app.clock.clone());
    (0..2).for_each(|_| watch.look());
    assert_eq!(tls.expires(), Some(soon));
}

#[tokio::test]
async fn a_certificate_that_expires_soon_is_a_warning_until_it_is_renewed() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let files = folder.path().join("tls");
    Pair::expiring(Clock::system().now().after(13 * DAY)).write(&files);
    let configuration = format!("tls.cert = \"{0}/cert.pem\"\ntls.key = \"{0}/key.pem\"", files.display());
    let mut service = Running::start(serve(&config_file(&folder, &provider, &configuration))).await;
    let warning = "the certificate expires soon; renew it";
    eventually("the warning", async || service.logged().contains(warning)).await;
    assert!(service.logged().lines().any(|line| line.contains(warning) && line.contains("days=12")));
    Pair::new().write(&files);
    eventually("the new one", async || service.logged().contains("the certificate was replaced")).await;
    std::fs::write(files.join("key.pem"), "nonsense").unwrap();
    let error = "the certificate's files have changed and cannot be used; the old certificate stays in use";
    eventually("the error", async || service.logged().contains(error)).await;
    assert_eq!(service.logged().matches(warning).count(), 1, "{}", service.logged());
    assert!(!service.has_ended());
}

/// A reload of a service that runs in this process.
pub fn reload(app: &TestApp, config: impl Fn() -> anyhow::Result<Config> + Send + 'static) -> Reload {
    Reload {
        app: Arc::clone(&app.app),
        tls: app.tls.clone(),
        load: Box::new(config),
        log_filter: Box::new(|_| Ok(Box::new(|| {}))),
        started: app.app.config.clone(),
        current: app.app.config.clone(),
        manager: ServiceManager::default(),
    }
}

#[tokio::test]
async fn a_reload_with_a_bad_certificate_changes_nothing_at_all() {
    let app = TestApp::builder().secure().start().await;
    let mut changed = app.app.config.clone();
    changed.limits.live = 0;
    let mut reload = reload(&app, move || Ok(changed.clone()));
    let folder = app.folder.path().to_owned();
    let first = Pair { cert: std::fs::read_to_string(folder.join("cert.pem")).unwrap(), key: String::new() };
    let second = Pair::new();
    let client = connector(&[&first, &second], false);
    std::fs::write(folder.join("cert.pem"), &second.cert).unwrap();
    assert!(!reload.reload());
    assert_eq!(shown(&app, &client).await.unwrap(), first.der());
    assert_eq!(app.anon().call(Method::GET, "/live").status().await, 200, "the old limit");
    second.write(&folder);
    assert!(reload.reload());
    assert_eq!(shown(&app, &client).await.unwrap(), second.der());
    assert_eq!(app.anon().call(Method::GET, "/live").status().await, 503, "the new limit");
}

#[tokio::test]
async fn fewer_and_more_requests_at_once_are_taken_over() {
    let app = TestApp::builder().set("limits.concurrent_requests = 8").start().await;
    let mut config = app.app.config.clone();
    for (most, expected) in [(3, 3), (9, 9), (8, 8)] {
        config.limits.concurrent_requests = most;
        app.app.apply(&config, None);
        eventually("the permits", async || app.app.request_permits.available_permits() == expected).await;
    }
}

fn serve(config: &Path) -> Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

/// Rewrites the configuration with one text replaced.
fn change(config: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(config).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(config, text.replacen(from, to, 1)).unwrap();
}

const RELOADED: &str = "reloaded changed=";
const WRONG: &str = "reload: the configuration is invalid; nothing was changed";

#[tokio::test]
async fn a_hangup_applies_limits_origins_and_log_filter_and_a_wrong_file_nothing() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let mut service = Running::spawn_as_configured(serve(&config));
    service.listens().await;
    let client = service.client();
    let origin = "https://new.example";
    let allows = async |origin: &'static str| {
        let answer = client.call(Method::GET, "/guilds").header("Origin", origin).send().await;
        answer.has("access-control-allow-origin")
    };
    let limited = async || {
        // A burst that is too large for any fast machine to pay off in the meantime.
        for _ in 0..20 {
            if client.get("/").await.status == 429 {
                return true;
            }
        }
        false
    };
    assert!(!allows(origin).await && allows(ORIGIN).await && !limited().await);
    assert!(!service.logged().contains("DEBUG"));

    // Everything is in it, and one mistake.
    change(
        &config,
        "http.allowed_origins = [",
        &format!("log.filter = \"debug\"\nhttp.allowed_origins = [\"{origin}\", "),
    );
    change(&config, "limits.exempt = [\"127.0.0.0/8\"]", "limits.exempt = []\nlimits.requests_per_second = 0.5");
    service.reload(WRONG).await;
    assert!(service.logged().contains("companion.toml:"), "{}", service.logged());
    assert!(!allows(origin).await && allows(ORIGIN).await && !limited().await);
    assert!(!service.logged().contains("DEBUG") && !service.logged().contains(RELOADED));

    change(
        &config,
        "limits.requests_per_second = 0.5",
        "limits.requests_per_second = 1\nlimits.requests_burst = 5\nhttp.base_path = \"/api\"",
    );
    service.reload(RELOADED).await;
    assert!(allows(origin).await, "before the limit is used up");
    assert!(limited().await);
    let log = service.logged();
    let line = log.lines().find(|line| line.contains(RELOADED)).unwrap();
    let names = "http.allowed_origins, limits.exempt, limits.requests_burst, limits.requests_per_second, log.filter";
    assert!(line.contains(names) && !line.contains("base_path"), "{line}");
    let restart = log.lines().find(|line| line.contains("need a restart")).unwrap();
    assert!(restart.contains("options=http.base_path"), "{restart}");
    eventually("debug lines", async || service.logged().contains("DEBUG")).await;

    change(&config, "limits.requests_per_second = 1\n", "limits.requests_per_second = 0\n");
    service.reload(RELOADED).await;
    assert!(!limited().await);
    assert!(!service.has_ended());
}

async fn signed_in(client: &Client, code: &str) -> Client {
    let answer = client.post("/auth").header("Idp-Code", code).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    client.with_token(answer.data()["token"].as_str().unwrap())
}

#[tokio::test]
async fn a_hangup_changes_keys_and_what_the_old_one_wrote_is_read() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    // Every read of the guilds needs the grant.
    let always = "guilds.fresh = \"0s\"\nguilds.stale_while_revalidate = \"0s\"\nguilds.max_stale = \"0s\"\nguilds.failure_backoff = \"0s\"";
    let config = config_file(&folder, &provider, always);
    let (old, new) = (format!("old:{}=", "A".repeat(43)), format!("new:{}=", "Q".repeat(42) + "A"));
    let keys: PathBuf = folder.path().join("keys");
    std::fs::write(&keys, &old).unwrap();
    let mut process = serve(&config);
    process.env("COMPANION_SECRETS_KEYS_FILE", &keys);
    let service = Running::start(process).await;
    let client = service.client();
    let owner = signed_in(&client, &provider.issue_code("owner")).await;
    assert_eq!(owner.get("/guilds").await.status, 200);

    std::fs::write(&keys, format!("{new},{old}")).unwrap();
    service.reload(RELOADED).await;
    assert_eq!(owner.get("/guilds").await.status, 200, "the old key still reads");
    let member = signed_in(&client, &provider.issue_code("member")).await;

    std::fs::write(&keys, "old:short").unwrap();
    service.reload(WRONG).await;
    assert_eq!((owner.get("/guilds").await.status, member.get("/guilds").await.status), (200, 200));

    std::fs::write(&keys, &new).unwrap();
    service.reload(RELOADED).await;
    assert_eq!(member.get("/guilds").await.status, 200, "the new key wrote it");
    assert_eq!(owner.get("/guilds").await.status, 502, "nothing reads it now");
    let log = service.logged();
    assert!(log.contains("changed=secrets.keys"), "the name is told");
    assert!(!log.contains(&"A".repeat(43)) && !log.contains(&"Q".repeat(42)), "and nothing else");
}

#[tokio::test]
async fn an_emptied_file_is_told_and_never_locks_out_all_pages() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = folder.path().join("companion.toml");
    let origins = format!("http.allowed_origins = [\"{ORIGIN}\"]");
    std::fs::write(&config, format!("{origins}\nlimits.live = 5\nfeed.requests_per_second = 9")).unwrap();
    let mut process = serve(&config);
    // What the log leaves out is still reported.
    process.env("COMPANION_LOG_FILTER", "warn,bot_companion_service::cli=info");
    let redirect = format!("{ORIGIN}/callback");
    let base_url = provider.base_url();
    let configuration = folder.store_configuration();
    for line in configuration.lines() {
        let (name, value) = line.split_once(" = ").unwrap();
        let name = format!("COMPANION_{}", name.replace('.', "_").to_uppercase());
        process.env(name, value.trim_matches(['[', ']', '"']));
    }
    process.env("COMPANION_IDP_REDIRECT_URI", &redirect).env("COMPANION_IDP_BASE_URL", &base_url);
    process.env("COMPANION_IDP_CLIENT_ID", "suite").env("COMPANION_IDP_CLIENT_SECRET", "suite-secret");
    let mut service = Running::spawn_as_configured(process);
    service.listens().await;
    std::fs::write(&config, "").unwrap();
    service.reload(WRONG).await;
    assert!(service.logged().contains("http.allowed_origins"), "{}", service.logged());
    std::fs::write(&config, &origins).unwrap();
    let told = "reload: these options are no longer set, so their defaults apply options=feed.requests_per_second, limits.live";
    service.reload(told).await;
    assert!(!service.has_ended());
}

#[tokio::test]
async fn origins_are_removed_only_by_writing_so() {
    let app = TestApp::start().await;
    let allows = async || {
        let answer = app.anon().call(Method::GET, "/guilds").header("Origin", ORIGIN).send().await;
        answer.has("access-control-allow-origin")
    };
    let load = |text: &'static str| {
        // With PostgreSQL, no service can run without them.
        let keys = app.app.config.secrets.clone();
        move || {
            let layer = service::config::Layer::new("companion.toml", text);
            let mut config = Config::load_over(&[layer], None, std::iter::empty::<(String, String)>())?;
            config.secrets.clone_from(&keys);
            Ok(config)
        }
    };
    assert!(!reload(&app, load("limits.live = 7")).reload(), "the option has vanished");
    assert!(allows().await);
    assert_eq!(app.app.current.get().limits.live, app.app.config.limits.live, "nothing else is taken over");
    assert!(reload(&app, load("http.allowed_origins = []")).reload());
    assert!(!allows().await);
}

#[tokio::test]
async fn a_closed_terminal_ends_dev() {
    let folder = Folder::new();
    let mut dev = command(&["dev", "--listen", "127.0.0.1:0", "--data"]);
    dev.arg(folder.path().join("dev"));
    let mut service = Running::start(dev).await;
    service.signal(rustix::process::Signal::HUP);
    assert_eq!(service.ended().await.code(), Some(0));
}
