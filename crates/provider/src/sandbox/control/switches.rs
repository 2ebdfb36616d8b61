//! The switches, and what a dashboard then sees.

/// What can be on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Switch {
    GuildsFail,
    GuildsStale,
    GuildsSlow,
    GuildsHang,
    ProviderDown,
    ProviderLimits,
    ProviderHangs,
    ProviderRefuses,
    Blocked,
    BotOffline,
    RateLimited,
    Overloaded,
}

/// What happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    EndSessions,
    WithdrawConsent,
}

/// Who it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Everyone, always.
    Everybody,
    /// One person, who must be named.
    Person,
    /// Everyone, or the person who is named.
    Either,
}

/// The description of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) target: Target,
    /// What the dashboard sees.
    pub(super) shows: &'static str,
}

impl Switch {
    pub(super) const ALL: [Self; 12] = [
        Self::GuildsFail,
        Self::GuildsStale,
        Self::GuildsSlow,
        Self::GuildsHang,
        Self::ProviderDown,
        Self::ProviderLimits,
        Self::ProviderHangs,
        Self::ProviderRefuses,
        Self::Blocked,
        Self::BotOffline,
        Self::RateLimited,
        Self::Overloaded,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|switch| switch.about().name == name)
    }

    pub(super) const fn about(self) -> About {
        let (name, title, target, shows) = match self {
            Self::GuildsFail => (
                "guilds-fail",
                "The guild list fails",
                Target::Either,
                "GET /guilds answers 502 idp_unavailable. The service forgets the good list that it has; signing in still works.",
            ),
            Self::GuildsStale => (
                "guilds-stale",
                "The guild list is stale",
                Target::Either,
                "GET /guilds answers 200 with the last good list, which counts as 15 minutes old, and Age tells that; it cannot be \
                 refreshed. Somebody who signs in now gets one good list, whose Age grows.",
            ),
            Self::GuildsSlow => (
                "guilds-slow",
                "The guild list is slow",
                Target::Either,
                "The next GET /guilds takes 4 seconds, then answers 200. The list is then stored; switch again for another slow one.",
            ),
            Self::GuildsHang => (
                "guilds-hang",
                "The guild list never comes",
                Target::Either,
                "GET /guilds answers 504 idp_timeout after 8 seconds, and for the next 15 seconds at once.",
            ),
            Self::ProviderDown => (
                "provider-down",
                "The provider is down",
                Target::Everybody,
                "POST /auth and GET /guilds answer 502 idp_unavailable; after five failures in a row with Retry-After.",
            ),
            Self::ProviderLimits => (
                "provider-limits",
                "The provider limits the service (429)",
                Target::Everybody,
                "POST /auth and GET /guilds answer 503 idp_rate_limited with Retry-After.",
            ),
            Self::ProviderHangs => (
                "provider-hangs",
                "The provider does not answer",
                Target::Everybody,
                "POST /auth answers 504 idp_timeout after 12 seconds, GET /guilds after 8.",
            ),
            Self::ProviderRefuses => (
                "provider-refuses",
                "The provider refuses the service's credentials",
                Target::Everybody,
                "POST /auth answers 502 idp_misconfigured.",
            ),
            Self::Blocked => (
                "blocked",
                "Somebody is blocked",
                Target::Person,
                "Their sessions end (401 token_invalid), and POST /auth answers 403 user_blocked.",
            ),
            Self::BotOffline => (
                "bot-offline",
                "The bot is offline",
                Target::Everybody,
                "GET / answers 200 with uptime.readable \"offline\", uptime.epoch 0 and memory 0; the shards keep their last records.",
            ),
            Self::RateLimited => (
                "rate-limited",
                "Too many requests",
                Target::Everybody,
                "Every call but those of the bot answers 429 rate_limited; Retry-After counts down from 30, then it is over by itself.",
            ),
            Self::Overloaded => (
                "overloaded",
                "The service is overloaded",
                Target::Everybody,
                "What is not answered from memory, such as POST /auth and GET /me, answers 503 overloaded with Retry-After. A browser's \
                 preflights fail too, as they would.",
            ),
        };
        About { name, title, target, shows }
    }
}

impl Act {
    pub(super) const ALL: [Self; 2] = [Self::EndSessions, Self::WithdrawConsent];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.about().name == name)
    }

    pub(super) const fn about(self) -> About {
        let (name, title, shows) = match self {
            Self::EndSessions => (
                "end-sessions",
                "Sessions expire",
                "All sessions of this person end: every call with their token answers 401 token_invalid. They can sign in again.",
            ),
            Self::WithdrawConsent => (
                "withdraw-consent",
                "Consent is taken back",
                "This person removes the application at the provider. Their next GET /guilds finds that out: it answers 401 \
                 token_invalid, and all their sessions end. They can sign in again.",
            ),
        };
        About { name, title, target: Target::Person, shows }
    }
}
