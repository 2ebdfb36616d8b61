//! Markdown as markup. Raw HTML is escaped, and links lead only to places that we know.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, Render, html};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

use super::document::ApiDocument;
use super::highlight::{CodeLanguage, highlight};
use crate::site::{Language, Site};

pub(super) fn parse(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// How texts of the API, which are English, become markup on a page.
pub(super) struct TextStyle {
    /// The address of each operation by what texts call it: `GET /guilds`.
    pub(super) operations: BTreeMap<String, String>,
    /// Where a link to another document of the project leads, if we have it.
    pub(super) documents: Vec<(&'static str, String)>,
    /// `en` where the page is in another language.
    pub(super) lang: Option<&'static str>,
    /// Where a link to a page of the same host leads; `None` in our own texts, which have none.
    pub(super) base_path: Option<String>,
}

impl TextStyle {
    /// For a page; `reference` is the path of the page with the operations, empty on that page itself.
    pub(super) fn new(site: &Site, language: Language, document: ApiDocument<'_>, reference: &str) -> Self {
        let address = |id: &str| format!("{reference}#{id}");
        let operations = document.operations();
        Self {
            operations: operations
                .map(|operation| (format!("{} {}", operation.method, operation.path), address(operation.id)))
                .collect(),
            documents: vec![("dashboard.md", site.path("/docs")), ("feed.md", site.path("/docs/feed"))],
            lang: (language != Language::English).then_some(Language::English.tag()),
            base_path: None,
        }
    }

    /// For the operator's text, which doesn't refer to our operations or documents.
    pub(super) fn of_operator(site: &Site) -> Self {
        let base_path = Some(site.path(""));
        Self { operations: BTreeMap::new(), documents: Vec::new(), lang: None, base_path }
    }

    /// A text of one line: without the paragraph around it.
    pub(super) fn line(&self, text: &str) -> Markup {
        let line = self.blocks(&text.replace('\n', " ")).into_string();
        let inner = line.strip_prefix("<p>").and_then(|line| line.strip_suffix("</p>"));
        PreEscaped(inner.unwrap_or(&line).to_owned())
    }

    pub(super) fn blocks(&self, text: &str) -> Markup {
        let mut out = String::new();
        let mut events = parse(text).peekable();
        let (mut is_head, mut column) = (false, 0);
        let mut cell_end = "";
        let mut link_end = "";
        while let Some(event) = events.next() {
            match event {
                Event::Start(Tag::Paragraph) => out.push_str("<p>"),
                Event::End(TagEnd::Paragraph) => out.push_str("</p>"),
                Event::Start(Tag::Heading { level, .. }) => heading(level, &plain(&mut events)).render_to(&mut out),
                Event::Start(Tag::List(Some(_))) => out.push_str("<ol class=\"listed\">"),
                Event::Start(Tag::List(None)) => out.push_str("<ul class=\"listed\">"),
                Event::End(TagEnd::List(is_numbered)) => out.push_str(if is_numbered { "</ol>" } else { "</ul>" }),
                Event::Start(Tag::Emphasis) => out.push_str("<em>"),
                Event::End(TagEnd::Emphasis) => out.push_str("</em>"),
                Event::Start(Tag::BlockQuote(_)) => out.push_str("<blockquote>"),
                Event::End(TagEnd::BlockQuote(_)) => out.push_str("</blockquote>"),
                Event::Rule => out.push_str("<hr>"),
                Event::Start(Tag::Item) => out.push_str("<li>"),
                Event::End(TagEnd::Item) => out.push_str("</li>"),
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = if let CodeBlockKind::Fenced(language) = &kind { &**language } else { "" };
                    let text = plain(&mut events);
                    // The style sheet wraps all but programs.
                    code_block(language, text.strip_suffix('\n').unwrap_or(&text), language == "go")
                        .render_to(&mut out);
                }
                Event::Start(Tag::Table(_)) => out.push_str("<div class=\"scroll\" tabindex=\"0\"><table>"),
                Event::End(TagEnd::Table) => out.push_str("</tbody></table></div>"),
                Event::Start(Tag::TableHead) => {
                    is_head = true;
                    out.push_str("<thead><tr>");
                }
                Event::End(TagEnd::TableHead) => {
                    is_head = false;
                    out.push_str("</tr></thead><tbody>");
                }
                Event::Start(Tag::TableRow) => {
                    column = 0;
                    out.push_str("<tr>");
                }
                Event::End(TagEnd::TableRow) => out.push_str("</tr>"),
                Event::Start(Tag::TableCell) => {
                    let is_empty = events.peek() == Some(&Event::End(TagEnd::TableCell));
                    let start;
                    (start, cell_end) = match (is_head, column) {
                        (true, _) if !is_empty => ("<th scope=\"col\">", "</th>"),
                        // Each row is named by its first cell: not every column has a name.
                        (false, 0) => ("<th scope=\"row\">", "</th>"),
                        _ => ("<td>", "</td>"),
                    };
                    column += 1;
                    out.push_str(start);
                }
                Event::End(TagEnd::TableCell) => out.push_str(cell_end),
                Event::Start(Tag::Strong) => out.push_str("<strong>"),
                Event::End(TagEnd::Strong) => out.push_str("</strong>"),
                Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                    let scheme = if link_type == LinkType::Email { "mailto:" } else { "" };
                    if let Some(address) = self.address(&format!("{scheme}{dest_url}")) {
                        let rel = if address.starts_with("http") { " rel=\"noopener noreferrer\"" } else { "" };
                        out.push_str("<a href=\"");
                        address.render_to(&mut out);
                        out.extend(["\"", rel, ">"]);
                        link_end = "</a>";
                    }
                }
                Event::End(TagEnd::Link) => out.push_str(std::mem::take(&mut link_end)),
                Event::Code(text) => self.code(&text).render_to(&mut out),
                Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => text.render_to(&mut out),
                Event::SoftBreak => out.push(' '),
                Event::HardBreak => out.push_str("<br>"),
                // A test catches everything else in our own texts; the words are still shown.
                _ => {}
            }
        }
        PreEscaped(out)
    }

    fn code(&self, text: &str) -> Markup {
        let code = html! { code { (text) } };
        html! { @if let Some(address) = self.operations.get(text) { a href=(address) { (code) } } @else { (code) } }
    }

    /// Where a link leads; `None` for documents that we don't have.
    fn address(&self, target: &str) -> Option<String> {
        if target.starts_with('#') || target.starts_with("https://") {
            return Some(target.to_owned());
        }
        if let Some(base_path) = &self.base_path {
            // Browsers ignore tabs and line breaks in addresses and take `\` for `/`.
            let is_odd = |letter: char| letter == '\\' || letter.is_control();
            let is_page = target.starts_with('/') && !target.starts_with("//") && !target.contains(is_odd);
            let is_other = ["http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
            return if is_page { Some(format!("{base_path}{target}")) } else { is_other.then(|| target.to_owned()) };
        }
        let file = target.split('#').next().unwrap_or(target);
        self.documents.iter().find(|(name, _)| *name == file).map(|(_, path)| path.clone())
    }
}

pub(super) fn headings(text: &str) -> Vec<(HeadingLevel, String)> {
    let mut events = parse(text);
    let mut headings = Vec::new();
    while let Some(event) = events.next() {
        if let Event::Start(Tag::Heading { level, .. }) = event {
            headings.push((level, plain(&mut events)));
        }
    }
    headings
}

/// The text of a heading or of a block of code, up to its end.
fn plain<'a>(events: &mut impl Iterator<Item = Event<'a>>) -> String {
    let mut text = String::new();
    for event in events.take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_) | TagEnd::CodeBlock))) {
        if let Event::Text(part) | Event::Code(part) = event {
            text.push_str(&part);
        }
    }
    text
}

/// The ID of a heading, as GitHub generates it.
pub(super) fn slug(text: &str) -> String {
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn heading(level: HeadingLevel, text: &str) -> Markup {
    let id = slug(text);
    let link = html! { a class="anchor" href={ "#" (id) } { (text) } };
    match level {
        HeadingLevel::H1 => html! { h1 { (text) } },
        HeadingLevel::H2 => html! { h2 id=(id) { (link) } },
        _ => html! { h3 id=(id) { (link) } },
    }
}

/// Code that can be copied: the script adds a button. One that may be scrolled can be reached with the keyboard.
pub(super) fn code_block(language: &str, text: &str, can_scroll: bool) -> Markup {
    html! {
        div class="code" data-language=[(!language.is_empty()).then_some(language)] {
            pre tabindex=[can_scroll.then_some("0")] translate="no" {
                code { (highlight(CodeLanguage::named(language), text, "")) }
            }
        }
    }
}
