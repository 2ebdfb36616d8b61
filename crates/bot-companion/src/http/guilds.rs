//! `GET /guilds`: the guilds that the session's user is in and that have the bot.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::Full;

use super::error::ApiError;
use super::extract::UserSession;
use super::respond::json;
use crate::api::envelope::Envelope;
use crate::api::guilds::GuildData;
use crate::api::refusals::{IdpRefusals, Refusals, TokenRefusals};
use crate::app::App;
use crate::views::guilds::GuildsResponse;

/// Guilds
///
/// All guilds that the session's user is in and that have the bot, by role (Owner first), then name. The provider's list behind it
/// may be up to an hour old while the provider does not work; the header `Age` tells. Send `Cache-Control: no-cache` to ask the
/// provider first, at most once in 10 seconds.
#[utoipa::path(get, path = "/guilds", operation_id = "guilds", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "The guilds", body = Envelope<Vec<GuildData>>,
            headers(("Age" = u64, description = "Seconds since the provider's list was fetched"))),
        TokenRefusals, IdpRefusals, Refusals))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    session: UserSession,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let cached = app.views.guilds.get(session.user, wants_fresh(&headers)).await?;
    Ok(respond(&cached, cached.age(app.clock.now())).into_response())
}

/// The response with its age.
pub(super) fn respond(cached: &GuildsResponse, age: Duration) -> http::Response<Full<Bytes>> {
    let mut response = json(cached.body.clone());
    response.headers_mut().insert(header::AGE, HeaderValue::from(age.as_secs()));
    response
}

/// Whether the client asks for a list that is fetched now.
pub(super) fn wants_fresh(headers: &HeaderMap) -> bool {
    let directives = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    directives.flat_map(|value| value.split(',')).any(|directive| directive.trim().eq_ignore_ascii_case("no-cache"))
}
