//! `/docs/feed`: the document about the feed, `docs/feed.md`, as a page.

use maud::{Markup, html};

use super::contents::{self, ContentsEntry, ContentsPart};
use super::document::ApiDocument;
use super::markdown::{self, MarkdownBlock, MarkdownSpan};
use super::text::TextStyle;
use super::tools;
use crate::site::layout::{PageFrame, Section};
use crate::site::{Language, Site};

/// The document. A test reads it before visitors do, and fails if it has something that the renderer does not know.
const FEED: &str = include_str!("../../../../../docs/feed.md");

/// The page; the OpenAPI document is for links to the operations.
pub fn page(site: &Site, language: Language, document: &str) -> String {
    let words = &language.words().reference;
    let frame = PageFrame {
        site,
        language,
        section: Section::Feed,
        title: words.feed,
        description: words.feed_description,
        scripts: &["reference.js"],
        live: "",
    };
    let document = ApiDocument::read(document).ok();
    let style = TextStyle::new(site, language, document.as_ref(), &site.path("/docs"));
    let blocks = markdown::blocks(FEED).unwrap_or_default();
    let entries = entries(&blocks, &style);
    frame.page(&html! {
        div class="wide reference" {
            (contents::beside(words.contents, &entries))
            div class="pages-text" {
                p class="up" { a href=(site.path("/docs")) { "← " (language.words().shared.reference) } }
                article class="document" lang=[style.lang] {
                    (text(&blocks, &style, &contents::above(words.contents, &entries)))
                }
            }
            (tools::template(&frame))
        }
    })
}

/// The blocks, with the table of contents after the first heading. The document's own list of its headings is left out.
fn text(blocks: &[MarkdownBlock], style: &TextStyle, contents: &Markup) -> Markup {
    html! {
        @for block in blocks {
            @if !is_contents(block) { (style.block(block)) }
            @if matches!(block, MarkdownBlock::Heading { level: 1, .. }) { (contents) }
        }
    }
}

/// Whether this is a list of nothing but links to headings.
fn is_contents(block: &MarkdownBlock) -> bool {
    let is_link =
        |item: &Vec<MarkdownSpan>| matches!(&item[..], [MarkdownSpan::Link { target, .. }] if target.starts_with('#'));
    matches!(block, MarkdownBlock::List(items) if items.iter().all(is_link))
}

fn entries<'a>(blocks: &'a [MarkdownBlock], style: &TextStyle) -> Vec<ContentsEntry<'a>> {
    let mut entries: Vec<ContentsEntry<'a>> = Vec::new();
    for block in blocks {
        let MarkdownBlock::Heading { level, text } = block else { continue };
        let id = markdown::slug(text);
        match (level, entries.last_mut()) {
            (2, _) => entries.push(ContentsEntry { id, title: text.clone(), lang: style.lang, parts: Vec::new() }),
            (3, Some(entry)) => entry.parts.push(ContentsPart { id, title: text, method: None }),
            _ => {}
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_has_nothing_that_the_renderer_does_not_know() {
        if let Err(unknown) = markdown::blocks(FEED) {
            panic!("docs/feed.md, {unknown}");
        }
    }

    fn targets<'a>(spans: &'a [MarkdownSpan], found: &mut Vec<&'a str>) {
        for span in spans {
            match span {
                MarkdownSpan::Link { target, .. } => found.push(target),
                MarkdownSpan::Bold(spans) => targets(spans, found),
                MarkdownSpan::Text(_) | MarkdownSpan::Code(_) => {}
            }
        }
    }

    #[test]
    fn each_heading_has_an_id_of_its_own_and_each_link_leads_to_one() {
        let blocks = markdown::blocks(FEED).unwrap();
        let (mut ids, mut found) = (BTreeSet::new(), Vec::new());
        for block in &blocks {
            match block {
                MarkdownBlock::Heading { text, .. } => {
                    assert!(ids.insert(markdown::slug(text)), "{text} is there twice");
                }
                MarkdownBlock::Paragraph(spans) => targets(spans, &mut found),
                MarkdownBlock::List(items) => items.iter().for_each(|item| targets(item, &mut found)),
                MarkdownBlock::Table { rows, .. } => {
                    rows.iter().flatten().for_each(|cell| targets(cell, &mut found));
                }
                MarkdownBlock::Code { .. } => {}
            }
        }
        let within: Vec<_> = found.iter().filter_map(|target| target.strip_prefix('#')).collect();
        assert!(within.len() > 5, "{found:?}");
        for target in within {
            assert!(ids.contains(target), "#{target} leads nowhere");
        }
        assert!(ids.contains("what-a-line-may-say"), "the reference links to it");
    }

    #[test]
    fn the_documents_own_list_of_headings_is_found() {
        let blocks = markdown::blocks(FEED).unwrap();
        assert_eq!(blocks.iter().filter(|block| is_contents(block)).count(), 1);
    }
}
