//! The table of contents of both pages: beside the text where there is room, folded above it where there is not.

use maud::{Markup, html};

use super::operation::method;

/// A heading with those below it.
#[derive(Default)]
pub(super) struct ContentsEntry<'a> {
    pub(super) id: String,
    pub(super) title: String,
    /// The language of the title, if it is not the page's.
    pub(super) lang: Option<&'static str>,
    pub(super) parts: Vec<ContentsPart<'a>>,
}

/// A heading below another.
pub(super) struct ContentsPart<'a> {
    pub(super) id: String,
    pub(super) title: &'a str,
    /// The method, if it is an operation.
    pub(super) method: Option<&'a str>,
}

pub(super) fn beside(title: &str, entries: &[ContentsEntry<'_>]) -> Markup {
    html! { nav class="contents beside" aria-label=(title) { (list(entries)) } }
}

pub(super) fn above(title: &str, entries: &[ContentsEntry<'_>]) -> Markup {
    html! {
        details class="contents above card" {
            summary { (title) }
            nav aria-label=(title) { (list(entries)) }
        }
    }
}

fn list(entries: &[ContentsEntry<'_>]) -> Markup {
    html! {
        ul {
            @for entry in entries {
                li lang=[entry.lang] {
                    a class="part" href={ "#" (entry.id) } { (entry.title) }
                    @if !entry.parts.is_empty() {
                        ul {
                            @for part in &entry.parts {
                                li {
                                    a href={ "#" (part.id) } {
                                        @if let Some(name) = part.method { (method(name)) " " }
                                        span { (part.title) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
