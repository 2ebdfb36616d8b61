//! Cached responses, so that a hot read touches neither disk nor provider. Each view has a `cached`, which answers from the
//! cache or not at all and never waits, and a `get` (`find`), which reads the store, and the provider if needed, and fills the
//! cache. [`cached`] is the cache itself, with its rules for what is fresh and what may be served stale.

pub mod cached;
pub mod compressible;
pub mod feedback;
pub mod guilds;
pub mod keys;
pub mod me;
pub mod public;
pub mod sessions;
pub mod site;
pub mod status;
pub mod tagged;

use std::sync::Arc;

use public::PublicView;
use telemetry::metrics::CacheName;

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
    pub feedback: PublicView<feedback::FeedbackView>,
    /// `GET /team`
    pub team: PublicView<public::TeamView>,
    /// `GET /stats`
    pub stats: PublicView<public::StatsView>,
    /// The bot's history.
    pub history: PublicView<public::HistoryView>,
    /// `GET /`
    pub status: PublicView<status::StatusView>,
    /// What the site's pages show.
    pub site: PublicView<site::SiteView>,
}

impl Views {
    pub fn new(sources: &Sources, lists: Arc<GuildLists>, config: &Config) -> Self {
        Self {
            sessions: sessions::SessionsView::new(sources, config.sessions),
            keys: keys::KeysView::new(sources),
            me: me::MeView::new(sources),
            guilds: guilds::GuildsView::new(sources, lists, config),
            feedback: PublicView::new(sources),
            team: PublicView::new(sources),
            stats: PublicView::new(sources),
            history: PublicView::new(sources),
            status: PublicView::new(sources),
            site: PublicView::new(sources),
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
            CacheName::Status => self.status.entries(),
            CacheName::Team => self.team.entries(),
            CacheName::Stats => self.stats.entries(),
            CacheName::History => self.history.entries(),
            CacheName::Feedback => self.feedback.entries(),
            CacheName::Site => self.site.entries(),
        }
    }
}
