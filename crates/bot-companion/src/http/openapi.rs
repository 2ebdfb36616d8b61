//! `GET /openapi.json`: the API's description, made from the handlers.

use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{InfoBuilder, License, OpenApiBuilder};

use super::encoding;
use super::respond::encoded_json;
use crate::api::error::{Details, ErrorData, Refusal};
use crate::api::refusals::Refusals;
use crate::version::Version;
use crate::views::compressible::CompressibleBody;

/// The API as an OpenAPI 3.1 document: indented JSON that ends with a newline.
pub fn document() -> String {
    let paths = super::routes().document;
    let info = InfoBuilder::new()
        .title("bot-companion")
        .version(Version::NAME)
        .description(Some(
            "The backend of a chat bot's dashboard and website. Every answer is an envelope of `code`, `message` and `data`, \
             and the HTTP status equals `code`. Only this document, `/openapi.json`, comes as it is.",
        ))
        .license(Some(License::new("MIT")));
    let mut document = OpenApiBuilder::new().info(info.build()).build();
    document.merge(paths);
    // Responses that are shared between paths do not bring their schemas along by themselves.
    document.merge(Shared::openapi());
    let scheme = ApiKey::Header(ApiKeyValue::with_description("Token", "The session token of `POST /auth`."));
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("bck_…")
        .description(Some("A bot's key, made with `bot-companion key create`."));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("session", SecurityScheme::ApiKey(scheme));
    components.add_security_scheme("bot", SecurityScheme::Http(bearer.build()));
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// This document
///
/// What the API offers, in OpenAPI 3.1.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "public",
    responses((status = 200, description = "The document", body = serde_json::Value), Refusals))]
pub(super) async fn show(headers: HeaderMap) -> Response {
    static DOCUMENT: OnceLock<CompressibleBody> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| CompressibleBody::new(document().into()));
    encoded_json(encoding::encode(document, &headers).await).into_response()
}

#[derive(OpenApi)]
#[openapi(components(schemas(Refusal, ErrorData, Details)))]
struct Shared;
