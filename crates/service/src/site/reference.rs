//! `/docs`: the API's reference, from the OpenAPI document, and `/docs/feed`. Both are readable without JavaScript; the script adds
//! copy buttons, a filter, and live responses.

mod command;
mod contents;
mod document;
pub mod feed;
mod highlight;
mod operation;
mod schema;
mod text;
mod tools;

#[cfg(test)]
mod tests;

use maud::{Markup, html};
use utoipa::openapi::OpenApi;
use utoipa::openapi::tag::Tag;

use super::layout::{PageFrame, Section};
use super::words::reference::ReferenceWords;
use super::{Language, Site};
use contents::{ContentsEntry, ContentsPart};
use document::{ApiDocument, DocumentedError, title};
use operation::error_list;
use text::TextStyle;

/// Renders an operator's Markdown like our own.
pub(super) fn markdown(site: &Site, text: &str) -> Markup {
    TextStyle::of_operator(site).blocks(text)
}

/// Where `bot-companion dev` listens: the address in commands if no other is known. The script replaces it with the page's own.
const LOCAL_ADDRESS: &str = "http://127.0.0.1:8080";

/// What all parts of the page need.
struct Reference<'a> {
    frame: PageFrame<'a>,
    document: ApiDocument<'a>,
    style: TextStyle,
    /// The address of the service, in commands.
    origin: String,
    common_errors: Vec<DocumentedError<'a>>,
    /// Names of the headers that every response has.
    common_headers: Vec<&'a str>,
}

impl Reference<'_> {
    fn words(&self) -> &'static ReferenceWords {
        &self.frame.words().reference
    }
}

pub fn page(site: &Site, language: Language, document: &OpenApi) -> String {
    let document = ApiDocument(document);
    let words = language.words();
    let reference = Reference {
        frame: PageFrame {
            scripts: &["reference.js"],
            ..PageFrame::new(site, language, Section::Reference, words.shared.reference, words.reference.description)
        },
        document,
        style: TextStyle::new(site, language, document, ""),
        origin: site.address("").unwrap_or_else(|| format!("{LOCAL_ADDRESS}{}", site.base_path)),
        common_errors: document.common_errors(),
        common_headers: document.common_headers().into_iter().map(|(name, _)| name).collect(),
    };
    reference.frame.page(&whole(&reference))
}

fn whole(page: &Reference<'_>) -> Markup {
    let words = page.words();
    let entries = entries(page);
    html! {
        div class="wide reference" {
            (contents::beside(words.contents, &entries))
            div class="pages-text" {
                (introduction(page))
                (contents::above(words.contents, &entries))
                (credentials(page))
                @for tag in page.document.tags() { (group(page, tag)) }
                (everywhere(page))
            }
            (tools::template(&page.frame))
        }
    }
}

fn entries<'a>(page: &Reference<'a>) -> Vec<ContentsEntry<'a>> {
    let words = page.words();
    let own = |id: &str, title: &str| ContentsEntry {
        id: id.to_owned(),
        title: title.to_owned(),
        ..ContentsEntry::default()
    };
    let mut entries = vec![own("credentials", words.credentials)];
    for tag in page.document.tags() {
        let parts = page.document.operations_of(tag).map(|operation| ContentsPart {
            id: operation.id.to_owned(),
            title: operation.summary,
            method: Some(operation.method),
        });
        entries.push(ContentsEntry {
            id: group_id(tag),
            title: title(tag),
            lang: page.style.lang,
            parts: parts.collect(),
        });
    }
    entries.push(own("everywhere", words.everywhere));
    entries
}

fn introduction(page: &Reference<'_>) -> Markup {
    let words = page.words();
    let site = page.frame.site;
    html! {
        header class="opening" {
            h1 { (page.frame.words().shared.reference) }
            div class="prose" lang=[page.style.lang] { (page.style.blocks(page.document.description())) }
            ul class="links" {
                li { a class="button" href=(site.path("/docs/feed")) { (words.open_feed) } }
                li { a class="button" href=(site.path("/openapi.json")) { (words.open_document) } }
            }
        }
    }
}

/// Who may call what.
fn credentials(page: &Reference<'_>) -> Markup {
    let words = page.words();
    html! {
        section class="operations" {
            h2 id="credentials" { a class="anchor" href="#credentials" { (words.credentials) } }
            dl class="credentials card" {
                @for (name, meaning) in [
                    (words.public, words.public_means),
                    (words.with_token, words.with_token_means),
                    (words.with_key, words.with_key_means),
                ] {
                    div { dt { span class="chip" { (name) } } dd { (page.style.line(meaning)) } }
                }
            }
        }
    }
}

fn group_id(tag: &Tag) -> String {
    format!("group-{}", tag.name)
}

fn group(page: &Reference<'_>, tag: &Tag) -> Markup {
    let id = group_id(tag);
    html! {
        section class="operations" data-operations {
            div lang=[page.style.lang] {
                h2 id=(id) { a class="anchor" href={ "#" (id) } { (title(tag)) } }
                p { (page.style.line(tag.description.as_deref().unwrap_or_default())) }
            }
            @for operation in page.document.operations_of(tag) { (operation::show(page, operation)) }
        }
    }
}

/// The responses that every operation may return.
fn everywhere(page: &Reference<'_>) -> Markup {
    let words = page.words();
    let errors: Vec<_> = page.common_errors.iter().collect();
    html! {
        section class="operations" {
            h2 id="everywhere" { a class="anchor" href="#everywhere" { (words.everywhere) } }
            p { (words.everywhere_means) }
            div class="card" {
                h3 { (words.errors) }
                (error_list(page, &errors, true))
            }
            div class="card" {
                h3 { (words.headers) }
                ul class="errors" {
                    @for (name, description) in page.document.common_headers() {
                        li { code { (name) } " " span lang=[page.style.lang] { (page.style.line(description)) } }
                    }
                }
            }
        }
    }
}
