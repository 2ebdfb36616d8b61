//! What views and accounts are built on.

use std::sync::{Arc, OnceLock};

use api::picture::PictureHost;
use provider::idp::Provider;
use runtime::background::Background;
use runtime::clock::Clock;
use runtime::random::Random;
use store::{Freshness, Store, StoreError};
use telemetry::Version;
use telemetry::log_throttle::Throttle;
use telemetry::metrics::Metrics;
use telemetry::traces::Traces;
use tracing::warn;

use crate::audit::Audit;
use crate::floods::Floods;
use crate::vault::Vault;

/// Handles to the parts below; cheap to clone.
#[derive(Clone)]
pub struct Sources {
    pub store: Arc<Store>,
    pub freshness: Arc<Freshness>,
    pub provider: Arc<Provider>,
    /// Encrypts and decrypts grants.
    pub vault: Arc<Vault>,
    pub clock: Clock,
    /// For IDs and draws.
    pub random: Arc<Random>,
    pub background: Background,
    /// Where images are loaded from.
    pub pictures: PictureHost,
    pub metrics: Arc<Metrics>,
    pub audit: Arc<Audit>,
    /// What strangers cause over and over.
    pub floods: Arc<Floods>,
    /// Where traces go, if anywhere.
    pub traces: Arc<OnceLock<Traces>>,
    pub version: Version,
    /// Limits the warnings about stale responses.
    pub stale_warnings: Arc<Throttle>,
}

impl Sources {
    /// Warns that a cached response is served because the store cannot be reached.
    pub fn warn_served_stale(&self, error: &StoreError) {
        if let Some(times) = self.stale_warnings.count(self.clock.ticks()) {
            warn!(%error, times, "the store cannot be reached; serving stale cached responses for up to a minute");
        }
    }

    /// Reports how often that happened since the last warning, once a minute has passed.
    pub fn report_served_stale(&self) {
        if let Some(times) = self.stale_warnings.rest(self.clock.ticks()) {
            warn!(times, "stale cached responses were served while the store could not be reached");
        }
    }
}
