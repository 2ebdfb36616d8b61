//! Which errors a path may answer with, for the OpenAPI document: one type per group of paths.

use utoipa::IntoResponses;

use super::error::Refusal;

/// What any path may answer.
#[derive(IntoResponses)]
pub enum Refusals {
    /// `host_invalid`, `body_broken`; of a sign-in also `idp_code_missing`, `idp_code_malformed`, `idp_code_verifier_malformed`, `redirect_uri_unknown`; of a numbered body of the bot also `feed_header_invalid`
    #[response(status = 400)]
    BadRequest(Refusal),
    /// `body_too_large`
    #[response(status = 413)]
    BodyTooLarge(Refusal),
    /// `rate_limited`; where a snapshot is taken, `snapshot_busy` too
    #[response(status = 429, headers(("Retry-After" = u64)))]
    RateLimited(Refusal),
    /// `headers_too_large`
    #[response(status = 431)]
    HeadersTooLarge(Refusal),
    /// `internal`
    #[response(status = 500)]
    Internal(Refusal),
    /// `overloaded`, `store_unavailable`, `timeout`; where the identity provider is asked, `idp_rate_limited` too; of `/ready`, `draining`
    #[response(status = 503, headers(("Retry-After" = u64)))]
    Unavailable(Refusal),
}

/// What a path with a session may answer.
#[derive(IntoResponses)]
pub enum TokenRefusals {
    /// `token_missing`, `token_invalid`
    #[response(status = 401, headers(("WWW-Authenticate" = String)))]
    Unauthorized(Refusal),
}

/// What a sign-in may answer.
#[derive(IntoResponses)]
pub enum SignInRefusals {
    /// `idp_code_rejected`
    #[response(status = 401)]
    Unauthorized(Refusal),
    /// `scope_missing`, `user_blocked`
    #[response(status = 403)]
    Forbidden(Refusal),
}

/// What a path that asks the identity provider may answer.
#[derive(IntoResponses)]
pub enum IdpRefusals {
    /// `idp_unavailable`, `idp_misconfigured`. With `Retry-After` the provider was not asked, because it failed too often: a code that was sent is not used up, and may be sent again after that time
    #[response(status = 502, headers(("Retry-After" = u64)))]
    BadGateway(Refusal),
    /// `idp_timeout`
    #[response(status = 504)]
    GatewayTimeout(Refusal),
}

/// What a path that names a session may answer.
#[derive(IntoResponses)]
pub enum SessionNotFound {
    /// `session_not_found`
    #[response(status = 404)]
    NotFound(Refusal),
}

/// What a path that names a guild may answer.
#[derive(IntoResponses)]
pub enum GuildNotFound {
    /// `guild_not_found`: unknown, without the bot, or not the user's
    #[response(status = 404)]
    NotFound(Refusal),
}

/// What a path with a bot's key may answer.
#[derive(IntoResponses)]
pub enum BotRefusals {
    /// `bot_key_invalid`
    #[response(status = 401, headers(("WWW-Authenticate" = String)))]
    Unauthorized(Refusal),
}

/// What a path that names a shard may answer.
#[derive(IntoResponses)]
pub enum ShardNotFound {
    /// `not_found`: there can be no such shard
    #[response(status = 404)]
    NotFound(Refusal),
}

/// What a path that takes a body may answer.
#[derive(IntoResponses)]
pub enum UploadRefusals {
    /// `encoding_unsupported`
    #[response(status = 415, headers(("Accept-Encoding" = String)))]
    EncodingUnsupported(Refusal),
    /// `line_invalid`, with `line` and `reason`
    #[response(status = 422)]
    LineInvalid(Refusal),
}

/// What a path with numbered bodies may answer.
#[derive(IntoResponses)]
pub enum FeedRefusals {
    /// `resync_required`, `snapshot_outdated`, with `next`
    #[response(status = 409)]
    Conflict(Refusal),
}
