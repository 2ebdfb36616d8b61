//! Events that strangers can cause over and over, and that operators must know about: each kind is logged immediately the first
//! time, then at most once per minute with a count. The end of a flood is reported too. Failing requests are such a flood, per
//! error code.

use std::net::IpAddr;
use std::time::Duration;

use api::error::ErrorCode;
use telemetry::log_throttle::Throttle;
use telemetry::metrics::{Label as _, LimitName};
use tracing::{error, warn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodKind {
    /// Refused by this limit.
    Limit(LimitName),
    /// Sign-ins refused for another reason.
    RefusedSignIns,
    /// Invalid bot keys.
    WrongKeys,
    /// A header that is only trusted from trusted proxies.
    ForwardedFor,
}

const OTHERS: [FloodKind; 3] = [FloodKind::RefusedSignIns, FloodKind::WrongKeys, FloodKind::ForwardedFor];
const KINDS: usize = LimitName::ALL.len() + OTHERS.len();

fn kinds() -> impl Iterator<Item = FloodKind> {
    LimitName::ALL.iter().copied().map(FloodKind::Limit).chain(OTHERS)
}

impl FloodKind {
    /// The log line; `None` for a limit that is logged where it refuses, or as the error code `overloaded`.
    const fn line(self) -> Option<&'static str> {
        Some(match self {
            Self::Limit(LimitName::Requests) => {
                "requests refused: a client address sends more than limits.requests_per_second allows"
            }
            Self::Limit(LimitName::RefusedSignIns) => {
                "sign-ins refused: a client address had more of them refused than limits.refused_sign_ins_per_minute allows"
            }
            Self::Limit(LimitName::SignInsPerUser) => {
                "sign-ins refused: a user signs in more often than limits.sign_ins_per_user allows"
            }
            Self::Limit(LimitName::ConcurrentExchangesPerAddress) => {
                "sign-ins refused: a client address already has as many of them running as it may"
            }
            Self::Limit(LimitName::RefusedKeys) => {
                "bots refused: a client address tries more invalid keys than feed.refused_keys_per_minute allows"
            }
            Self::Limit(LimitName::FeedRequests) => {
                "bots refused: a key sends more than feed.requests_per_second allows"
            }
            Self::Limit(LimitName::LivePerAddress) => {
                "live streams refused: a client address already has limits.live_per_address open"
            }
            Self::Limit(
                LimitName::Connections
                | LimitName::ConnectionsPerAddress
                | LimitName::ConcurrentRequests
                | LimitName::ConcurrentExchanges
                | LimitName::Live
                | LimitName::FailureBudget,
            ) => return None,
            Self::RefusedSignIns => {
                "sign-ins refused: the code was wrong or used before, a scope is missing, or the user is blocked"
            }
            Self::WrongKeys => "bots refused: their key is missing, wrong or revoked; see `bot-companion key list`",
            Self::ForwardedFor => {
                "ignoring X-Forwarded-For from an address that is not in http.trusted_proxies. If that is your proxy, add it; \
                 until then all its clients share one rate limit"
            }
        })
    }
}

#[derive(Debug)]
pub struct Floods {
    kinds: [Throttle; KINDS],
    /// Failed requests, by error code.
    failures: [Throttle; ErrorCode::ALL.len()],
}

impl Default for Floods {
    fn default() -> Self {
        Self { kinds: Default::default(), failures: std::array::from_fn(|_| Throttle::default()) }
    }
}

impl Floods {
    /// Records an event at these ticks of the clock, caused by this address in the request with this ID.
    pub fn note(&self, kind: FloodKind, client: IpAddr, id: &str, now: Duration) {
        let throttle = kinds().zip(&self.kinds).find(|(known, _)| *known == kind).map(|(_, throttle)| throttle);
        if let (Some(throttle), Some(line)) = (throttle, kind.line())
            && let Some(times) = throttle.count(now)
        {
            warn!(id, %client, times, "{line}");
        }
    }

    /// Records a request that failed with this code. `Some` if that should be logged now: how many failed since the last line,
    /// including this one.
    pub fn count_failure(&self, code: ErrorCode, now: Duration) -> Option<u64> {
        self.failures[code as usize].count(now)
    }

    /// Logs what is waiting to be logged and may be now.
    pub fn report(&self, now: Duration) {
        for (kind, throttle) in kinds().zip(&self.kinds) {
            if let (Some(line), Some(times)) = (kind.line(), throttle.rest(now)) {
                warn!(times, "{line}");
            }
        }
        for code in ErrorCode::ALL {
            let Some(times) = self.failures[*code as usize].rest(now) else { continue };
            let (status, name) = (code.status().as_u16(), code.name());
            if code.server_error().is_some() {
                error!(status, code = name, times, "request failed");
            } else {
                warn!(status, code = name, times, "request failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use test_support::TestFolder;

    use super::*;

    #[test]
    fn a_flood_is_told_at_once_then_once_per_minute_and_to_its_end() {
        let folder = TestFolder::new();
        let lines = std::fs::File::create(folder.path("log")).unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(std::sync::Mutex::new(lines))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let floods = Floods::default();
            let client = |last| Ipv4Addr::new(192, 0, 2, last).into();
            for second in 0..90 {
                floods.note(FloodKind::Limit(LimitName::Requests), client(1), "a", Duration::from_secs(second));
                floods.report(Duration::from_secs(second));
            }
            floods.note(FloodKind::WrongKeys, client(2), "b", Duration::from_secs(90));
            (90..400).for_each(|second| floods.report(Duration::from_secs(second)));
        });
        let written = std::fs::read_to_string(folder.path("log")).unwrap();
        let told: Vec<_> = written.lines().map(|line| line.split("allows ").last().unwrap()).collect();
        assert_eq!(told.len(), 4, "{written}");
        assert_eq!((told[0], told[1]), ("id=\"a\" client=192.0.2.1 times=1", "id=\"a\" client=192.0.2.1 times=60"));
        assert!(told[2].ends_with("id=\"b\" client=192.0.2.2 times=1"), "{}", told[2]);
        assert_eq!(told[3], "times=29");
    }
}
