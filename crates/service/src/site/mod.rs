//! The site: pages for people, rendered on the server, and their assets. It works without JavaScript wherever possible.
//!
//! A page is a function from facts to HTML; `http/pages.rs` reads the facts and sends it. Every sentence is in `words`.

pub mod assets;
pub mod badge;
mod calendar;
pub mod dashboard;
pub mod error_page;
pub mod home;
pub mod icon;
pub mod language;
mod layout;
mod numbers;
mod picture;
pub mod reference;
mod rendered;
mod role_colours;
pub mod status;
mod words;

use std::collections::BTreeSet;

use domain::history::{Observation, observe};
use domain::{Health, TeamMember, Time, Version, content_security_policy};
use icon::Icon;

use crate::config::{Config, SiteConfig, origin_of};
use crate::views::tagged::TaggedBody;
pub use icon::IconError;
pub use language::Language;
use picture::Pictures;
pub use rendered::{Facts, FixedPage, PageName, RenderedPages};

/// What all pages share.
pub struct Site {
    config: SiteConfig,
    /// The path that every route starts with; empty for none.
    base_path: String,
    /// Where people add the bot to a server.
    invite_url: Option<String>,
    pictures: Pictures,
    icon: Option<Icon>,
    /// The Content-Security-Policy of pages.
    policy: String,
    /// When the service started listening for the bot. Before that, a silent shard may have had nobody to report to.
    pub listening_since: Time,
    /// When the running build was committed.
    built: Time,
    /// Recently rendered pages.
    pub rendered: RenderedPages,
}

impl Site {
    /// The configured site of a service that starts now. Reads the icon file.
    pub fn new(config: &Config, now: Time, version: Version) -> Result<Self, IconError> {
        let pictures = Pictures::new(&config.idp.cdn_url);
        let invite_url = config.site.invite_url.as_ref().filter(|_| !config.idp.client_id.is_empty());
        Ok(Self {
            icon: config.site.icon.as_deref().map(Icon::read).transpose()?,
            config: config.site.clone(),
            base_path: config.http.base_path.clone(),
            invite_url: invite_url.map(|url| url.replace("{client_id}", &config.idp.client_id)),
            policy: content_security_policy::site(&origin_of(&config.idp.cdn_url).unwrap_or_default()),
            pictures,
            listening_since: now,
            built: Time::from_seconds(version.commit.timestamp),
            rendered: RenderedPages::default(),
        })
    }

    /// The Content-Security-Policy of pages.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The bot's picture, if the operator has set one, and its media type.
    pub fn icon(&self) -> Option<(&'static str, &TaggedBody)> {
        self.icon.as_ref().map(|icon| (icon.media_type, &icon.body))
    }

    /// The state of the bot; `None` if it is not known.
    pub fn observe(&self, health: &Health, now: Time) -> Option<Observation> {
        observe(health, self.listening_since, now)
    }

    /// The path of one of our own addresses, like `/site/status`.
    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base_path)
    }

    /// The whole address of one of our own paths; `None` if the public address is not known.
    fn address(&self, path: &str) -> Option<String> {
        self.config.url.as_ref().map(|url| format!("{url}{path}"))
    }

    pub fn home_path(&self) -> String {
        self.path("/site/")
    }

    /// The style sheet with the colours of the team's roles. Pages can't contain it themselves, because inline styles aren't allowed.
    pub fn role_colours(&self, team: &[TeamMember]) -> String {
        let colours: BTreeSet<&str> = team.iter().map(|member| member.color.as_str()).collect();
        colours.into_iter().filter_map(role_colours::role_rule).collect()
    }
}
