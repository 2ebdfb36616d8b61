//! `GET /feedback`: five random entries of good feedback.

use std::sync::Arc;

use api::error_responses::{Refusals, StoreRefusals};
use api::feedback::FeedbackData;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::respond::json;
use crate::app::App;

/// List some feedback
///
/// Up to five entries with 4 or 5 stars, picked at random for each call.
#[utoipa::path(get, path = "/feedback", operation_id = "listFeedback", tag = "public",
    responses((status = 200, description = "Some feedback", body = Vec<FeedbackData>), Refusals, StoreRefusals))]
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    Ok(json(app.views.feedback.draw(app.sources.random.number()).await?).into_response())
}
