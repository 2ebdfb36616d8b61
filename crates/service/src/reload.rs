//! Reload: on SIGHUP, a running service takes over what has changed in its configuration, completely or not at all.
//! `config/reloadable.rs` lists what it can take over. The certificate's files are watched separately.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::app::App;
use crate::config::{Config, ConfigChanges, ConfigError};
use crate::server::{CertificateWatch, CertifiedAcceptor, LoadedCertificate};
use crate::systemd::ServiceManager;

/// Without it, no page can use the service, so a file that lost it must not take effect.
const ORIGINS: &str = "http.allowed_origins";

/// The status in `systemctl status` after a reload that changed nothing.
const FAILED: &str = "Running; the last reload failed (see the log)";

pub struct Reload {
    pub app: Arc<App>,
    pub tls: Option<Arc<CertifiedAcceptor>>,
    /// Reloads the configuration from where it was read at startup.
    pub load: Box<dyn Fn() -> anyhow::Result<Config> + Send>,
    /// Checks a log filter, and returns how to apply it.
    pub log_filter: CheckFilter,
    /// The configuration at startup.
    pub started: Config,
    /// The configuration that was applied last.
    pub current: Config,
    pub manager: ServiceManager,
}

pub type CheckFilter = Box<dyn Fn(&str) -> anyhow::Result<ApplyFilter> + Send>;
pub type ApplyFilter = Box<dyn FnOnce()>;

impl Reload {
    /// Reloads on each SIGHUP, and checks the certificate's files each `watch_every`. Never ends.
    pub async fn run(mut self, mut hangup: Hangup, watch_every: Duration) {
        let mut watch = self.tls.clone().map(|tls| CertificateWatch::new(tls, self.app.sources.clock.clone()));
        let mut pace = tokio::time::interval(watch_every);
        loop {
            tokio::select! {
                () = hangup.received() => {
                    self.manager.reloading();
                    let is_reloaded = self.reload();
                    self.manager.ready(if is_reloaded { "Running; reloaded" } else { FAILED });
                    if is_reloaded && let Some(watch) = &mut watch {
                        watch.forget();
                    }
                }
                _ = pace.tick(), if watch.is_some() => {
                    if let Some(watch) = &mut watch {
                        watch.look();
                    }
                }
            }
        }
    }

    /// Takes over what has changed, or nothing if anything is wrong. Returns whether it did.
    pub fn reload(&mut self) -> bool {
        let reloaded = self.try_reload();
        self.app.sources.metrics.reload_failed.set(u64::from(reloaded.is_err()));
        match reloaded {
            Ok(()) => true,
            Err(problems) => {
                for problem in problems {
                    error!(%problem, "reload: the configuration is invalid; nothing was changed");
                }
                false
            }
        }
    }

    fn try_reload(&mut self) -> Result<(), Vec<String>> {
        // Everything that can fail comes first.
        let config = (self.load)().map_err(|error| problems_of(&error))?;
        let mut problems = Vec::new();
        let mut note = |problem: String| problems.push(problem);
        let filter = (self.log_filter)(&config.log.filter).map_err(|error| note(format!("{error:#}"))).ok();
        let files = config.tls.as_ref().filter(|_| self.tls.is_some());
        let certificate = files.map(LoadedCertificate::load).transpose();
        let certificate = certificate.map_err(|error| note(error.to_string())).ok().flatten();
        let ConfigChanges { reloadable: mut changed, unset, .. } = self.current.changes_to(&config);
        if unset.iter().any(|name| name == ORIGINS) {
            note(format!(
                "{ORIGINS} was set and no longer is, so no page could call the service: set it again, or write \
                 `allowed_origins = []` below [http] if that is what you want"
            ));
        }
        // If they are unchanged, the key file next to the database is left alone: a lost one is not replaced now.
        let has_new_keys = changed.iter().any(|name| name == "secrets.keys");
        let keys = has_new_keys.then(|| self.app.prepare_keys(&config)).transpose();
        let keys = keys.map_err(|error| note(error.to_string())).ok().flatten();
        let (true, Some(filter)) = (problems.is_empty(), filter) else { return Err(problems) };

        self.app.apply(&config, keys);
        if let (Some(tls), Some(certificate)) = (&self.tls, certificate) {
            if !certificate.is_same(&tls.certificate()) {
                changed.push("the certificate".to_owned());
            }
            tls.replace(certificate);
        }
        // Last, so that the new filter applies to the line about it.
        filter();
        let need_restart = self.started.changes_to(&config).need_restart;
        if !need_restart.is_empty() {
            let options = need_restart.join(", ");
            warn!(%options, "reload: these options have changed and need a restart");
        }
        if !unset.is_empty() {
            let options = unset.join(", ");
            warn!(%options, "reload: these options are no longer set, so their defaults apply");
        }
        let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
        info!(%changed, "reloaded");
        self.current = config;
        Ok(())
    }
}

fn problems_of(error: &anyhow::Error) -> Vec<String> {
    match error.downcast_ref::<ConfigError>() {
        Some(error) => error.problems().to_vec(),
        None => vec![format!("{error:#}")],
    }
}

/// SIGHUP, which no longer ends the process once this exists. Signals that arrive before anyone awaits it are not lost.
pub struct Hangup(Option<Signal>);

impl Hangup {
    pub fn listen() -> Self {
        let signals = signal(SignalKind::hangup());
        Self(
            signals
                .inspect_err(|error| warn!(%error, "SIGHUP cannot be received; configuration changes need a restart"))
                .ok(),
        )
    }

    async fn received(&mut self) {
        let received = match &mut self.0 {
            Some(hangup) => hangup.recv().await,
            None => None,
        };
        if received.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
