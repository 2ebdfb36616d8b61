//! The web's side: which path leads where, and what every request goes through on its way.

mod arrival;
mod auth;
mod cors;
mod error;
mod extract;
mod feed;
mod feedback;
mod framing;
mod guilds;
mod openapi;
mod pipeline;
mod readiness;
mod ready;
mod respond;
mod sessions;
mod status;
mod team;

use std::sync::Arc;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use arrival::Peer;
pub use openapi::document;
pub use pipeline::{Body, Web};

use crate::api::error::ErrorCode;
use crate::app::App;
use error::ApiError;

/// The whole route table.
fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        // The public website, without credentials.
        .routes(routes!(status::show))
        .routes(routes!(team::list))
        .routes(routes!(feedback::list))
        // The dashboard: sign in, then everything with the header `Token`.
        .routes(routes!(auth::sign_in, auth::sign_out))
        .routes(routes!(guilds::list))
        .routes(routes!(sessions::list, sessions::end_all))
        .routes(routes!(sessions::end_one))
        // The bot, with its key.
        .routes(routes!(feed::heartbeat))
        .routes(routes!(feed::guilds))
        .routes(routes!(feed::subscriptions))
        .routes(routes!(feed::events))
        .routes(routes!(feed::state))
        // For balancers.
        .routes(routes!(readiness::show))
        // For whoever writes a client.
        .routes(routes!(openapi::show))
}

fn router(app: Arc<App>) -> Router {
    let (router, _) = routes().split_for_parts();
    router.fallback(async || ApiError::new(ErrorCode::NotFound)).with_state(app)
}
