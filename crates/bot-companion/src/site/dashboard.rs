//! `/site/dashboard`: a person's servers. The page is a frame; `assets/dashboard.js` fills it.

use maud::html;

use super::layout::{PageFrame, Section};
use super::{Language, Site};

/// The page.
pub fn page(site: &Site, language: Language) -> String {
    let title = language.words().shared.dashboard;
    let frame = PageFrame {
        site,
        language,
        section: Section::Dashboard,
        title,
        description: language.words().dashboard.description,
        scripts: &[],
        live: "",
    };
    frame.page(&html! { div class="wide stack" { h1 { (title) } } })
}
