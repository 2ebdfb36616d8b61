//! What the OpenAPI document promises to tools that read it, beyond what their linters check.

use std::collections::{BTreeMap, BTreeSet};

use api::error::ErrorCode;
use serde_json::Value;

use crate::harness::documented::{document, error_codes, resolve};

/// The allowed verbs of operation IDs.
const VERBS: [&str; 8] = ["get", "list", "sign", "stream", "end", "send", "replace", "create"];

/// Each operation with its name.
fn operations() -> Vec<(&'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap();
    let all = paths.values().flat_map(|item| item.as_object().unwrap().values());
    all.map(|operation| (operation["operationId"].as_str().unwrap(), operation)).collect()
}

/// Each response of an operation: its status, and what the reference resolves to.
fn responses(operation: &'static Value) -> impl Iterator<Item = (&'static str, &'static Value)> {
    let all = operation["responses"].as_object().unwrap();
    all.iter().map(|(status, response)| (status.as_str(), resolve(response)))
}

#[test]
fn every_operation_has_a_verb_as_name_and_says_which_credential_it_wants() {
    let mut names = BTreeSet::new();
    for (name, operation) in operations() {
        let (verb, rest) = name.split_at(name.find(char::is_uppercase).unwrap_or_else(|| panic!("{name} is one word")));
        assert!(VERBS.contains(&verb), "{name} does not begin with one of {VERBS:?}");
        assert!(rest.chars().all(char::is_alphabetic) && names.insert(name), "{name}");
        let security = operation["security"].as_array().unwrap_or_else(|| panic!("{name} has no security"));
        let schemes: Vec<&String> = security.iter().flat_map(|scheme| scheme.as_object().unwrap().keys()).collect();
        let expected: &[&str] = match operation["tags"][0].as_str().unwrap() {
            "bot" => &["bot"],
            "dashboard" if !["signIn", "getSignInOptions"].contains(&name) => &["session"],
            _ => &[],
        };
        assert_eq!(schemes, expected, "{name}");
        // Either there is a credential that may be refused, or nothing to refuse; the code of a sign-in counts as one, too.
        let refuses = operation["responses"].get("401").is_some();
        assert_eq!(refuses, !expected.is_empty() || name == "signIn", "{name}");
    }
}

#[test]
fn every_response_is_a_named_schema_with_examples_and_headers() {
    for (name, operation) in operations() {
        for (status, response) in responses(operation) {
            let headers = response["headers"].as_object().unwrap();
            assert!(headers.contains_key("X-Request-Id") && headers.contains_key("Cache-Control"), "{name} {status}");
            let content = response["content"].as_object();
            assert_eq!(content.is_none(), status == "304", "{name} {status} has no content");
            for content in content.into_iter().flat_map(|content| content.values()) {
                let schema = &content["schema"]["$ref"];
                assert!(schema.as_str().is_some_and(|to| to.starts_with("#/components/schemas/")), "{name} {status}");
                let examples = content["examples"].as_object().unwrap_or_else(|| panic!("{name} {status}: no example"));
                let named = |example: &Value| {
                    example["$ref"].as_str().is_some_and(|to| to.starts_with("#/components/examples/"))
                };
                assert!(!examples.is_empty() && examples.values().all(named), "{name} {status}");
            }
        }
    }
}

#[test]
fn every_envelope_has_its_status_as_a_constant() {
    for (name, operation) in operations() {
        for (status, response) in responses(operation) {
            let schema = resolve(&response["content"]["application/json"]["schema"]);
            if schema.is_null() || name == "getOpenApiDocument" && status == "200" {
                continue;
            }
            assert_eq!(schema["properties"]["code"]["const"].to_string(), status, "{name}");
            assert_eq!(schema["required"], serde_json::json!(["code", "message", "data"]), "{name} {status}");
        }
    }
}

#[test]
fn every_documented_error_is_in_the_table_with_that_status_and_has_an_example() {
    let table: BTreeMap<&str, u16> = ErrorCode::ALL.iter().map(|code| (code.name(), code.status().as_u16())).collect();
    let mut seen = BTreeSet::new();
    for (name, operation) in operations() {
        for (status, response) in responses(operation).filter(|(status, _)| *status >= "400") {
            let codes = error_codes(response);
            let examples = response["content"]["application/json"]["examples"].as_object().unwrap();
            let shown = examples.values().map(|example| {
                let value = &resolve(example)["value"];
                assert_eq!(value["code"].to_string(), status, "{name}");
                value["data"]["error"].as_str().unwrap()
            });
            assert_eq!(shown.collect::<BTreeSet<_>>(), codes.iter().copied().collect(), "{name} {status}");
            for code in codes {
                assert_eq!(table.get(code).map(ToString::to_string).as_deref(), Some(status), "{name}: {code}");
                assert!(examples.contains_key(code), "{name}: {code}");
                seen.insert(code);
            }
        }
    }
    assert_eq!(seen, table.into_keys().collect(), "every error is some operation's");
}

#[test]
fn an_operation_documents_its_own_errors_and_no_others() {
    let all = operations().into_iter().collect::<BTreeMap<_, _>>();
    let table: &[(&str, &str, &[&str])] = &[
        ("signIn", "401", &["idp_code_rejected"]),
        ("signIn", "403", &["scope_missing", "user_blocked"]),
        ("signIn", "502", &["idp_unavailable", "idp_misconfigured"]),
        ("signIn", "503", &["overloaded", "store_unavailable", "timeout", "idp_rate_limited"]),
        ("getSignInOptions", "503", &["overloaded", "timeout"]),
        ("listGuilds", "400", &["host_invalid", "body_broken"]),
        ("listGuilds", "401", &["token_missing", "token_invalid"]),
        ("listGuilds", "404", &["not_found"]),
        ("getGuild", "404", &["guild_not_found", "not_found"]),
        ("endSession", "404", &["session_not_found", "not_found"]),
        ("listSessions", "503", &["overloaded", "store_unavailable", "timeout"]),
        ("streamChanges", "503", &["overloaded", "timeout", "draining"]),
        ("streamMyChanges", "503", &["overloaded", "store_unavailable", "timeout", "draining"]),
        ("sendHeartbeat", "400", &["host_invalid", "body_broken"]),
        ("sendEvents", "400", &["feed_header_invalid", "host_invalid", "body_broken"]),
        ("listGuilds", "408", &["request_timeout"]),
        ("sendEvents", "408", &["request_timeout"]),
        ("sendEvents", "503", &["overloaded", "store_unavailable"]),
        ("sendEvents", "409", &["resync_required"]),
        ("sendEvents", "429", &["rate_limited"]),
        ("replaceSubscriptions", "409", &["resync_required", "snapshot_outdated"]),
        ("replaceShardGuilds", "429", &["rate_limited", "snapshot_busy"]),
    ];
    for (name, status, codes) in table {
        assert_eq!(error_codes(&all[name]["responses"][status]), *codes, "{name} {status}");
    }
    // A detail that every error of a response has is required.
    let data = |schema: &str| document()["components"]["schemas"][schema]["required"].clone();
    assert_eq!(data("EventsConflictErrorData"), serde_json::json!(["error", "request_id", "next"]));
    assert_eq!(data("LineInvalidErrorData"), serde_json::json!(["error", "request_id", "line", "reason", "lines"]));
    assert_eq!(data("SignInBadRequestErrorData"), serde_json::json!(["error", "request_id"]));
}
