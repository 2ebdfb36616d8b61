//! Builds a companion from its parts, and runs it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::callbacks::{self, CallbackError, Callbacks, Grants};
use crate::clock::{Clock, SystemClock, random_name};
use crate::companion::Companion;
use crate::configuration::{Configuration, ConfigurationError};
use crate::core::{Core, Phase};
use crate::http::HttpTransport;
use crate::limits::Limits;
use crate::source::{Guild, Source};
use crate::status::{LogSink, Reporter, to_tracing};
use crate::transport::Transport;
use crate::{heartbeat, listing, sender};

/// Builds a [`Companion`].
pub struct Builder {
    configuration: Configuration,
    callbacks: Callbacks,
    limits: Limits,
    spool: Option<PathBuf>,
    log: LogSink,
    clock: Option<Arc<dyn Clock>>,
    transport: Option<Arc<dyn Transport>>,
}

impl Builder {
    pub(crate) fn with(configuration: Configuration) -> Self {
        Self {
            configuration,
            callbacks: Callbacks::default(),
            limits: Limits::default(),
            spool: None,
            log: to_tracing(),
            clock: None,
            transport: None,
        }
    }

    /// What the roles of a guild grant.
    #[must_use]
    pub fn grants<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(Guild) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Grants, CallbackError>> + Send + 'static,
    {
        self.callbacks.grants = Some(callbacks::guild_callback(callback));
        self
    }

    /// Whether a guild has configured the bot.
    #[must_use]
    pub fn setup<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(Guild) -> A + Send + Sync + 'static,
        A: Future<Output = Result<bool, CallbackError>> + Send + 'static,
    {
        self.callbacks.setup = Some(callbacks::guild_callback(callback));
        self
    }

    /// Whether a guild has linked its game server.
    #[must_use]
    pub fn linked<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(Guild) -> A + Send + Sync + 'static,
        A: Future<Output = Result<bool, CallbackError>> + Send + 'static,
    {
        self.callbacks.linked = Some(callbacks::guild_callback(callback));
        self
    }

    /// All subscriptions: [`Subscription`](crate::Subscription)s, or any values with the same fields.
    #[must_use]
    pub fn subscriptions<T, F, A>(mut self, callback: F) -> Self
    where
        T: Serialize,
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<T>, CallbackError>> + Send + 'static,
    {
        self.callbacks.subscriptions = Some(callbacks::list_callback(callback, callbacks::check_subscription));
        self
    }

    /// The whole team: [`TeamMember`](crate::TeamMember)s, or any values with the same fields.
    #[must_use]
    pub fn team<T, F, A>(mut self, callback: F) -> Self
    where
        T: Serialize,
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<T>, CallbackError>> + Send + 'static,
    {
        self.callbacks.team = Some(callbacks::list_callback(callback, callbacks::check_team_member));
        self
    }

    /// Keeps feedback in this file until the service has it, so that it survives a restart.
    #[must_use]
    pub fn spool(mut self, path: impl Into<PathBuf>) -> Self {
        self.spool = Some(path.into());
        self
    }

    /// Changes limits: `.limits(|limits| limits.listing_rate = 5.0)`.
    #[must_use]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Where log lines go. By default, they are `tracing` events with the target `bot_companion_feed`.
    #[must_use]
    pub fn log(mut self, sink: LogSink) -> Self {
        self.log = sink;
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Another transport, for tests.
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Starts the feed as a task of the current tokio runtime.
    pub fn start(self, source: Arc<dyn Source>) -> Result<Companion, ConfigurationError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            ConfigurationError::new("the companion was started outside a tokio runtime: start it in `main`")
        })?;
        let (companion, work) = self.build(source)?;
        runtime.spawn(work);
        Ok(companion)
    }

    /// The feed and a future that does its work, which the caller has to poll. It ends when the feed is closed.
    pub fn build(self, source: Arc<dyn Source>) -> Result<(Companion, BoxFuture<'static, ()>), ConfigurationError> {
        self.limits.check().map_err(ConfigurationError::new)?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::default()));
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(
                HttpTransport::new(
                    &self.configuration.url,
                    self.configuration.authorization,
                    Arc::clone(&clock),
                    self.limits.flush_interval,
                )
                .map_err(|error| {
                    ConfigurationError::new(format!(
                        "COMPANION_URL begins with https, but the system's certificate authorities cannot be read ({error}): \
                         install the package ca-certificates"
                    ))
                })?,
            ),
        };
        let reporter = Reporter::new(self.log);
        let core = Core::new(
            self.configuration.url,
            random_name(),
            self.limits,
            self.callbacks,
            source,
            clock,
            transport,
            reporter,
        );
        if let Some(path) = self.spool {
            core.open_spool(&path);
        }
        let companion = Companion { core: Arc::new(core) };
        let core = Arc::clone(&companion.core);
        Ok((companion, Box::pin(async move { run(&core).await })))
    }
}

/// All of the feed's work.
async fn run(core: &Arc<Core>) {
    let mut phase = core.phase.subscribe();
    let closing = async {
        let _ = phase.wait_for(|phase| *phase != Phase::Open).await;
    };
    let beats = async {
        tokio::select! {
            biased;
            () = closing => std::future::pending().await,
            () = guarded(core, || heartbeat::run(core)) => {}
            () = guarded(core, || listing::run(core)) => {}
        }
    };
    let mut phase = core.phase.subscribe();
    let overdue = async {
        let _ = phase.wait_for(|phase| *phase != Phase::Open).await;
        core.clock.sleep(core.limits.close_timeout).await;
    };
    let sending = async {
        tokio::select! {
            biased;
            () = sender::run(core) => {}
            () = beats => {}
        }
        heartbeat::leave(core).await;
    };
    tokio::select! {
        biased;
        () = sending => {}
        () = overdue => {}
    }
    core.end();
}

/// Runs it forever, restarting it if it panics.
async fn guarded<F: Future<Output = ()>>(core: &Core, run: impl Fn() -> F) {
    loop {
        if let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await {
            core.say_fault(&*panic);
        }
        core.clock.sleep(core.limits.longest_retry).await;
    }
}
