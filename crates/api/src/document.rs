//! What the OpenAPI document has beyond the handlers: the envelope around every response, the headers, the error responses and
//! the examples. All of them are named components that the operations refer to, so that generated clients have one type for
//! each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{Components, Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{Content, ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

use super::error::{self, Details, ErrorCode};
use super::error_responses::ErrorResponse;
use super::examples;

const JSON: &str = "application/json";
/// The one response without an envelope.
const PLAIN: &str = "OpenApiDocument";

/// Adds everything that operations have in common.
pub fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        // Calls without credentials declare it; otherwise tools would assume an omission.
        operation.security.get_or_insert_default();
        for parameter in operation.parameters.iter_mut().flatten().filter_map(inline) {
            forbid_null(&mut parameter.schema);
        }
        let body = operation.request_body.as_mut().and_then(inline);
        for content in body.into_iter().flat_map(|body| body.content.values_mut()).filter_map(inline) {
            let name = operation.operation_id.as_deref().unwrap_or_default();
            forbid_null(&mut content.schema);
            add_example(components, content, name, examples::request(name));
        }
        for response in operation.responses.responses.values_mut().filter_map(inline) {
            complete_success(components, response);
        }
    }
    for response in ErrorResponse::ALL {
        add_error_response(components, *response);
    }
}

pub fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
}

fn inline<T>(value: &mut RefOr<T>) -> Option<&mut T> {
    match value {
        RefOr::T(value) => Some(value),
        RefOr::Ref(_) => None,
    }
}

/// What may be left out of a request cannot be sent as null.
fn forbid_null(schema: &mut Option<RefOr<Schema>>) {
    if let Some(RefOr::T(Schema::Object(object))) = schema
        && let SchemaType::Array(types) = &object.schema_type
        && let Some(other) = types.iter().find(|of_type| **of_type != Type::Null)
    {
        object.schema_type = SchemaType::Type(other.clone());
    }
}

/// Adds the envelope, example and headers to a response that isn't an error.
fn complete_success(components: &mut Components, response: &mut Response) {
    for (media_type, content) in &mut response.content {
        let RefOr::T(content) = content else { continue };
        let Some((name, is_list)) = content.schema.as_ref().and_then(payload) else { continue };
        if media_type != JSON || name == PLAIN {
            add_example(components, content, &name, examples::data(&name));
            continue;
        }
        let envelope_name = format!("{name}{}Response", if is_list { "List" } else { "" });
        let example = examples::data(&name).map(|data| {
            let data = if is_list { json!([data]) } else { data };
            json!({ "code": 200, "message": "OK", "data": data })
        });
        if let Some(data) = content.schema.replace(Ref::from_schema_name(&envelope_name).into()) {
            components.schemas.insert(envelope_name.clone(), envelope(200, data).into());
        }
        add_example(components, content, &envelope_name, example);
    }
    let own = std::mem::take(&mut response.headers);
    response.headers = headers(components, own.keys().map(String::as_str));
}

/// The name of a payload, and whether it is a list.
fn payload(schema: &RefOr<Schema>) -> Option<(String, bool)> {
    let name = |reference: &Ref| Some(reference.ref_location.rsplit('/').next()?.to_owned());
    match schema {
        RefOr::Ref(reference) => Some((name(reference)?, false)),
        RefOr::T(Schema::Array(array)) => {
            let items = serde_json::to_value(&array.items).ok()?;
            Some((items.get("$ref")?.as_str()?.rsplit('/').next()?.to_owned(), true))
        }
        RefOr::T(_) => None,
    }
}

fn envelope(status: u16, data: RefOr<Schema>) -> Object {
    let code = constant(Type::Integer, status.into(), "The HTTP status.");
    let message = if status == 200 {
        "`OK`."
    } else {
        "What happened and what to do, for people. The wording may change; programs use `data.error`."
    };
    let message = ObjectBuilder::new().schema_type(Type::String).description(Some(message));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("code", code)
        .required("code")
        .property("message", message)
        .required("message")
        .property("data", data)
        .required("data")
        .build()
}

/// A schema with a single value.
pub(super) fn constant(of_type: Type, value: Value, description: &str) -> Object {
    // `const` is newer than the library's types.
    let only = Extensions::from_iter([("const", value)]);
    ObjectBuilder::new().schema_type(of_type).description(Some(description)).extensions(Some(only)).build()
}

/// A schema of known texts.
pub(super) fn text_enum<'a>(values: impl IntoIterator<Item = &'a str>, description: &str) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).description(Some(description)).build()
}

fn add_example(components: &mut Components, content: &mut Content, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        components.examples.insert(name.to_owned(), example(value).into());
        content.examples.insert("example".to_owned(), example_reference(name));
    }
}

fn example(value: Value) -> Example {
    ExampleBuilder::new().value(Some(value)).build()
}

