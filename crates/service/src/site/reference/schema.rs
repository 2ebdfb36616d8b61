//! Shows the type and limits of values as rows of a table.

use domain::Permission;
use maud::{Markup, html};
use serde_json::Value;
use utoipa::Number;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayItems, KnownFormat, Object, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Deprecated, RefOr};

use super::document::ApiDocument;
use super::text::TextStyle;
use crate::site::layout::table_head;
use crate::site::numbers::grouped;
use crate::site::words::Words;

/// How deep nested objects are followed. Ours are four deep; a recursive schema ends here.
const DEPTH: usize = 8;

/// A field of an object, or of an object in it.
struct FieldRow<'a> {
    /// The names of the objects around it, with a dot at the end.
    path: String,
    name: &'a str,
    schema: &'a Schema,
    description: &'a str,
    is_required: bool,
    is_deprecated: bool,
}

/// All fields of an object as a table; `None` if it has none.
pub(super) fn fields(
    document: ApiDocument<'_>,
    object: &RefOr<Schema>,
    style: &TextStyle,
    words: &Words,
) -> Option<Markup> {
    let mut rows = Vec::new();
    collect(document, object, "", DEPTH, &mut rows);
    let heads = &words.reference;
    (!rows.is_empty()).then(|| {
        html! {
            table class="fields" {
                (table_head(&[heads.name, heads.kind, heads.meaning]))
                tbody { @for row in &rows { (field(document, row, style, words)) } }
            }
        }
    })
}

fn field(document: ApiDocument<'_>, row: &FieldRow<'_>, style: &TextStyle, words: &Words) -> Markup {
    let marks = &words.reference;
    html! {
        tr {
            td {
                code { @if !row.path.is_empty() { span class="path" { (row.path) } wbr; } (row.name) }
                @if !row.is_required { " " span class="mark" { (marks.optional) } }
                @if row.is_deprecated { " " span class="mark old" { (marks.deprecated) } }
            }
            td { (kind_and_limits(document, row.schema, words)) }
            @match permission(row) {
                // In the page's language, unlike the document's descriptions.
                Some(key) => td { (style.line((marks.permission)(key))) },
                None => td lang=[style.lang] { (style.line(row.description)) },
            }
        }
    }
}

/// The permission that a field stands for. The document has one description for all 20, so each gets its own words.
fn permission(row: &FieldRow<'_>) -> Option<Permission> {
    let key = Permission::ALL.into_iter().find(|key| key.name() == row.name)?;
    row.path.ends_with("permissions.").then_some(key)
}

fn collect<'a>(
    document: ApiDocument<'a>,
    object: &'a RefOr<Schema>,
    path: &str,
    depth: usize,
    rows: &mut Vec<FieldRow<'a>>,
) {
    let Some(Schema::Object(object)) = document.schema(object) else { return };
    for (name, given) in &object.properties {
        let Some(schema) = document.schema(given) else { continue };
        let (description, deprecated, inner, step) = match schema {
            Schema::Array(array) => (&array.description, &array.deprecated, items(schema).unwrap_or(given), "[]."),
            Schema::Object(object) => match object.additional_properties.as_deref() {
                Some(AdditionalProperties::RefOr(each)) => (&object.description, &object.deprecated, each, ".*."),
                _ => (&object.description, &object.deprecated, given, "."),
            },
            _ => continue,
        };
        // A description next to a reference takes precedence.
        let description = match given {
            RefOr::Ref(reference) if !reference.description.is_empty() => &reference.description,
            _ => description.as_deref().unwrap_or_default(),
        };
        rows.push(FieldRow {
            path: path.to_owned(),
            name,
            schema,
            description,
            is_required: object.required.contains(name),
            is_deprecated: *deprecated == Some(Deprecated::True),
        });
        if depth > 0 {
            collect(document, inner, &format!("{path}{name}{step}"), depth - 1, rows);
        }
    }
}

