//! `GET /team`: who maintains the bot.

use std::sync::Arc;

use api::error_responses::{Refusals, StoreRefusals};
use api::team::TeamMemberData;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue};

use super::error::ApiError;
use super::etag;
use crate::app::App;

pub(super) const CACHING: &str = "public, max-age=60, stale-while-revalidate=300";

/// Get the team
///
/// The team that maintains the bot, ordered by category, position and name.
#[utoipa::path(get, path = "/team", operation_id = "getTeam", tag = "public",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the response you have.")),
    responses((status = 200, description = "The team", body = Vec<TeamMemberData>, headers(("ETag" = String))),
        (status = 304, description = "Not changed since", headers(("ETag" = String))),
        Refusals, StoreRefusals))]
pub(super) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let cached = app.views.team.get().await?;
    Ok(etag::respond(&cached, HeaderValue::from_static(CACHING), &headers).await.into_response())
}
