//! Errors as clients see them: the table of error codes, and the envelope of an error.

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use telemetry::metrics::ServerError;
use utoipa::ToSchema;

macro_rules! error_codes {
    ($($code:ident: $status:ident, $name:literal, $message:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorCode { $($code),+ }

        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// The HTTP status.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$code => StatusCode::$status),+ }
            }

            /// The stable name, to program against.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name),+ }
            }

            /// What happened and what to do, for people. If the wait may be known, the message ends in "later"; see `told`.
            pub const fn message(self) -> &'static str {
                match self { $(Self::$code => $message),+ }
            }
        }
    };
}

error_codes! {
    IdpCodeMissing: BAD_REQUEST, "idp_code_missing", "Send the code from the identity provider in the `Idp-Code` header.";
    IdpCodeMalformed: BAD_REQUEST, "idp_code_malformed", "Send the `Idp-Code` header once, exactly as the identity provider issued it, with at most 512 characters.";
    IdpCodeVerifierMalformed: BAD_REQUEST, "idp_code_verifier_malformed", "Send the `Idp-Code-Verifier` header once, with 1 to 512 letters, digits or `-._~`, or leave it out.";
    RedirectUriUnknown: BAD_REQUEST, "redirect_uri_unknown", "Set the `Idp-Redirect-Uri` header to one of the addresses in the service's `idp.redirect_uri`, character for character, or leave it out. `configured` is how many there are.";
    IdpCodeRejected: UNAUTHORIZED, "idp_code_rejected", "The identity provider refused the code; it may have expired or been used already. Start the sign-in again.";
    ScopeMissing: FORBIDDEN, "scope_missing", "Ask the user for the scopes `identify` and `guilds`, then sign in again.";
    TokenMissing: UNAUTHORIZED, "token_missing", "Send the session token in the `Token` header.";
    TokenInvalid: UNAUTHORIZED, "token_invalid", "The session token is invalid or has expired. Sign in again.";
    UserBlocked: FORBIDDEN, "user_blocked", "This user is not allowed to sign in. Contact the bot's team.";
    IdpRateLimited: SERVICE_UNAVAILABLE, "idp_rate_limited", "The identity provider is limiting our requests. Try again later.";
    IdpUnavailable: BAD_GATEWAY, "idp_unavailable", "The identity provider is unavailable right now. Try again later.";
    IdpTimeout: GATEWAY_TIMEOUT, "idp_timeout", "The identity provider took too long to respond. Try again later.";
    IdpMisconfigured: BAD_GATEWAY, "idp_misconfigured", "The service is not set up correctly with the identity provider. Contact its operator.";
    IdpRedirectRefused: BAD_GATEWAY, "idp_misconfigured", "The identity provider refused the redirect address. Three addresses must match, character for character: the `redirect_uri` in your link to the authorize page, the one `GET /auth` returns for your page's `Origin`, and one of those registered with the provider.";
    RateLimited: TOO_MANY_REQUESTS, "rate_limited", "Too many requests. Try again later.";
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "The service is overloaded. Try again later.";
    StoreUnavailable: SERVICE_UNAVAILABLE, "store_unavailable", "The service can't reach its data right now. Try again later.";
    Draining: SERVICE_UNAVAILABLE, "draining", "This instance of the service is shutting down. Send requests to another one, or try again later.";
    Timeout: SERVICE_UNAVAILABLE, "timeout", "The request took too long. Try again later.";
    RequestTimeout: REQUEST_TIMEOUT, "request_timeout", "The request took too long to arrive. Send it again on a new connection.";
    NotFound: NOT_FOUND, "not_found", "There is nothing at this path. `/openapi.json` lists the routes.";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed", "This path doesn't support this method. The `Allow` header lists those it supports.";
    SessionNotFound: NOT_FOUND, "session_not_found", "You have no session with this ID. `GET /sessions` lists yours.";
    GuildNotFound: NOT_FOUND, "guild_not_found", "None of your guilds with the bot has this ID. `GET /guilds` lists them.";
    HostInvalid: BAD_REQUEST, "host_invalid", "Send the `Host` header once, with this service's name and, if needed, its port. `dev` only answers to loopback names like `localhost`.";
    BodyBroken: BAD_REQUEST, "body_broken", "The body is incomplete, or its framing is not valid HTTP. Send the request again, with `Content-Length` or `Transfer-Encoding: chunked`.";
    BodyTooLarge: PAYLOAD_TOO_LARGE, "body_too_large", "Send no body, or at most 64 KiB.";
    BotKeyInvalid: UNAUTHORIZED, "bot_key_invalid", "Send a valid bot key as `Authorization: Bearer <key>`. Create one with `bot-companion key create`.";
    FeedHeaderInvalid: BAD_REQUEST, "feed_header_invalid", "Send the `Feed-Instance` header with 1 to 64 letters, digits, `_` or `-`, and `Feed-Sequence` with a whole number of at least 1.";
    EncodingUnsupported: UNSUPPORTED_MEDIA_TYPE, "encoding_unsupported", "Send the body uncompressed or with `Content-Encoding: gzip`.";
    ResyncRequired: CONFLICT, "resync_required", "Events before these are missing, or their shard has no snapshot. Send new snapshots, with `next` as their sequence.";
    SnapshotOutdated: CONFLICT, "snapshot_outdated", "This snapshot is out of date. Send a new one, with `next` as its sequence.";
    SnapshotBusy: TOO_MANY_REQUESTS, "snapshot_busy", "The service is already receiving this snapshot, or four others. Try again later.";
    LineInvalid: UNPROCESSABLE_ENTITY, "line_invalid", "Some lines were rejected, and nothing was applied. See `lines`.";
    FeedBodyTooLarge: PAYLOAD_TOO_LARGE, "body_too_large", "Send at most 10,000 lines and 16 MiB at a time, and at most 1 MiB in a heartbeat. A snapshot may be up to 4 GiB, decompressed.";
    HeadersTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", "Send at most 64 headers, 16 KiB in total.";
    Internal: INTERNAL_SERVER_ERROR, "internal", "Something went wrong on our side. Report the `request_id` to the operator.";
}

