//! A running service and the people who use it.

pub mod binary;
mod bot;
mod claims;
pub mod client;
mod data;
mod disk;
pub mod documented;
mod logs;
mod schema;
mod store;
pub mod terminal;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::{REVOCATION_WAIT, Time};
use provider::idp::Endpoint;
use runtime::clock::Clock;
use runtime::random::Random;
use sandbox::{Sandbox, SandboxOptions, people};
use secrecy::SecretString;
use service::app::App;
use service::config::{Config, Layer};
use service::http::HttpService;
use service::server;
use telemetry::Version;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use bot::{Bot, EMPTIED, gzip, ndjson, snapshot};
pub use claims::claiming;
pub use client::{Answer, Client, LiveStream, names, raw, true_keys};
pub use data::*;
pub use disk::Disk;
pub use logs::suite_log;
pub(crate) use store::sqlite_only;
pub use store::{Folder, on_postgres};
pub use wire::{Wire, request};

/// The manual clock's time at the start of a test.
pub const START: Time = Time::from_seconds(1_800_000_000);
/// The application's secret at the sandbox; the check of the suite's log looks for it.
pub const CLIENT_SECRET: &str = "suite-client-secret";
/// How long a test waits for something that has to come. Only a failing test waits this long, so it is more than any machine
/// needs.
pub const PATIENCE: Duration = Duration::from_mins(5);
/// The limits that run on real time, as long as possible: no test depends on how fast the machine is, and one that is about a
/// limit sets its own.
const PATIENT: &str = r#"
    store.wait = "1m"
    store.start_wait = "5m"
    idp.connect_timeout = "1m"
    idp.sign_in_timeout = "2m"
    idp.list_timeout = "2m"
    guilds.refresh_wait = "1m"
    limits.request_timeout = "5m"
    limits.drain_timeout = "5m"
    feed.idle_timeout = "5m"
"#;
/// The origin of the dashboard that the service is set up for.
pub const ORIGIN: &str = "https://dashboard.example";

/// A running service with its provider, on a clock that only the test moves.
pub struct TestApp {
    pub app: Arc<App>,
    pub sandbox: Arc<Sandbox>,
    pub clock: Clock,
    pub address: SocketAddr,
    pub folder: Arc<Folder>,
    pub tls: Option<Arc<server::CertifiedAcceptor>>,
    client: Client,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), server::ServeError>>,
}

pub struct Builder {
    layers: Vec<Layer>,
    clock: Clock,
    folder: Arc<Folder>,
    secure: bool,
    one_socket: bool,
    sandbox: Option<Arc<Sandbox>>,
    adjust: fn(&mut Config),
}

impl TestApp {
    /// A service with the suite's options.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    pub fn builder() -> Builder {
        logs::start();
        Builder {
            layers: Vec::new(),
            clock: Clock::manual(START),
            folder: Arc::new(Folder::new()),
            secure: false,
            one_socket: false,
            sandbox: None,
            adjust: |_| {},
        }
    }

    /// Someone without credentials.
    pub fn anon(&self) -> Client {
        self.client.clone()
    }

    /// Someone who has just signed in with a fresh code for this person.
    pub async fn user(&self, person: &str) -> Client {
        let answer = self.sign_in(&self.sandbox.issue_code(person)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.client.with_token(answer.data()["token"].as_str().unwrap())
    }

    /// One attempt to sign in with this code.
    pub async fn sign_in(&self, code: &str) -> Answer {
        self.anon().post("/auth").header("Idp-Code", code).send().await
    }

    /// Waits until the background work is done.
    pub async fn settled(&self) {
        assert!(self.app.sources.background.drain(PATIENCE).await, "it goes on and on");
    }

    /// Lets the revocations' wait pass, and checks that this many have reached the provider since it started.
    pub async fn revoked(&self, calls: usize) {
        self.clock.advance(REVOCATION_WAIT);
        while self.app.accounts.revoke_next().await.unwrap() {}
        // The service's own round may have taken one of them.
        let settled = async || self.sandbox.calls(Endpoint::Revoke) >= calls && !self.app.accounts.is_revoking();
        eventually("the grants were revoked", settled).await;
        assert_eq!(self.sandbox.calls(Endpoint::Revoke), calls);
    }

    /// Begins the drain; [`TestApp::stopped`] waits for its end.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Stops the service and waits until it has stopped; its data stays in the folder.
    pub async fn stopped(mut self) -> Arc<Folder> {
        self.stop();
        (&mut self.running).await.unwrap().unwrap();
        Arc::clone(&self.folder)
    }

    /// Another process of the same service: the same data, provider and clock.
    pub async fn replica(&self) -> Self {
        self.replica_with("").await
    }

    /// The same with these options (TOML), which a replica does not share by default.
    pub async fn replica_with(&self, configuration: &str) -> Self {
        let mut builder = Self::builder().set(configuration);
        builder.clock = self.clock.clone();
        builder.folder = Arc::clone(&self.folder);
        builder.sandbox = Some(Arc::clone(&self.sandbox));
        builder.start().await
    }

    /// Stops the service and starts it again on the same data, provider and clock.
    pub async fn restarted(self, layers: &[&str]) -> Self {
        self.restarted_after("SELECT 1", layers).await
    }

    /// The same, and runs these statements on the store in between.
    pub async fn restarted_after(self, statements: &str, layers: &[&str]) -> Self {
        let mut builder = Self::builder();
        builder.clock = self.clock.clone();
        builder.folder = Arc::clone(&self.folder);
        builder.sandbox = Some(Arc::clone(&self.sandbox));
        let configuration: Vec<_> = layers.iter().map(|text| (*text).to_owned()).collect();
        self.stopped().await.sql(statements).await;
        configuration.into_iter().fold(builder, |builder, text| builder.set(&text)).start().await
    }
}

