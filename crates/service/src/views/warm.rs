//! Cache warming: the public views are refreshed whether or not anyone asks. A new replica, or one whose data has just changed,
//! must be able to serve them from the cache when the store goes away.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use store::Result;
use tracing::{debug, error};

use super::Views;
use super::cached::CacheSlot;

const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How many checks to skip after a refresh: a view is refreshed at most once per second, however often it changes.
const PAUSE: u32 = 4;

/// A view that can be refreshed before anyone asks.
pub(super) trait Warm {
    type Value;

    fn cache(&self) -> &CacheSlot<Self::Value>;

    /// Reads it from the store into the cache.
    async fn refresh(&self) -> Result<()>;
}

impl Views {
    /// Keeps the public views cached. Never ends. A slow store delays only this task.
    pub async fn keep_warm(&self) {
        tokio::join!(
            keep_warm("team", &self.team),
            keep_warm("feedback", &self.feedback),
            keep_warm("stats", &self.stats),
            keep_warm("history", &self.history),
            keep_warm("status", &self.status),
            keep_warm("site", &self.site)
        );
    }

    /// Whether every public view could be served stale now, even if all of it had just changed.
    pub fn are_warm(&self) -> bool {
        self.team.cache().was_valid_recently()
            && self.feedback.cache().was_valid_recently()
            && self.stats.cache().was_valid_recently()
            && self.history.cache().was_valid_recently()
            && self.status.cache().was_valid_recently()
            && self.site.cache().was_valid_recently()
    }
}

async fn keep_warm(name: &'static str, view: &impl Warm) {
    let mut checks = tokio::time::interval(CHECK_EVERY);
    checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut pause = 0;
    loop {
        checks.tick().await;
        pause = u32::saturating_sub(pause, 1);
        if view.cache().renew() || pause > 0 {
            continue;
        }
        pause = PAUSE;
        // A bug in one view must not leave its cache cold for as long as the process lives.
        match AssertUnwindSafe(view.refresh()).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                debug!(view = name, %error, "a public view could not be refreshed; retrying in a second");
            }
            Err(_) => error!(view = name, "refreshing a public view panicked; retrying in a second"),
        }
    }
}