pub(super) const SESSION_CHALLENGE: &str = "Session header=\"Token\"";

impl ErrorCode {
    /// Which of our own failures it is; `None` if it is someone else's, or if a stranger can cause it at will. Only ours are
    /// logged as errors and trigger the alert about server errors.
    pub const fn server_error(self) -> Option<ServerError> {
        match self {
            Self::Internal => Some(ServerError::Internal),
            Self::StoreUnavailable => Some(ServerError::StoreUnavailable),
            Self::Timeout => Some(ServerError::Timeout),
            Self::IdpMisconfigured => Some(ServerError::IdpMisconfigured),
            // The others are refused by a limit, or are the provider's or the client's failure. A client also chooses which
            // redirect address the provider sees.
            _ => None,
        }
    }

    /// The header that comes with an error, and its value if it is always the same. `idp_unavailable` has it only while the
    /// provider is not being called.
    pub const fn header(self) -> Option<(&'static str, Option<&'static str>)> {
        match self {
            Self::TokenMissing | Self::TokenInvalid => Some(("WWW-Authenticate", Some(SESSION_CHALLENGE))),
            Self::BotKeyInvalid => Some(("WWW-Authenticate", Some("Bearer"))),
            Self::EncodingUnsupported => Some(("Accept-Encoding", Some("gzip"))),
            Self::MethodNotAllowed => Some(("Allow", None)),
            Self::RateLimited
            | Self::SnapshotBusy
            | Self::Overloaded
            | Self::StoreUnavailable
            | Self::Draining
            | Self::Timeout
            | Self::IdpRateLimited
            | Self::IdpUnavailable => Some(("Retry-After", None)),
            _ => None,
        }
    }

    /// The fields of [`Details`] that an error with this code has.
    pub const fn details(self) -> &'static [&'static str] {
        match self {
            Self::ResyncRequired | Self::SnapshotOutdated => &["next"],
            Self::RedirectUriUnknown => &["configured"],
            Self::LineInvalid => &["line", "reason", "lines"],
            _ => &[],
        }
    }
}

/// The envelope of an error.
#[derive(Serialize)]
struct Refusal<'a> {
    code: u16,
    message: Cow<'static, str>,
    data: ErrorData<'a>,
}

#[derive(Serialize)]
struct ErrorData<'a> {
    error: &'static str,
    request_id: &'a str,
    #[serde(flatten)]
    details: Option<&'a Details>,
}

