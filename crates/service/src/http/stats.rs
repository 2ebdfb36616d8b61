//! `GET /stats`: totals.

use std::sync::Arc;

use api::error_responses::{Refusals, StoreRefusals};
use api::stats::StatsData;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue};

use super::error::ApiError;
use super::etag;
use crate::app::App;

/// A browser may keep it but must revalidate it.
pub(super) const CACHING: &str = "no-cache";

/// Get the totals
///
/// How many guilds have the bot, how many members they have in total, how many shards the bot has, and the number and average of
/// all ratings. When the bot changes its number of shards, guilds and members may lag behind for a few seconds.
#[utoipa::path(get, path = "/stats", operation_id = "getStats", tag = "public",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the response you have.")),
    responses((status = 200, description = "The totals", body = StatsData, headers(("ETag" = String))),
        (status = 304, description = "Not changed since", headers(("ETag" = String))),
        Refusals, StoreRefusals))]
pub(super) async fn show(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let cached = app.views.stats.get().await?;
    Ok(etag::respond(&cached, HeaderValue::from_static(CACHING), &headers).await.into_response())
}
