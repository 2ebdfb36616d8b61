//! `POST /auth` signs in, `DELETE /auth` signs out.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::State;
use http::{HeaderMap, HeaderName, header};
use secrecy::ExposeSecret;

use super::context::RequestContext;
use super::error::ApiError;
use super::extract::{self, UserSession};
use super::respond::Success;
use crate::accounts::SignInAttempt;
use crate::api::auth::NewSession;
use crate::api::envelope::{Envelope, Nothing};
use crate::api::error::ErrorCode;
use crate::api::refusals::{IdpRefusals, Refusals, SignInRefusals, TokenRefusals};
use crate::app::App;

const CODE: HeaderName = HeaderName::from_static("idp-code");
const VERIFIER: HeaderName = HeaderName::from_static("idp-code-verifier");

/// Sign in
///
/// Turns a code from the identity provider into a new session. A code works once. After `idp_rate_limited`, and after
/// `idp_unavailable` with `Retry-After`, the same code may be sent again once that time is over; after any other failure it
/// takes a new one.
#[utoipa::path(post, path = "/auth", operation_id = "signIn", tag = "dashboard",
    params(("Idp-Code" = String, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$",
            description = "The identity provider's OAuth 2.0 code."),
        ("Idp-Code-Verifier" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$",
            description = "PKCE's `code_verifier`, if the code was asked for with a challenge.")),
    responses((status = 200, description = "Signed in", body = Envelope<NewSession>), SignInRefusals, IdpRefusals, Refusals))]
pub(super) async fn sign_in(
    State(app): State<Arc<App>>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Success<NewSession>, ApiError> {
    let attempt = attempt(&app, &headers, context.client)?;
    let signed_in = app.accounts.sign_in(attempt, |user| app.views.sessions.last_uses(user)).await?;
    Ok(Success(NewSession { token: signed_in.token.expose_secret().to_owned(), user: signed_in.user.into() }))
}

/// Sign out
///
/// Ends the session of the token.
#[utoipa::path(delete, path = "/auth", operation_id = "signOut", tag = "dashboard", security(("session" = [])),
    responses((status = 200, description = "Signed out", body = Envelope<Nothing>), TokenRefusals, Refusals))]
pub(super) async fn sign_out(State(app): State<Arc<App>>, session: UserSession) -> Result<Success<Nothing>, ApiError> {
    // Another request may have ended it meanwhile; it is over either way.
    app.accounts.end_session(session.user, session.id).await?;
    Ok(Success(Nothing {}))
}

fn attempt(app: &App, headers: &HeaderMap, client: IpAddr) -> Result<SignInAttempt, ApiError> {
    let code = extract::secret(headers, &CODE).map_err(|()| ErrorCode::IdpCodeMalformed)?;
    let verifier = extract::secret(headers, &VERIFIER).map_err(|()| ErrorCode::IdpCodeVerifierMalformed)?;
    // An empty one means that the page has lost its verifier; without it the provider would only say that the code is bad.
    if verifier.is_none() && headers.contains_key(VERIFIER) {
        return Err(ErrorCode::IdpCodeVerifierMalformed.into());
    }
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let agent = headers.get(header::USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
    Ok(SignInAttempt {
        code: code.ok_or(ErrorCode::IdpCodeMissing)?,
        verifier,
        redirect_uri: app.config.idp.redirect_uri_for(origin).unwrap_or_default().to_owned(),
        agent: agent.unwrap_or_default(),
        client,
    })
}
