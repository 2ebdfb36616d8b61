//! `/site/status`: is the bot up, and how has it been.

use maud::html;

use super::layout::{PageFrame, Section};
use super::{Language, Site};
use crate::domain::Time;
use crate::views::site::SiteFacts;

/// The page.
pub fn page(site: &Site, language: Language, _facts: &SiteFacts, _now: Time) -> String {
    let title = language.words().shared.status;
    let frame = PageFrame {
        site,
        language,
        section: Section::Status,
        title,
        description: language.words().status.description,
        scripts: &[],
        live: "status",
    };
    frame.page(&html! { div class="wide stack" { h1 { (title) } } })
}
