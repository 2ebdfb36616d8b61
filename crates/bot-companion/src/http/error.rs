//! What can go wrong, as the client is told.
//!
//! Which error belongs where: `store::StoreError` says that the store failed, `idp::IdpError` that the provider did,
//! `accounts::SignInError` and `accounts::ListError` why a sign-in or a list did not come about. Only [`ApiError`] becomes a
//! response. It keeps the public sentence apart from the internal cause, which is logged once, when the response is written.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use super::envelope::{Details, ErrorData, Refusal};
use crate::accounts::{ListError, SignInError};
use crate::idp::{IdpError, IdpErrorKind};
use crate::store::StoreError;

/// An answer that is not a success.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(super) status: StatusCode,
    /// Stable, to program against.
    pub(super) code: &'static str,
    /// One sentence that says what to do.
    message: &'static str,
    retry_after: Option<Duration>,
    /// Boxed: few errors have any, and all of them travel by value.
    details: Option<Box<Details>>,
    /// For the log only.
    pub(super) cause: Option<String>,
}

macro_rules! errors {
    ($($name:ident: $status:ident, $code:literal, $message:literal;)+) => {
        impl ApiError {
            $(pub(super) const fn $name() -> Self {
                Self { status: StatusCode::$status, code: $code, message: $message, retry_after: None, details: None, cause: None }
            })+
        }
    };
}

errors! {
    idp_code_missing: BAD_REQUEST, "idp_code_missing", "Send the code from the identity provider in the header `Idp-Code`.";
    idp_code_malformed: BAD_REQUEST, "idp_code_malformed", "Send the header `Idp-Code` once, with at most 512 visible ASCII characters.";
    idp_code_verifier_malformed: BAD_REQUEST, "idp_code_verifier_malformed", "Send the header `Idp-Code-Verifier` once, with 1 to 512 visible ASCII characters, or leave it out.";
    idp_code_rejected: UNAUTHORIZED, "idp_code_rejected", "The identity provider refused the code; it may be used or expired. Start the sign-in again.";
    scope_missing: FORBIDDEN, "scope_missing", "Ask the user for the scopes `identify` and `guilds`, and sign in again.";
    token_missing: UNAUTHORIZED, "token_missing", "Send the session token in the header `Token`.";
    token_invalid: UNAUTHORIZED, "token_invalid", "The session token is not valid, or no longer. Sign in again.";
    user_blocked: FORBIDDEN, "user_blocked", "This user may not sign in. Contact the bot's team.";
    idp_rate_limited: SERVICE_UNAVAILABLE, "idp_rate_limited", "The identity provider is limiting requests. Try again after the time in `Retry-After`.";
    idp_unavailable: BAD_GATEWAY, "idp_unavailable", "The identity provider is not working right now. Try again later.";
    idp_timeout: GATEWAY_TIMEOUT, "idp_timeout", "The identity provider did not answer in time. Try again later.";
    idp_misconfigured: BAD_GATEWAY, "idp_misconfigured", "The service is not set up correctly at the identity provider. Tell its operator.";
    rate_limited: TOO_MANY_REQUESTS, "rate_limited", "Too many requests. Try again after the time in `Retry-After`.";
    overloaded: SERVICE_UNAVAILABLE, "overloaded", "The service is overloaded. Try again after the time in `Retry-After`.";
    store_unavailable: SERVICE_UNAVAILABLE, "store_unavailable", "The service cannot reach its data right now. Try again after the time in `Retry-After`.";
    draining: SERVICE_UNAVAILABLE, "draining", "This process of the service is stopping. Send requests to another one, or try again after the time in `Retry-After`.";
    timeout: SERVICE_UNAVAILABLE, "timeout", "The request took too long. Try again after the time in `Retry-After`.";
    not_found: NOT_FOUND, "not_found", "Nothing is at this path. See `/openapi.json` for what there is.";
    method_not_allowed: METHOD_NOT_ALLOWED, "method_not_allowed", "This path does not take this method. See the header `Allow` for those it takes.";
    session_not_found: NOT_FOUND, "session_not_found", "You have no session with this id. See `GET /sessions` for yours.";
    host_invalid: BAD_REQUEST, "host_invalid", "Send the header `Host` once, with the name and perhaps the port of this service. In `dev` it answers to loopback names only, such as `localhost`.";
    body_broken: BAD_REQUEST, "body_broken", "The body broke off or is not framed as HTTP asks. Send the request again, with `Content-Length` or `Transfer-Encoding: chunked`.";
    body_too_large: PAYLOAD_TOO_LARGE, "body_too_large", "Send no body, or at most 64 KiB.";
    bot_key_invalid: UNAUTHORIZED, "bot_key_invalid", "Send a bot key that is not revoked in the header `Authorization`, after `Bearer `. Make one with `bot-companion key create`.";
    feed_header_invalid: BAD_REQUEST, "feed_header_invalid", "Send the header `Feed-Instance` with 1 to 64 letters, digits, `_` or `-`, and `Feed-Sequence` with a whole number from 1.";
    encoding_unsupported: UNSUPPORTED_MEDIA_TYPE, "encoding_unsupported", "Send the body as it is, or with `Content-Encoding: gzip`.";
    resync_required: CONFLICT, "resync_required", "Events are missing before these, or the snapshot of their shard. Send the snapshots anew, with `next` as their sequence.";
    snapshot_outdated: CONFLICT, "snapshot_outdated", "This snapshot was overtaken. Take it anew, with `next` as its sequence.";
    snapshot_busy: TOO_MANY_REQUESTS, "snapshot_busy", "This snapshot, or four others, are being received right now. Try again after the time in `Retry-After`.";
    line_invalid: UNPROCESSABLE_ENTITY, "line_invalid", "A line cannot be taken, and nothing was applied. See `line` and `reason`.";
    feed_body_too_large: PAYLOAD_TOO_LARGE, "body_too_large", "Send at most 10,000 lines and 16 MiB at once, and 1 MiB in a heartbeat; a snapshot may have as much as the service's `feed.snapshot_bytes`.";
    headers_too_large: REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", "Send at most 64 headers with at most 16 KiB in all.";
    internal: INTERNAL_SERVER_ERROR, "internal", "Something went wrong on our side. Report the `request_id` to the operator.";
}

