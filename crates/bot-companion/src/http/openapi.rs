//! `GET /openapi.json`: the API's description, made from the handlers.

use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{InfoBuilder, License, OpenApiBuilder};
use utoipa::{IntoResponses, OpenApi};

use super::envelope::{Details, ErrorData, Refusal, json};
use crate::version::Version;

/// The API as an OpenAPI 3.1 document, indented, with a line's end.
pub fn document() -> String {
    let (_, paths) = super::routes().split_for_parts();
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
pub(super) async fn show() -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    json(DOCUMENT.get_or_init(|| document().into()).clone()).into_response()
}

#[derive(OpenApi)]
#[openapi(components(schemas(Refusal, ErrorData, Details)))]
struct Shared;

/// What any path may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum Refusals {
    /// `host_invalid`, `body_broken`; of a sign-in also `idp_code_missing`, `idp_code_malformed`, `idp_code_verifier_malformed`; of a numbered body of the bot also `feed_header_invalid`
    #[response(status = 400)]
    BadRequest(Refusal),
    /// `body_too_large`
    #[response(status = 413)]
    BodyTooLarge(Refusal),
    /// `rate_limited`; where a snapshot is taken, `snapshot_busy` too
    #[response(status = 429, headers(("Retry-After" = u64)))]
    RateLimited(Refusal),
    /// `headers_too_large`
    #[response(status = 431)]
    HeadersTooLarge(Refusal),
    /// `internal`
    #[response(status = 500)]
    Internal(Refusal),
    /// `overloaded`, `store_unavailable`, `timeout`; where the identity provider is asked, `idp_rate_limited` too; of `/ready`, `draining`
    #[response(status = 503, headers(("Retry-After" = u64)))]
    Unavailable(Refusal),
}

/// What a path with a session may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum TokenRefusals {
    /// `token_missing`, `token_invalid`
    #[response(status = 401, headers(("WWW-Authenticate" = String)))]
    Unauthorized(Refusal),
}

/// What a sign-in may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum SignInRefusals {
    /// `idp_code_rejected`
    #[response(status = 401)]
    Unauthorized(Refusal),
    /// `scope_missing`, `user_blocked`
    #[response(status = 403)]
    Forbidden(Refusal),
}

/// What a path that asks the identity provider may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum IdpRefusals {
    /// `idp_unavailable`, `idp_misconfigured`. With `Retry-After` the provider was not asked, because it failed too often: a code that was sent is not used up, and may be sent again after that time
    #[response(status = 502, headers(("Retry-After" = u64)))]
    BadGateway(Refusal),
    /// `idp_timeout`
    #[response(status = 504)]
    GatewayTimeout(Refusal),
}

/// What a path that names a session may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum SessionNotFound {
    /// `session_not_found`
    #[response(status = 404)]
    NotFound(Refusal),
}

/// What a path with a bot's key may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum BotRefusals {
    /// `bot_key_invalid`
    #[response(status = 401, headers(("WWW-Authenticate" = String)))]
    Unauthorized(Refusal),
}

/// What a path that names a shard may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum ShardNotFound {
    /// `not_found`: there can be no such shard
    #[response(status = 404)]
    NotFound(Refusal),
}

/// What a path that takes a body may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum UploadRefusals {
    /// `encoding_unsupported`
    #[response(status = 415, headers(("Accept-Encoding" = String)))]
    EncodingUnsupported(Refusal),
    /// `line_invalid`, with `line` and `reason`
    #[response(status = 422)]
    LineInvalid(Refusal),
}

/// What a path with numbered bodies may answer.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "read by the derive only")]
pub(super) enum FeedRefusals {
    /// `resync_required`, `snapshot_outdated`, with `next`
    #[response(status = 409)]
    Conflict(Refusal),
}
