//! `GET /openapi.json`: the description of the API, generated from the handlers.

use std::sync::OnceLock;

use api::document;
use api::error_responses::Refusals;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use telemetry::Version;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::server::{Server, ServerBuilder, ServerVariableBuilder};
use utoipa::openapi::tag::{Tag, TagBuilder};
use utoipa::openapi::{ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::encoding;
use super::respond::encoded_json;
use crate::views::compressible::CompressibleBody;

const DESCRIPTION: &str = "\
The backend of a chat bot's dashboard and website.

Every response is an envelope of `code`, `message` and `data`; the HTTP status equals `code`. In an error, `message` is for people and \
may change, `data.error` is a stable code for programs, and `data.request_id` identifies the request in the service's log. Only live \
streams and this document have no envelope.

A dashboard signs its user in with `POST /auth` and then sends the token it gets in the `Token` header. `HEAD` works wherever `GET` \
does. Query parameters and bodies that are not described here are ignored. IDs are strings, because they don't fit in a JavaScript \
number; times are epoch seconds.";

const TAGS: [(&str, &str); 4] = [
    ("public", "Data that anyone can read, from any page, without credentials."),
    ("dashboard", "Signing in and the signed-in user's data. Browsers can call it only from the configured origins."),
    ("bot", "The feed, through which the bot reports its guilds, premium, feedback, team and health."),
    ("operations", "For load balancers and developer tools."),
];

/// The API as an OpenAPI 3.1 document: indented JSON that ends with a newline.
pub fn document() -> String {
    let mut text = describe().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

pub(crate) fn describe() -> OpenApi {
    let license = LicenseBuilder::new().name("MIT").identifier(Some("MIT")).build();
    let info = InfoBuilder::new()
        .title("bot-companion")
        .version(Version::NAME)
        .description(Some(DESCRIPTION))
        .contact(Some(ContactBuilder::new().name(Some("The operator of the service")).build()))
        .license(Some(license));
    let mut document = OpenApiBuilder::new().info(info.build()).servers(Some(servers())).build();
    document.merge(super::routes::route_table(None).document);
    document.tags = Some(TAGS.map(tag).into());
    document::complete(&mut document);
    let token = ApiKey::Header(ApiKeyValue::with_description("Token", "The session token from `POST /auth`."));
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("bck_…")
        .description(Some("A bot key, created with `bot-companion key create`."));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("session", SecurityScheme::ApiKey(token));
    components.add_security_scheme("bot", SecurityScheme::Http(key.build()));
    document
}

fn tag((name, description): (&str, &str)) -> Tag {
    TagBuilder::new().name(name).description(Some(description)).build()
}

/// The sandbox first, so that what tools do by default harms nobody.
fn servers() -> [Server; 2] {
    let host = ServerVariableBuilder::new()
        .default_value("bot-companion.example")
        .description(Some("Your service's host name, plus its port and base path if it has them."));
    [
        ServerBuilder::new()
            .url("http://127.0.0.1:8080")
            .description(Some("The sandbox on your machine: `bot-companion dev`."))
            .build(),
        ServerBuilder::new().url("https://{host}").description(Some("Your service.")).parameter("host", host).build(),
    ]
}

/// Get this document
///
/// This OpenAPI 3.1 document, without an envelope.
#[utoipa::path(get, path = "/openapi.json", operation_id = "getOpenApiDocument", tag = "operations",
    responses((status = 200, description = "The document", body = OpenApiDocument), Refusals))]
pub(super) async fn show(headers: HeaderMap) -> Response {
    static DOCUMENT: OnceLock<CompressibleBody> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| CompressibleBody::new(document().into()));
    encoded_json(encoding::encode(document, &headers).await).into_response()
}

struct OpenApiDocument;

impl PartialSchema for OpenApiDocument {
    fn schema() -> RefOr<Schema> {
        let anything = AdditionalProperties::FreeForm(true);
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .additional_properties(Some(anything))
            .description(Some("An OpenAPI document."))
            .into()
    }
}

impl ToSchema for OpenApiDocument {}

#[cfg(test)]
mod tests {
    use api::error_responses::ErrorResponse;

    use super::super::routes::route_table;
    use super::super::zone::{RateLimitedBy, RequestBody};
    use super::*;

    /// The codes that an operation may answer with.
    fn documented(operation: &utoipa::openapi::path::Operation) -> Vec<&'static str> {
        let references = operation.responses.responses.values().filter_map(|response| match response {
            RefOr::Ref(reference) => reference.ref_location.rsplit('/').next(),
            RefOr::T(_) => None,
        });
        let named = |name| ErrorResponse::ALL.iter().find(|response| response.name() == name).unwrap();
        references.flat_map(|name| named(name).codes()).map(|code| code.name()).collect()
    }

    #[test]
    fn what_the_middleware_of_a_zone_refuses_is_documented_for_its_routes() {
        let mut table = route_table(None);
        for (path, item) in &mut table.document.paths.paths {
            let (zone, _) = table.zones.of(Some(path));
            for operation in document::operations(item) {
                let takes_body = operation.request_body.is_some();
                let codes = documented(operation);
                let expected = [
                    ("host_invalid", true),
                    ("body_broken", true),
                    ("headers_too_large", true),
                    ("internal", true),
                    ("not_found", true),
                    ("method_not_allowed", true),
                    ("overloaded", true),
                    ("rate_limited", zone.rate_limit != RateLimitedBy::Nobody),
                    ("body_too_large", zone.body == RequestBody::Drained || takes_body),
                    ("timeout", zone.body == RequestBody::Drained),
                    ("request_timeout", zone.body == RequestBody::Drained || takes_body),
                ];
                for (code, may_be) in expected {
                    assert_eq!(codes.contains(&code), may_be, "{:?}: {code}", operation.operation_id);
                }
            }
        }
    }

    #[test]
    fn every_error_response_is_used() {
        let text = document();
        for response in ErrorResponse::ALL {
            let reference = format!("\"#/components/responses/{}\"", response.name());
            assert!(text.contains(&reference), "{response:?}");
        }
    }
}
