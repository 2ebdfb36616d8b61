//! Answers kept ready in memory, so that a hot read touches neither disk nor provider. Each view has a `ready` that answers from
//! memory or not at all, and an `answer` that reads the store (and the provider) and keeps what it made. What is kept holds as
//! long as its mark in [`Freshness`] does, and may stand in for a while when the store cannot be asked.

pub mod feedback;
mod fill;
pub mod guilds;
pub mod keys;
mod lists;
pub mod sessions;
mod stand_in;
pub mod status;
pub mod team;

use std::sync::Arc;

pub use lists::ListError;
pub use stand_in::StandIns;

use crate::background::Background;
use crate::clock::Clock;
use crate::config::Config;
use crate::idp::Provider;
use crate::store::{Freshness, Store};
use crate::vault::Vault;

/// All views.
pub struct Views {
    /// Who a token stands for.
    pub sessions: sessions::Sessions,
    /// Which keys of bots are good.
    pub keys: keys::Keys,
    /// `GET /guilds`
    pub guilds: guilds::Guilds,
    /// `GET /feedback`
    pub feedback: feedback::Feedback,
    /// `GET /team`
    pub team: team::Team,
    /// `GET /`
    pub status: status::Status,
}

/// What views are made of.
#[derive(Clone)]
pub struct Sources {
    /// What lasts.
    pub store: Arc<dyn Store>,
    /// What has changed.
    pub freshness: Arc<Freshness>,
    /// The identity provider.
    pub provider: Arc<Provider>,
    /// Opens grants.
    pub vault: Arc<Vault>,
    /// The time.
    pub clock: Clock,
    /// For work that goes on behind.
    pub background: Background,
    /// Tells that memory speaks for the store.
    pub stand_ins: StandIns,
}

impl Views {
    /// Empty views over these sources.
    pub fn new(sources: &Sources, config: &Config) -> Self {
        Self {
            sessions: sessions::Sessions::new(sources, config.sessions),
            keys: keys::Keys::new(sources),
            guilds: guilds::Guilds::new(sources, config),
            feedback: feedback::Feedback::new(sources),
            team: team::Team::new(sources),
            status: status::Status::new(sources),
        }
    }
}
