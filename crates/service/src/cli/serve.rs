//! `bot-companion serve`: the service.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use domain::saturating;
use runtime::clock::Clock;
use runtime::random::Random;
use telemetry::Version;
use telemetry::traces::Traces;
use tracing::{info, warn};

use super::{ConfigFile, cautions, live_check, logging, runtime, start_checks};
use crate::app::App;
use crate::config::{Config, ListenAddress};
use crate::http::HttpService;
use crate::reload::{self, Reload};
use crate::server::{Inherited, Listeners};
use crate::systemd::ServiceManager;
use crate::{admin, server};

/// Open files besides the connections: the store's files, the provider, the log.
const OTHER_FILES: u64 = 256;
/// How long the database server may take to report its limits.
const SERVER_LIMIT: Duration = Duration::from_secs(2);

pub(super) fn run(
    file: &ConfigFile,
    listen: Option<ListenAddress>,
    may_start_empty: bool,
    version: Version,
) -> anyhow::Result<()> {
    // Before there are threads, because it removes environment variables.
    let mut inherited = Inherited::take()?;
    let mut config = file.load()?;
    config.require_idp()?;
    if let Some(listen) = listen {
        config.http.listen = listen;
    }
    let log = logging::start(&config.log)?;
    let checks = [start_checks::of_configuration(&config), start_checks::of_machine(&config, may_start_empty)].concat();
    for check in &checks {
        check.require()?;
    }
    runtime()?.block_on(async {
        // From here on, SIGHUP neither ends the process nor gets lost.
        let hangup = reload::Hangup::listen();
        let listeners = match Listeners::inherited(&mut inherited).context("a socket of systemd cannot be used")? {
            Some(inherited) => {
                allow_connections(&mut config);
                inherited
            }
            None => open(&mut config)?,
        };
        let admin = match inherited.admin {
            Some(inherited) => Some(inherited),
            None => admin::bind(config.admin)?,
        };
        let manager = ServiceManager::from_environment();
        let tls = config.tls.as_ref().map(server::acceptor).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (kind, location) = (store::kind(&config.store.url), store::location(&config.store.url));
        info!(version = Version::NAME, store = kind, location, "starting");
        let places = listeners.addresses().iter().map(|address| place(address, scheme, &config.http.base_path));
        let places: Vec<String> = places.collect();
        let started = config.clone();
        let app = Arc::new(App::build(config, Clock::system(), Random::from_system(), version).await?);
        for check in checks.iter().filter(|check| check.is_warning()) {
            warn!("{}", check.text);
        }
        warn_about_few_connections(&started).await;
        // In the background, because it goes through all users.
        let telling = {
            let app = Arc::clone(&app);
            tokio::task::spawn(async move { cautions::warn_about_unreadable_grants(&app).await })
        };
        // Before the log says that it listens: a reader of that line may stop it right away, and it should shut down cleanly.
        let stop = asked_to_stop(OnHangup::GoOn);
        for place in &places {
            info!("listening on {place}");
        }
        let _admin = answer_operators(admin, &app)?;
        if let Some(endpoint) = &started.otel.endpoint {
            let traces =
                Traces::start(endpoint, started.otel.sample_percent).map_err(|problem| anyhow::anyhow!(problem))?;
            info!("traces are sent to otel.endpoint");
            let _ = app.sources.traces.set(traces);
        }
        let reload = Reload {
            app: Arc::clone(&app),
            tls: tls.clone(),
            load: loader(file.clone()),
            log_filter: Box::new(move |text| {
                let (log, filter) = (log.clone(), logging::filter(text)?);
                Ok(Box::new(move || {
                    // It only fails once the subscriber is gone, which lives as long as the process.
                    let _ = log.reload(filter);
                }))
            }),
            current: started.clone(),
            started,
            manager: manager.clone(),
        };
        let reloading = tokio::task::spawn(reload.run(hangup, server::WATCH_EVERY));
        let feeding = {
            let (app, manager) = (Arc::clone(&app), manager.clone());
            tokio::task::spawn(async move { manager.feed_watchdog(&app.liveness).await })
        };
        let stop = async {
            manager.ready(&format!("Running on {}", places.join(", ")));
            stop.await;
            manager.stopping();
        };
        let served = server::run(listeners, tls, HttpService::new(Arc::clone(&app)), stop).await;
        reloading.abort();
        feeding.abort();
        telling.abort();
        send_last_traces(app).await;
        served?;
        Ok(())
    })
}

