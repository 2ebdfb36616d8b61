//! Who sends a request: extractors for the session token, the bot key, and the numbers of the feed. Handlers ask for them in their
//! signatures.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::error::ErrorCode;
use axum::extract::FromRequestParts;
use domain::audit::AuditKind;
use domain::feed::{InstanceId, InstanceName};
use domain::token::{self, TokenKind};
use domain::{SessionId, Snowflake, Time, TokenHash};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use secrecy::SecretString;
use telemetry::metrics::LimitName;

use super::context::RequestContext;
use super::error::{ApiError, OVERLOAD_RETRY};
use crate::app::App;

const INSTANCE: HeaderName = HeaderName::from_static("feed-instance");
const SEQUENCE: HeaderName = HeaderName::from_static("feed-sequence");
const AFTER: HeaderName = HeaderName::from_static("feed-after");
const LAST_SEQUENCE: u64 = 1 << 62;
/// The name of the header `Token`, as HTTP/2 writes it.
pub(super) const TOKEN_NAME: &str = "token";
const TOKEN: HeaderName = HeaderName::from_static(TOKEN_NAME);

/// The session that the `Token` header belongs to.
#[derive(Clone, Debug)]
pub(super) struct UserSession {
    pub(super) id: SessionId,
    pub(super) user: Snowflake,
    pub(super) created: Time,
    pub(super) last_seen: Time,
}

impl FromRequestParts<Arc<App>> for UserSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let token = session_token(&parts.headers)?;
        let live = app.views.sessions.find(token).await?.ok_or(ErrorCode::TokenInvalid)?;
        Ok(Self { id: live.id.clone(), user: live.user, created: live.created, last_seen: live.last_seen() })
    }
}

/// The hash of the token that a request carries.
pub(super) fn session_token(headers: &HeaderMap) -> Result<TokenHash, ApiError> {
    match single(headers, &TOKEN) {
        Single::Absent => Err(ErrorCode::TokenMissing.into()),
        Single::Repeated => Err(ErrorCode::TokenInvalid.into()),
        Single::Once(text) => parse_session_token(text).ok_or_else(|| ErrorCode::TokenInvalid.into()),
    }
}

/// The hash of this session token, if it has the right format.
pub(super) fn parse_session_token(token: &[u8]) -> Option<TokenHash> {
    token::parse(TokenKind::Session, token)
}

/// The bot behind a key, which is checked before any of the body is read.
#[derive(Clone, Debug)]
pub(super) struct Bot {
    pub(super) key: Arc<str>,
    pub(super) hash: TokenHash,
    /// When the key was checked, in ticks of the clock.
    pub(super) checked: Duration,
}

impl FromRequestParts<Arc<App>> for Bot {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let context = RequestContext::from_request_parts(parts, app).await?;
        let hash = bot_key(&parts.headers);
        let cached = hash.and_then(|hash| Some((app.views.keys.cached(&hash)?, hash)));
        let found = match cached {
            Some(cached) => Ok(cached),
            None => find_uncached(app, context.client, hash).await,
        };
        match &found {
            Ok((key, _)) => app.sources.audit.key_used(key, context.origin()),
            Err(error) => app.sources.audit.refused(AuditKind::KeyRefused, context.origin(), error.code.name()),
        }
        let (key, hash) = found?;
        app.rate_limits.feed(&hash).map_err(|wait| {
            app.sources.metrics.limits.count(LimitName::FeedRequests);
            ApiError::limited(LimitName::FeedRequests, wait)
        })?;
        Ok(Self { key, hash, checked: context.ticks })
    }
}

/// Looks up a key that is not cached. Guessing must not burden the store, so the number of tries per client address is limited.
/// Beyond that, only keys on the list of valid ones are looked up, so that no bot is refused because another client at its
/// address guesses keys.
async fn find_uncached(app: &App, client: IpAddr, hash: Option<TokenHash>) -> Result<(Arc<str>, TokenHash), ApiError> {
    let allowed = app.rate_limits.unknown_key(client);
    let Ok(_permit) = app.uploads.key_lookups.try_acquire() else { return Err(feed_overloaded(app)) };
    if let Some(hash) = hash
        && (allowed.is_ok() || app.views.keys.was_valid(&hash).await?)
        && let Some(key) = app.views.keys.find(hash).await?
    {
        return Ok((key, hash));
    }
    Err(match allowed {
        Ok(()) => ApiError::new(ErrorCode::BotKeyInvalid),
        Err(wait) => {
            app.sources.metrics.limits.count(LimitName::RefusedKeys);
            ApiError::limited(LimitName::RefusedKeys, wait)
        }
    })
}

/// The error for a bot's request that gets no permit.
pub(super) fn feed_overloaded(app: &App) -> ApiError {
    app.sources.metrics.limits.count(LimitName::ConcurrentRequests);
    ApiError::new(ErrorCode::Overloaded).after(OVERLOAD_RETRY)
}

/// The hash of the bot key that a request carries.
pub(crate) fn bot_key(headers: &HeaderMap) -> Option<TokenHash> {
    let Single::Once(text) = single(headers, &AUTHORIZATION) else { return None };
    let (scheme, key) = text.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token::parse(TokenKind::BotKey, key.trim_ascii()))?
}

/// The name of the sending bot process, and the number it sends with the request.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    name: InstanceName,
    pub(super) sequence: u64,
    /// The number that it thinks the service expects next, if it says so.
    pub(super) after: Option<u64>,
}

impl Sender {
    /// The process with this bot's key.
    pub(super) fn instance(&self, bot: &Bot) -> InstanceId {
        InstanceId { key: bot.key.to_string(), name: self.name.clone() }
    }
}

impl FromRequestParts<Arc<App>> for Sender {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiError> {
        let text = |name: HeaderName| match single(&parts.headers, &name) {
            Single::Absent => Ok(None),
            Single::Once(value) => std::str::from_utf8(value).map(Some).map_err(|_| ErrorCode::FeedHeaderInvalid),
            Single::Repeated => Err(ErrorCode::FeedHeaderInvalid),
        };
        let number = |text: &str| {
            let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            // The store counts up from here in signed numbers.
            let number =
                digits.and_then(|text| text.parse().ok()).filter(|number| (1..=LAST_SEQUENCE).contains(number));
            number.ok_or(ErrorCode::FeedHeaderInvalid)
        };
        let name = text(INSTANCE)?.and_then(InstanceName::parse).ok_or(ErrorCode::FeedHeaderInvalid)?;
        let sequence = number(text(SEQUENCE)?.unwrap_or_default())?;
        Ok(Self { name, sequence, after: text(AFTER)?.map(number).transpose()? })
    }
}

/// A header that may appear once.
pub(super) enum Single<'a> {
    /// Not sent, or empty.
    Absent,
    Once(&'a [u8]),
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

/// The only value of a header that contains a secret in this format; `Err` if it has another format.
pub(super) fn secret(
    headers: &HeaderMap,
    name: &HeaderName,
    is_well_formed: impl FnOnce(&[u8]) -> bool,
) -> Result<Option<SecretString>, ()> {
    match single(headers, name) {
        Single::Absent => Ok(None),
        Single::Once(value) if is_well_formed(value) => {
            Ok(Some(SecretString::from(String::from_utf8_lossy(value).into_owned())))
        }
        Single::Once(_) | Single::Repeated => Err(()),
    }
}

/// The context created by the middleware.
impl FromRequestParts<Arc<App>> for RequestContext {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiError> {
        parts
            .extensions
            .get()
            .cloned()
            .ok_or_else(|| ApiError::new(ErrorCode::Internal).because(&"a request without a context"))
    }
}
