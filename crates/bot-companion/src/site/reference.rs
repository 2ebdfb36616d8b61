//! `/docs`: the API's reference, from the OpenAPI document.

use maud::html;

use super::layout::{PageFrame, Section};
use super::{Language, Site};

/// The page.
pub fn page(site: &Site, language: Language, _document: &str) -> String {
    let title = language.words().shared.reference;
    let frame = PageFrame {
        site,
        language,
        section: Section::Reference,
        title,
        description: language.words().reference.description,
        scripts: &[],
        live: "",
    };
    frame.page(&html! { div class="wide stack" { h1 { (title) } } })
}