impl Builder {
    /// With these options (TOML) on top of the suite's own.
    pub fn set(mut self, text: &str) -> Self {
        self.layers.push(Layer::new("test", text));
        self
    }

    /// Changes what is not an option.
    pub fn adjust(mut self, adjust: fn(&mut Config)) -> Self {
        self.adjust = adjust;
        self
    }

    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// With one listening socket, so that connections are accepted in the order they were opened.
    pub fn one_socket(mut self) -> Self {
        self.one_socket = true;
        self
    }

    /// With HTTPS, using a certificate made for this test.
    pub fn secure(mut self) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let (cert, key) = (self.folder.path().join("cert.pem"), self.folder.path().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        self.secure = true;
        self.set(&format!("[tls]\ncert = \"{}\"\nkey = \"{}\"", cert.display(), key.display()))
    }

    pub async fn start(self) -> TestApp {
        let sandbox = self.sandbox.unwrap_or_else(|| sandbox(self.clock.clone()));
        self.folder.make_store();
        let own = format!(
            r#"
            {store}
            [http]
            listen = "127.0.0.1:0"
            allowed_origins = ["{ORIGIN}", "http://localhost:3000"]
            [idp]
            base_url = "{base_url}"
            client_id = "suite"
            client_secret = "{CLIENT_SECRET}"
            redirect_uri = ["{ORIGIN}/callback", "http://localhost:3000/callback"]
            [limits]
            requests_per_second = 0
            refused_sign_ins_per_minute = 0
            "#,
            store = self.folder.store_configuration(),
            base_url = sandbox.base_url(),
        );
        let mut layers = vec![Layer::new("patient", PATIENT), Layer::new("suite", own)];
        layers.extend(self.layers);
        let mut config = Config::load_over(&layers, None, std::iter::empty::<(String, String)>()).unwrap();
        (self.adjust)(&mut config);
        config.require_idp().unwrap();
        let mut listeners = server::bind(&config.http).unwrap();
        if self.one_socket {
            listeners.use_one_core();
        }
        let address = listeners.addresses()[0].tcp().unwrap();
        let tls = config.tls.as_ref().map(|tls| server::acceptor(tls).unwrap());
        let app = App::build(config, self.clock.clone(), Random::seeded(7), Version::UNKNOWN).await.unwrap();
        let app = Arc::new(app);
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move {
            // A test that ends without stopping drops the sender, which stops the service too.
            let _ = stopped.await;
        };
        let running = tokio::spawn(server::run(listeners, tls.clone(), HttpService::new(Arc::clone(&app)), shutdown));
        TestApp {
            app,
            sandbox,
            clock: self.clock,
            address,
            folder: self.folder,
            tls,
            client: Client::new(format!("{}://{address}", if self.secure { "https" } else { "http" })),
            stop: Some(stop),
            running,
        }
    }
}

/// A provider with the demo people, on this clock.
pub fn sandbox(clock: Clock) -> Arc<Sandbox> {
    let options = SandboxOptions {
        client_id: "suite".to_owned(),
        client_secret: SecretString::from(CLIENT_SECRET),
        redirect_uris: vec![format!("{ORIGIN}/callback"), "http://localhost:3000/callback".to_owned()],
        people: people::demo(),
        service_url: None,
        clock,
        token_key: SecretString::from("token key"),
    };
    Sandbox::start(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), options).unwrap()
}

/// Waits until something is true by checking repeatedly; a test that waits in vain fails after [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let patience = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, patience).await;
}

/// Waits for something that has to happen on its own; a test that waits in vain fails after [`PATIENCE`].
pub async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(PATIENCE, happens).await;
    happened.unwrap_or_else(|_| panic!("never came about: {what}"))
}
