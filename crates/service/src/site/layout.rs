//! The frame of every page: head, navigation, footer.

use maud::{DOCTYPE, Markup, html};
use telemetry::Version;

use super::role_colours::{DARK_CARD, LIGHT_CARD, hex};
use super::words::Words;
use super::{Language, Site, assets, preview};
use crate::config::SitePart;

const TIMES: &str = "times.js";
const TABS: &str = "tabs.js";

/// The current page, for the navigation and the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Home,
    Features,
    Status,
    Dashboard,
    Reference,
    /// The page about the feed, which belongs to the reference.
    Feed,
    /// None of these.
    Other,
}

/// Everything about a page except its content.
pub(super) struct PageFrame<'a> {
    pub(super) site: &'a Site,
    pub(super) language: Language,
    pub(super) section: Section,
    pub(super) title: &'a str,
    /// One sentence for previews and search engines.
    pub(super) description: &'a str,
    /// Names of scripts in `assets`, loaded as modules.
    pub(super) scripts: &'a [&'a str],
    /// The topics of `/live` that make the page reload; empty for none.
    pub(super) live: &'a str,
}

impl<'a> PageFrame<'a> {
    /// A page without scripts that stays as it is.
    pub(super) fn new(
        site: &'a Site,
        language: Language,
        section: Section,
        title: &'a str,
        description: &'a str,
    ) -> Self {
        Self { site, language, section, title, description, scripts: &[], live: "" }
    }
}

