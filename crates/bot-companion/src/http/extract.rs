//! What handlers ask for in their signatures.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use secrecy::SecretString;

use super::arrival::Arrival;
use super::error::ApiError;
use crate::app::App;
use crate::domain::token::{self, TokenKind};
use crate::domain::{SessionId, Snowflake, TokenHash};

const TOKEN: HeaderName = HeaderName::from_static("token");

/// The session behind the header `Token`.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) user: Snowflake,
}

impl FromRequestParts<Arc<App>> for Session {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let token = session_token(&parts.headers)?;
        let live = app.views.sessions.find(token).await?.ok_or_else(ApiError::token_invalid)?;
        Ok(Self { id: live.id.clone(), user: live.user })
    }
}

/// The hash of the token that a request carries.
pub(super) fn session_token(headers: &HeaderMap) -> Result<TokenHash, ApiError> {
    match single(headers, &TOKEN) {
        Single::Absent => Err(ApiError::token_missing()),
        Single::Repeated => Err(ApiError::token_invalid()),
        Single::Once(text) => token::parse(TokenKind::Session, text).ok_or_else(ApiError::token_invalid),
    }
}

/// A header that may come once.
pub(super) enum Single<'a> {
    /// Not sent, or empty.
    Absent,
    /// Sent once.
    Once(&'a [u8]),
    /// Sent more than once.
    Repeated,
}

/// The only value of a header.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Single<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) if !value.is_empty() => Single::Once(value.as_bytes()),
        (None, _) | (Some(_), None) => Single::Absent,
        (Some(_), Some(_)) => Single::Repeated,
    }
}

/// The only value of a header that holds a secret of at most 512 visible ASCII characters; `Err` if it has another shape.
pub(super) fn secret(headers: &HeaderMap, name: &HeaderName) -> Result<Option<SecretString>, ()> {
    match single(headers, name) {
        Single::Absent => Ok(None),
        Single::Once(value) if value.len() <= 512 && value.iter().all(u8::is_ascii_graphic) => {
            Ok(Some(SecretString::from(String::from_utf8_lossy(value).into_owned())))
        }
        Single::Once(_) | Single::Repeated => Err(()),
    }
}

/// The arrival that the pipeline noted.
impl FromRequestParts<Arc<App>> for Arrival {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiError> {
        parts.extensions.get().cloned().ok_or_else(|| ApiError::internal().because(&"a request without an arrival"))
    }
}
