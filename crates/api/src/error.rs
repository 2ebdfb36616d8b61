//! Errors as clients see them: the table of error codes, and the envelope of an error.

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

            /// A sentence that says what to do.
            pub const fn message(self) -> &'static str {
                match self { $(Self::$code => $message),+ }
            }
        }
    };
}

error_codes! {
    IdpCodeMissing: BAD_REQUEST, "idp_code_missing", "Send the code from the identity provider in the header `Idp-Code`.";
    IdpCodeMalformed: BAD_REQUEST, "idp_code_malformed", "Send the header `Idp-Code` once, exactly as the identity provider issued it, with at most 512 characters.";
    IdpCodeVerifierMalformed: BAD_REQUEST, "idp_code_verifier_malformed", "Send the header `Idp-Code-Verifier` once, with 1 to 512 letters, digits and `-._~`, or leave it out.";
    RedirectUriUnknown: BAD_REQUEST, "redirect_uri_unknown", "Send in the header `Idp-Redirect-Uri` one of the addresses in `idp.redirect_uri` of the service, to the letter, or leave it out. `configured` is how many there are.";
    IdpCodeRejected: UNAUTHORIZED, "idp_code_rejected", "The identity provider refused the code; it may be used or expired. Start the sign-in again.";
    ScopeMissing: FORBIDDEN, "scope_missing", "Ask the user for the scopes `identify` and `guilds`, and sign in again.";
    TokenMissing: UNAUTHORIZED, "token_missing", "Send the session token in the header `Token`.";
    TokenInvalid: UNAUTHORIZED, "token_invalid", "The session token is not valid, or no longer. Sign in again.";
    UserBlocked: FORBIDDEN, "user_blocked", "This user may not sign in. Contact the bot's team.";
    IdpRateLimited: SERVICE_UNAVAILABLE, "idp_rate_limited", "The identity provider is limiting requests. Try again after the time in `Retry-After`.";
    IdpUnavailable: BAD_GATEWAY, "idp_unavailable", "The identity provider is not working right now. Try again later.";
    IdpTimeout: GATEWAY_TIMEOUT, "idp_timeout", "The identity provider did not answer in time. Try again later.";
    IdpMisconfigured: BAD_GATEWAY, "idp_misconfigured", "The service is not set up correctly at the identity provider. Tell its operator.";
    IdpRedirectRefused: BAD_GATEWAY, "idp_misconfigured", "The identity provider refuses the redirect address. Compare, letter by letter: `redirect_uri` in your link to the authorize page; the one that the service sends for your page's `Origin`, which `GET /auth` tells; and those registered at the provider. All three must be the same.";
    RateLimited: TOO_MANY_REQUESTS, "rate_limited", "Too many requests. Try again after the time in `Retry-After`.";
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "The service is overloaded. Try again after the time in `Retry-After`.";
    StoreUnavailable: SERVICE_UNAVAILABLE, "store_unavailable", "The service cannot reach its data right now. Try again after the time in `Retry-After`.";
    Draining: SERVICE_UNAVAILABLE, "draining", "This process of the service is stopping. Send requests to another one, or try again after the time in `Retry-After`.";
    Timeout: SERVICE_UNAVAILABLE, "timeout", "The request took too long. Try again after the time in `Retry-After`.";
    RequestTimeout: REQUEST_TIMEOUT, "request_timeout", "The request did not arrive completely in time. Send it again, on a new connection.";
    NotFound: NOT_FOUND, "not_found", "Nothing is at this path. See `/openapi.json` for what there is.";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed", "This path does not take this method. See the header `Allow` for those it takes.";
    SessionNotFound: NOT_FOUND, "session_not_found", "You have no session with this id. See `GET /sessions` for yours.";
    GuildNotFound: NOT_FOUND, "guild_not_found", "You have no guild with this id that has the bot. See `GET /guilds` for yours.";
    HostInvalid: BAD_REQUEST, "host_invalid", "Send the header `Host` once, with the name and perhaps the port of this service. In `dev` it answers to loopback names only, such as `localhost`.";
    BodyBroken: BAD_REQUEST, "body_broken", "The body broke off or is not framed as HTTP asks. Send the request again, with `Content-Length` or `Transfer-Encoding: chunked`.";
    BodyTooLarge: PAYLOAD_TOO_LARGE, "body_too_large", "Send no body, or at most 64 KiB.";
    BotKeyInvalid: UNAUTHORIZED, "bot_key_invalid", "Send a bot key that is not revoked in the header `Authorization`, after `Bearer `. Make one with `bot-companion key create`.";
    FeedHeaderInvalid: BAD_REQUEST, "feed_header_invalid", "Send the header `Feed-Instance` with 1 to 64 letters, digits, `_` or `-`, and `Feed-Sequence` with a whole number from 1.";
    EncodingUnsupported: UNSUPPORTED_MEDIA_TYPE, "encoding_unsupported", "Send the body as it is, or with `Content-Encoding: gzip`.";
    ResyncRequired: CONFLICT, "resync_required", "Events are missing before these, or the snapshot of their shard. Send the snapshots anew, with `next` as their sequence.";
    SnapshotOutdated: CONFLICT, "snapshot_outdated", "This snapshot was overtaken. Take it anew, with `next` as its sequence.";
    SnapshotBusy: TOO_MANY_REQUESTS, "snapshot_busy", "This snapshot, or four others, are being received right now. Try again after the time in `Retry-After`.";
    LineInvalid: UNPROCESSABLE_ENTITY, "line_invalid", "A line cannot be taken, and nothing was applied. See `line` and `reason`.";
    FeedBodyTooLarge: PAYLOAD_TOO_LARGE, "body_too_large", "Send at most 10,000 lines and 16 MiB at once, and 1 MiB in a heartbeat; a snapshot may have as much as the service's `feed.snapshot_bytes`.";
    HeadersTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", "Send at most 64 headers with at most 16 KiB in all.";
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
    /// provider is not called.
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
            Self::LineInvalid => &["line", "reason"],
            _ => &[],
        }
    }
}

/// The envelope of an error.
#[derive(Clone, Debug, Serialize)]
struct Refusal {
    code: u16,
    message: &'static str,
    data: ErrorData,
}

#[derive(Clone, Debug, Serialize)]
struct ErrorData {
    error: &'static str,
    request_id: String,
    #[serde(flatten)]
    details: Option<Details>,
}

/// What some errors say beyond their code.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Details {
    /// The number of the event that the service expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub next: Option<u64>,
    /// How many redirect addresses are configured. Only with `redirect_uri_unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub configured: Option<u64>,
    /// The line that cannot be accepted, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub line: Option<u64>,
    /// Why, and what to send instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub reason: Option<String>,
}

/// The whole body of an error.
pub fn body(code: ErrorCode, request_id: &str, details: Option<&Details>) -> Vec<u8> {
    let data = ErrorData { error: code.name(), request_id: request_id.to_owned(), details: details.cloned() };
    let refusal = Refusal { code: code.status().as_u16(), message: code.message(), data };
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
        let text = String::from_utf8(body(ErrorCode::LineInvalid, "id", Some(&details))).unwrap();
        let data = r#""data":{"error":"line_invalid","request_id":"id","line":2,"reason":"why"}}"#;
        assert!(text.starts_with(r#"{"code":422,"message":"#) && text.ends_with(data), "{text}");
    }
}
