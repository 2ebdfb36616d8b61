use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Tag};
use serde_json::Value;

use super::command::{ORIGIN, code};
use super::document::ApiDocument;
use super::feed::FEED;
use super::highlight::CodeLanguage;
use super::text::{self, TextStyle};
use crate::http::describe;

/// Every text that people read.
fn texts<'a>(part: &'a Value, found: &mut Vec<&'a str>) {
    match part {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if ["description", "summary", "message"].contains(&name.as_str()) => found.push(text),
                    _ => texts(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        _ => {}
    }
}

/// Whether the page shows this part of a text as it is meant.
fn is_shown(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => match tag {
            Tag::Paragraph
            | Tag::Item
            | Tag::Strong
            | Tag::List(None)
            | Tag::Table(_)
            | Tag::TableHead
            | Tag::TableRow
            | Tag::TableCell => true,
            Tag::Heading { level, .. } => (*level as u8) <= 3,
            Tag::CodeBlock(kind) => matches!(kind, CodeBlockKind::Fenced(_)),
            Tag::Link { dest_url, .. } => {
                dest_url.starts_with('#') || dest_url.starts_with("https://") || dest_url.contains(".md")
            }
            _ => false,
        },
        Event::End(_) | Event::Text(_) | Event::Code(_) | Event::SoftBreak => true,
        _ => false,
    }
}

#[test]
fn the_texts_have_nothing_that_the_page_cannot_show() {
    let document = serde_json::to_value(describe()).unwrap();
    let mut found = vec![FEED];
    texts(&document, &mut found);
    assert!(found.len() > 200, "{}", found.len());
    for text in found {
        for (event, place) in text::parse(text).into_offset_iter() {
            assert!(is_shown(&event), "{event:?}: {}", &text[place]);
        }
    }
    let ids: Vec<_> = text::headings(FEED).iter().map(|(_, heading)| text::slug(heading)).collect();
    assert!(ids.iter().any(|id| id == "what-a-line-can-contain"), "the reference links to it: {ids:?}");
}

/// The keywords of a schema and of those within it.
fn keywords<'a>(schema: &'a Value, found: &mut BTreeSet<&'a str>) {
    let Some(schema) = schema.as_object() else { return };
    found.extend(schema.keys().map(String::as_str));
    for part in ["items", "additionalProperties"] {
        schema.get(part).into_iter().for_each(|part| keywords(part, found));
    }
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().for_each(|(_, field)| keywords(field, found));
}