/// The type of a value, and what else it must be.
pub(super) fn kind_and_limits(document: ApiDocument<'_>, schema: &Schema, words: &Words) -> Markup {
    let limits = limits(document, schema, words);
    html! {
        code class="kind" { (kind(document, schema)) }
        @for limit in &limits { " " span class="limits" { (limit) } }
    }
}

/// The type of a list's items.
pub(super) fn items(schema: &Schema) -> Option<&RefOr<Schema>> {
    match schema {
        Schema::Array(array) => match &array.items {
            ArrayItems::RefOrSchema(items) => Some(items),
            ArrayItems::False => None,
        },
        _ => None,
    }
}

/// The type of a value, in TypeScript's notation.
fn kind(document: ApiDocument<'_>, schema: &Schema) -> String {
    let types = match schema {
        Schema::Object(object) => &object.schema_type,
        Schema::Array(array) => &array.schema_type,
        _ => return String::new(),
    };
    let types = match types {
        SchemaType::Type(one) => std::slice::from_ref(one),
        SchemaType::Array(many) => many,
        SchemaType::AnyValue => &[],
    };
    let kinds = types.iter().map(|of_type| match of_type {
        Type::Array => {
            let items = items(schema).and_then(|items| document.schema(items));
            format!("{}[]", items.map(|items| kind(document, items)).unwrap_or_default())
        }
        other => plain(&serde_json::to_value(other).unwrap_or_default()),
    });
    kinds.collect::<Vec<_>>().join(" | ")
}

fn limits(document: ApiDocument<'_>, schema: &Schema, words: &Words) -> Vec<Markup> {
    match schema {
        Schema::Object(object) => value_limits(object, words),
        Schema::Array(array) => {
            let mut limits = Vec::new();
            if let Some(Schema::Object(item)) = items(schema).and_then(|items| document.schema(items)) {
                limits.extend(values(item));
            }
            if let Some(most) = array.max_items {
                limits.push(html! { "≤ " (grouped(most as u64, words)) " " (words.reference.entries) });
            }
            limits
        }
        _ => Vec::new(),
    }
}

fn values(schema: &Object) -> Option<Markup> {
    schema.enum_values.as_ref().map(|values| {
        html! {
            @for (index, value) in values.iter().enumerate() {
                @if index > 0 { " · " }
                code { (plain(value)) }
            }
        }
    })
}

fn value_limits(schema: &Object, words: &Words) -> Vec<Markup> {
    let mut limits: Vec<_> = values(schema).into_iter().collect();
    if let Some(constant) = schema.extensions.as_ref().and_then(|extensions| extensions.get("const")) {
        limits.push(html! { code { (plain(constant)) } });
    }
    let number = |number: &Number| match number {
        Number::UInt(whole) => grouped(*whole as u64, words),
        Number::Int(whole) => u64::try_from(*whole).map_or_else(|_| whole.to_string(), |whole| grouped(whole, words)),
        Number::Float(number) => number.to_string(),
    };
    match (schema.minimum.as_ref().map(number), schema.maximum.as_ref().map(number)) {
        (Some(least), Some(most)) => limits.push(html! { (least) "–" wbr; (most) }),
        (Some(least), None) => limits.push(html! { "≥ " (least) }),
        (None, Some(most)) => limits.push(html! { "≤ " (most) }),
        (None, None) => {}
    }
    if let Some(most) = schema.max_length {
        let characters = words.reference.characters;
        limits
            .push(html! { (schema.min_length.unwrap_or_default()) "–" (grouped(most as u64, words)) " " (characters) });
    }
    if let Some(pattern) = &schema.pattern {
        limits.push(html! { code { (pattern) } });
    }
    if schema.format == Some(SchemaFormat::KnownFormat(KnownFormat::Uri)) {
        limits.push(html! { "URL" });
    }
    limits
}

/// A value for people: strings without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
