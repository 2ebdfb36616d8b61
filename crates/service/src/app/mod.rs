//! The service without its sockets: everything a handler can reach, built by one function for production and tests alike.
//!
//! `recorder` records the bot's health, `clock_watch` notices when the clock is set, and `uploads` tracks what bots are
//! sending.

mod clock_watch;
mod recorder;
mod uploads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::picture::PictureHost;
use domain::saturating;
use provider::idp::{Provider, ProviderOptions};
use runtime::background::Background;
use runtime::clock::Clock;
use runtime::liveness::Liveness;
use runtime::random::Random;
use store::{self, Freshness, StoreError};
use telemetry::Version;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::{debug, warn};

use crate::accounts::Accounts;
use crate::audit::Audit;
use crate::config::{Config, CurrentConfig, keyfile};
use crate::live::Live;
use crate::rate_limits::RateLimits;
use crate::site::{Site, SiteFileError};
use crate::sources::Sources;
use crate::vault::{Vault, VaultError, VaultKeys};
use crate::views::Views;
use clock_watch::ClockWatch;
use recorder::Recorder;
pub use uploads::{SnapshotPermit, Uploads};

/// How often uses of sessions are saved and grants revoked, and how often expired sessions are deleted.
const FLUSH_EVERY: Duration = Duration::from_secs(5);
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// What a handler can reach: the [`Sources`], which it derefs to, and what is built on them.
pub struct App {
    pub sources: Sources,
    /// The configuration at startup.
    pub config: Config,
    /// The options that a reload can change, like limits and origins.
    pub current: CurrentConfig,
    pub rate_limits: Arc<RateLimits>,
    pub request_permits: Semaphore,
    pub views: Arc<Views>,
    /// Users: sign-in, sessions, guild lists.
    pub accounts: Arc<Accounts>,
    pub live: Arc<Live>,
    /// What bots are sending right now.
    pub uploads: Arc<Uploads>,
    pub site: Site,
    pub recorder: Recorder,
    pub clock_watch: ClockWatch,
    /// The key file, if this process created it.
    new_key: Option<PathBuf>,
    shutting_down: AtomicBool,
    /// The check behind `/livez` and the watchdog: whether the worker threads respond.
    pub liveness: Arc<Liveness>,
}

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The key file next to the database cannot be used.
    #[error(transparent)]
    Key(#[from] keyfile::KeyFileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys cannot be used.
    #[error("secrets.keys: {0}")]
    Vault(#[from] VaultError),
    /// A file for the site cannot be used.
    #[error(transparent)]
    SiteFile(#[from] SiteFileError),
    /// The provider's client cannot be set up.
    #[error("the identity provider's client cannot be set up: {0}")]
    Provider(String),
}

impl App {
    /// Builds the service on the current runtime, which then runs its background tasks. Creates the key file on the first start.
    pub async fn build(config: Config, clock: Clock, random: Random, version: Version) -> Result<Self, BuildError> {
        Self::with_keys(config, clock, random, version, create_keys).await
    }

    /// The same for a command, which creates no key file.
    pub async fn for_command(config: Config) -> Result<Self, BuildError> {
        let existing = |config: &Config| Ok((existing_keys(config)?, None));
        Self::with_keys(config, Clock::system(), Random::from_system(), Version::UNKNOWN, existing).await
    }

    async fn with_keys(
        config: Config,
        clock: Clock,
        random: Random,
        version: Version,
        keys: fn(&Config) -> Result<VaultAndNewKey, BuildError>,
    ) -> Result<Self, BuildError> {
        let site = Site::new(&config, clock.now(), version)?;
        let freshness = Arc::new(Freshness::new(clock.clone()));
        let store = store::open(config.store.clone(), Arc::clone(&freshness)).await?;
        let (vault, new_key) = keys(&config)?;
        let sources = Sources {
            store: Arc::clone(&store),
            freshness: Arc::clone(&freshness),
            provider: Arc::new(provider(&config, &clock)?),
            vault: Arc::new(vault),
            clock: clock.clone(),
            random: Arc::new(random),
            background: Background::here(),
            pictures: PictureHost::new(provider::picture::CDN, provider::picture::DEFAULT_PATH, &config.idp.cdn_url),
            metrics: Arc::default(),
            audit: Arc::new(Audit::new(Arc::clone(&store), clock.clone(), config.audit)),
            floods: Arc::default(),
            traces: Arc::default(),
            version,
            stale_warnings: Arc::default(),
        };
        let rate_limits = Arc::new(RateLimits::new(&config.limits, &config.feed, clock.clone()));
        let accounts = Arc::new(Accounts::new(&sources, Arc::clone(&rate_limits), &config));
        let views = Arc::new(Views::new(&sources, Arc::clone(&accounts.lists), &config));
        let live = Arc::new(Live::new(&sources, Arc::clone(&views), &config.limits));
        Ok(Self {
            rate_limits,
            request_permits: Semaphore::new(config.limits.concurrent_requests),
            views,
            accounts,
            live,
            uploads: Arc::new(Uploads::new(Arc::clone(&store), sources.background.clone())),
            site,
            recorder: Recorder::new(Arc::clone(&store), clock.clone()),
            liveness: Arc::new(Liveness::new(clock.clone())),
            clock_watch: ClockWatch::new(clock, Arc::clone(&sources.metrics)),
            new_key,
            shutting_down: AtomicBool::new(false),
            current: CurrentConfig::new(&config),
            sources,
            config,
        })
    }

    /// The keys in a changed configuration, ready for [`App::apply`].
    pub fn prepare_keys(&self, config: &Config) -> Result<VaultKeys, BuildError> {
        if !config.secrets.is_empty() {
            return Ok(VaultKeys::new(&config.secrets)?);
        }
        // Only startup creates a missing key; a running service does not.
        let database = store::local_file(&config.store.url).ok_or(VaultError::NoKey)?;
        let key = keyfile::load(&keyfile::beside(&database))?.ok_or(VaultError::NoKey)?;
        Ok(VaultKeys::new(&[key])?)
    }

    /// Applies what a running service can take over from a changed configuration; `keys` if they have changed.
    pub fn apply(self: &Arc<Self>, config: &Config, keys: Option<VaultKeys>) {
        let before = self.current.get().limits.concurrent_requests;
        self.current.replace(config);
        if let Some(keys) = keys {
            self.sources.vault.replace(keys);
        }
        self.rate_limits.set(&config.limits, &config.feed);
        self.live.set_limits(&config.limits);
        let now = config.limits.concurrent_requests;
        self.request_permits.add_permits(now.saturating_sub(before));
        if now < before {
            let surplus = saturating::to_u32(before - now);
            let app = Arc::clone(self);
            // Permits in use are removed once they are returned.
            self.sources.background.spawn(async move {
                if let Ok(permits) = app.request_permits.acquire_many(surplus).await {
                    permits.forget();
                }
            });
        }
    }

    /// The IDs of the keys that decrypt grants; the first one also encrypts.
    pub fn key_ids(&self) -> Vec<String> {
        self.sources.vault.key_ids()
    }

    /// How many grants cannot be decrypted because their key is not configured, and the IDs of those keys.
    pub async fn unreadable_grants(&self) -> store::Result<(u64, Vec<String>)> {
        let grants = self.sources.store.grants_by_key().await?;
        let known = self.key_ids();
        let is_unknown = |(id, _): &(String, u64)| !known.contains(id);
        let unknown: Vec<_> = grants.into_iter().filter(is_unknown).collect();
        Ok((unknown.iter().map(|(_, count)| count).sum(), unknown.into_iter().map(|(id, _)| id).collect()))
    }

    /// The key file, if this process created it.
    pub fn new_key(&self) -> Option<&Path> {
        self.new_key.as_deref()
    }

    /// Begins the shutdown: `/ready` starts to fail, so that load balancers send requests elsewhere.
    pub fn begin_shutdown(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
    }

    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// Starts the tasks that never end. One saves uses of sessions, deletes expired ones, revokes grants, records the bot's
    /// health, and watches the clock; one keeps the public views cached; one tells live streams about changes.
    pub fn start_tasks(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let app = Arc::clone(self);
        // Side by side, so that a slow write in one does not delay the other.
        tasks.spawn(async move {
            tokio::join!(app.flush_and_sweep(), app.recorder.run(), app.clock_watch.run());
        });
        let views = Arc::clone(&self.views);
        tasks.spawn(async move { views.keep_warm().await });
        let live = Arc::clone(&self.live);
        tasks.spawn(async move { live.run().await });
    }

    async fn flush_and_sweep(&self) {
        let mut flush = tokio::time::interval(FLUSH_EVERY);
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        // After minutes without a store, missed turns are not made up for.
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = flush.tick() => {
                    self.accounts.start_revoking();
                    self.sources.report_served_stale();
                    self.sources.floods.report(self.sources.clock.ticks());
                    self.flush().await;
                    self.sources.audit.flush(false).await;
                }
                _ = sweep.tick() => {
                    // This also removes what an upload left behind in a crash.
                    self.uploads.clean_up();
                    match self.accounts.sweep().await {
                        Ok(0) => {}
                        Ok(swept) => debug!(swept, "expired sessions deleted"),
                        Err(error) => warn!(%error, "expired sessions could not be deleted; retrying in a minute"),
                    }
                }
            }
        }
    }

    /// Waits for background tasks, saves what is only in memory, and closes the store.
    pub async fn close(&self, limit: Duration) {
        if !self.sources.background.drain(limit).await {
            warn!("background tasks did not finish in time");
        }
        self.flush().await;
        self.sources.audit.flush(true).await;
        self.sources.store.close().await;
    }

    async fn flush(&self) {
        if let Err(error) = self.views.sessions.flush().await {
            warn!(%error, "the last use of some sessions could not be saved");
        }
    }
}