#[test]
fn the_schemas_have_nothing_that_the_page_does_not_show() {
    let document = serde_json::to_value(describe()).unwrap();
    let mut found = BTreeSet::new();
    for schema in document["components"]["schemas"].as_object().unwrap().values() {
        keywords(schema, &mut found);
    }
    let paths = document["paths"].as_object().unwrap().values();
    for operation in paths.flat_map(|item| item.as_object().unwrap().values()) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            keywords(&parameter["schema"], &mut found);
            assert!(["header", "path"].contains(&parameter["in"].as_str().unwrap()), "{parameter}");
        }
    }
    let shown = [
        "$ref",
        "type",
        "description",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "enum",
        "const",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "maxItems",
        "pattern",
        "format",
        "deprecated",
    ];
    // What the examples and the text around the table say.
    let elsewhere = ["example", "propertyNames"];
    let unknown: Vec<_> = found.iter().filter(|word| !shown.contains(word) && !elsewhere.contains(word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn markdown_becomes_markup_without_raw_html_and_foreign_links() {
    let style = TextStyle {
        operations: [("GET /team".to_owned(), "#getTeam".to_owned())].into(),
        documents: vec![("dashboard.md", "/docs".to_owned()), ("feed.md", "/docs/feed".to_owned())],
        lang: None,
        base_path: None,
    };
    for (written, expected) in [
        ("say `a`, not `<b>`.", "say <code>a</code>, not <code>&lt;b&gt;</code>."),
        ("`GET /team`", "<a href=\"#getTeam\"><code>GET /team</code></a>"),
        ("**a `b`** c", "<strong>a <code>b</code></strong> c"),
        ("one\nline", "one line"),
        ("<b onclick=\"c\">a</b>", "&lt;b onclick=&quot;c&quot;&gt;a&lt;/b&gt;"),
        ("[a](#b)", "<a href=\"#b\">a</a>"),
        ("[a](feed.md#b)", "<a href=\"/docs/feed\">a</a>"),
        ("[a](https://b.example/?\"c)", "<a href=\"https://b.example/?&quot;c\" rel=\"noopener noreferrer\">a</a>"),
        ("[a](javascript:alert)", "a"),
        ("[a](http://b.example)", "a"),
        ("![a](https://b.example/c.png)", "a"),
    ] {
        assert_eq!(style.line(written).into_string(), expected, "{written}");
    }
    for (written, expected) in [
        ("<script>alert()</script>", "&lt;script&gt;alert()&lt;/script&gt;"),
        ("# a\n## b, c", "<h1>a</h1><h2 id=\"b-c\"><a class=\"anchor\" href=\"#b-c\">b, c</a></h2>"),
        ("a\n- b\n- c\n  d", "<p>a</p><ul class=\"listed\"><li>b</li><li>c d</li></ul>"),
        (
            "| a | |\n|---|---|\n| `b` | c |",
            "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">a</th><td></td></tr></thead><tbody><tr>\
             <th scope=\"row\"><code>b</code></th><td>c</td></tr></tbody></table></div>",
        ),
        (
            "```sh\na <b>\n\n# c\n```",
            "<div class=\"code\" data-language=\"sh\"><pre translate=\"no\"><code>a &lt;b&gt;\n\n# c</code></pre></div>",
        ),
    ] {
        assert_eq!(style.blocks(written).into_string(), expected, "{written}");
    }
}

#[test]
fn errors_of_most_operations_are_common_and_each_has_one_place() {
    let document = describe();
    let document = ApiDocument(&document);
    let common: Vec<_> = document.common_errors().iter().map(|error| error.code).collect();
    let places: BTreeSet<_> = common.iter().collect();
    assert_eq!(places.len(), common.len(), "two errors would have the same id: {common:?}");
    for code in ["not_found", "rate_limited", "internal", "overloaded"] {
        assert!(common.contains(&code), "{common:?}");
    }
    for code in ["token_invalid", "bot_key_invalid", "resync_required", "idp_code_rejected"] {
        assert!(!common.contains(&code), "{common:?}");
    }
}

#[test]
fn commands_of_each_kind() {
    let document = describe();
    let document = ApiDocument(&document);
    for operation in document.operations() {
        let command = code(document, operation, CodeLanguage::Shell);
        assert!(!command.lines().next().unwrap().contains(['$', '{']), "a path needs values: {command}");
    }
    for (id, expected) in [
        ("getStatus", "curl -sS URL/"),
        ("streamChanges", "curl -sS -N URL/live"),
        ("getGuild", "curl -sS URL/guilds/871203344918732833 \\\n  -H \"Token: $TOKEN\""),
        ("signIn", "curl -sS -X POST URL/auth \\\n  -H \"Idp-Code: $CODE\""),
        ("endAllSessions", "curl -sS -X DELETE URL/sessions \\\n  -H \"Token: $TOKEN\""),
        (
            "sendEvents",
            "curl -sS -X POST URL/bot/events \\\n  -H \"Authorization: Bearer $KEY\" \\\n  -H \"Feed-Instance: $INSTANCE\" \
             \\\n  -H \"Feed-Sequence: 1\" \\\n  -H \"Content-Type: application/x-ndjson\" \\\n  --data-binary '{\"type\": \
             \"guild_gone\", \"id\": \"1031447905116248139\"}'",
        ),
    ] {
        let operation = document.operations().find(|operation| operation.id == id).unwrap();
        let command = code(document, operation, CodeLanguage::Shell);
        assert_eq!(command.replace(ORIGIN, "URL"), expected);
    }
    let python = "import requests\n\nresponse = requests";
    let end = "response.raise_for_status()\ndata = response.json()[\"data\"]";
    for (id, language, expected) in [
        (
            "getGuild",
            CodeLanguage::JavaScript,
            "const response = await fetch(\"URL/guilds/871203344918732833\", {\n  headers: { Token: token },\n});\nconst { \
             message, data } = await response.json();\nif (!response.ok) throw new Error(`${data.error}: ${message}`);"
                .to_owned(),
        ),
        ("getTeam", CodeLanguage::Python, format!("{python}.get(\"URL/team\", timeout=30)\n{end}")),
        // It isn't in the envelope.
        (
            "getOpenApiDocument",
            CodeLanguage::Python,
            format!("{python}.get(\"URL/openapi.json\", timeout=30)\nresponse.raise_for_status()\ndata = response.json()"),
        ),
        (
            "sendEvents",
            CodeLanguage::Python,
            format!(
                "{python}.post(\n    \"URL/bot/events\",\n    headers={{\n        \"Authorization\": f\"Bearer {{key}}\",\n        \
                 \"Feed-Instance\": instance,\n        \"Feed-Sequence\": \"1\",\n        \"Content-Type\": \
                 \"application/x-ndjson\",\n    }},\n    data='''{{\"type\": \
                 \"guild_gone\", \"id\": \"1031447905116248139\"}}''',\n    timeout=30,\n)\n{end}"
            ),
        ),
    ] {
        let operation = document.operations().find(|operation| operation.id == id).unwrap();
        assert_eq!(code(document, operation, language).replace(ORIGIN, "URL"), expected);
    }
}