fn example_reference(name: &str) -> RefOr<Example> {
    RefOr::Ref(Ref::new(format!("#/components/examples/{name}")))
}

/// Adds an error response with its schemas, examples and headers.
fn add_error_response(components: &mut Components, response: ErrorResponse) {
    let (name, codes) = (response.name(), response.codes());
    let (error_name, data_name) = (format!("{name}Error"), format!("{name}ErrorData"));
    let data = Ref::from_schema_name(&data_name).into();
    components.schemas.insert(data_name, error_data(codes).into());
    components.schemas.insert(error_name.clone(), envelope(response.status(), data).into());
    let mut content = ContentBuilder::new().schema(Some(Ref::from_schema_name(error_name))).build();
    for code in codes {
        let key = format!("{code:?}");
        components.examples.insert(key.clone(), example(error_example(*code)).into());
        // A code that is explained in two ways has two examples.
        let same = codes.iter().take_while(|other| *other != code).filter(|other| other.name() == code.name()).count();
        let label = if same == 0 { code.name().to_owned() } else { format!("{}_{}", code.name(), same + 1) };
        content.examples.insert(label, example_reference(&key));
    }
    let explained = codes.iter().map(|code| format!("- `{}`: {}", code.name(), code.message()));
    let mut described =
        ResponseBuilder::new().description(explained.collect::<Vec<_>>().join("\n")).content(JSON, content).build();
    described.headers = headers(components, codes.iter().filter_map(|code| code.header()).map(|(name, _)| name));
    components.responses.insert(name.to_owned(), described.into());
}

/// The data of an error with one of these codes. A detail that not all of them have is optional.
fn error_data(codes: &[ErrorCode]) -> Object {
    let mut names: Vec<&str> = codes.iter().map(|code| code.name()).collect();
    names.dedup();
    let mut data = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("error", text_enum(names, "What went wrong. Stable: use it in programs."))
        .required("error")
        .property(
            "request_id",
            ObjectBuilder::new().schema_type(Type::String).description(Some(
                "Identifies the request in the service's log; the same as the `X-Request-Id` header.",
            )),
        )
        .required("request_id");
    if let RefOr::T(Schema::Object(details)) = Details::schema() {
        for (name, schema) in details.properties {
            let has = |code: &&ErrorCode| code.details().contains(&name.as_str());
            let count = codes.iter().filter(has).count();
            if count > 0 {
                data = data.property(&name, schema);
            }
            if count == codes.len() {
                data = data.required(&name);
            }
        }
    }
    data.build()
}

fn error_example(code: ErrorCode) -> Value {
    let details = examples::details(code);
    let waits = code.header().is_some_and(|(name, _)| name == "Retry-After");
    let body = error::body(code, examples::REQUEST_ID, waits.then_some(examples::RETRY_SECONDS), Some(&details));
    serde_json::from_slice(&body).unwrap_or_default()
}

/// References to these headers, and to those of every response.
fn headers<'a>(components: &mut Components, own: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, RefOr<Header>> {
    let names = own.into_iter().chain(["X-Request-Id", "Cache-Control"]);
    let mut references = BTreeMap::new();
    for name in names {
        components.headers.insert(name.to_owned(), header(name).into());
        references.insert(name.to_owned(), RefOr::Ref(Ref::new(format!("#/components/headers/{name}"))));
    }
    references
}

fn header(name: &str) -> Header {
    let (of_type, example, description) = match name {
        "X-Request-Id" => (
            Type::String,
            json!(examples::REQUEST_ID),
            "Identifies the request in the service's log. Include it when you report a problem.",
        ),
        "Cache-Control" => {
            (Type::String, json!("no-store"), "Whether and how long the response may be cached; mostly `no-store`.")
        }
        "Retry-After" => (
            Type::Integer,
            json!(examples::RETRY_SECONDS),
            "How many seconds to wait before trying again. `idp_unavailable` has it only while the service does not call the provider, because \
             it failed too often.",
        ),
        "Age" => {
            (Type::Integer, json!(12), "How many seconds ago the user's guilds were read from the identity provider.")
        }
        "ETag" => (
            Type::String,
            json!("\"5b1f7c2e9d3a4806\""),
            "Identifies this version of the response. Send it as `If-None-Match` to get 304 while nothing has changed.",
        ),
        "WWW-Authenticate" => (Type::String, json!(error::SESSION_CHALLENGE), "Which credential to send."),
        "Allow" => (Type::String, json!("GET, HEAD, OPTIONS"), "The methods this path supports."),
        "Accept-Encoding" => (Type::String, json!("gzip"), "The supported compression of a request body."),
        _ => (Type::String, Value::Null, ""),
    };
    let is_always_sent = name != "Retry-After";
    HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(of_type)))
        .description(Some(description))
        .example(Some(example))
        // The library's type has no such field.
        .extensions(is_always_sent.then(|| Extensions::from_iter([("required", true)])))
        .build()
}
