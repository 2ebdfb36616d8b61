//! `GET /team`: who maintains the bot.

use std::sync::Arc;

use api::error_responses::{Refusals, StoreRefusals};
use api::team::TeamMemberData;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body_util::Full;

use super::error::ApiError;
use super::etag;
use crate::app::App;

const CACHING: HeaderValue = HeaderValue::from_static("public, max-age=60, stale-while-revalidate=300");

/// Get the team
///
/// The team that maintains the bot, by category, then position, then name.
#[utoipa::path(get, path = "/team", operation_id = "getTeam", tag = "public",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the answer that you have.")),
    responses((status = 200, description = "The team", body = Vec<TeamMemberData>, headers(("ETag" = String))),
        (status = 304, description = "What you have still holds", headers(("ETag" = String))),
        Refusals, StoreRefusals))]
pub(super) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let cached = app.views.team.get().await?;
    Ok(etag::respond(&cached, CACHING, &headers).await.into_response())
}

/// The response, if it is cached and nothing is left to do.
pub(super) fn try_respond(app: &App, headers: &HeaderMap) -> Option<http::Response<Full<Bytes>>> {
    let cached = app.views.team.cached()?;
    etag::try_respond(&cached, CACHING, headers)
}
