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

/// Who it affects.
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
                "GET /guilds returns 502 idp_unavailable. The service forgets its last good list. Signing in still works.",
            ),
            Self::GuildsStale => (
                "guilds-stale",
                "The guild list is stale",
                Target::Either,
                "GET /guilds returns 200 with the last good list, which looks 15 minutes old (see Age) and can't be refreshed. \
                 Anyone who signs in now gets one fresh list, which then ages.",
            ),
            Self::GuildsSlow => (
                "guilds-slow",
                "The guild list is slow",
                Target::Either,
                "The next GET /guilds takes 4 seconds, then returns 200. After that, the list is cached; turn the switch on again for another slow one.",
            ),
            Self::GuildsHang => (
                "guilds-hang",
                "The guild list times out",
                Target::Either,
                "GET /guilds returns 504 idp_timeout after 8 seconds, then immediately for the next 15 seconds.",
            ),
            Self::ProviderDown => (
                "provider-down",
                "The provider is down",
                Target::Everybody,
                "POST /auth and GET /guilds return 502 idp_unavailable, with Retry-After after five failures in a row.",
            ),
            Self::ProviderLimits => (
                "provider-limits",
                "The provider rate-limits the service (429)",
                Target::Everybody,
                "POST /auth and GET /guilds return 503 idp_rate_limited with Retry-After.",
            ),
            Self::ProviderHangs => (
                "provider-hangs",
                "The provider doesn't respond",
                Target::Everybody,
                "POST /auth returns 504 idp_timeout after 12 seconds, GET /guilds after 8.",
            ),
            Self::ProviderRefuses => (
                "provider-refuses",
                "The provider rejects the service's credentials",
                Target::Everybody,
                "POST /auth returns 502 idp_misconfigured.",
            ),
            Self::Blocked => (
                "blocked",
                "A person is blocked",
                Target::Person,
                "Their sessions end (401 token_invalid), and POST /auth returns 403 user_blocked.",
            ),
            Self::BotOffline => (
                "bot-offline",
                "The bot is offline",
                Target::Everybody,
                "GET / returns 200 with uptime.readable \"offline\", uptime.epoch 0 and memory 0. The shards keep their last values.",
            ),
            Self::RateLimited => (
                "rate-limited",
                "Too many requests",
                Target::Everybody,
                "Every call except the bot's returns 429 rate_limited. Retry-After counts down from 30, then the switch turns itself off.",
            ),
            Self::Overloaded => (
                "overloaded",
                "The service is overloaded",
                Target::Everybody,
                "Calls that aren't answered from memory, like POST /auth and GET /me, return 503 overloaded with Retry-After. A \
                 browser's preflights are still answered.",
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
                "All sessions end",
                "All of this person's sessions end: every call with their token returns 401 token_invalid. They can sign in again.",
            ),
            Self::WithdrawConsent => (
                "withdraw-consent",
                "Consent is withdrawn",
                "This person removes the application at the provider. Their next GET /guilds returns 401 token_invalid, and \
                 all their sessions end. They can sign in again.",
            ),
        };
        About { name, title, target: Target::Person, shows }
    }
}
