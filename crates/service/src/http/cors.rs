//! Cross-origin resource sharing: which pages may read a response. Public data is for every page; session data only for the
//! configured origins, never a reflected one; the bot's routes for no page. Errors have the same headers, or a browser would
//! show "Failed to fetch".

use http::{HeaderMap, HeaderName, HeaderValue, header};
use telemetry::log_throttle::Throttle;
use telemetry::untrusted::Untrusted;
use tracing::warn;

use super::context::RequestContext;
use crate::config::CurrentConfig;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");
const HEADERS: &str = "Idp-Code, Idp-Code-Verifier, Token, Sent-Epoch, If-None-Match, Cache-Control, Content-Type";
pub(super) const EXPOSED: &str = "Retry-After, X-Request-Id, Age, ETag";
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");
const ANY: HeaderValue = HeaderValue::from_static("*");
const ORIGIN: HeaderValue = HeaderValue::from_static("origin");
/// For a response that may be compressed.
const ORIGIN_AND_ENCODING: HeaderValue = HeaderValue::from_static("origin, accept-encoding");

/// Which pages may read a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cors {
    AnyOrigin,
    /// Pages of the configured origins.
    AllowedOrigins,
    NoOrigin,
}

impl Cors {
    /// Adds the headers that say who may read a response. `Err` has the origin of a page that may not.
    pub(super) fn add_headers<'a>(
        self,
        headers: &mut HeaderMap,
        origin: Option<&'a HeaderValue>,
        current: &CurrentConfig,
    ) -> Result<(), &'a HeaderValue> {
        match self {
            Self::AnyOrigin => {
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
            }
            Self::AllowedOrigins => {
                let vary = if headers.contains_key(header::VARY) { ORIGIN_AND_ENCODING } else { ORIGIN };
                headers.insert(header::VARY, vary);
                let Some(origin) = origin else { return Ok(()) };
                if !is_allowed(origin.as_bytes(), &current.get().allowed_origins) {
                    return Err(origin);
                }
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            }
            Self::NoOrigin => return Ok(()),
        }
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        Ok(())
    }

    /// Adds what may be sent to the response to a preflight; `more` are names of headers.
    pub(super) fn add_preflight_headers(self, headers: &mut HeaderMap, more: &[String]) {
        if self.has_readers() {
            let sendable = more.iter().fold(HEADERS.to_owned(), |names, name| names + ", " + name);
            let permits: [(HeaderName, HeaderValue); 3] = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (
                    header::ACCESS_CONTROL_ALLOW_HEADERS,
                    HeaderValue::try_from(sendable).unwrap_or(HeaderValue::from_static(HEADERS)),
                ),
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

/// Whether exactly this origin is configured.
pub(super) fn is_allowed(origin: &[u8], allowed: &[String]) -> bool {
    allowed.iter().any(|listed| listed.as_bytes() == origin)
}

/// Whether the browser says that this comes from a page of the service's own origin, which needs no permission.
pub(super) fn is_same_origin(asked: &HeaderMap) -> bool {
    asked.get(FETCH_SITE).is_some_and(|site| site == "same-origin")
}

/// Tells the operator about pages whose browsers hide responses from them.
#[derive(Debug, Default)]
pub(super) struct UnlistedOrigins(Throttle);

impl UnlistedOrigins {
    /// Records a request from a page of this origin.
    pub(super) fn warn(&self, origin: &HeaderValue, asked: &HeaderMap, context: &RequestContext) {
        if is_same_origin(asked) {
            return;
        }
        let Some(times) = self.0.count(context.ticks) else { return };
        let (id, origin) = (context.id(), String::from_utf8_lossy(origin.as_bytes()));
        warn!(
            id, origin = %Untrusted(&origin), times,
            "a page whose origin is not in http.allowed_origins made a call; its browser hides the response from it. If the \
             page is yours, add its origin"
        );
    }
}
