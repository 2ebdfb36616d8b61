//! Cross-origin resource sharing: which page may read a response. Public data is for every page; what depends on a session is for
//! the configured origins only, never a reflected one; what is for the bot is for no page. Errors have the same headers, or a
//! browser shows "Failed to fetch".

use http::{HeaderMap, HeaderName, HeaderValue, header};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Idp-Code, Idp-Code-Verifier, Token, Sent-Epoch, If-None-Match, Cache-Control, Content-Type",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("Retry-After, X-Request-Id, Age, ETag");
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");
const ANY: HeaderValue = HeaderValue::from_static("*");
const ORIGIN: HeaderValue = HeaderValue::from_static("origin");

/// Which pages may read a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cors {
    /// Any page.
    AnyOrigin,
    /// Pages of the configured origins.
    AllowedOrigins,
    /// No page.
    NoOrigin,
}

impl Cors {
    /// Adds to a response who may read it.
    pub(super) fn add_headers(self, headers: &mut HeaderMap, origin: Option<&HeaderValue>, allowed: &[String]) {
        match self {
            Self::AnyOrigin => {
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
            }
            Self::AllowedOrigins => {
                headers.insert(header::VARY, ORIGIN);
                let Some(origin) = origin.filter(|origin| is_allowed(origin, allowed)) else {
                    return;
                };
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            }
            Self::NoOrigin => return,
        }
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }

    /// Adds to the response to a preflight what may be sent.
    pub(super) fn add_preflight_headers(self, headers: &mut HeaderMap) {
        if self.has_readers() {
            let permits: [(HeaderName, HeaderValue); 3] = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
                (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
            ];
            headers.extend(permits);
        }
    }

    /// Whether any page may read it, so that preflights are answered.
    pub(super) fn has_readers(self) -> bool {
        self != Self::NoOrigin
    }
}

/// Whether an origin is configured, to the letter.
fn is_allowed(origin: &HeaderValue, allowed: &[String]) -> bool {
    allowed.iter().any(|listed| listed.as_bytes() == origin.as_bytes())
}
