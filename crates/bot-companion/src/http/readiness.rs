//! `GET /ready`: whether a balancer may send requests to this process.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde::Serialize;
use utoipa::ToSchema;

use super::envelope::{Envelope, Success, json, success};
use super::error::ApiError;
use super::openapi::Refusals;
use crate::app::App;

/// Where it is; the pipeline lets balancers ask here as often as they like.
pub(super) const PATH: &str = "/ready";
/// After this a process that was restarted may be there again.
const COMES_BACK: Duration = Duration::from_secs(5);

/// What a process that takes requests says.
#[derive(Serialize, ToSchema)]
pub(super) struct Readiness {
    /// Always `ready`; a process that is not answers with an error.
    #[schema(pattern = "^ready$")]
    status: &'static str,
}

const READY: Readiness = Readiness { status: "ready" };

/// Readiness
///
/// For load balancers: 200 while this process takes requests, 503 `draining` as soon as it was asked to stop. It says nothing about
/// the store on purpose: all replicas share it, and taking all of them out of service would help nobody.
#[utoipa::path(get, path = "/ready", operation_id = "ready", tag = "public",
    responses((status = 200, description = "Requests are taken", body = Envelope<Readiness>), Refusals))]
pub(super) async fn show(State(app): State<Arc<App>>) -> Result<Success<Readiness>, ApiError> {
    if app.is_shutting_down() { Err(ApiError::draining().after(COMES_BACK)) } else { Ok(Success(READY)) }
}

/// The answer without waiting for a place among the requests in work: a full house is no reason to be taken out of service.
pub(super) fn at_once(app: &App) -> Option<Response<Full<Bytes>>> {
    (!app.is_shutting_down()).then(|| json(success(READY)))
}
