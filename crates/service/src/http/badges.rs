//! `/badge/`: badges as SVG and JSON, which any site can show.

use std::sync::Arc;

use api::error::ErrorCode;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::context::RequestContext;
use super::error::ApiError;
use super::pages::NOTHING_LOADED;
use crate::app::App;
use crate::site::badge::Badge;

const CACHING: HeaderValue = HeaderValue::from_static("public, max-age=60");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The badge with this file name.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    context: RequestContext,
    Path(file): Path<String>,
) -> Result<Response, ApiError> {
    let (name, extension) = file.rsplit_once('.').ok_or(ErrorCode::NotFound)?;
    let facts = app.views.site.get().await?;
    let state = app.site.observe(&facts.health, context.time).map(|seen| seen.state);
    let badge = Badge::named(name, &facts, state, context.time).ok_or(ErrorCode::NotFound)?;
    let (media_type, body) = match extension {
        "svg" => ("image/svg+xml", badge.svg().into_bytes()),
        "json" => ("application/json", badge.json()),
        _ => return Err(ErrorCode::NotFound.into()),
    };
    let headers = HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, CACHING),
        (header::CONTENT_SECURITY_POLICY, NOTHING_LOADED),
        (RESOURCE_POLICY, HeaderValue::from_static("cross-origin")),
    ]);
    Ok((headers, body).into_response())
}
