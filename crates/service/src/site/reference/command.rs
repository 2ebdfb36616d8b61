//! A command that calls an operation, to copy into a shell.

use std::fmt::Write;

use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::document::{ApiAccess, ApiDocument, Operation, inline};
use super::schema::plain;

/// The text around the service's address, which isn't known until the page is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CurlCommand {
    pub(super) before: String,
    pub(super) after: String,
}

pub(super) fn curl(document: ApiDocument<'_>, operation: Operation<'_>) -> CurlCommand {
    let mut before = "curl -sS".to_owned();
    if operation.is_stream() {
        before.push_str(" -N");
    }
    if operation.method != "GET" {
        before = format!("{before} -X {}", operation.method);
    }
    before.push(' ');
    let mut after = path(operation);
    match operation.access() {
        ApiAccess::Public => {}
        ApiAccess::Session => add(&mut after, r#"-H "Token: $TOKEN""#),
        ApiAccess::BotKey => add(&mut after, r#"-H "Authorization: Bearer $KEY""#),
    }
    let headers = operation.parameters().filter(|parameter| parameter.parameter_in == ParameterIn::Header);
    for header in headers.filter(|header| header.required == Required::True) {
        let value = sample(header);
        add(&mut after, &format!(r#"-H "{}: {value}""#, header.name));
    }
    let body = operation.request_body().and_then(|body| body.content.iter().next());
    if let Some((media_type, content)) = body {
        add(&mut after, &format!(r#"-H "Content-Type: {media_type}""#));
        if let Some(example) = inline(content).and_then(|content| document.examples(content).next()) {
            // A quote within single quotes ends them, stands for itself, and begins them again.
            add(&mut after, &format!("--data-binary '{}'", plain(example).trim_end().replace('\'', r"'\''")));
        }
    }
    CurlCommand { before, after }
}

/// Another line of the command.
fn add(command: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = write!(command, " \\\n  {line}");
}

/// The path with a value for each of its parameters.
fn path(operation: Operation<'_>) -> String {
    let parameters = operation.parameters().filter(|parameter| parameter.parameter_in == ParameterIn::Path);
    parameters.fold(operation.path.to_owned(), |path, parameter| {
        path.replace(&format!("{{{}}}", parameter.name), &sample(parameter))
    })
}

/// A value for a parameter: the example, or the smallest number, or else a variable for the reader to set.
fn sample(parameter: &Parameter) -> String {
    // The library hides the example of its type.
    let written = serde_json::to_value(parameter).unwrap_or_default();
    let sample = written.get("example").or_else(|| written["schema"].get("minimum"));
    let variable = || format!("${}", parameter.name.rsplit('-').next().unwrap_or_default().to_uppercase());
    sample.map_or_else(variable, plain)
}
