//! `GET /`: the status. All of it is cached as finished bytes except the two latencies, which are spliced in per request.

use std::sync::Arc;
use std::time::Duration;

use api::status::StatusBody;
use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use domain::{Health, Time};
use store::{Result, Topic};
use telemetry::Version;
use telemetry::metrics::CacheName;

use super::cached::CacheRead;
use super::public::{PublicKind, PublicView};
use crate::sources::Sources;

pub struct StatusView;

/// The bot's health, and the response built from it.
pub struct StatusResponse {
    health: Health,
    version: Version,
    rendered: ArcSwap<RenderedStatus>,
}

/// The body without the two latencies. It expires, because the text of the uptime changes and a silent process counts as gone.
struct RenderedStatus {
    expires: Time,
    is_online: bool,
    body: StatusBody,
}

impl PublicView<StatusView> {
    /// The response, if it is cached and fresh. The latencies are measured last.
    pub fn cached(&self, now: Time, latencies: impl FnOnce() -> (Option<f64>, Duration)) -> Option<Bytes> {
        self.cache.with_fresh(|cached| Some(cached.body(now, latencies)))
    }

    /// The response, from the store if needed; from the last known health if the store cannot be reached.
    pub async fn get_body(&self, latencies: impl FnOnce() -> (Option<f64>, Duration)) -> Result<Bytes> {
        let cached = self.get().await?;
        Ok(cached.body(self.sources.clock.now(), latencies))
    }

    /// Whether a bot process is alive, as last known; `None` if nothing is known yet.
    pub fn bot_is_online(&self) -> Option<bool> {
        self.cache.with_any(|cached| cached.current(self.sources.clock.now()).is_online)
    }

    /// Uses the bot's last known health; `None` if nothing is known yet.
    pub fn last_known_health<R>(&self, look: impl FnOnce(&Health) -> R) -> Option<R> {
        self.cache.with_any(|cached| look(&cached.health))
    }
}

impl PublicKind for StatusView {
    type Value = StatusResponse;
    const NAME: CacheName = CacheName::Status;

    async fn read(sources: &Sources, read: &mut CacheRead<'_>) -> Result<StatusResponse> {
        let health = read.depend_on([Topic::Health]).health().await?;
        let rendered = ArcSwap::from_pointee(RenderedStatus::new(&health, sources.version, sources.clock.now()));
        Ok(StatusResponse { health, version: sources.version, rendered })
    }
}

impl StatusResponse {
    /// The whole body. Expired bytes are rendered again from the same health, even while the store is away: a bot that falls
    /// silent during an outage must not look alive.
    fn body(&self, now: Time, latencies: impl FnOnce() -> (Option<f64>, Duration)) -> Bytes {
        let rendered = self.current(now);
        let (response, process) = latencies();
        rendered.body.with_latencies(response, process)
    }

    /// The rendered status, rendered again if it has expired.
    fn current(&self, now: Time) -> Guard<Arc<RenderedStatus>> {
        let rendered = self.rendered.load();
        if now < rendered.expires {
            return rendered;
        }
        self.rendered.store(Arc::new(RenderedStatus::new(&self.health, self.version, now)));
        self.rendered.load()
    }
}

impl RenderedStatus {
    fn new(health: &Health, version: Version, now: Time) -> Self {
        let summary = health.summary(now);
        Self {
            expires: health.summary_valid_until(now),
            is_online: summary.uptime.is_online(),
            body: StatusBody::new(summary, version),
        }
    }
}
