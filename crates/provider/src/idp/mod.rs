//! The identity provider: a client for its wire format, and the protection around it (circuit breaker, backoff, failure budget).
//! Only this room and the sandbox know the provider's wire format.

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

/// The scopes that a sign-in needs, separated by blanks.
pub const SCOPE: &str = "identify guilds";

const ADMINISTRATOR: u64 = 0x8;
const MANAGE_GUILD: u64 = 0x20;

/// Whether these permission bits let a user manage the server.
pub(crate) fn may_manage_server(bits: u64) -> bool {
    bits & (ADMINISTRATOR | MANAGE_GUILD) != 0
}

/// What the provider offers us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A code or a refresh token becomes a grant.
    Token,
    /// Who a grant belongs to.
    User,
    /// The guilds of that user.
    Guilds,
    /// A grant ends.
    Revoke,
}

impl Endpoint {
    pub(crate) const COUNT: usize = 4;

    /// Whether the answer is about the application, whose credentials go with the call, and not about one user.
    pub(crate) const fn is_ours(self) -> bool {
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

/// The provider's tokens of one user.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Opens the user's profile and guild list.
    pub access_token: SecretString,
    /// Gets the next grant; works once.
    pub refresh_token: SecretString,
    /// When the access token stops working.
    pub expires: Time,
    pub scopes: Vec<String>,
}

impl Grant {
    /// Whether the user has granted all that a sign-in needs.
    pub fn has_needed_scopes(&self) -> bool {
        SCOPE.split(' ').all(|scope| self.scopes.iter().any(|granted| granted == scope))
    }
}

/// Why the provider did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind:?}: {detail}")]
pub struct IdpError {
    /// What it means to us.
    pub kind: IdpErrorKind,
    /// Whether a code or refresh token that was sent may have been used up by it.
    pub code_spent: bool,
    /// For the log only; holds nothing that is secret.
    pub detail: String,
}

/// What a failure of the provider means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdpErrorKind {
    /// The code or refresh token is not, or no longer, good (`invalid_grant`).
    Rejected,
    /// The access token is not, or no longer, good (a bearer 401).
    Unauthorized,
    /// It answered that it limits us: not before this span is over (at most an hour).
    RateLimited(Duration),
    /// It was not called, because of an earlier limit or the budget of refused calls: not before this span is over.
    BackingOff(Duration),
    /// It refused the call in a way that we do not know: an edge server before it may have, or an odd code provoked it.
    Refused,
    /// It failed, sent what cannot be read, or cannot be reached.
    Unavailable,
    /// It was not called, because it failed too often: the circuit breaker is open for this long.
    CircuitOpen(Duration),
    /// It did not answer in time.
    Timeout,
    /// It refuses *our* credentials or request: the operator has to act.
    Misconfigured,
    /// It refuses the redirect address: it is not registered, or not the one that the code was asked for with.
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
