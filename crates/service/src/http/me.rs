//! `GET /me`: who is signed in.

use std::sync::Arc;

use api::error::ErrorCode;
use api::error_responses::{Refusals, TokenRefusals};
use api::me::{CurrentSession, Me};
use axum::extract::State;

use super::credentials::UserSession;
use super::error::ApiError;
use super::respond::Success;
use crate::app::App;

/// Get the signed-in user
///
/// The user as of their last sign-in, the session and when it expires, and the permissions the team roster grants the user.
#[utoipa::path(get, path = "/me", operation_id = "getMe", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "The user and the session", body = Me), Refusals, TokenRefusals))]
pub(super) async fn show(State(app): State<Arc<App>>, session: UserSession) -> Result<Success<Me>, ApiError> {
    let known = app.views.me.get(session.user).await?.ok_or(ErrorCode::TokenInvalid)?;
    let expires = app.config.sessions.end(session.created, session.last_seen);
    let current = CurrentSession::new(&session.id, session.created, session.last_seen, expires);
    Ok(Success(Me::new(known.user.clone(), current, known.team)))
}
