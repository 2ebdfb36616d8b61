//! `/guilds`: the guilds that the session's user shares with the bot, one of them, and those it could be added to.

use std::sync::Arc;
use std::time::Duration;

use api::error::ErrorCode;
use api::error_responses::{GuildNotFound, IdpRefusals, Refusals, TokenRefusals};
use api::guilds::{GuildData, InvitableGuildData};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::{Snowflake, Time};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::Full;

use super::credentials::UserSession;
use super::encoding::{self, EncodedBody};
use super::error::ApiError;
use super::hot_request::{self, HotHeaders};
use super::hot_response::{HotBody, HotEncoding};
use super::respond::encoded_json;
use crate::app::App;
use crate::views::compressible::CompressibleBody;
use crate::views::guilds::{GuildsResponse, Listing};

/// List your guilds
///
/// The user's guilds that have the bot, ordered by role (Owner first) and name. While the provider is down, its list may be up to
/// an hour old; the `Age` header says how old it is. Send `Cache-Control: no-cache` to refresh it first, at most once every 10
/// seconds.
#[utoipa::path(get, path = "/guilds", operation_id = "listGuilds", tag = "dashboard", security(("session" = [])),
    params(("Cache-Control" = Option<String>, Header, example = "no-cache",
            description = "`no-cache` refreshes the list from the identity provider first, at most once every 10 seconds per user.")),
    responses((status = 200, description = "The guilds", body = Vec<GuildData>,
            headers(("Age" = u64))),
        Refusals, TokenRefusals, IdpRefusals))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    session: UserSession,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    respond_list(&app, Listing::WithBot, &session, &headers).await
}

/// Get one guild
///
/// One entry of `GET /guilds`. If the guild is unknown, doesn't have the bot or isn't one of the user's, it is not found; the response
/// does not say which. A backend that saves a guild's settings can check its caller's token with this, with
/// `Cache-Control: no-cache` before important changes.
#[utoipa::path(get, path = "/guilds/{id}", operation_id = "getGuild", tag = "dashboard", security(("session" = [])),
    params(("id" = String, Path, example = "871203344918732833", description = "The guild's ID."),
        ("Cache-Control" = Option<String>, Header, example = "no-cache",
            description = "`no-cache` refreshes the list from the identity provider first, at most once every 10 seconds per user.")),
    responses((status = 200, description = "The guild", body = GuildData,
            headers(("Age" = u64))),
        Refusals, GuildNotFound, TokenRefusals, IdpRefusals))]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    session: UserSession,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id: Option<Snowflake> = id.ok().and_then(|Path(id)| id.parse().ok());
    // A list is fetched even for an invalid ID, so that the response time reveals nothing.
    let cached = app.views.guilds.get(Listing::WithBot, session.user, wants_refresh(&headers)).await?;
    let body = id.and_then(|id| cached.list.one(id)).ok_or(ErrorCode::GuildNotFound)?;
    let body = encoding::encode(&CompressibleBody::new(body), &headers).await;
    Ok(respond(body, cached.age(app.sources.clock.now())).into_response())
}

/// List guilds to add the bot to
///
/// The guilds the user can manage that don't have the bot yet, ordered by name, each with the provider's page for adding the bot.
#[utoipa::path(get, path = "/guilds/invitable", operation_id = "listInvitableGuilds", tag = "dashboard",
    security(("session" = [])),
    params(("Cache-Control" = Option<String>, Header, example = "no-cache",
            description = "`no-cache` refreshes the list from the identity provider first, at most once every 10 seconds per user.")),
    responses((status = 200, description = "The guilds", body = Vec<InvitableGuildData>,
            headers(("Age" = u64))),
        Refusals, TokenRefusals, IdpRefusals))]
pub(super) async fn invitable(
    State(app): State<Arc<App>>,
    session: UserSession,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    respond_list(&app, Listing::Invitable, &session, &headers).await
}

async fn respond_list(
    app: &App,
    listing: Listing,
    session: &UserSession,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let cached = app.views.guilds.get(listing, session.user, wants_refresh(headers)).await?;
    let body = encoding::encode(&cached.body, headers).await;
    Ok(respond(body, cached.age(app.sources.clock.now())).into_response())
}

/// The whole list for the fast path, if no work is left.
pub(super) fn try_respond(cached: &GuildsResponse, now: Time, asked: &HotHeaders<'_>) -> Option<HotBody> {
    let EncodedBody { bytes, is_gzip } = encoding::try_encode_hot(&cached.body, asked)?;
    let encoding = if is_gzip { HotEncoding::Gzip } else { HotEncoding::Plain };
    Some(HotBody { encoding, age: Some(cached.age(now).as_secs()), ..HotBody::fixed(bytes) })
}

/// A response with the age of the provider's list.
fn respond(body: EncodedBody, age: Duration) -> http::Response<Full<Bytes>> {
    let mut response = encoded_json(body);
    response.headers_mut().insert(header::AGE, HeaderValue::from(age.as_secs()));
    response
}

/// Whether the client asks for a fresh list.
pub(super) fn wants_refresh(headers: &HeaderMap) -> bool {
    headers.get_all(header::CACHE_CONTROL).iter().any(|value| names_no_cache(value.as_bytes()))
}

/// Whether this `Cache-Control` asks for it.
pub(super) fn names_no_cache(value: &[u8]) -> bool {
    let mut directives = hot_request::text(value).unwrap_or_default().split(',');
    directives.any(|directive| directive.trim().eq_ignore_ascii_case("no-cache"))
}
