//! What views and accounts are built from.

use std::sync::{Arc, OnceLock};

use api::picture::PictureHost;
use domain::Version;
use provider::idp::Provider;
use runtime::background::Background;
use runtime::clock::Clock;
use runtime::random::Random;
use store::{Freshness, Store, StoreError};
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
    /// The database.
    pub store: Arc<dyn Store>,
    /// Cache invalidation.
    pub freshness: Arc<Freshness>,
    /// The identity provider.
    pub provider: Arc<Provider>,
    /// Encrypts and decrypts grants.
    pub vault: Arc<Vault>,
    /// The time.
    pub clock: Clock,
    /// Numbers for ids and draws.
    pub random: Arc<Random>,
    /// Background tasks.
    pub background: Background,
    /// From where pictures are shown.
    pub pictures: PictureHost,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What is written down of what happened.
    pub audit: Arc<Audit>,
    /// What strangers cause again and again.
    pub floods: Arc<Floods>,
    /// Where traces go, if anywhere.
    pub traces: Arc<OnceLock<Traces>>,
    /// The running build.
    pub version: Version,
    /// Limits the warnings about responses that are served stale.
    pub stale_warnings: Arc<Throttle>,
}

impl Sources {
    /// Tells the operator that a cached response is served because the store cannot be asked.
    pub fn warn_served_stale(&self, error: &StoreError) {
        if let Some(times) = self.stale_warnings.count(self.clock.ticks()) {
            warn!(%error, times, "the store cannot be reached; serving stale cached responses for up to a minute");
        }
    }

    /// Tells the operator how often that happened since the last warning, once the minute between warnings is over.
    pub fn report_served_stale(&self) {
        if let Some(times) = self.stale_warnings.rest(self.clock.ticks()) {
            warn!(times, "stale cached responses were served while the store could not be reached");
        }
    }
}