/// The provider's client; makes no calls yet.
pub(crate) fn provider(config: &Config, clock: &Clock) -> Result<Provider, BuildError> {
    Provider::new(ProviderOptions {
        base_url: config.idp.base_url.clone(),
        client_id: config.idp.client_id.clone(),
        client_secret: config.idp.client_secret.clone(),
        connect_timeout: config.idp.connect_timeout,
        sign_in_timeout: config.idp.sign_in_timeout,
        list_timeout: config.idp.list_timeout,
        failure_budget: config.idp.failure_budget,
        version: Version::NAME.to_owned(),
        clock: clock.clone(),
    })
    .map_err(|error| BuildError::Provider(error.to_string()))
}

/// The vault, and the file of a key that was created for it.
type VaultAndNewKey = (Vault, Option<PathBuf>);

/// If the store is a file of ours and no key is configured, creates a key file next to it and returns its path too.
fn create_keys(config: &Config) -> Result<VaultAndNewKey, BuildError> {
    if !config.secrets.is_empty() {
        return Ok((Vault::new(&config.secrets)?, None));
    }
    let database = store::local_file(&config.store.url).ok_or(VaultError::NoKey)?;
    let file = keyfile::load_or_create(&database)?;
    Ok((Vault::new(&[file.key])?, file.is_new.then_some(file.path)))
}

/// The keys that exist: the configured ones, or the key file next to the database. There may be none.
pub(crate) fn existing_keys(config: &Config) -> Result<Vault, BuildError> {
    if !config.secrets.is_empty() {
        return Ok(Vault::for_reading(&config.secrets)?);
    }
    let key = config.key_file().map(|path| keyfile::load(&path)).transpose()?.flatten();
    Ok(Vault::for_reading(key.as_slice())?)
}
