//! `bot-companion serve`: the service.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use anyhow::Context;
use tracing::{info, warn};

use super::{ConfigFile, demo, logging, runtime};
use crate::app::App;
use crate::clock::Clock;
use crate::config::{Config, keyfile};
use crate::domain::token;
use crate::http::HttpService;
use crate::random::Random;
use crate::untrusted::Untrusted;
use crate::version::Version;
use crate::{server, store};

/// What the process needs beside its connections: the store's files, the provider, the log.
const OTHER_FILES: u64 = 256;

pub(super) fn run(file: &ConfigFile, listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let mut config = file.load()?;
    config.require_idp()?;
    if let Some(listen) = listen {
        config.http.listen = listen;
    }
    logging::start(&config.log)?;
    runtime()?.block_on(async {
        let listeners = open(&mut config)?;
        let address = address(&listeners)?;
        let tls = config.tls.as_ref().map(server::acceptor).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (kind, location) = (store::kind(&config.store.url), store::location(&config.store.url));
        info!(version = Version::NAME, store = kind, location, "starting");
        let base_path = config.http.base_path.clone();
        let cautions = cautions(&config);
        let app = App::build(config, Clock::system(), Random::from_system()).await?;
        for caution in cautions {
            warn!("{caution}");
        }
        tell_of_unreadable_grants(&app).await;
        tell_of_demo_key(&app).await;
        info!("listening on {scheme}://{address}{base_path}/");
        server::run(listeners, tls, HttpService::new(app), asked_to_stop()).await;
        Ok(())
    })
}

/// What is not as safe as it should be about the store and the keys, each with its remedy.
pub(super) fn cautions(config: &Config) -> Vec<String> {
    let key = store::local_file(&config.store.url).filter(|_| config.secrets.is_empty());
    let key = key.and_then(|database| keyfile::caution(&keyfile::beside(&database)));
    store::cautions(&config.store.url).into_iter().chain(key).collect()
}

/// What is lost with a key that is not there, and how to get it back.
pub(super) fn unreadable_grants(count: u64, ids: &[String], new_key: Option<&Path>) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("`{}`", Untrusted(id))).collect();
    let remedy = match new_key {
        Some(path) => format!(
            "put the old key file back at {0}, where a new one was made just now, or add what was in it to secrets.keys",
            path.display()
        ),
        None => "add that key to secrets.keys, behind the first one".to_owned(),
    };
    format!(
        "{count} grants in the database cannot be read, because the key that encrypted them is not configured ({}); those people \
         have to sign in again before their guild lists can be refreshed. If the key is not lost: {remedy}, and restart",
        ids.join(", ")
    )
}

async fn tell_of_unreadable_grants(app: &App) {
    match app.unreadable_grants().await {
        Ok((0, _)) => {}
        Ok((count, ids)) => warn!("{}", unreadable_grants(count, &ids, app.new_key())),
        Err(error) => warn!(%error, "cannot tell whether all grants can be read"),
    }
}

/// A store that `dev` has used holds the demonstration key, which everybody knows.
async fn tell_of_demo_key(app: &App) {
    // If the store does not answer now, the first request that needs it logs that.
    if let Ok(Some(key)) = app.store.key(token::demo_key_hash()).await
        && key.revoked.is_none()
    {
        warn!(
            "the store holds the demonstration key of `dev`; it opens nothing here. Remove it with `bot-companion key revoke {}`, and \
             check whether the demonstration's data is still in the store",
            demo::KEY_ID
        );
    }
}

/// Binds the listening sockets and sees to it that there are enough file descriptors for the connections.
pub(super) fn open(config: &mut Config) -> anyhow::Result<Vec<TcpListener>> {
    let wanted = config.limits.connections as u64 + OTHER_FILES;
    let allowed = rlimit::increase_nofile_limit(wanted).unwrap_or(1024);
    if allowed < wanted {
        config.limits.connections = usize::try_from(allowed.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(64);
        warn!(
            connections = config.limits.connections,
            "the system allows {allowed} open files, so there can be fewer connections than limits.connections; raise it with `ulimit -n` or LimitNOFILE="
        );
    }
    Ok(server::bind(config.http.listen)?)
}

/// The address that the first listener is bound to.
pub(super) fn address(listeners: &[TcpListener]) -> anyhow::Result<SocketAddr> {
    Ok(listeners.first().context("nothing to listen on")?.local_addr()?)
}

/// Waits until the process is asked to stop.
pub(super) async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    // SIGHUP, which a closing terminal sends, drains like SIGTERM.
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    if let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)] = kinds.map(signal) {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, _ = hangup.recv() => {} }
    } else {
        warn!("signals cannot be heard; stop the service by killing it");
        std::future::pending::<()>().await;
    }
}