/// Starts the admin listener, and logs its address.
pub(super) fn answer_operators(
    listener: Option<TcpListener>,
    app: &Arc<App>,
) -> anyhow::Result<Option<admin::AdminServer>> {
    let Some(listener) = listener else { return Ok(None) };
    let server = admin::start(listener, Arc::clone(app)).context("the admin listener cannot start")?;
    info!("metrics and health are on http://{}/", server.address);
    Ok(Some(server))
}

/// Sending blocks, and the runtime must keep running.
async fn send_last_traces(app: Arc<App>) {
    let sent = tokio::task::spawn_blocking(move || app.sources.traces.get().map(Traces::shutdown)).await;
    if sent.is_err() {
        warn!("the last traces could not be sent");
    }
}

/// Reloads the configuration from where it was read at startup.
fn loader(file: ConfigFile) -> Box<dyn Fn() -> anyhow::Result<Config> + Send> {
    Box::new(move || {
        let mut config = file.load()?;
        config.require_idp()?;
        allow_connections(&mut config);
        Ok(config)
    })
}

/// A database server that accepts fewer connections than configured fails under load.
async fn warn_about_few_connections(config: &Config) {
    // If it does not answer now, the first request that needs it will log that.
    if let Ok(Some(server)) = store::look_at_server(&config.store.url, SERVER_LIMIT).await
        && let line = live_check::connections(&server, config.store.connections)
        && line.has_failed()
    {
        warn!("{}", line.text);
    }
}

/// Binds the listening sockets and makes sure that there are enough file descriptors for the connections.
pub(super) fn open(config: &mut Config) -> anyhow::Result<Listeners> {
    allow_connections(config);
    Ok(server::bind(&config.http)?)
}

/// Makes sure that there are enough file descriptors for the connections, or allows fewer connections.
fn allow_connections(config: &mut Config) {
    let wanted = config.limits.connections as u64 + OTHER_FILES;
    // If the system does not say, assume the usual default.
    let allowed = rlimit::increase_nofile_limit(wanted).unwrap_or(1024);
    if allowed < wanted {
        config.limits.connections = saturating::to_usize(allowed.saturating_sub(OTHER_FILES)).max(64);
        warn!(
            connections = config.limits.connections,
            "the system allows {allowed} open files, so fewer connections are possible than limits.connections allows; raise \
             it with `ulimit -n` or LimitNOFILE="
        );
    }
}

/// The address for the log.
fn place(address: &ListenAddress, scheme: &str, base_path: &str) -> String {
    match address {
        ListenAddress::Tcp(address) => format!("{scheme}://{address}{base_path}/"),
        ListenAddress::Unix(_) => address.to_string(),
    }
}

/// The meaning of SIGHUP: a changed configuration, or a closed terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnHangup {
    /// Handled elsewhere.
    GoOn,
    /// Drains like SIGTERM.
    Stop,
}

/// Waits until the process is asked to stop. Signals are received from the call on, even before anyone awaits it.
pub(super) fn asked_to_stop(on_hangup: OnHangup) -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let signals = kinds.map(signal);
    async move {
        if let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)] = signals {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv(), if on_hangup == OnHangup::Stop => {}
            }
        } else {
            warn!("signals cannot be received; stop the service by killing it");
            std::future::pending::<()>().await;
        }
    }
}
