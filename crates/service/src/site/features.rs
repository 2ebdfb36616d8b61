//! `/site/features`: the operator's page about the bot, written in Markdown.

use std::path::Path;

use maud::html;

use super::layout::{PageFrame, Section};
use super::reference::markdown;
use super::{Language, Site, SiteFileError, files};

const OPTION: &str = "site.features";
const LARGEST_KILOBYTES: u64 = 64;

/// The operator's text.
pub(super) struct Features {
    /// The heading at the start, if there is one.
    title: Option<String>,
    text: String,
}

impl Features {
    pub(super) fn read(path: &Path) -> Result<Self, SiteFileError> {
        let all = files::read_text(OPTION, path, LARGEST_KILOBYTES)?;
        let all = all.trim_start();
        let (first, rest) = all.split_once('\n').unwrap_or((all, ""));
        Ok(match first.strip_prefix("# ") {
            Some(title) => Self { title: Some(title.trim().to_owned()), text: rest.to_owned() },
            None => Self { title: None, text: all.to_owned() },
        })
    }
}

/// Empty without a text; the page has no route then.
pub fn page(site: &Site, language: Language) -> String {
    let Some(features) = &site.features else { return String::new() };
    let title = features.title.as_deref().unwrap_or(language.words().shared.features);
    let frame = PageFrame::new(site, language, Section::Features, title, &site.config.tagline);
    frame.page(&html! {
        div class="wide reference single" {
            article class="document features" {
                h1 { (title) }
                (markdown(site, &features.text))
            }
        }
    })
}
