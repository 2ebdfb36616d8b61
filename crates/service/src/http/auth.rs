//! `/auth`: `GET` says how to sign in, `POST` signs in, `DELETE` signs out.

use std::net::IpAddr;
use std::sync::Arc;

use api::auth::{NewSession, SignInOptions};
use api::envelope::{self, Nothing};
use api::error::ErrorCode;
use api::error_responses::{IdpRefusals, Refusals, SignInRefusals, TokenRefusals};
use api::user::UserData;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::audit::AuditKind;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use provider::idp::{Provider, SCOPE};
use secrecy::ExposeSecret;
use telemetry::metrics::{LimitName, SignInOutcome};

use super::context::RequestContext;
use super::cors;
use super::credentials::{self, UserSession};
use super::error::{ApiError, OVERLOAD_RETRY};
use super::respond::{Success, json};
use super::sessions::run_to_completion;
use crate::accounts::SignInAttempt;
use crate::app::App;
use crate::config::IdpConfig;

const CODE: HeaderName = HeaderName::from_static("idp-code");
const VERIFIER: HeaderName = HeaderName::from_static("idp-code-verifier");
const REDIRECT_URI: HeaderName = HeaderName::from_static("idp-redirect-uri");

/// Get the sign-in parameters
///
/// What a dashboard needs to send a user to the identity provider. With it, the same build works with the sandbox and in
/// production. The redirect address is the one for the page's own origin.
#[utoipa::path(get, path = "/auth", operation_id = "getSignInOptions", tag = "dashboard",
    responses((status = 200, description = "Where to send the user", body = SignInOptions), Refusals))]
pub(super) async fn options(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let idp = &app.config.idp;
    let body = envelope::success(&SignInOptions {
        authorize_url: &idp.authorize_url,
        client_id: &idp.client_id,
        scope: SCOPE,
        redirect_uri: redirect_uri_of_page(idp, &headers).unwrap_or_default(),
    });
    json(body).into_response()
}

/// Sign in
///
/// Exchanges a code from the identity provider for a new session. A code works once. After `idp_rate_limited`, or
/// `idp_unavailable` with `Retry-After`, wait that long and send the same code again. After any other failure, get a new code.
#[utoipa::path(post, path = "/auth", operation_id = "signIn", tag = "dashboard",
    params(("Idp-Code" = String, Header, min_length = 1, max_length = 512, pattern = "^[0-9A-Za-z._~-]+$",
            description = "The identity provider's OAuth 2.0 code."),
        ("Idp-Code-Verifier" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[0-9A-Za-z._~-]+$",
            description = "PKCE's `code_verifier`, if the code was requested with a challenge."),
        ("Idp-Redirect-Uri" = Option<String>, Header,
            description = "For servers: the redirect address the code was requested with, one of those in the service's `idp.redirect_uri`. Not needed if there is only one. A page's `Origin` takes precedence.")),
    responses((status = 200, description = "Signed in", body = NewSession),
        Refusals, IdpRefusals, SignInRefusals))]
pub(super) async fn sign_in(
    State(app): State<Arc<App>>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Success<NewSession>, ApiError> {
    check_places(&app, 1)?;
    let attempt = attempt(&app, &headers, context.client)?;
    let signed_in = app.accounts.sign_in(attempt, |user| app.views.sessions.last_uses(user)).await;
    let signed_in = signed_in?;
    app.sources.audit.of_user(AuditKind::SignIn, signed_in.user.id, context.origin(), "");
    let user = UserData::new(signed_in.user, &app.sources.pictures);
    Ok(Success(NewSession { token: signed_in.token.expose_secret().to_owned(), user }))
}

/// Sign out
///
/// Ends this session and no other.
#[utoipa::path(delete, path = "/auth", operation_id = "signOut", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "Signed out", body = Nothing), Refusals, TokenRefusals))]
pub(super) async fn sign_out(
    State(app): State<Arc<App>>,
    context: RequestContext,
    session: UserSession,
) -> Result<Success<Nothing>, ApiError> {
    // Another request may have ended it in the meantime; it is over either way.
    let ending = Arc::clone(&app);
    run_to_completion(&app, async move {
        ending.accounts.end_session(session.user, session.id).await?;
        ending.sources.audit.of_user(AuditKind::SignedOut, session.user, context.origin(), "this session");
        Ok(Success(Nothing {}))
    })
    .await
}

/// Refuses a sign-in before looking at it, if that takes no work. Refusals must be nearly free, or they would take time from
/// those who are not refused.
pub(super) fn try_refuse(app: &App, client: IpAddr) -> Option<ApiError> {
    check_places(app, 0).err().or_else(|| app.accounts.try_refuse(client).map(Into::into))
}

/// Sign-ins may use most of the request permits but never all, so that visitors of the website find one. `held` are the
/// caller's.
fn check_places(app: &App, held: usize) -> Result<(), ApiError> {
    let kept_free = app.current.get().limits.concurrent_requests / 8;
    if app.request_permits.available_permits() + held > kept_free {
        return Ok(());
    }
    app.sources.metrics.limits.count(LimitName::ConcurrentRequests);
    app.sources.metrics.sign_ins.count(SignInOutcome::Overloaded);
    Err(ApiError::new(ErrorCode::Overloaded).after(OVERLOAD_RETRY))
}

fn attempt(app: &App, headers: &HeaderMap, client: IpAddr) -> Result<SignInAttempt, ApiError> {
    let code = credentials::secret(headers, &CODE, Provider::may_be_code).map_err(|()| ErrorCode::IdpCodeMalformed)?;
    let verifier = credentials::secret(headers, &VERIFIER, Provider::may_be_verifier)
        .map_err(|()| ErrorCode::IdpCodeVerifierMalformed)?;
    // An empty one means that the page lost its verifier; without this check, the provider would only say that the code is bad.
    if verifier.is_none() && headers.contains_key(VERIFIER) {
        return Err(ErrorCode::IdpCodeVerifierMalformed.into());
    }
    let agent = headers.get(header::USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
    Ok(SignInAttempt {
        code: code.ok_or(ErrorCode::IdpCodeMissing)?,
        verifier,
        redirect_uri: redirect_uri(&app.config.idp, headers)?,
        agent: agent.unwrap_or_default(),
        client,
    })
}

/// The redirect address that a sign-in's code was requested with. A page is identified by its origin; a server, which has none,
/// may name the address.
fn redirect_uri(idp: &IdpConfig, headers: &HeaderMap) -> Result<String, ApiError> {
    let named = headers.get(REDIRECT_URI).filter(|_| !headers.contains_key(header::ORIGIN));
    let known = match named {
        Some(name) => idp.redirect_uri_named(name.as_bytes()),
        None => Some(redirect_uri_of_page(idp, headers).unwrap_or_default()),
    };
    known.map(str::to_owned).ok_or_else(|| ApiError::redirect_uri_unknown(idp.redirect_uri.len()))
}

/// The redirect address for the page that asks.
fn redirect_uri_of_page<'a>(idp: &'a IdpConfig, headers: &HeaderMap) -> Option<&'a str> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        // Pages of the service's own site send no origin.
        (None, Some(host)) if cors::is_same_origin(headers) => idp.redirect_uri_at(host),
        (origin, _) => idp.redirect_uri_for(origin),
    }
}
