//! `/site/features`: the operator's page about the bot, written in Markdown.

use std::path::Path;

use maud::html;

use super::layout::{PageFrame, Section};
use super::reference::markdown;
use super::{Language, Site, SiteFileError, files};

const OPTION: &str = "site.features";
const LARGEST_KILOBYTES: u64 = 64;
/// How many sections the home page shows.
const MOST_AT_HOME: usize = 6;

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

    /// The first sections, each as its heading and its first paragraph, for the home page.
    pub(super) fn sections(&self) -> Vec<(&str, &str)> {
        let sections = self.text.split("\n## ").skip(usize::from(!self.text.starts_with("## ")));
        sections.filter_map(section).take(MOST_AT_HOME).collect()
    }
}

fn section(text: &str) -> Option<(&str, &str)> {
    let (title, rest) = text.trim_start_matches("## ").split_once('\n')?;
    let paragraph = rest.trim_start().split("\n\n").next()?;
    let is_text = !paragraph.is_empty() && !paragraph.starts_with(['#', '`', '|']);
    is_text.then(|| (title.trim(), paragraph.trim()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_page_shows_the_first_paragraph_of_each_section() {
        for (text, expected) in [
            ("", vec![]),
            ("Only a paragraph.", vec![]),
            (
                "## One\nWhat it\ndoes.\n\nMore.\n\n## Two\n\n- a list\n- of two",
                vec![("One", "What it\ndoes."), ("Two", "- a list\n- of two")],
            ),
            ("Before.\n\n## One\n\nText.\n### Below\n", vec![("One", "Text.\n### Below")]),
            ("## Code\n```\nx\n```\n## Empty\n", vec![]),
        ] {
            let features = Features { title: None, text: text.to_owned() };
            assert_eq!(features.sections(), expected, "{text}");
        }
        let many = "## One\nText.\n".repeat(9);
        assert_eq!(Features { title: None, text: many }.sections().len(), MOST_AT_HOME);
    }
}
