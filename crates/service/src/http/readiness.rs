//! `GET /ready`: whether a balancer may send requests to this process.

use std::sync::Arc;
use std::time::Duration;

use api::envelope;
use api::error::ErrorCode;
use api::error_responses::ReadinessRefusals;
use api::readiness::{READY, Readiness};
use axum::extract::State;

use super::error::ApiError;
use super::hot_response::HotBody;
use super::respond::Success;
use crate::app::App;

/// How long a restarting process may take to come back.
const RESTART_TIME: Duration = Duration::from_secs(5);

/// Check readiness
///
/// For load balancers: 200 while this process accepts requests, 503 `draining` once it is shutting down. It deliberately ignores
/// the store: all replicas share it, so taking them all out of service would not help.
#[utoipa::path(get, path = "/ready", operation_id = "getReadiness", tag = "operations",
    responses((status = 200, description = "Ready", body = Readiness), ReadinessRefusals))]
pub(super) async fn show(State(app): State<Arc<App>>) -> Result<Success<Readiness>, ApiError> {
    if app.is_shutting_down() {
        Err(ApiError::new(ErrorCode::Draining).after(RESTART_TIME))
    } else {
        Ok(Success(READY))
    }
}

/// The response without a permit: a busy service must not be taken out of rotation.
pub(super) fn try_respond(app: &App) -> Option<HotBody> {
    (!app.is_shutting_down()).then(|| HotBody::fixed(envelope::success(&READY)))
}
