//! The errors that each operation can return, for the OpenAPI document. Each error response has a name and the codes it may
//! carry, and each kind of route has a group of these. If two groups of an operation answer with the same status, the one
//! listed later counts.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::{Ref, RefOr, Response};

use super::error::ErrorCode;

macro_rules! error_responses {
    ($($name:ident: $($code:ident),+;)+) => {
        /// An error response of the OpenAPI document. All of its codes have the same status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorResponse { $($name),+ }

        impl ErrorResponse {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name among the document's responses.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }

            pub const fn codes(self) -> &'static [ErrorCode] {
                match self { $(Self::$name => &[$(ErrorCode::$code),+]),+ }
            }
        }
    };
}

error_responses! {
    BadRequest: HostInvalid, BodyBroken;
    SignInBadRequest: IdpCodeMissing, IdpCodeMalformed, IdpCodeVerifierMalformed, RedirectUriUnknown, HostInvalid, BodyBroken;
    FeedBadRequest: FeedHeaderInvalid, HostInvalid, BodyBroken;
    TokenUnauthorized: TokenMissing, TokenInvalid;
    SignInUnauthorized: IdpCodeRejected;
    BotUnauthorized: BotKeyInvalid;
    SignInForbidden: ScopeMissing, UserBlocked;
    NotFound: NotFound;
    RequestTimeout: RequestTimeout;
    SessionNotFound: SessionNotFound, NotFound;
    GuildNotFound: GuildNotFound, NotFound;
    MethodNotAllowed: MethodNotAllowed;
    EventsConflict: ResyncRequired;
    SnapshotConflict: ResyncRequired, SnapshotOutdated;
    BodyTooLarge: BodyTooLarge;
    FeedBodyTooLarge: FeedBodyTooLarge;
    EncodingUnsupported: EncodingUnsupported;
    LineInvalid: LineInvalid;
    RateLimited: RateLimited;
    SnapshotRateLimited: RateLimited, SnapshotBusy;
    HeadersTooLarge: HeadersTooLarge;
    Internal: Internal;
    IdpBadGateway: IdpUnavailable, IdpMisconfigured;
    SignInBadGateway: IdpUnavailable, IdpMisconfigured, IdpRedirectRefused;
    Unavailable: Overloaded, Timeout;
    StoreUnavailable: Overloaded, StoreUnavailable, Timeout;
    IdpUnavailable: Overloaded, StoreUnavailable, Timeout, IdpRateLimited;
    StoppingUnavailable: Overloaded, Timeout, Draining;
    LiveUnavailable: Overloaded, StoreUnavailable, Timeout, Draining;
    BotUnavailable: Overloaded, StoreUnavailable;
    IdpGatewayTimeout: IdpTimeout;
}

macro_rules! groups {
    ($($(#[$doc:meta])+ $group:ident: $($response:ident),+;)+) => {
        $(
            $(#[$doc])+
            #[derive(Clone, Copy, Debug)]
            pub struct $group;

            impl IntoResponses for $group {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    [$(ErrorResponse::$response),+].into_iter().map(ErrorResponse::reference).collect()
                }
            }
        )+
    };
}

groups! {
    /// Errors that any path for people can return.
    Refusals: BadRequest, NotFound, MethodNotAllowed, RequestTimeout, BodyTooLarge, RateLimited, HeadersTooLarge, Internal, Unavailable;
    /// Errors that a path without a rate limit can return, for load balancers.
    ReadinessRefusals: BadRequest, NotFound, MethodNotAllowed, RequestTimeout, BodyTooLarge, HeadersTooLarge, Internal, StoppingUnavailable;
    /// Errors that a path that needs the store can return.
    StoreRefusals: StoreUnavailable;
    /// Errors that a path with a session can return.
    TokenRefusals: TokenUnauthorized, StoreUnavailable;
    /// Errors that a sign-in can return.
    SignInRefusals: SignInBadRequest, SignInUnauthorized, SignInForbidden, SignInBadGateway;
    /// Errors that a path that asks the identity provider can return.
    IdpRefusals: IdpBadGateway, IdpUnavailable, IdpGatewayTimeout;
    /// Errors that a path that names a session can return.
    SessionNotFound: SessionNotFound;
    /// Errors that a path that names a guild can return.
    GuildNotFound: GuildNotFound;
    /// Errors that a public stream can return.
    LiveRefusals: StoppingUnavailable;
    /// Errors that a user's stream can return.
    UserLiveRefusals: LiveUnavailable;
    /// Errors that any path with a bot key can return.
    BotRefusals: BadRequest, BotUnauthorized, NotFound, MethodNotAllowed, RateLimited, HeadersTooLarge, Internal, BotUnavailable;
    /// Errors that a path that accepts a body can return.
    UploadRefusals: RequestTimeout, FeedBodyTooLarge, EncodingUnsupported, LineInvalid;
    /// Errors that a request with events can return.
    EventsRefusals: FeedBadRequest, EventsConflict;
    /// Errors that a snapshot can return.
    SnapshotRefusals: FeedBadRequest, SnapshotConflict, SnapshotRateLimited;
}

impl ErrorResponse {
    pub fn status(self) -> u16 {
        self.codes().first().map_or(500, |code| code.status().as_u16())
    }

    fn reference(self) -> (String, RefOr<Response>) {
        (self.status().to_string(), Ref::new(format!("#/components/responses/{}", self.name())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_of_a_response_have_its_status() {
        for response in ErrorResponse::ALL {
            let statuses: Vec<u16> = response.codes().iter().map(|code| code.status().as_u16()).collect();
            assert!(statuses.iter().all(|status| *status == response.status()), "{response:?}: {statuses:?}");
        }
    }

    #[test]
    fn every_code_is_in_a_response() {
        for code in ErrorCode::ALL {
            let named = ErrorResponse::ALL.iter().any(|response| response.codes().contains(code));
            assert!(named, "no operation is documented to return {}", code.name());
        }
    }
}
