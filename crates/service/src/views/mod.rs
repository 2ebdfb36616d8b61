//! Cached responses, so that a hot read touches neither disk nor provider. Each view has a `cached`, which answers from the
//! cache or not at all and never waits, and a `get` (`find`), which reads the store, and the provider if needed, and fills the
//! cache. [`cached`] is the cache itself, with its rules for what is fresh and what may be served stale.

pub mod cached;
pub mod compressible;
pub mod feedback;
pub mod guilds;
pub mod history;
pub mod keys;
pub mod me;
pub mod sessions;
pub mod site;
pub mod stats;
pub mod status;
pub mod tagged;
pub mod team;
mod warm;

use std::sync::Arc;

use telemetry::metrics::CacheName;
use warm::Warm;

use crate::accounts::GuildLists;
use crate::config::Config;
use crate::sources::Sources;

pub struct Views {
    /// Which session a token belongs to.
    pub sessions: sessions::SessionsView,
    /// Which bot keys are valid.
    pub keys: keys::KeysView,
    /// `GET /me`
    pub me: me::MeView,
    /// `GET /guilds`
    pub guilds: guilds::GuildsView,
    /// `GET /feedback`
    pub feedback: feedback::FeedbackView,
    /// `GET /team`
    pub team: team::TeamView,
    /// `GET /stats`
    pub stats: stats::StatsView,
    /// The bot's history.
    pub history: history::HistoryView,
    /// `GET /`
    pub status: status::StatusView,
    /// What the site's pages show.
    pub site: site::SiteView,
}

impl Views {
    pub fn new(sources: &Sources, lists: Arc<GuildLists>, config: &Config) -> Self {
        Self {
            sessions: sessions::SessionsView::new(sources, config.sessions),
            keys: keys::KeysView::new(sources),
            me: me::MeView::new(sources),
            guilds: guilds::GuildsView::new(sources, lists, config),
            feedback: feedback::FeedbackView::new(sources),
            team: team::TeamView::new(sources),
            stats: stats::StatsView::new(sources),
            history: history::HistoryView::new(sources),
            status: status::StatusView::new(sources),
            site: site::SiteView::new(sources),
        }
    }

    /// How many entries a cache has, fresh or not.
    pub fn cached_entries(&self, cache: CacheName) -> usize {
        match cache {
            CacheName::Sessions => self.sessions.entries(),
            CacheName::Keys => self.keys.entries(),
            CacheName::Me => self.me.entries(),
            CacheName::Guilds => self.guilds.entries(guilds::Listing::WithBot),
            CacheName::Invitable => self.guilds.entries(guilds::Listing::Invitable),
            CacheName::Status => usize::from(self.status.cache().is_filled()),
            CacheName::Team => usize::from(self.team.cache().is_filled()),
            CacheName::Stats => usize::from(self.stats.cache().is_filled()),
            CacheName::History => usize::from(self.history.cache().is_filled()),
            CacheName::Feedback => self.feedback.entries(),
            CacheName::Site => usize::from(self.site.cache().is_filled()),
        }
    }
}
