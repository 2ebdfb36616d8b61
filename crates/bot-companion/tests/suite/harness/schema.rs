//! Checks JSON against the schemas of the OpenAPI document. An unknown keyword fails, so that none is skipped silently.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use regex_automata::dfa::regex::Regex;
use serde_json::{Map, Value};

use super::documented::resolve;

/// Fails if the value does not match the schema; `at` is its location in the body.
pub fn check(value: &Value, schema: &'static Value, at: &str) {
    let schema = resolve(schema).as_object().unwrap();
    for (keyword, expected) in schema {
        let is_valid = match keyword.as_str() {
            "type" => is_of_type(value, expected),
            "const" => value == expected,
            "enum" => expected.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= expected.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= expected.as_f64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| is_match(expected.as_str().unwrap(), text)),
            "format" => has_format(value, expected.as_str().unwrap()),
            "maxItems" => value.as_array().is_none_or(|list| list.len() as u64 <= expected.as_u64().unwrap()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(item, expected, &format!("{at}[{index}]"));
                }
                true
            }
            "required" => {
                let has = |object: &Map<_, _>| {
                    expected.as_array().unwrap().iter().all(|name| object.contains_key(name.as_str().unwrap()))
                };
                value.as_object().is_none_or(has)
            }
            "propertyNames" => {
                let names = value.as_object().into_iter().flat_map(Map::keys);
                names.for_each(|name| check(&name.as_str().into(), expected, &format!("{at}.{name}")));
                true
            }
            // The fields are checked below.
            "properties" | "additionalProperties" | "description" | "deprecated" | "example" => true,
            _ => panic!("{at}: the check does not know `{keyword}`"),
        };
        assert!(is_valid, "{at}: {value} does not have {keyword} {expected}");
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        let own = schema.get("properties").and_then(|properties| properties.get(name));
        match own.or_else(|| schema.get("additionalProperties")) {
            Some(Value::Bool(true)) => {}
            Some(schema @ Value::Object(_)) => check(field, schema, &at),
            // JSON Schema would let it pass; our fields must be documented.
            _ => panic!("{at} is not documented"),
        }
    }
}

fn is_of_type(value: &Value, expected: &Value) -> bool {
    match expected {
        Value::Array(several) => several.iter().any(|one| is_of_type(value, one)),
        one => match one.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "number" => value.is_number(),
            "integer" => value.is_i64() || value.is_u64(),
            other => panic!("the check does not know the type {other}"),
        },
    }
}

fn has_format(value: &Value, format: &str) -> bool {
    match format {
        "int32" => value.as_i64().is_none_or(|number| i32::try_from(number).is_ok()),
        "int64" => !value.is_number() || value.is_i64(),
        "double" => true,
        "uri" => value.as_str().is_none_or(|text| text.parse::<reqwest::Url>().is_ok()),
        other => panic!("the check does not know the format {other}"),
    }
}

fn is_match(pattern: &'static str, text: &str) -> bool {
    static COMPILED: Mutex<BTreeMap<&str, Regex>> = Mutex::new(BTreeMap::new());
    COMPILED.lock().entry(pattern).or_insert_with(|| Regex::new(pattern).unwrap()).is_match(text)
}
