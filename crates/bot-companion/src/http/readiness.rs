//! `GET /ready`: whether a balancer may send requests to this process.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;

use super::error::ApiError;
use super::respond::{Success, json};
use crate::api::envelope::{self, Envelope};
use crate::api::error::ErrorCode;
use crate::api::readiness::{READY, Readiness};
use crate::api::refusals::Refusals;
use crate::app::App;

/// Where it is; the pipeline lets balancers ask here as often as they like.
pub(super) const PATH: &str = "/ready";
/// After this a process that was restarted may be there again.
const COMES_BACK: Duration = Duration::from_secs(5);

/// Readiness
///
/// For load balancers: 200 while this process takes requests, 503 `draining` as soon as it was asked to stop. It says nothing about
/// the store on purpose: all replicas share it, and taking all of them out of service would help nobody.
#[utoipa::path(get, path = "/ready", operation_id = "ready", tag = "public",
    responses((status = 200, description = "Requests are taken", body = Envelope<Readiness>), Refusals))]
pub(super) async fn show(State(app): State<Arc<App>>) -> Result<Success<Readiness>, ApiError> {
    if app.is_shutting_down() { Err(ApiError::new(ErrorCode::Draining).after(COMES_BACK)) } else { Ok(Success(READY)) }
}

/// The answer without waiting for a place among the requests in work: a full house is no reason to be taken out of service.
pub(super) fn at_once(app: &App) -> Option<Response<Full<Bytes>>> {
    (!app.is_shutting_down()).then(|| json(envelope::success(&READY)))
}
