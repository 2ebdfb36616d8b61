//! `/sessions`: lists and ends the user's own sessions.

use std::sync::Arc;

use api::envelope::Nothing;
use api::error::ErrorCode;
use api::error_responses::{Refusals, SessionNotFound, TokenRefusals};
use api::sessions::SessionData;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain::SessionId;
use domain::audit::AuditKind;

use super::context::RequestContext;
use super::credentials::UserSession;
use super::error::ApiError;
use super::respond::Success;
use crate::app::App;

/// List your sessions
///
/// The user's sessions, newest first.
#[utoipa::path(get, path = "/sessions", operation_id = "listSessions", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "The sessions", body = Vec<SessionData>), Refusals, TokenRefusals))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    session: UserSession,
) -> Result<Success<Vec<SessionData>>, ApiError> {
    let sessions = app.views.sessions.of(session.user).await?;
    let is_own = |other: &SessionId| *other == session.id;
    Ok(Success(sessions.into_iter().map(|found| SessionData::new(is_own(&found.id), found)).collect()))
}

/// End all your sessions
///
/// Signs the user out everywhere. This also ends the calling session.
#[utoipa::path(delete, path = "/sessions", operation_id = "endAllSessions", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "All ended", body = Nothing), Refusals, TokenRefusals))]
pub(super) async fn end_all(
    State(app): State<Arc<App>>,
    context: RequestContext,
    session: UserSession,
) -> Result<Success<Nothing>, ApiError> {
    let ending = Arc::clone(&app);
    run_to_completion(&app, async move {
        ending.accounts.end_sessions(session.user).await?;
        ending.sources.audit.of_user(AuditKind::SignedOut, session.user, context.origin(), "all sessions");
        Ok(Success(Nothing {}))
    })
    .await
}

/// End one of your sessions
///
/// Ends one of the user's sessions, for example on a lost device.
#[utoipa::path(delete, path = "/sessions/{id}", operation_id = "endSession", tag = "dashboard", security(("session" = [])),
    params(("id" = String, Path, example = "5Txg0sEHwN9s0CHB", description = "The session's ID, from `GET /sessions`.")),
    responses((status = 200, description = "Ended", body = Nothing), Refusals, SessionNotFound, TokenRefusals))]
pub(super) async fn end_one(
    State(app): State<Arc<App>>,
    context: RequestContext,
    session: UserSession,
    id: Result<Path<String>, PathRejection>,
) -> Result<Success<Nothing>, ApiError> {
    let id = id.ok().and_then(|Path(id)| SessionId::parse(&id)).ok_or(ErrorCode::SessionNotFound)?;
    let ending = Arc::clone(&app);
    run_to_completion(&app, async move {
        if !ending.accounts.end_session(session.user, id).await? {
            return Err(ErrorCode::SessionNotFound.into());
        }
        ending.sources.audit.of_user(AuditKind::SignedOut, session.user, context.origin(), "another session");
        Ok(Success(Nothing {}))
    })
    .await
}

/// Runs the work in the background and waits for it, so that the audit log has ended sessions even if the client hangs up.
pub(super) async fn run_to_completion<T: Send + 'static>(
    app: &App,
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let ended = app.sources.background.spawn(work).await;
    ended.unwrap_or_else(|error| Err(ApiError::new(ErrorCode::Internal).because(&error)))
}
