//! `GET /stats`: how much there is of everything.

use std::sync::Arc;

use api::error_responses::{Refusals, StoreRefusals};
use api::stats::StatsData;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body_util::Full;

use super::error::ApiError;
use super::etag;
use crate::app::App;

/// A browser may keep it and must ask whether it is still right.
const CACHING: HeaderValue = HeaderValue::from_static("no-cache");

/// Get the totals
///
/// How many guilds have the bot, how many members they have together, how many shards the bot has, and what the feedback comes to.
/// Right after the bot has changed its number of shards, guilds and members may be those from before, for some seconds.
#[utoipa::path(get, path = "/stats", operation_id = "getStats", tag = "public",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the answer that you have.")),
    responses((status = 200, description = "The totals", body = StatsData, headers(("ETag" = String))),
        (status = 304, description = "What you have still holds", headers(("ETag" = String))),
        Refusals, StoreRefusals))]
pub(super) async fn show(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let cached = app.views.stats.get().await?;
    Ok(etag::respond(&cached, CACHING, &headers).await.into_response())
}

/// The response, if it is cached and nothing is left to do.
pub(super) fn try_respond(app: &App, headers: &HeaderMap) -> Option<http::Response<Full<Bytes>>> {
    let cached = app.views.stats.cached()?;
    etag::try_respond(&cached, CACHING, headers)
}
