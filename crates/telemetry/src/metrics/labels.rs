//! The values of labels. Each is one of a few that are known at build time, so nothing from outside creates a new series.

/// A label with known values.
pub trait Label: Copy + 'static {
    /// All values, each at its index.
    const ALL: &'static [Self];

    fn text(self) -> &'static str;

    /// The index in [`Label::ALL`].
    fn index(self) -> usize;
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(
                #[doc = concat!("`", $text, "`")]
                $variant,
            )+
        }

        impl Label for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    )+ };
}

labels! {
    /// A limit that refuses something.
    LimitName {
        Requests = "requests",
        RefusedSignIns = "refused_sign_ins",
        SignInsPerUser = "sign_ins_per_user",
        ConcurrentExchanges = "concurrent_exchanges",
        ConcurrentExchangesPerAddress = "concurrent_exchanges_per_address",
        Connections = "connections",
        ConnectionsPerAddress = "connections_per_address",
        ConcurrentRequests = "concurrent_requests",
        Live = "live",
        LivePerAddress = "live_per_address",
        FeedRequests = "feed_requests",
        RefusedKeys = "refused_keys",
        FailureBudget = "failure_budget",
    }

    /// A failure of our own, named after the error that the client gets.
    ServerError {
        Internal = "internal",
        StoreUnavailable = "store_unavailable",
        Timeout = "timeout",
        IdpMisconfigured = "idp_misconfigured",
    }

    /// The outcome of exchanging a code.
    SignInOutcome {
        SignedIn = "signed_in",
        Rejected = "rejected",
        ScopeMissing = "scope_missing",
        Blocked = "blocked",
        Limited = "limited",
        Overloaded = "overloaded",
        ProviderFailed = "provider_failed",
        StoreFailed = "store_failed",
        Crashed = "crashed",
    }

    /// The outcome of a call to the identity provider, or why it was not made.
    ProviderOutcome {
        Answered = "answered",
        Failed = "failed",
        Denied = "denied",
        Blocked = "blocked",
        RateLimited = "rate_limited",
        Abandoned = "abandoned",
        CircuitOpen = "circuit_open",
        BackingOff = "backing_off",
        BudgetSpent = "budget_spent",
    }

    StoreAccess {
        Read = "read",
        Write = "write",
    }

    /// The outcome of a read or a write of the store.
    StoreOutcome {
        Done = "done",
        Busy = "busy",
        Unavailable = "unavailable",
        Failed = "failed",
    }

    CacheName {
        Sessions = "sessions",
        Keys = "keys",
        Me = "me",
        Guilds = "guilds",
        Invitable = "invitable",
        Status = "status",
        Team = "team",
        Feedback = "feedback",
        Stats = "stats",
        Site = "site",
        History = "history",
    }

    /// Whether a cache had what was requested.
    CacheOutcome {
        Hit = "hit",
        Miss = "miss",
    }

    RequestMethod {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
        Options = "OPTIONS",
        Other = "other",
    }
}

impl From<&http::Method> for RequestMethod {
    fn from(method: &http::Method) -> Self {
        match *method {
            http::Method::GET => Self::Get,
            http::Method::HEAD => Self::Head,
            http::Method::POST => Self::Post,
            http::Method::PUT => Self::Put,
            http::Method::PATCH => Self::Patch,
            http::Method::DELETE => Self::Delete,
            http::Method::OPTIONS => Self::Options,
            _ => Self::Other,
        }
    }
}
