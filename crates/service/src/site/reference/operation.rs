//! One operation: its purpose, who may call it, its parameters and its response.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Content, RefOr, Required};

use super::Reference;
use super::command::code;
use super::document::{ApiAccess, DocumentedError, Operation, inline, name};
use super::highlight::{CodeLanguage, highlight};
use super::schema::{fields, items, kind_and_limits, plain};
use super::text::code_block;
use crate::site::layout::table_head;

pub(super) fn show(page: &Reference<'_>, operation: Operation<'_>) -> Markup {
    let words = page.words();
    let access = operation.access();
    // The script only calls operations that read; all others only have the command.
    let can_try = operation.method == "GET" && access != ApiAccess::BotKey;
    html! {
        article class="operation card" id=(operation.id) data-path=(operation.path)
            data-try=[can_try.then_some(if access == ApiAccess::Session { "token" } else { "public" })]
            data-stream[operation.is_stream()] data-headers=[optional_headers(operation)] {
            div class="head" {
                h3 lang=[page.style.lang] { a class="anchor" href={ "#" (operation.id) } { (operation.summary) } }
                p class="route" {
                    (method(operation.method)) " "
                    code class="path" { (operation.path) } " "
                    span class="chip" {
                        @match access {
                            ApiAccess::Public => (words.public),
                            ApiAccess::Session => (words.with_token),
                            ApiAccess::BotKey => (words.with_key),
                        }
                    }
                }
                div class="prose" lang=[page.style.lang] { (page.style.blocks(operation.description())) }
            }
            div class="samples" {
                (calls(page, operation))
                (example(page, operation))
            }
            div class="facts" {
                (parameters(page, operation))
                (body(page, operation))
                (answer(page, operation))
                (errors(page, operation))
            }
        }
    }
}

/// The method, as a word; the colour only repeats it.
pub(super) fn method(method: &str) -> Markup {
    html! { span class={ "method " (method.to_lowercase()) } { (method) } }
}

fn parameters(page: &Reference<'_>, operation: Operation<'_>) -> Markup {
    let words = page.words();
    let parameters: Vec<&Parameter> = operation.parameters().collect();
    if parameters.is_empty() {
        return html! {};
    }
    html! {
        h4 { (words.parameters) }
        table class="fields" {
            (table_head(&[words.name, words.kind, words.meaning]))
            tbody {
                @for parameter in parameters {
                    tr {
                        td {
                            code { (parameter.name) } " "
                            span class="mark" {
                                @if parameter.parameter_in == ParameterIn::Path { (words.in_path) } @else { (words.in_header) }
                                ", "
                                @if parameter.required == Required::True { b { (words.required) } } @else { (words.optional) }
                            }
                        }
                        td {
                            @if let Some(schema) = parameter.schema.as_ref().and_then(|schema| page.document.schema(schema)) {
                                (kind_and_limits(page.document, schema, page.frame.words()))
                            }
                        }
                        td lang=[page.style.lang] { (page.style.line(parameter.description.as_deref().unwrap_or_default())) }
                    }
                }
            }
        }
    }
}

fn body(page: &Reference<'_>, operation: Operation<'_>) -> Markup {
    let words = page.words();
    let Some(body) = operation.request_body() else { return html! {} };
    let content = body.content.iter().find_map(|(media_type, content)| Some((media_type, inline(content)?)));
    html! {
        h4 { (words.body) }
        @if let Some((media_type, content)) = content {
            p {
                span lang=[page.style.lang] { (page.style.line(body.description.as_deref().unwrap_or_default())) }
                " (" code { (media_type) } ")"
            }
            @let schema = content.schema.as_ref();
            @match schema.and_then(|schema| fields(page.document, schema, &page.style, page.frame.words())) {
                Some(table) => (table),
                None => p class="up" { a href=(page.frame.site.path("/docs/feed#what-a-line-can-contain")) { (words.what_a_line_says) } },
            }
        }
    }
}

/// The names of the optional headers, for the "Try it" form.
fn optional_headers(operation: Operation<'_>) -> Option<String> {
    let headers = operation.parameters().filter(|parameter| parameter.parameter_in == ParameterIn::Header);
    let optional = headers.filter(|header| header.required != Required::True).map(|header| header.name.as_str());
    let names: Vec<_> = optional.collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Code for the call in each language. Opening one closes the others.
fn calls(page: &Reference<'_>, operation: Operation<'_>) -> Markup {
    html! {
        h4 { (page.words().command) }
        div class="calls" {
            @for language in CodeLanguage::CALLS {
                details name={ "calls-" (operation.id) } open[language == CodeLanguage::Shell] data-call=(language.title()) {
                    summary { (language.title()) }
                    div class={ "code" @if language == CodeLanguage::Shell { " command" } } {
                        pre tabindex="0" translate="no" {
                            code { (highlight(language, &code(page.document, operation, language), &page.origin)) }
                        }
                    }
                }
            }
        }
    }
}

/// An example of the response.
fn example(page: &Reference<'_>, operation: Operation<'_>) -> Markup {
    let content = success_of(page, operation).map(|(_, content)| content);
    let example = content.and_then(|content| page.document.examples(content).next());
    html! {
        @if let Some(example) = example {
            h4 { (page.words().example) }
            (code_block("json", &pretty(example), true))
        }
    }
}

/// The parts of a response.
struct AnswerShape<'a> {
    schema: &'a RefOr<Schema>,
    is_list: bool,
    is_envelope: bool,
}