impl ApiError {
    /// With a hint when to come back.
    pub(super) fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// With the number of the event that the service waits for.
    pub(super) fn with_next(mut self, next: u64) -> Self {
        self.details = Some(Box::new(Details { next: Some(next), ..Details::default() }));
        self
    }

    /// A line that cannot be taken, and why.
    pub(super) fn line(line: u64, reason: &impl ToString) -> Self {
        let details = Details { next: None, line: Some(line), reason: Some(reason.to_string()) };
        Self { details: Some(Box::new(details)), ..Self::line_invalid() }
    }

    /// With its internal cause, for the log.
    pub(super) fn because(mut self, cause: &impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Whether it says that it is unclear where the next request on the connection would begin.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self.code, "host_invalid" | "body_broken")
    }

    /// The envelope of this error, as bytes.
    pub(super) fn body(&self, request_id: &str) -> Vec<u8> {
        let data = ErrorData {
            error: self.code,
            request_id: request_id.to_owned(),
            details: self.details.as_deref().cloned(),
        };
        let envelope = Refusal { code: self.status.as_u16(), message: self.message, data };
        serde_json::to_vec(&envelope).unwrap_or_default()
    }
}

/// The body needs the request's id, which only the pipeline knows: the error travels there in the response's extensions.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(wait) = self.retry_after {
            // Rounded up, and never 0: a client that obeys must not come back too early.
            let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if matches!(self.code, "token_missing" | "token_invalid") {
            let challenge = HeaderValue::from_static("Session header=\"Token\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if self.code == "bot_key_invalid" {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code == "encoding_unsupported" {
            response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

const STORE_RETRY: Duration = Duration::from_secs(2);

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) | StoreError::Busy(_) => {
                Self::store_unavailable().after(STORE_RETRY).because(&error)
            }
            StoreError::Failed(_) => Self::internal().because(&error),
        }
    }
}

impl From<IdpError> for ApiError {
    fn from(error: IdpError) -> Self {
        match error.kind {
            // The wait tells whoever signs in that the same code is good for another try; that must be so.
            IdpErrorKind::CircuitOpen(wait) if !error.code_spent => Self::idp_unavailable().after(wait),
            IdpErrorKind::Rejected
            | IdpErrorKind::Unauthorized
            | IdpErrorKind::Refused
            | IdpErrorKind::Unavailable
            | IdpErrorKind::CircuitOpen(_) => Self::idp_unavailable(),
            IdpErrorKind::RateLimited(wait) | IdpErrorKind::BackingOff(wait) => Self::idp_rate_limited().after(wait),
            IdpErrorKind::Timeout => Self::idp_timeout(),
            IdpErrorKind::Misconfigured => Self::idp_misconfigured(),
        }
        .because(&error)
    }
}

impl From<SignInError> for ApiError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Rejected => Self::idp_code_rejected(),
            SignInError::ScopeMissing => Self::scope_missing(),
            SignInError::Blocked => Self::user_blocked(),
            SignInError::Limited(wait) => Self::rate_limited().after(wait),
            SignInError::Overloaded(wait) => Self::overloaded().after(wait),
            SignInError::Idp(error) => error.into(),
            SignInError::Store(error) => error.into(),
            SignInError::Crashed => Self::internal().because(&error),
        }
    }
}

impl From<ListError> for ApiError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::SignedOut => Self::token_invalid(),
            ListError::Idp(error) => error.into(),
            ListError::Store(error) => error.into(),
        }
    }
}
