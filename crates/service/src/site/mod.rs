//! The site: pages for people, rendered on the server, and their assets. It works without JavaScript wherever possible.
//!
//! A page is a function from facts to HTML; `http/pages.rs` reads the facts and sends it. Every sentence is in `words`.

pub mod assets;
pub mod badge;
mod calendar;
pub mod dashboard;
pub mod error_page;
pub mod features;
mod files;
pub mod home;
mod icon;
pub mod language;
mod layout;
mod links;
mod look;
mod numbers;
mod picture;
mod preview;
pub mod reference;
mod rendered;
mod role_colours;
pub mod status;
mod words;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use bytes::Bytes;
use domain::history::{Observation, observe};
use domain::{Health, TeamMember, Time};
use icon::Icon;
use telemetry::Version;

use http::HeaderValue;

use crate::config::{Config, SiteConfig, SitePart, origin_of};
use crate::views::compressible::CompressibleBody;
use crate::views::tagged::TaggedBody;
use features::Features;
pub use files::SiteFileError;
pub use language::Language;
use look::Look;
use picture::Pictures;
pub use rendered::{Facts, PageName, RenderedPages};

/// What all pages share.
pub struct Site {
    config: SiteConfig,
    /// The path that every route starts with; empty for none.
    base_path: String,
    /// Where people add the bot to a server.
    invite_url: Option<String>,
    pictures: Pictures,
    icon: Option<Icon>,
    preview: Option<Icon>,
    look: Option<Look>,
    features: Option<Features>,
    /// The `Link` header of `GET /`, which points to the home page; `None` without a site.
    link: Option<HeaderValue>,
    /// The Content-Security-Policy of pages.
    policy: String,
    /// When the service started listening for the bot. Before that, a silent shard may have had nobody to report to.
    pub listening_since: Time,
    /// When the running build was committed.
    built: Time,
    /// Recently rendered pages.
    pub rendered: RenderedPages,
}

/// The policy of pages: scripts, styles and calls only from us, images also from this origin; nothing inline, and no framing.
fn content_security_policy(pictures: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' {pictures}; connect-src 'self'; form-action \
         'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}

impl Site {
    /// The configured site of a service that starts now. Reads the operator's files.
    pub fn new(config: &Config, now: Time, version: Version) -> Result<Self, SiteFileError> {
        let pictures = Pictures::new(&config.idp.cdn_url);
        let invite_url = config.site.invite_url.as_ref().filter(|_| !config.idp.client_id.is_empty());
        let link = format!("<{}/site/>; rel=\"alternate\"; type=\"text/html\"", config.http.base_path);
        Ok(Self {
            icon: config.site.icon.as_deref().map(Icon::read).transpose()?,
            preview: config.site.preview.as_deref().map(preview::read).transpose()?,
            look: Look::read(&config.site)?,
            features: config.site.features.as_deref().map(Features::read).transpose()?,
            link: HeaderValue::try_from(link).ok().filter(|_| config.site.enabled),
            config: config.site.clone(),
            base_path: config.http.base_path.clone(),
            invite_url: invite_url.map(|url| url.replace("{client_id}", &config.idp.client_id)),
            policy: content_security_policy(&origin_of(&config.idp.cdn_url).unwrap_or_default()),
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

    /// The bot's picture, or our default.
    pub fn favicon(&self) -> (&'static str, &TaggedBody) {
        static DEFAULT: LazyLock<TaggedBody> = LazyLock::new(|| TaggedBody::new(Bytes::from_static(assets::ICON)));
        self.icon().unwrap_or_else(|| ("image/png", &*DEFAULT))
    }

    /// The picture for chat apps.
    pub fn preview(&self) -> Option<(&'static str, &TaggedBody)> {
        self.preview.as_ref().map(|preview| (preview.media_type, &preview.body))
    }

    /// The operator's style sheet, if this is its file name.
    pub fn look(&self, file: &str) -> Option<&CompressibleBody> {
        self.look.as_ref().filter(|look| look.file == file).map(|look| &look.body)
    }

    /// Whether `/site/features` exists.
    pub fn has_features(&self) -> bool {
        self.features.is_some()
    }

    /// The `Link` header of `GET /`, for people who find the API first.
    pub fn link(&self) -> Option<&HeaderValue> {
        self.link.as_ref()
    }

    /// `/robots.txt`: crawlers may read the pages, but not the API.
    pub fn robots(&self) -> String {
        let allow = |path| format!("Allow: {}\n", self.path(path));
        let docs = if self.shows(SitePart::Docs) { allow("/docs") } else { String::new() };
        format!("User-agent: *\n{}{}{docs}Disallow: {}\n", allow("/site/"), allow("/badge/"), self.path("/"))
    }

    /// The path of the bot's picture as a bitmap, for apps that can't show SVG.
    fn bitmap_path(&self) -> String {
        if self.icon.is_some() { "/site/icon".to_owned() } else { assets::path("icon.png") }
    }

    fn shows(&self, part: SitePart) -> bool {
        !self.config.hide.contains(&part)
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

/// Whether the operator's files can be used.
pub fn check_files(config: &SiteConfig) -> Result<(), SiteFileError> {
    config.icon.as_deref().map(Icon::read).transpose()?;
    config.preview.as_deref().map(preview::read).transpose()?;
    config.features.as_deref().map(Features::read).transpose()?;
    Look::read(config).map(drop)
}
