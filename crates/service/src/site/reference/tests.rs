use std::collections::BTreeSet;

use serde_json::Value;

use super::command::curl;
use super::document::ApiDocument;
use super::markdown;

/// The document as it is committed; another test compares it with the service's own.
const OPENAPI: &str = include_str!("../../../../../openapi.json");

fn document() -> ApiDocument {
    ApiDocument::read(OPENAPI).unwrap_or_else(|error| panic!("the page cannot show the document: {error}"))
}

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

#[test]
fn the_document_has_nothing_that_the_page_does_not_know() {
    assert!(document().operations().count() > 20);
    let whole: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut found = Vec::new();
    texts(&whole, &mut found);
    assert!(found.len() > 200, "{}", found.len());
    for text in found {
        if let Err(unknown) = markdown::blocks(text) {
            panic!("{text:?}, {unknown}");
        }
    }
}

#[test]
fn what_the_page_does_not_know_is_refused() {
    for (from, to) in [
        (r#""deprecated": true"#, r#""oneOf": []"#),
        (r#""summary": "Sign in""#, r#""summary": "Sign in", "callbacks": {}"#),
        (r#""in": "path""#, r#""in": "cookie""#),
    ] {
        assert!(OPENAPI.contains(from), "{from}");
        assert!(ApiDocument::read(&OPENAPI.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn errors_of_most_operations_are_common_and_each_has_one_place() {
    let document = document();
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
    let document = document();
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
        let command = curl(&document, operation);
        assert_eq!(format!("{}URL{}", command.before, command.after), expected);
    }
}
