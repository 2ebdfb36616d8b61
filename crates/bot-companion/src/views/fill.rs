//! Keeps the public views filled, asked for or not: a fresh replica, or one whose data has just changed, must be able to answer
//! from memory when the store goes away.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tracing::{debug, error};

use super::Views;
use crate::store::Result;

/// How often the views are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// After a read, that view is not read again for this many looks: once a second at most, however often it changes.
const PAUSE: u32 = 4;

/// A view that can be filled before anybody asks.
pub(super) trait Fill {
    /// Whether what it holds is right; if so, that is noted.
    fn is_right(&self) -> bool;
    /// Whether what it holds was right a minute ago or later.
    fn was_valid_recently(&self) -> bool;
    /// Reads it from the store.
    async fn fill(&self) -> Result<()>;
}

impl Views {
    /// Fills the public views and keeps them filled; never ends. A store that is slow or away delays nobody but this.
    pub async fn keep_filled(&self) {
        tokio::join!(keep("team", &self.team), keep("feedback", &self.feedback), keep("status", &self.status));
    }

    /// Whether every public view could stand in for the store now, even if all of it changed this moment.
    pub fn are_filled(&self) -> bool {
        self.team.was_valid_recently() && self.feedback.was_valid_recently() && self.status.was_valid_recently()
    }
}

async fn keep(name: &'static str, view: &impl Fill) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut pause = 0;
    loop {
        looks.tick().await;
        pause = u32::saturating_sub(pause, 1);
        if view.is_right() || pause > 0 {
            continue;
        }
        pause = PAUSE;
        // A bug in one view must not leave all of them empty for the rest of the process's life.
        match AssertUnwindSafe(view.fill()).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                debug!(view = name, %error, "a public view could not be filled; trying again in a second");
            }
            Err(_) => error!(view = name, "filling a public view panicked; trying again in a second"),
        }
    }
}
