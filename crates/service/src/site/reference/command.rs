//! Code that calls an operation, to copy into a shell, a page or a script.

use std::fmt::Write;

use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::document::{ApiAccess, ApiDocument, Operation, inline};
use super::highlight::CodeLanguage;
use super::schema::plain;

/// Stands for the service's address, which isn't known until the page is shown.
pub(super) const ORIGIN: char = '\u{1}';

/// What a call sends. The reader replaces `$NAME` in a value.
struct SampleCall {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    is_stream: bool,
    is_enveloped: bool,
}

/// Code that calls the operation, in this language.
pub(super) fn code(document: ApiDocument<'_>, operation: Operation<'_>, language: CodeLanguage) -> String {
    let call = sample_call(document, operation);
    match language {
        CodeLanguage::JavaScript => call.javascript(),
        CodeLanguage::Python => call.python(),
        _ => call.curl(),
    }
}

fn sample_call(document: ApiDocument<'_>, operation: Operation<'_>) -> SampleCall {
    let mut headers = Vec::new();
    match operation.access() {
        ApiAccess::Public => {}
        ApiAccess::Session => headers.push(("Token".to_owned(), "$TOKEN".to_owned())),
        ApiAccess::BotKey => headers.push(("Authorization".to_owned(), "Bearer $KEY".to_owned())),
    }
    let given = operation.parameters().filter(|parameter| parameter.parameter_in == ParameterIn::Header);
    for header in given.filter(|header| header.required == Required::True) {
        headers.push((header.name.clone(), sample(header)));
    }
    let content = operation.request_body().and_then(|body| body.content.iter().next());
    let mut body = None;
    if let Some((media_type, content)) = content {
        headers.push(("Content-Type".to_owned(), media_type.clone()));
        let example = inline(content).and_then(|content| document.examples(content).next());
        body = example.map(|example| plain(example).trim_end().to_owned());
    }
    let answers = document.response(operation, "200").into_iter().flat_map(|response| response.content.values());
    SampleCall {
        method: operation.method,
        path: path(operation),
        headers,
        body,
        is_stream: operation.is_stream(),
        is_enveloped: answers.filter_map(inline).any(|content| document.data(content).is_some()),
    }
}

impl SampleCall {
    fn curl(&self) -> String {
        let mut command = "curl -sS".to_owned();
        if self.is_stream {
            command.push_str(" -N");
        }
        if self.method != "GET" {
            let _ = write!(command, " -X {}", self.method);
        }
        let _ = write!(command, " {ORIGIN}{}", self.path);
        for (name, value) in &self.headers {
            let _ = write!(command, " \\\n  -H \"{name}: {value}\"");
        }
        if let Some(body) = &self.body {
            // A quote within single quotes ends them, stands for itself, and begins them again.
            let _ = write!(command, " \\\n  --data-binary '{}'", body.replace('\'', r"'\''"));
        }
        command
    }

    fn javascript(&self) -> String {
        let mut options = String::new();
        if self.method != "GET" {
            let _ = writeln!(options, "  method: \"{}\",", self.method);
        }
        if !self.headers.is_empty() {
            let headers = self.headers.iter().map(|(name, value)| {
                let name = if name.contains('-') { format!("\"{name}\"") } else { name.clone() };
                format!("{name}: {}", expression(value, "`Bearer ${", "}`"))
            });
            let _ = match &*headers.collect::<Vec<_>>() {
                [header] => writeln!(options, "  headers: {{ {header} }},"),
                headers => writeln!(options, "  headers: {{\n    {},\n  }},", headers.join(",\n    ")),
            };
        }
        if let Some(body) = &self.body {
            let _ =
                writeln!(options, "  body: `{}`,", body.replace('\\', r"\\").replace('`', r"\`").replace("${", r"\${"));
        }
        let options = if options.is_empty() { options } else { format!(", {{\n{options}}}") };
        let call = format!("fetch(\"{ORIGIN}{}\"{options})", self.path);
        if self.is_stream {
            return format!(
                "const response = await {call};\nfor await (const text of response.body.pipeThrough(new TextDecoderStream())) {{\n  \
                 console.log(text);\n}}"
            );
        }
        if !self.is_enveloped {
            return format!(
                "const response = await {call};\nif (!response.ok) throw new Error(`HTTP ${{response.status}}`);\nconst data = await \
                 response.json();"
            );
        }
        format!(
            "const response = await {call};\nconst {{ message, data }} = await response.json();\nif (!response.ok) throw new \
             Error(`${{data.error}}: ${{message}}`);"
        )
    }

    fn python(&self) -> String {
        let mut arguments = format!("\"{ORIGIN}{}\"", self.path);
        if !self.headers.is_empty() {
            let headers = self
                .headers
                .iter()
                .map(|(name, value)| format!("\"{name}\": {}", expression(value, "f\"Bearer {", "}\"")));
            let _ = match &*headers.collect::<Vec<_>>() {
                [header] => write!(arguments, ",\n    headers={{{header}}}"),
                headers => write!(arguments, ",\n    headers={{\n        {},\n    }}", headers.join(",\n        ")),
            };
        }
        if let Some(body) = &self.body {
            let _ = write!(arguments, ",\n    data='''{}'''", body.replace('\\', r"\\").replace("'''", r"\'\'\'"));
        }
        let timeout = if self.is_stream { "stream=True, timeout=60" } else { "timeout=30" };
        let (start, comma, end) = if arguments.contains('\n') { ("\n    ", ",\n    ", ",\n") } else { ("", ", ", "") };
        let call = format!("requests.{}({start}{arguments}{comma}{timeout}{end})", self.method.to_lowercase());
        if self.is_stream {
            return format!(
                "import requests\n\nwith {call} as response:\n    for line in response.iter_lines(decode_unicode=True):\n        \
                 print(line)"
            );
        }
        let part = if self.is_enveloped { "[\"data\"]" } else { "" };
        format!("import requests\n\nresponse = {call}\nresponse.raise_for_status()\ndata = response.json(){part}")
    }
}

/// A header's value as an expression: a variable, "Bearer" and a variable, or a string.
fn expression(value: &str, bearer: &str, end: &str) -> String {
    match (value.strip_prefix("Bearer $"), value.strip_prefix('$')) {
        (Some(variable), _) => format!("{bearer}{}{end}", variable.to_lowercase()),
        (None, Some(variable)) => variable.to_lowercase(),
        (None, None) => format!("\"{value}\""),
    }
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