impl PageFrame<'_> {
    pub(super) fn words(&self) -> &'static Words {
        self.language.words()
    }

    /// The whole page around its content.
    pub(super) fn page(&self, main: &Markup) -> String {
        let Self { site, language, title, description, .. } = self;
        let words = &self.words().shared;
        let name = &site.config.name;
        let title = if title.is_empty() { name.clone() } else { format!("{title} · {name}") };
        html! {
            (DOCTYPE)
            html lang=(language.tag()) data-base=(site.base_path)
                data-times=[self.shared(TIMES)] data-tabs=[self.shared(TABS)] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    @if !description.is_empty() { meta name="description" content=(description); }
                    (self.theme_colour())
                    meta property="og:type" content="website";
                    meta property="og:site_name" content=(name);
                    meta property="og:title" content=(title);
                    @if !description.is_empty() { meta property="og:description" content=(description); }
                    @if let Some(url) = site.address(self.path()) {
                        meta property="og:url" content=(url);
                        link rel="canonical" href=(url);
                    }
                    (self.preview())
                    link rel="icon" href=(self.icon());
                    link rel="apple-touch-icon" href=(site.path(&site.bitmap_path()));
                    script src=(site.path(&assets::path("theme.js"))) {}
                    link rel="stylesheet" href=(site.path(&assets::path("style.css")));
                    @if let Some(look) = &site.look { link rel="stylesheet" href=(site.path(&format!("/site/assets/{}", look.file))); }
                    @if site.shows(SitePart::Status) {
                        link rel="alternate" type="application/atom+xml" href=(site.path("/site/incidents.atom")) title=(words.status);
                    }
                    @for module in [TIMES, TABS].into_iter().filter_map(|name| self.shared(name)) {
                        script type="module" src=(module) {}
                    }
                    @for script in self.scripts {
                        script type="module" src=(site.path(&assets::path(script))) {}
                    }
                    @if !self.live.is_empty() {
                        script type="module" src=(site.path(&assets::path("live.js"))) {}
                    }
                }
                body {
                    a class="skip" href="#content" { (words.skip_to_content) }
                    (self.navigation())
                    @if self.is_followed() {
                        p id="lost" class="lost" role="status" data-text=(words.connection_lost) data-now=(words.just_now) hidden {}
                    }
                    main id="content" data-live=[(!self.live.is_empty()).then_some(self.live)] { (main) }
                    (self.footer())
                }
            }
        }
        .into_string()
    }

    /// The colour of the browser's own bars: the operator's, or that of the navigation.
    fn theme_colour(&self) -> Markup {
        html! {
            @if let Some(accent) = &self.site.config.accent {
                meta name="theme-color" content=(accent);
            } @else {
                meta name="theme-color" content=(hex(LIGHT_CARD)) media="(prefers-color-scheme: light)";
                meta name="theme-color" content=(hex(DARK_CARD)) media="(prefers-color-scheme: dark)";
            }
        }
    }

    /// The picture for chat apps, which need an absolute address.
    fn preview(&self) -> Markup {
        let site = self.site;
        let path = if site.preview.is_some() { "/site/preview".to_owned() } else { site.bitmap_path() };
        html! {
            @if let Some(url) = site.address(&path) {
                meta property="og:image" content=(url);
                meta property="og:image:alt" content=(site.config.name);
                @if site.preview.is_some() {
                    meta property="og:image:width" content=(preview::WIDTH);
                    meta property="og:image:height" content=(preview::HEIGHT);
                }
                meta name="twitter:card" content=(if site.preview.is_some() { "summary_large_image" } else { "summary" });
            }
        }
    }

    /// The address of the bot's picture.
    pub(super) fn icon(&self) -> String {
        let path = if self.site.icon.is_some() { "/site/icon".to_owned() } else { assets::path("icon.svg") };
        self.site.path(&path)
    }

    /// The address of a script for pages that stay up to date by themselves: one shows times in the visitor's time zone, one lets tabs
    /// share a live stream. Other scripts import it but can't know its address, which contains a hash.
    fn shared(&self, name: &str) -> Option<String> {
        // The dashboard's client shares its stream by itself.
        let is_needed = if name == TABS { !self.live.is_empty() } else { self.is_followed() };
        is_needed.then(|| self.site.path(&assets::path(name)))
    }

    /// Whether the page stays up to date by itself.
    fn is_followed(&self) -> bool {
        !self.live.is_empty() || self.scripts.contains(&"dashboard.js")
    }

    fn path(&self) -> &'static str {
        match self.section {
            Section::Home | Section::Other => "/site/",
            Section::Features => "/site/features",
            Section::Status => "/site/status",
            Section::Dashboard => "/site/dashboard",
            Section::Reference => "/docs",
            Section::Feed => "/docs/feed",
        }
    }

    fn navigation(&self) -> Markup {
        let words = &self.words().shared;
        let (site, shows) = (self.site, |part| self.site.shows(part));
        let pages = [
            (Section::Home, "/site/", words.home, true),
            (Section::Features, "/site/features", words.features, site.has_features()),
            (Section::Status, "/site/status", words.status, shows(SitePart::Status)),
            (Section::Dashboard, "/site/dashboard", words.dashboard, shows(SitePart::Dashboard)),
        ];
        let pages = pages.into_iter().filter(|(.., is_shown)| *is_shown);
        html! {
            header class="top" {
                div class="wide top-row" {
                    a class="brand" href=(self.site.path("/site/")) {
                        img src=(self.icon()) alt="" width="28" height="28";
                        span dir="auto" { (self.site.config.name) }
                    }
                    nav aria-label=(words.navigation) {
                        ul {
                            @for (section, path, label, _) in pages {
                                li {
                                    a href=(self.site.path(path)) aria-current=[self.current(section)] {
                                        (label)
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Whether a link leads to this page, or to the one above it.
    fn current(&self, section: Section) -> Option<&'static str> {
        match (section, self.section) {
            (Section::Reference, Section::Feed) => Some("true"),
            (section, own) => (section == own).then_some("page"),
        }
    }

    fn footer(&self) -> Markup {
        let words = &self.words().shared;
        let links = &self.site.config.links;
        let has_reference = self.site.shows(SitePart::Docs);
        html! {
            footer class="bottom" {
                div class="wide bottom-row" {
                    @if !links.is_empty() || has_reference {
                        nav aria-label=(words.links) {
                            ul {
                                @for link in links {
                                    li { a href=(link.url) rel="noopener noreferrer" { (link.label) } }
                                }
                                @if has_reference {
                                    li { a href=(self.site.path("/docs")) aria-current=[self.current(Section::Reference)] { (words.reference_short) } }
                                }
                            }
                        }
                    }
                    (self.switches())
                    p { (words.made_with) " " (Version::NAME) }
                }
            }
        }
    }

    /// Lets visitors choose a language, stored in a cookie, and a theme, stored in the browser.
    fn switches(&self) -> Markup {
        let words = &self.words().shared;
        let page = self.site.path(self.path());
        let values = ["", "light", "dark"];
        html! {
            div class="switches" {
                nav aria-label=(words.language) {
                    ul {
                        @for language in Language::ALL {
                            @let tag = language.tag();
                            li {
                                a href={ (page) "?lang=" (tag) } lang=(tag) hreflang=(tag) rel="nofollow"
                                    aria-current=[(language == self.language).then_some("true")] { (language.name()) }
                            }
                        }
                    }
                }
                p class="needs-script" {
                    label for="theme" { (words.theme) }
                    select id="theme" autocomplete="off" {
                        @for (value, label) in values.into_iter().zip(words.themes) { option value=(value) { (label) } }
                    }
                }
            }
        }
    }
}

/// The head of a table with these columns.
pub(super) fn table_head(columns: &[&str]) -> Markup {
    html! { thead { tr { @for column in columns { th scope="col" { (column) } } } } }
}
