//! Errors on their way to a client, from what went wrong internally to a response. The codes and messages are in `api::error`.
//!
//! `store::StoreError` says that the store failed, `idp::IdpError` that the provider did, and `accounts::SignInError` and
//! `accounts::ListError` say why there is no session or list. Only [`ApiError`] becomes a response. It keeps the public message
//! apart from the internal cause, which is logged once, when the response is written.

use std::time::Duration;

use api::error::{self, BadLine, Details, ErrorCode};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use provider::idp::{IdpError, IdpErrorKind};
use store::StoreError;
use telemetry::metrics::LimitName;

use crate::accounts::{ListError, SignInError};
use crate::floods::FloodKind;

/// When a client that was refused because of load should come back.
pub(super) const OVERLOAD_RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(super) code: ErrorCode,
    retry_after: Option<Duration>,
    /// Boxed, because few errors have details and all are passed by value.
    details: Option<Box<Details>>,
    /// The flood it belongs to, if the code does not tell.
    pub(super) flood: Option<FloodKind>,
    /// For the log only.
    pub(super) cause: Option<String>,
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}

impl ApiError {
    pub(super) const fn new(code: ErrorCode) -> Self {
        Self { code, retry_after: None, details: None, flood: None, cause: None }
    }

    pub(super) fn limited(limit: LimitName, wait: Duration) -> Self {
        Self { flood: Some(FloodKind::Limit(limit)), ..Self::new(ErrorCode::RateLimited).after(wait) }
    }

    /// With a hint on when to come back.
    pub(super) fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// With the number of the event that the service expects next.
    pub(super) fn with_next(mut self, next: u64) -> Self {
        self.details = Some(Box::new(Details { next: Some(next), ..Details::default() }));
        self
    }

    /// A redirect address that isn't one of the `configured` ones.
    pub(super) fn redirect_uri_unknown(configured: usize) -> Self {
        let details = Details { configured: Some(configured as u64), ..Details::default() };
        Self { details: Some(Box::new(details)), ..Self::new(ErrorCode::RedirectUriUnknown) }
    }

    /// A line that cannot be accepted, and why.
    pub(super) fn line(line: u64, reason: &impl ToString) -> Self {
        Self::lines(vec![BadLine { line, reason: reason.to_string() }])
    }

    /// Lines that cannot be accepted; at least one.
    pub(super) fn lines(lines: Vec<BadLine>) -> Self {
        let (line, reason) = lines.first().map(|first| (first.line, first.reason.clone())).unzip();
        let details = Details { line, reason, lines: Some(lines), ..Details::default() };
        Self { details: Some(Box::new(details)), ..Self::new(ErrorCode::LineInvalid) }
    }

    /// With its internal cause, for the log.
    pub(super) fn because(mut self, cause: &impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Whether nobody can tell where the next request on the connection would begin.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self.code, ErrorCode::HostInvalid | ErrorCode::BodyBroken | ErrorCode::RequestTimeout)
    }

    /// When to come back, for `Retry-After`. Rounded up and never 0, so that obedient clients do not come back too early.
    pub(super) fn retry_seconds(&self) -> Option<u64> {
        let wait = self.retry_after?;
        Some((wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1))
    }

    pub(super) fn body(&self, request_id: &str) -> Vec<u8> {
        error::body(self.code, request_id, self.retry_seconds(), self.details.as_deref())
    }
}

/// The body needs the request's ID, which only the middleware knows, so the error travels there in the response's extensions.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        if let Some(seconds) = self.retry_seconds() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some((name, Some(value))) = self.code.header() {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response.extensions_mut().insert(self);
        response
    }
}

const STORE_RETRY: Duration = Duration::from_secs(2);

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) | StoreError::Busy(_) | StoreError::Damaged(_) => {
                Self::new(ErrorCode::StoreUnavailable).after(STORE_RETRY).because(&error)
            }
            StoreError::Failed(_) => Self::new(ErrorCode::Internal).because(&error),
        }
    }
}

impl From<IdpError> for ApiError {
    fn from(error: IdpError) -> Self {
        match error.kind {
            // A wait tells the client that it may send the same code again, so that must be true.
            IdpErrorKind::CircuitOpen(wait) if !error.code_spent => Self::new(ErrorCode::IdpUnavailable).after(wait),
            IdpErrorKind::Rejected
            | IdpErrorKind::Unauthorized
            | IdpErrorKind::Refused
            | IdpErrorKind::Unavailable
            | IdpErrorKind::CircuitOpen(_) => Self::new(ErrorCode::IdpUnavailable),
            IdpErrorKind::RateLimited(_) | IdpErrorKind::BackingOff(_) if error.code_spent => {
                Self::new(ErrorCode::IdpUnavailable)
            }
            IdpErrorKind::RateLimited(wait) | IdpErrorKind::BackingOff(wait) => {
                Self::new(ErrorCode::IdpRateLimited).after(wait)
            }
            IdpErrorKind::Timeout => Self::new(ErrorCode::IdpTimeout),
            IdpErrorKind::Misconfigured => Self::new(ErrorCode::IdpMisconfigured),
            IdpErrorKind::RedirectRefused => Self::new(ErrorCode::IdpRedirectRefused),
        }
        .because(&error)
    }
}

impl From<SignInError> for ApiError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Rejected => Self::new(ErrorCode::IdpCodeRejected),
            SignInError::ScopeMissing => Self::new(ErrorCode::ScopeMissing),
            SignInError::Blocked => Self::new(ErrorCode::UserBlocked),
            SignInError::Limited(limit, wait) => Self::limited(limit, wait),
            SignInError::Overloaded(wait) => Self::new(ErrorCode::Overloaded).after(wait),
            SignInError::Idp(error) => error.into(),
            SignInError::Store(error) => error.into(),
            SignInError::Crashed => Self::new(ErrorCode::Internal).because(&error),
        }
    }
}

impl From<ListError> for ApiError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::SignedOut => Self::new(ErrorCode::TokenInvalid),
            ListError::Idp(error) => error.into(),
            ListError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_only_if_the_same_code_may_be_sent_after_it() {
        let wait = Duration::from_secs(3);
        let waits = [
            (IdpErrorKind::RateLimited(wait), ErrorCode::IdpRateLimited),
            (IdpErrorKind::BackingOff(wait), ErrorCode::IdpRateLimited),
            (IdpErrorKind::CircuitOpen(wait), ErrorCode::IdpUnavailable),
        ];
        for (kind, code) in waits {
            let told = |code_spent| {
                let error = ApiError::from(IdpError { kind, code_spent, detail: String::new() });
                (error.code, error.retry_after)
            };
            assert_eq!(told(false), (code, Some(wait)), "{kind:?}");
            assert_eq!(told(true), (ErrorCode::IdpUnavailable, None), "{kind:?}");
        }
    }
}
