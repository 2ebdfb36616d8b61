//! `/sessions`: a user's own sessions, to look at and to end.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::envelope::{Envelope, Nothing, Success};
use super::error::ApiError;
use super::extract::Session;
use super::openapi::{Refusals, SessionNotFound, TokenRefusals};
use crate::app::App;
use crate::domain::SessionId;

/// One login of the user.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionEntry {
    /// Its name, for `DELETE /sessions/{id}`; it is no token.
    #[schema(value_type = String)]
    id: SessionId,
    /// When it began, epoch seconds.
    created: u64,
    /// When it was last used, epoch seconds; may lag by a minute.
    last_seen: u64,
    /// The client's `User-Agent`, cut to 256 bytes.
    user_agent: String,
    /// Whether it is the one that asks.
    current: bool,
}

/// Own sessions
///
/// Every session of the user, newest first.
#[utoipa::path(get, path = "/sessions", operation_id = "sessions", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "The sessions", body = Envelope<Vec<SessionEntry>>), TokenRefusals, Refusals))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    session: Session,
) -> Result<Success<Vec<SessionEntry>>, ApiError> {
    let sessions = app.views.sessions.of(session.user).await?;
    let entries = sessions.into_iter().map(|found| SessionEntry {
        current: found.id == session.id,
        id: found.id,
        created: found.created.seconds(),
        last_seen: found.last_seen.seconds(),
        user_agent: found.agent,
    });
    Ok(Success(entries.collect()))
}

/// Sign out everywhere
///
/// Ends every session of the user, the one that asks too.
#[utoipa::path(delete, path = "/sessions", operation_id = "endSessions", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "All ended", body = Envelope<Nothing>), TokenRefusals, Refusals))]
pub(super) async fn end_all(State(app): State<Arc<App>>, session: Session) -> Result<Success<Nothing>, ApiError> {
    app.accounts.end_sessions(session.user).await?;
    Ok(Success(Nothing {}))
}

/// End one session
///
/// Ends one session of the user.
#[utoipa::path(delete, path = "/sessions/{id}", operation_id = "endSession", tag = "dashboard", security(("session" = [])),
    params(("id" = String, Path, description = "From `GET /sessions`.")),
    responses((status = 200, description = "Ended", body = Envelope<Nothing>), SessionNotFound, TokenRefusals, Refusals))]
pub(super) async fn end_one(
    State(app): State<Arc<App>>,
    session: Session,
    id: Result<Path<String>, PathRejection>,
) -> Result<Success<Nothing>, ApiError> {
    let id = id.ok().and_then(|Path(id)| SessionId::parse(&id)).ok_or_else(ApiError::session_not_found)?;
    if app.accounts.end_session(session.user, id).await? {
        Ok(Success(Nothing {}))
    } else {
        Err(ApiError::session_not_found())
    }
}