/// What some errors say beyond their code.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Details {
    /// The number of the event the service expects next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub next: Option<u64>,
    /// How many redirect addresses are configured. Only with `redirect_uri_unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub configured: Option<u64>,
    /// The first rejected line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub line: Option<u64>,
    /// Why the line was rejected, and what to send instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub reason: Option<String>,
    /// Every rejected line; the first 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline, required = false, nullable = false, max_items = 1000)]
    pub lines: Option<Vec<BadLine>>,
}

/// A rejected line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BadLine {
    /// Its number, counted from 1.
    pub line: u64,
    /// Why it was rejected, and what to send instead.
    pub reason: String,
}

/// What a person is told: the message of the code, with the seconds of `Retry-After` in place of "later".
fn told(code: ErrorCode, retry_seconds: Option<u64>) -> Cow<'static, str> {
    let message = code.message();
    match (message.strip_suffix("later."), retry_seconds) {
        (Some(start), Some(1)) => format!("{start}in 1 second.").into(),
        (Some(start), Some(seconds)) => format!("{start}in {seconds} seconds.").into(),
        _ => message.into(),
    }
}

/// The whole body of an error. `retry_seconds` is what `Retry-After` says.
pub fn body(code: ErrorCode, request_id: &str, retry_seconds: Option<u64>, details: Option<&Details>) -> Vec<u8> {
    let data = ErrorData { error: code.name(), request_id, details };
    let refusal = Refusal { code: code.status().as_u16(), message: told(code, retry_seconds), data };
    serde_json::to_vec(&refusal).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use telemetry::metrics::Label as _;

    use super::*;

    #[test]
    fn it_is_decided_for_each_server_error_whose_fault_it_is() {
        let ours = [ErrorCode::Internal, ErrorCode::StoreUnavailable, ErrorCode::Timeout, ErrorCode::IdpMisconfigured];
        let not_ours = [
            ErrorCode::Overloaded,
            ErrorCode::Draining,
            ErrorCode::IdpRateLimited,
            ErrorCode::IdpUnavailable,
            ErrorCode::IdpTimeout,
            ErrorCode::IdpRedirectRefused,
        ];
        for code in ErrorCode::ALL {
            let is_ours = code.server_error().is_some();
            assert_eq!(is_ours, ours.contains(code), "{code:?}");
            let is_decided = is_ours || not_ours.contains(code);
            assert_eq!(code.status().is_server_error(), is_decided, "{code:?}");
            assert!(code.server_error().is_none_or(|error| error.text() == code.name()), "{code:?}");
        }
    }

    #[test]
    fn an_error_carries_its_details_beside_its_code() {
        let details = Details { line: Some(2), reason: Some("why".to_owned()), ..Details::default() };
        let text = String::from_utf8(body(ErrorCode::LineInvalid, "id", None, Some(&details))).unwrap();
        let data = r#""data":{"error":"line_invalid","request_id":"id","line":2,"reason":"why"}}"#;
        assert!(text.starts_with(r#"{"code":422,"message":"#) && text.ends_with(data), "{text}");
    }

    #[test]
    fn a_message_names_the_seconds_of_retry_after() {
        assert_eq!(told(ErrorCode::RateLimited, Some(12)), "Too many requests. Try again in 12 seconds.");
        assert_eq!(told(ErrorCode::RateLimited, Some(1)), "Too many requests. Try again in 1 second.");
        assert_eq!(told(ErrorCode::RateLimited, None), "Too many requests. Try again later.");
        let unavailable = "The identity provider is unavailable right now. Try again";
        assert_eq!(told(ErrorCode::IdpUnavailable, Some(30)), format!("{unavailable} in 30 seconds."));
        assert_eq!(told(ErrorCode::IdpUnavailable, None), format!("{unavailable} later."));
        assert_eq!(told(ErrorCode::TokenInvalid, Some(3)), ErrorCode::TokenInvalid.message());
        for code in ErrorCode::ALL.iter().filter(|code| code.header().is_some_and(|(name, _)| name == "Retry-After")) {
            assert!(told(*code, Some(7)).ends_with("ry again in 7 seconds."), "{code:?}");
        }
    }
}
