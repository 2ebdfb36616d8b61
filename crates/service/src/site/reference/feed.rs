//! `/docs/feed`: the document about the feed, `docs/feed.md`, as a page.

use maud::html;
use pulldown_cmark::HeadingLevel;
use utoipa::openapi::OpenApi;

use super::contents::{self, ContentsEntry, ContentsPart};
use super::document::ApiDocument;
use super::text::{TextStyle, headings, slug};
use super::tools;
use crate::site::layout::{PageFrame, Section};
use crate::site::{Language, Site};

pub(super) const FEED: &str = include_str!("../../../../../docs/feed.md");

/// The OpenAPI document is for links to the operations.
pub fn page(site: &Site, language: Language, document: &OpenApi) -> String {
    let words = &language.words().reference;
    let frame = PageFrame {
        scripts: &["reference.js"],
        ..PageFrame::new(site, language, Section::Feed, words.feed, words.feed_description)
    };
    let style = TextStyle::new(site, language, ApiDocument(document), &site.path("/docs"));
    let headings = headings(FEED);
    let entries = entries(&headings, &style);
    let (title, text) = FEED.split_once('\n').unwrap_or((FEED, ""));
    let (introduction, sections) = text.split_once("\n## ").unwrap_or((text, ""));
    // The page has its own table of contents.
    let introduction: Vec<_> = introduction.lines().filter(|line| !line.starts_with("- [")).collect();
    frame.page(&html! {
        div class="wide reference" {
            (contents::beside(words.contents, &entries))
            div class="pages-text" {
                p class="up" { a href=(site.path("/docs")) { "← " (language.words().shared.reference) } }
                article class="document" lang=[style.lang] {
                    (style.blocks(title))
                    (contents::above(words.contents, &entries))
                    (style.blocks(&introduction.join("\n")))
                    (style.blocks(&format!("## {sections}")))
                }
            }
            (tools::template(&frame))
        }
    })
}

fn entries<'a>(headings: &'a [(HeadingLevel, String)], style: &TextStyle) -> Vec<ContentsEntry<'a>> {
    let mut entries: Vec<ContentsEntry<'a>> = Vec::new();
    for (level, text) in headings {
        let id = slug(text);
        match (level, entries.last_mut()) {
            (HeadingLevel::H2, _) => {
                entries.push(ContentsEntry { id, title: text.clone(), lang: style.lang, parts: Vec::new() });
            }
            (HeadingLevel::H3, Some(entry)) => entry.parts.push(ContentsPart { id, title: text, method: None }),
            _ => {}
        }
    }
    entries
}
