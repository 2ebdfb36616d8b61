//! A command that calls an operation, to be copied to a shell.

use std::fmt::Write;

use super::document::{ApiAccess, ApiDocument, Operation, Parameter, ParameterPlace};
use super::schema::plain;

/// What stands around the address of the service, which is not known before the page is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CurlCommand {
    pub(super) before: String,
    pub(super) after: String,
}

/// The command of an operation.
pub(super) fn curl(document: &ApiDocument, operation: &Operation) -> CurlCommand {
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
    let headers = operation.parameters.iter().filter(|parameter| parameter.place == ParameterPlace::Header);
    for header in headers.filter(|header| header.required) {
        let value = sample(header);
        add(&mut after, &format!(r#"-H "{}: {value}""#, header.name));
    }
    let body = operation.request_body.as_ref().and_then(|body| body.content.iter().next());
    if let Some((media_type, content)) = body {
        add(&mut after, &format!(r#"-H "Content-Type: {media_type}""#));
        if let Some(example) = document.examples(content).next() {
            // A quote within single quotes ends them, stands for itself, and begins them again.
            add(&mut after, &format!("--data-binary '{}'", plain(example).trim_end().replace('\'', r"'\''")));
        }
    }
    CurlCommand { before, after }
}

/// A further line of the command.
fn add(command: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = write!(command, " \\\n  {line}");
}

/// The path with a value for each of its parameters.
fn path(operation: &Operation) -> String {
    let parameters = operation.parameters.iter().filter(|parameter| parameter.place == ParameterPlace::Path);
    parameters.fold(operation.path.clone(), |path, parameter| {
        path.replace(&format!("{{{}}}", parameter.name), &sample(parameter))
    })
}

/// A value for a parameter: the example, or the least number, or else a variable for whoever copies it.
fn sample(parameter: &Parameter) -> String {
    match (&parameter.example, &parameter.schema.minimum) {
        (Some(example), _) => plain(example),
        (None, Some(least)) => least.to_string(),
        (None, None) => format!("${}", parameter.name.rsplit('-').next().unwrap_or_default().to_uppercase()),
    }
}
