//! What a value may be, as rows of a table.

use maud::{Markup, html};
use serde_json::{Number, Value};

use super::document::{AdditionalProperties, ApiDocument, Schema};
use super::text::TextStyle;
use crate::site::layout::grouped;
use crate::site::words::Words;

/// How deep objects are followed into each other. Ours are four deep; a schema that contains itself ends here.
const DEPTH: usize = 8;

/// A field of an object, or of an object in it.
struct FieldRow<'a> {
    /// The names of the objects around it, with a dot at the end.
    path: String,
    name: &'a str,
    schema: &'a Schema,
    description: &'a str,
    is_required: bool,
}

/// All fields of an object as a table; `None` if it has none.
pub(super) fn fields(document: &ApiDocument, object: &Schema, style: &TextStyle, words: &Words) -> Option<Markup> {
    let mut rows = Vec::new();
    collect(document, object, "", DEPTH, &mut rows);
    let heads = &words.reference;
    (!rows.is_empty()).then(|| {
        html! {
            table class="fields" {
                thead {
                    tr {
                        th scope="col" { (heads.name) }
                        th scope="col" { (heads.kind) }
                        th scope="col" { (heads.meaning) }
                    }
                }
                tbody { @for row in &rows { (field(document, row, style, words)) } }
            }
        }
    })
}

fn field(document: &ApiDocument, row: &FieldRow<'_>, style: &TextStyle, words: &Words) -> Markup {
    let marks = &words.reference;
    html! {
        tr {
            td {
                code { @if !row.path.is_empty() { span class="path" { (row.path) } wbr; } (row.name) }
                @if !row.is_required { " " span class="mark" { (marks.optional) } }
                @if row.schema.deprecated { " " span class="mark old" { (marks.deprecated) } }
            }
            td { (kind_and_limits(document, row.schema, words)) }
            td lang=[style.lang] { (style.line(row.description)) }
        }
    }
}

fn collect<'a>(document: &'a ApiDocument, object: &'a Schema, path: &str, depth: usize, rows: &mut Vec<FieldRow<'a>>) {
    for (name, given) in document.schema(object).properties.iter() {
        let schema = document.schema(given);
        let description = if given.description.is_empty() { &schema.description } else { &given.description };
        let is_required = document.schema(object).required.iter().any(|required| required == name);
        rows.push(FieldRow { path: path.to_owned(), name, schema, description, is_required });
        if depth > 0 {
            let (inner, step) = match (&schema.items, &schema.additional_properties) {
                (Some(items), _) => (&**items, "[]."),
                (None, Some(AdditionalProperties::Each(each))) => (&**each, ".*."),
                (None, _) => (schema, "."),
            };
            collect(document, inner, &format!("{path}{name}{step}"), depth - 1, rows);
        }
    }
}

/// The type of a value, and what else it must be.
pub(super) fn kind_and_limits(document: &ApiDocument, schema: &Schema, words: &Words) -> Markup {
    let limits = limits(document, schema, words);
    html! {
        code class="kind" { (kind(document, schema)) }
        @if !limits.is_empty() { @for limit in &limits { " " span class="limits" { (limit) } } }
    }
}

/// The type of a value, in the way of TypeScript.
fn kind(document: &ApiDocument, schema: &Schema) -> String {
    let schema = document.schema(schema);
    let kinds = schema.kinds.names().iter().map(|kind| match (kind.as_str(), &schema.items) {
        ("array", Some(items)) => format!("{}[]", self::kind(document, items)),
        _ => kind.clone(),
    });
    kinds.collect::<Vec<_>>().join(" | ")
}

fn limits(document: &ApiDocument, schema: &Schema, words: &Words) -> Vec<Markup> {
    let names = &words.reference;
    let mut limits = Vec::new();
    let values = schema.items.as_deref().map_or(schema, |items| document.schema(items));
    if !values.values.is_empty() {
        limits.push(html! {
            @for (index, value) in values.values.iter().enumerate() {
                @if index > 0 { " · " }
                code { (plain(value)) }
            }
        });
    }
    if let Some(constant) = &schema.constant {
        limits.push(html! { code { (plain(constant)) } });
    }
    let number = |number: &Number| number.as_u64().map_or_else(|| number.to_string(), |whole| grouped(whole, words));
    match (schema.minimum.as_ref().map(number), schema.maximum.as_ref().map(number)) {
        (Some(least), Some(most)) => limits.push(html! { (least) "–" wbr; (most) }),
        (Some(least), None) => limits.push(html! { "≥ " (least) }),
        (None, Some(most)) => limits.push(html! { "≤ " (most) }),
        (None, None) => {}
    }
    if let Some(most) = schema.max_length {
        limits
            .push(html! { (schema.min_length.unwrap_or_default()) "–" (grouped(most, words)) " " (names.characters) });
    }
    if let Some(most) = schema.max_items {
        limits.push(html! { "≤ " (grouped(most, words)) " " (names.entries) });
    }
    if let Some(pattern) = &schema.pattern {
        limits.push(html! { code { (pattern) } });
    }
    if schema.format.as_deref() == Some("uri") {
        limits.push(html! { "URL" });
    }
    limits
}

/// A value as people read it: a string without its quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