impl AnswerShape<'_> {
    fn name(&self) -> Option<&str> {
        if let RefOr::Ref(reference) = self.schema { Some(name(reference)) } else { None }
    }
}

fn shape<'a>(page: &Reference<'a>, content: &'a Content) -> Option<AnswerShape<'a>> {
    if let Some(data) = page.document.data(content) {
        let items = inline(data).and_then(items);
        return Some(AnswerShape { schema: items.unwrap_or(data), is_list: items.is_some(), is_envelope: true });
    }
    Some(AnswerShape { schema: content.schema.as_ref()?, is_list: false, is_envelope: false })
}

fn success_of<'a>(page: &Reference<'a>, operation: Operation<'a>) -> Option<(&'a str, &'a Content)> {
    let (media_type, content) = page.document.response(operation, "200")?.content.first()?;
    Some((media_type, inline(content)?))
}

fn answer(page: &Reference<'_>, operation: Operation<'_>) -> Markup {
    let words = page.words();
    let Some(response) = page.document.response(operation, "200") else { return html! {} };
    let headers = response.headers.iter().filter(|(name, _)| !page.common_headers.contains(&name.as_str()));
    html! {
        h4 { (words.answer) }
        p {
            span class="answer-code good" { "200" } " "
            span lang=[page.style.lang] { (page.style.line(&response.description)) }
            @if let Some((media_type, _)) = success_of(page, operation).filter(|(kind, _)| *kind != "application/json") {
                " (" code { (media_type) } ")"
            }
        }
        @if let Some((_, content)) = success_of(page, operation) {
            (answer_fields(page, operation, content))
        }
        @for (name, header) in headers {
            p class="header" {
                (words.header) " " code { (name) } ": "
                span lang=[page.style.lang] { (page.style.line(page.document.header_description(header))) }
            }
        }
        @if let Some(unchanged) = page.document.response(operation, "304") {
            p {
                span class="answer-code" { "304" } " "
                span lang=[page.style.lang] { (page.style.line(&unchanged.description)) }
            }
        }
    }
}

/// The fields of a response, or a link to where they are already listed.
fn answer_fields(page: &Reference<'_>, operation: Operation<'_>, content: &Content) -> Markup {
    let words = page.words();
    let Some(shape) = shape(page, content) else { return html! {} };
    let has_same = |other: &Operation<'_>| {
        let other = success_of(page, *other).and_then(|(_, content)| self::shape(page, content));
        shape.name().is_some() && other.is_some_and(|other| other.name() == shape.name())
    };
    let first = page.document.operations().find(has_same).filter(|first| first.id != operation.id);
    let table = fields(page.document, shape.schema, &page.style, page.frame.words());
    html! {
        @match (first, table) {
            (_, None) if shape.is_envelope => p { (page.style.line(words.data_is_empty)) },
            (_, None) => {}
            (Some(first), Some(_)) => {
                p {
                    (page.style.line(if shape.is_list { words.each_as_in } else { words.data_as_in })) " "
                    a href={ "#" (first.id) } lang=[page.style.lang] { (first.summary) } "."
                }
            }
            (None, Some(table)) => {
                p {
                    @if operation.is_stream() { (page.style.line(words.event_has)) }
                    @else if shape.is_list { (page.style.line(words.each_has)) }
                    @else { (page.style.line(words.data_has)) }
                }
                (table)
            }
        }
    }
}

fn errors(page: &Reference<'_>, operation: Operation<'_>) -> Markup {
    let words = page.words();
    let all = page.document.errors(operation);
    let (common, own): (Vec<_>, Vec<_>) = all.iter().partition(|error| page.common_errors.contains(error));
    html! {
        h4 { (words.errors) }
        @if !own.is_empty() { (error_list(page, &own, false)) }
        p class="common" {
            (words.as_everywhere) " "
            @for (index, error) in common.iter().enumerate() {
                @if index > 0 { ", " }
                a href={ "#error-" (error.code) } { code { (error.code) } }
            }
        }
    }
}

/// Errors with their sentences; those that others link to have an id.
pub(super) fn error_list(page: &Reference<'_>, errors: &[&DocumentedError<'_>], with_ids: bool) -> Markup {
    html! {
        ul class="errors" {
            @for error in errors {
                li id=[with_ids.then(|| format!("error-{}", error.code))] {
                    span class="answer-code bad" { (error.status) } " "
                    code { (error.code) } " "
                    span lang=[page.style.lang] { (page.style.line(error.sentence)) }
                }
            }
        }
    }
}

/// An example formatted for people, with its envelope in the service's order.
fn pretty(example: &Value) -> String {
    #[derive(Serialize)]
    struct InOrder<'a> {
        code: &'a Value,
        message: &'a Value,
        data: &'a Value,
    }
    let text = match (example.get("code"), example.get("message"), example.get("data")) {
        (Some(code), Some(message), Some(data)) => serde_json::to_string_pretty(&InOrder { code, message, data }),
        _ if example.is_string() => return plain(example),
        _ => serde_json::to_string_pretty(example),
    };
    text.unwrap_or_default()
}
