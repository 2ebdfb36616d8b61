//! The identity provider: a client for its wire format, and the protection around it (circuit breaker, backoff, failure
//! budget). Only this module and the sandbox know the provider's wire format.

mod circuit_breaker;
mod discord;
mod failure_budget;
#[cfg(test)]
mod fuzz;
mod guard;
mod verdict;
mod wire;

use std::time::Duration;

pub use discord::{Provider, ProviderOptions};
use domain::Time;
pub use guard::{ProviderMetrics, ProviderState};
use secrecy::SecretString;
use telemetry::metrics::Label;

/// The scopes that a sign-in needs, separated by spaces.
pub const SCOPE: &str = "identify guilds";

const ADMINISTRATOR: u64 = 0x8;
const MANAGE_GUILD: u64 = 0x20;

/// Whether these permission bits let a user manage the server.
pub(crate) fn may_manage_server(bits: u64) -> bool {
    bits & (ADMINISTRATOR | MANAGE_GUILD) != 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Exchanges a code or a refresh token for a grant.
    Token,
    /// Who a grant belongs to.
    User,
    /// The guilds of that user.
    Guilds,
    /// Ends a grant.
    Revoke,
}

impl Endpoint {
    pub const COUNT: usize = 4;

    /// Whether the response is about the application, whose credentials are sent, rather than one user.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Token | Self::Revoke)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::User => "user",
            Self::Guilds => "guilds",
            Self::Revoke => "revoke",
        }
    }
}

impl Label for Endpoint {
    const ALL: &'static [Self] = &[Self::Token, Self::User, Self::Guilds, Self::Revoke];

    fn text(self) -> &'static str {
        self.name()
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// A user's tokens at the provider.
#[derive(Clone, Debug)]
pub struct Grant {
    /// For the user's profile and guild list.
    pub access_token: SecretString,
    /// Gets the next grant; works once.
    pub refresh_token: SecretString,
    /// When the access token stops working.
    pub expires: Time,
    pub scopes: Vec<String>,
}

impl Grant {
    /// Whether the user has granted everything that a sign-in needs.
    pub fn has_needed_scopes(&self) -> bool {
        SCOPE.split(' ').all(|scope| self.scopes.iter().any(|granted| granted == scope))
    }
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind:?}: {detail}")]
pub struct IdpError {
    pub kind: IdpErrorKind,
    /// Whether a code or refresh token that was sent may be used up.
    pub code_spent: bool,
    /// For the log only; contains no secrets.
    pub detail: String,
}

/// What a failure of the provider means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdpErrorKind {
    /// The code or refresh token is not, or no longer, valid (`invalid_grant`).
    Rejected,
    /// The access token is not, or no longer, valid (a bearer 401).
    Unauthorized,
    /// It rate limits us for this long (at most an hour).
    RateLimited(Duration),
    /// It was not called, because of an earlier limit or the failure budget: not before this time is up.
    BackingOff(Duration),
    /// It refused the call in an unknown way: an edge server in front of it may have, or an odd code provoked it.
    Refused,
    /// It failed, sent something unreadable, or cannot be reached.
    Unavailable,
    /// It was not called because it failed too often: the circuit breaker is open for this long.
    CircuitOpen(Duration),
    /// It did not answer in time.
    Timeout,
    /// It refuses *our* credentials or request, and the operator has to act.
    Misconfigured,
    /// It refuses the redirect address: it is not registered, or not the one that the code was requested with.
    RedirectRefused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_and_those_who_may_manage_the_guild_manage_the_server() {
        for (bits, may) in [(0x8, true), (0x20, true), (0x28, true), (!0x28, false), (0, false)] {
            assert_eq!(may_manage_server(bits), may, "{bits:x}");
        }
    }
}
