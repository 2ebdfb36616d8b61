//! `GET /team`: who maintains the bot.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::Full;

use super::error::ApiError;
use super::respond::json;
use crate::api::envelope::Envelope;
use crate::api::refusals::Refusals;
use crate::api::team::TeamMemberData;
use crate::app::App;
use crate::views::team::TeamResponse;

const CACHING: HeaderValue = HeaderValue::from_static("public, max-age=60, stale-while-revalidate=300");

/// Team
///
/// The team that maintains the bot, by category, then position, then name.
#[utoipa::path(get, path = "/team", operation_id = "team", tag = "public",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of the answer that you have.")),
    responses((status = 200, description = "The team", body = Envelope<Vec<TeamMemberData>>, headers(("ETag" = String))),
        (status = 304, description = "What you have still holds"), Refusals))]
pub(super) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let cached = app.views.team.get().await?;
    Ok(respond(&cached, &headers).into_response())
}

/// The response, or a 304 if what the client has is still valid.
pub(super) fn respond(cached: &TeamResponse, headers: &HeaderMap) -> http::Response<Full<Bytes>> {
    let unchanged = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| matches_etag(known, &cached.etag));
    let mut response = if unchanged {
        let mut response = http::Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        json(cached.body.clone())
    };
    response.headers_mut().insert(header::CACHE_CONTROL, CACHING);
    if let Ok(etag) = HeaderValue::from_str(&cached.etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Whether an `If-None-Match` names this tag. The comparison is weak, as the header's rules say.
fn matches_etag(known: &HeaderValue, etag: &str) -> bool {
    let known = known.to_str().unwrap_or_default();
    known.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
