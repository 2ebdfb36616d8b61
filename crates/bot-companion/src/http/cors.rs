//! Which page may read an answer. Public data is for everyone; what hangs on a session is for the configured origins only, never
//! reflected; the bot's side is for no page at all. Errors carry the same headers, or a browser shows "Failed to fetch".

use http::{HeaderMap, HeaderName, HeaderValue, header};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Idp-Code, Idp-Code-Verifier, Token, Sent-Epoch, If-None-Match, Cache-Control, Content-Type",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("Retry-After, X-Request-Id, Age, ETag");
const REMEMBERED: HeaderValue = HeaderValue::from_static("7200");
const ANYONE: HeaderValue = HeaderValue::from_static("*");
const ORIGIN: HeaderValue = HeaderValue::from_static("origin");

/// For whom a path's answers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Any page; also for paths that lead nowhere.
    Everyone,
    /// Pages of the configured origins.
    Listed,
    /// No page.
    Nobody,
}

impl Audience {
    /// Of a path below the base path.
    pub(super) fn of(path: &str) -> Self {
        let one_below_sessions = path.strip_prefix("/sessions/").is_some_and(|id| !id.is_empty() && !id.contains('/'));
        match path {
            "/auth" | "/guilds" | "/sessions" => Self::Listed,
            _ if one_below_sessions => Self::Listed,
            _ if path == "/bot" || path.starts_with("/bot/") => Self::Nobody,
            _ => Self::Everyone,
        }
    }

    /// Says on an answer who may read it.
    pub(super) fn dress(self, headers: &mut HeaderMap, origin: Option<&HeaderValue>, allowed: &[String]) {
        match self {
            Self::Everyone => {
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
            }
            Self::Listed => {
                headers.insert(header::VARY, ORIGIN);
                let Some(origin) = origin.filter(|origin| is_listed(origin, allowed)) else {
                    return;
                };
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            }
            Self::Nobody => return,
        }
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }

    /// Says on a preflight what may be sent.
    pub(super) fn permit(self, headers: &mut HeaderMap) {
        if self != Self::Nobody {
            let permits: [(HeaderName, HeaderValue); 3] = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
                (header::ACCESS_CONTROL_MAX_AGE, REMEMBERED),
            ];
            headers.extend(permits);
        }
    }
}

/// Whether an origin is configured, to the letter.
pub(super) fn is_listed(origin: &HeaderValue, allowed: &[String]) -> bool {
    allowed.iter().any(|listed| listed.as_bytes() == origin.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_audience() {
        let table = [
            ("/", Audience::Everyone),
            ("/team", Audience::Everyone),
            ("/feedback", Audience::Everyone),
            ("/ready", Audience::Everyone),
            ("/openapi.json", Audience::Everyone),
            ("/nowhere", Audience::Everyone),
            ("/sessions/a/b", Audience::Everyone),
            ("/auth", Audience::Listed),
            ("/guilds", Audience::Listed),
            ("/sessions", Audience::Listed),
            ("/sessions/abc", Audience::Listed),
            ("/bot/events", Audience::Nobody),
        ];
        for (path, audience) in table {
            assert_eq!(Audience::of(path), audience, "{path}");
        }
    }
}
