//! Compares the service's answers with its OpenAPI document. Every request of the suite's client is checked.

use std::sync::OnceLock;

use reqwest::Method;
use serde_json::Value;

use super::{Answer, schema};

/// The service's OpenAPI document.
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_str(&service::http::document()).unwrap())
}

/// The part itself, or what it refers to.
pub fn resolve(part: &'static Value) -> &'static Value {
    match part["$ref"].as_str() {
        Some(target) => document().pointer(&target[1..]).unwrap_or_else(|| panic!("{target} leads nowhere")),
        None => part,
    }
}

/// The codes that an error response may carry.
pub fn error_codes(response: &'static Value) -> Vec<&'static str> {
    let schema = resolve(&resolve(response)["content"]["application/json"]["schema"]);
    let data = resolve(&schema["properties"]["data"]);
    data["properties"]["error"]["enum"].as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect()
}

/// The operation that a request is for; `None` if the document does not have its path or method.
fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let paths = document()["paths"].as_object().unwrap();
    let matches = |pattern: &str| {
        let (mut expected, mut given) = (pattern.split('/'), path.split('/'));
        let is_like =
            |(expected, given): (&str, &str)| expected == given || (expected.starts_with('{') && !given.is_empty());
        expected.clone().count() == given.clone().count() && expected.by_ref().zip(given.by_ref()).all(is_like)
    };
    let item = paths.get(path).or_else(|| paths.iter().find(|(pattern, _)| matches(pattern)).map(|(_, item)| item))?;
    item.get(method.as_str().to_lowercase())
}

/// Fails if the document does not allow this answer: status, headers, error code and body.
pub fn check(method: &Method, path: &str, answer: &Answer) {
    let Some(operation) = operation(method, path) else { return };
    // The sandbox, and answers from a proxy, are not in the document.
    if !answer.has("x-request-id") {
        return;
    }
    let name = format!("{} with {}", operation["operationId"], answer.status);
    let response = operation["responses"].get(answer.status.to_string());
    let response = resolve(response.unwrap_or_else(|| panic!("{name} is not documented: {}", answer.text())));
    for (header, reference) in response["headers"].as_object().unwrap() {
        assert!(resolve(reference)["required"] != true || answer.has(header), "{name} has no {header}");
    }
    for header in ["retry-after", "www-authenticate", "allow", "age", "etag"] {
        let documented = response["headers"].as_object().unwrap().keys().any(|name| name.eq_ignore_ascii_case(header));
        assert!(documented || !answer.has(header), "{name} does not document {header}");
    }
    check_body(&name, response, answer);
    if answer.status >= 400 {
        let error = answer.error();
        assert!(error_codes(response).contains(&error.as_str()), "{name} does not document `{error}`");
    }
}

fn check_body(name: &str, response: &'static Value, answer: &Answer) {
    let Some(contents) = response.get("content").and_then(Value::as_object) else {
        return assert!(answer.body.is_empty(), "{name} does not document a body: {:?}", answer.body);
    };
    let media_type = answer.header("content-type");
    let content = contents.get(media_type).unwrap_or_else(|| panic!("{name} does not document {media_type}"));
    if media_type == "application/json" {
        let text = if answer.has("content-encoding") { answer.decompressed() } else { answer.text() };
        schema::check(&serde_json::from_str(&text).unwrap(), &content["schema"], name);
    }
}
