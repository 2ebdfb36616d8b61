//! `GET /live` and `GET /me/live`: streams that say what to reload.

use std::sync::Arc;
use std::time::Duration;

use api::error::ErrorCode;
use api::error_responses::{LiveRefusals, Refusals, TokenRefusals, UserLiveRefusals};
use api::live::{Changes, UserChanges};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use runtime::concurrency::LimitReached;
use telemetry::metrics::LimitName;

use super::context::RequestContext;
use super::credentials::{self, UserSession};
use super::error::ApiError;
use crate::app::App;
use crate::live::{LiveError, StreamOwner};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Otherwise nginx would buffer the events.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO: HeaderValue = HeaderValue::from_static("no");
/// When a client that was refused should come back.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Stream changes
///
/// Server-Sent Events that tell you what to fetch again: `event: changed` with the topics `status`, `team`, `feedback` and `stats`. The
/// first event names all of them. The stream carries no data itself, so you miss nothing when you reconnect. There is at most one
/// event per second, and a comment every 15 seconds. It doesn't end by itself. The schema describes the data of an event.
#[utoipa::path(get, path = "/live", operation_id = "streamChanges", tag = "public",
    responses((status = 200, description = "A stream of events", body = Changes, content_type = "text/event-stream"),
        Refusals, LiveRefusals))]
pub(super) async fn public(State(app): State<Arc<App>>, context: RequestContext) -> Result<Response, ApiError> {
    open(&app, &context, None).await
}

/// Stream the user's changes
///
/// Like `GET /live`, with the topics `guilds`, `sessions` and `me` as well. It doesn't count as using the session, and it ends with
/// the session, after `event: ended`. A browser's `EventSource` can't send the `Token` header: read the stream with `fetch`.
#[utoipa::path(get, path = "/me/live", operation_id = "streamMyChanges", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "A stream of events", body = UserChanges, content_type = "text/event-stream"),
        Refusals, TokenRefusals, UserLiveRefusals))]
pub(super) async fn of_user(
    State(app): State<Arc<App>>,
    context: RequestContext,
    headers: HeaderMap,
    session: UserSession,
) -> Result<Response, ApiError> {
    let token = credentials::session_token(&headers)?;
    open(&app, &context, Some(StreamOwner { id: session.id, token, user: session.user })).await
}

async fn open(app: &App, context: &RequestContext, session: Option<StreamOwner>) -> Result<Response, ApiError> {
    let client = app.rate_limits.client_key(context.client);
    let body = app.live.open(client, session, app.sources.random.number()).await.map_err(refusal)?;
    let headers = [(header::CONTENT_TYPE, EVENT_STREAM), (BUFFERING, NO)];
    Ok((headers, axum::body::Body::new(body)).into_response())
}

fn refusal(error: LiveError) -> ApiError {
    match error {
        LiveError::Limit(LimitReached::PerClient) => ApiError::limited(LimitName::LivePerAddress, RETRY_AFTER),
        LiveError::Limit(LimitReached::InAll) => ApiError::new(ErrorCode::Overloaded).after(RETRY_AFTER),
        LiveError::Stopping => ApiError::new(ErrorCode::Draining).after(RETRY_AFTER),
        LiveError::SessionEnded => ErrorCode::TokenInvalid.into(),
        LiveError::Store(error) => error.into(),
    }
}
