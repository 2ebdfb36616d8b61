//! Markdown as markup. Everything is escaped; a description that has something unknown is shown as it is written.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::document::ApiDocument;
use super::markdown::{self, MarkdownBlock, MarkdownSpan};
use crate::site::{Language, Site};

/// How texts of the API, which are English, become markup on a page.
pub(super) struct TextStyle {
    /// The address of each operation by what texts call it: `GET /guilds`.
    operations: BTreeMap<String, String>,
    /// Where a link to another document of the project leads, if we have it.
    documents: [(&'static str, String); 2],
    /// `en` where the page is in another language.
    pub(super) lang: Option<&'static str>,
}

impl TextStyle {
    /// For a page; `reference` is the path of the page with the operations, empty on that page itself.
    pub(super) fn new(site: &Site, language: Language, document: Option<&ApiDocument>, reference: &str) -> Self {
        let operations = document.into_iter().flat_map(ApiDocument::operations);
        let address = |id: &str| format!("{reference}#{id}");
        Self {
            operations: operations
                .map(|operation| (format!("{} {}", operation.method, operation.path), address(&operation.id)))
                .collect(),
            documents: [("dashboard.md", site.path("/docs")), ("feed.md", site.path("/docs/feed"))],
            lang: (language != Language::English).then_some(Language::English.tag()),
        }
    }

    /// A whole text in blocks.
    pub(super) fn blocks(&self, text: &str) -> Markup {
        let Ok(blocks) = markdown::blocks(text) else { return html! { p { (text) } } };
        html! { @for block in &blocks { (self.block(block)) } }
    }

    /// A text of one line.
    pub(super) fn line(&self, text: &str) -> Markup {
        let Ok(spans) = markdown::spans(&text.replace('\n', " ")) else { return html! { (text) } };
        self.spans(&spans)
    }

    pub(super) fn block(&self, block: &MarkdownBlock) -> Markup {
        match block {
            MarkdownBlock::Heading { level, text } => heading(*level, text),
            MarkdownBlock::Paragraph(spans) => html! { p { (self.spans(spans)) } },
            MarkdownBlock::List(items) => {
                html! { ul class="listed" { @for item in items { li { (self.spans(item)) } } } }
            }
            MarkdownBlock::Table { head, rows } => self.table(head, rows),
            // The style sheet wraps all but programs.
            MarkdownBlock::Code { language, text } => code_block(language, text, language == "go"),
        }
    }

    fn table(&self, head: &[Vec<MarkdownSpan>], rows: &[Vec<Vec<MarkdownSpan>>]) -> Markup {
        html! {
            div class="scroll" tabindex="0" {
                table {
                    thead {
                        tr {
                            @for cell in head {
                                // A column without a name has no header.
                                @if cell.is_empty() { td {} } @else { th scope="col" { (self.spans(cell)) } }
                            }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr {
                                @for (index, cell) in row.iter().enumerate() {
                                    // Each row is named by its first cell: not every column has a name.
                                    @if index == 0 { th scope="row" { (self.spans(cell)) } } @else { td { (self.spans(cell)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn spans(&self, spans: &[MarkdownSpan]) -> Markup {
        html! { @for span in spans { (self.span(span)) } }
    }

    fn span(&self, span: &MarkdownSpan) -> Markup {
        match span {
            MarkdownSpan::Text(text) => html! { (text) },
            MarkdownSpan::Bold(spans) => html! { strong { (self.spans(spans)) } },
            MarkdownSpan::Code(text) => {
                let code = html! { code { (text) } };
                html! { @if let Some(address) = self.operations.get(text) { a href=(address) { (code) } } @else { (code) } }
            }
            MarkdownSpan::Link { text, target } => match self.address(target) {
                Some(address) if address.starts_with("https://") => {
                    html! { a href=(address) rel="noopener noreferrer" { (self.spans(text)) } }
                }
                Some(address) => html! { a href=(address) { (self.spans(text)) } },
                None => self.spans(text),
            },
        }
    }

    /// Where a link leads; `None` for documents that are not here.
    fn address(&self, target: &str) -> Option<String> {
        if target.starts_with('#') || target.starts_with("https://") {
            return Some(target.to_owned());
        }
        let file = target.split('#').next().unwrap_or(target);
        self.documents.iter().find(|(name, _)| *name == file).map(|(_, path)| path.clone())
    }
}

fn heading(level: u8, text: &str) -> Markup {
    let id = markdown::slug(text);
    let link = html! { a class="anchor" href={ "#" (id) } { (text) } };
    match level {
        1 => html! { h1 { (text) } },
        2 => html! { h2 id=(id) { (link) } },
        _ => html! { h3 id=(id) { (link) } },
    }
}

/// Code that can be copied: the script adds a button. One that may be scrolled can be reached with the keyboard.
pub(super) fn code_block(language: &str, text: &str, can_scroll: bool) -> Markup {
    html! {
        div class="code" data-language=[(!language.is_empty()).then_some(language)] {
            pre tabindex=[can_scroll.then_some("0")] translate="no" { code { (text) } }
        }
    }
}
