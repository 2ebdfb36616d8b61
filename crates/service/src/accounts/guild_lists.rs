//! The provider's list of a user's guilds: stale-while-revalidate, stale-if-error, one fetch in flight per user, and backoff after
//! a failure. A failure never replaces a good list.

use std::sync::Arc;
use std::time::Duration;

use domain::{ListedGuild, Snowflake, Time};
use provider::idp::{IdpError, IdpErrorKind};
use quick_cache::sync::Cache;
use runtime::single_flight::{Flight, SingleFlight};
use store::{Account, StoreError, StoredList};
use telemetry::log_throttle::Throttle;
use tracing::{debug, info, warn};

use super::grants::{CurrentGrant, GrantState, Grants, unavailable};
use crate::config::{Config, GuildsConfig};
use crate::sources::Sources;

/// How many users' recent failures and forced refreshes are remembered.
const REMEMBERED_USERS: usize = 20_000;
/// The longest backoff after a failure of the store, which may be back at any time.
const STORE_BACKOFF: Duration = Duration::from_secs(1);
/// How often one fetch starts over because the grant or the list changed in the meantime.
const ROUNDS: usize = 3;

/// Why there is no list to show.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ListError {
    /// The user has no session any more, or the provider dropped their grant, which ended their sessions.
    #[error("the user is signed out")]
    SignedOut,
    #[error(transparent)]
    Idp(#[from] IdpError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a stored list may be used, by its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAge {
    Recent,
    StaleWhileRevalidate,
    StaleIfError,
    Expired,
}

impl ListAge {
    pub fn of(limits: &GuildsConfig, fetched: Time, now: Time) -> Self {
        match age(fetched, now) {
            age if age <= limits.fresh => Self::Recent,
            age if age <= limits.stale_while_revalidate => Self::StaleWhileRevalidate,
            age if age <= limits.max_stale => Self::StaleIfError,
            _ => Self::Expired,
        }
    }
}

/// How old a list is. One from the future was fetched before the clock was set back, so its distance from now counts as its
/// age.
pub fn age(fetched: Time, now: Time) -> Duration {
    now.apart(fetched)
}

pub struct GuildLists {
    fetcher: Arc<Fetcher>,
    fetches: SingleFlight<Snowflake, Result<(), ListError>>,
    /// When a user last forced a refresh.
    last_forced: Cache<Snowflake, Duration>,
    limits: GuildsConfig,
    /// How long a request without a usable list waits for one.
    fetch_wait: Duration,
}

/// What a background fetch needs.
struct Fetcher {
    sources: Sources,
    grants: Grants,
    backoffs: Cache<Snowflake, Backoff>,
    /// How long to leave a user's list alone after a failure.
    failure_backoff: Duration,
    /// For the log line about failures: while the provider is down, there would be one for every user who looks.
    failures: Throttle,
}

/// Why no fetch is tried for a user, and until when.
#[derive(Clone)]
struct Backoff {
    until: Duration,
    error: ListError,
}

impl Backoff {
    /// The error as of now. A rate limit tells how long is left to wait, so that an obedient client does not come back too
    /// early.
    fn error(self, now: Duration) -> ListError {
        let left = self.until.saturating_sub(now);
        match self.error {
            ListError::Idp(
                error @ IdpError { kind: IdpErrorKind::RateLimited(_) | IdpErrorKind::BackingOff(_), .. },
            ) => ListError::Idp(IdpError { kind: IdpErrorKind::BackingOff(left), ..error }),
            ListError::Idp(error @ IdpError { kind: IdpErrorKind::CircuitOpen(_), .. }) => {
                ListError::Idp(IdpError { kind: IdpErrorKind::CircuitOpen(left), ..error })
            }
            error => error,
        }
    }
}

impl GuildLists {
    pub(super) fn new(sources: &Sources, config: &Config) -> Self {
        Self {
            fetcher: Arc::new(Fetcher {
                sources: sources.clone(),
                grants: Grants::new(sources, config.idp.sign_in_timeout),
                backoffs: Cache::new(REMEMBERED_USERS),
                failure_backoff: config.guilds.failure_backoff,
                failures: Throttle::default(),
            }),
            fetches: SingleFlight::new(sources.background.clone()),
            last_forced: Cache::new(REMEMBERED_USERS),
            limits: config.guilds.clone(),
            fetch_wait: config.idp.list_timeout,
        }
    }

    /// Makes sure that a user's list, last `fetched` then, can be shown, refreshing it if needed; `forced` asks the provider
    /// first. Returns whether it was fetched.
    pub async fn ensure_usable(&self, user: Snowflake, fetched: Option<Time>, forced: bool) -> Result<bool, ListError> {
        let must_refresh = forced && self.take_forced_refresh(user);
        let now = self.fetcher.sources.clock.now();
        match fetched.map_or(ListAge::Expired, |fetched| ListAge::of(&self.limits, fetched, now)) {
            ListAge::Recent if !must_refresh => Ok(false),
            ListAge::StaleWhileRevalidate if !must_refresh => {
                self.start_fetch(user, fetched);
                Ok(false)
            }
            ListAge::Expired => self.fetch(user, fetched, self.fetch_wait).await.map(|()| true),
            _ => match self.fetch(user, fetched, self.limits.refresh_wait).await {
                Ok(()) => Ok(true),
                Err(ListError::SignedOut) => Err(ListError::SignedOut),
                // The existing list may still be shown.
                Err(_) => Ok(false),
            },
        }
    }

    /// Waits for a fetch of a user's list that is in flight, or fetches it for the first time.
    pub async fn settle(&self, user: Snowflake) {
        // Callers check for themselves whether there is a list now.
        let _ = self.fetch(user, None, self.fetch_wait).await;
    }

    /// Forgets failures and forced refreshes, so that every list can be fetched immediately.
    pub fn forget_failures(&self) {
        self.fetcher.backoffs.clear();
        self.last_forced.clear();
    }

    /// Fetches the list of a user who has just signed in, in the background.
    pub(super) fn prefetch(&self, user: Snowflake) {
        self.start_fetch(user, Some(self.fetcher.sources.clock.now()));
    }

    /// Fetches a list that is newer than the one fetched at `newer_than`, in the background.
    fn start_fetch(&self, user: Snowflake, newer_than: Option<Time>) {
        // Nobody waits for the outcome; the fetch carries on by itself.
        let _ = self.join_fetch(user, newer_than);
    }

    fn join_fetch(&self, user: Snowflake, newer_than: Option<Time>) -> Flight<Result<(), ListError>> {
        self.fetches.join(user, || Arc::clone(&self.fetcher).fetch_unless_backing_off(user, newer_than))
    }

    async fn fetch(&self, user: Snowflake, newer_than: Option<Time>, wait: Duration) -> Result<(), ListError> {
        let flight = self.join_fetch(user, newer_than);
        match tokio::time::timeout(wait, flight.outcome()).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(StoreError::Failed("a fetch of a guild list crashed".to_owned()).into()),
            Err(_) => {
                let detail = "the guild list did not arrive in time";
                Err(IdpError { kind: IdpErrorKind::Timeout, ..unavailable(detail) }.into())
            }
        }
    }

    /// Whether the user may force a refresh now. If so, it counts against their limit.
    fn take_forced_refresh(&self, user: Snowflake) -> bool {
        let now = self.fetcher.sources.clock.ticks();
        let recent = self.last_forced.get(&user).is_some_and(|last| now < last + self.limits.forced_refresh_interval);
        if !recent {
            self.last_forced.insert(user, now);
        }
        !recent
    }
}

impl Fetcher {
    fn current_backoff(&self, user: Snowflake) -> Option<ListError> {
        let backoff = self.backoffs.get(&user)?;
        let now = self.sources.clock.ticks();
        (now < backoff.until).then(|| backoff.error(now))
    }

    async fn fetch_unless_backing_off(
        self: Arc<Self>,
        user: Snowflake,
        newer_than: Option<Time>,
    ) -> Result<(), ListError> {
        // Checked inside the single flight, because an earlier fetch may have failed in the meantime.
        if let Some(error) = self.current_backoff(user) {
            return Err(error);
        }
        match self.fetch(user, newer_than).await {
            Err(error @ (ListError::Idp(_) | ListError::Store(_))) => {
                if let Some(times) = self.failures.count(self.sources.clock.ticks()) {
                    warn!(%user, %error, times, "the guild list could not be fetched");
                } else {
                    debug!(%user, %error, "the guild list could not be fetched");
                }
                let span = match error {
                    ListError::Idp(IdpError {
                        kind: IdpErrorKind::RateLimited(span) | IdpErrorKind::BackingOff(span),
                        ..
                    }) => self.failure_backoff.max(span),
                    ListError::Store(StoreError::Unavailable(_) | StoreError::Busy(_)) => {
                        self.failure_backoff.min(STORE_BACKOFF)
                    }
                    _ => self.failure_backoff,
                };
                let now = self.sources.clock.ticks();
                let backoff = Backoff { until: now + span, error };
                self.backoffs.insert(user, backoff.clone());
                Err(backoff.error(now))
            }
            outcome @ (Ok(()) | Err(ListError::SignedOut)) => {
                self.backoffs.remove(&user);
                outcome
            }
        }
    }

    async fn fetch(&self, user: Snowflake, newer_than: Option<Time>) -> Result<(), ListError> {
        let Sources { store, clock, .. } = &self.sources;
        for _ in 0..ROUNDS {
            let account = store.account(user).await?.ok_or(ListError::SignedOut)?;
            if account.list.as_ref().map(|list| list.fetched) > newer_than {
                // An earlier fetch, or another replica, has stored a newer list since the caller looked.
                return Ok(());
            }
            let began = clock.now();
            match self.ask_provider(user, &account).await? {
                Fetched::List(guilds) => {
                    let list = StoredList { fetched: began, guilds };
                    if store.save_list(user, account.list_version, list).await? {
                        return Ok(());
                    }
                    // The user left a guild in the meantime, which this list may still contain; or another replica was faster.
                }
                Fetched::GrantGone(version) => {
                    if store.end_sessions_of_grant(user, version).await? {
                        info!(%user, "the provider no longer knows the grant; the user's sessions have ended");
                        return Err(ListError::SignedOut);
                    }
                    // The user signed in again in the meantime, with a new grant.
                }
                Fetched::GrantReplaced => {}
            }
        }
        Err(unavailable("the grant or the list kept changing").into())
    }

    /// Asks the provider for the list, with at most one refresh of the grant.
    async fn ask_provider(&self, user: Snowflake, account: &Account) -> Result<Fetched, ListError> {
        let mut state = self.grants.usable(user, account).await?;
        loop {
            let current = match state {
                GrantState::Current(current) => current,
                GrantState::Gone(version) => return Ok(Fetched::GrantGone(version)),
                GrantState::Replaced => return Ok(Fetched::GrantReplaced),
            };
            let CurrentGrant { grant, version, is_refreshed } = &current;
            match self.sources.provider.guilds(&grant.access_token).await {
                Err(IdpError { kind: IdpErrorKind::Unauthorized, .. }) if *is_refreshed => {
                    return Ok(Fetched::GrantGone(*version));
                }
                Err(IdpError { kind: IdpErrorKind::Unauthorized, .. }) => {
                    state = self.grants.refresh(user, current).await?;
                }
                outcome => return Ok(Fetched::List(outcome?)),
            }
        }
    }
}

enum Fetched {
    List(Vec<ListedGuild>),
    GrantGone(u64),
    GrantReplaced,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_done_with_a_list_is_told_by_its_age() {
        let seconds = Duration::from_secs;
        let limits = GuildsConfig {
            fresh: seconds(60),
            stale_while_revalidate: seconds(600),
            max_stale: seconds(3600),
            refresh_wait: seconds(2),
            failure_backoff: seconds(15),
            forced_refresh_interval: seconds(10),
        };
        let now = Time::from_seconds(1_000_000);
        for (age, expected) in [
            (0, ListAge::Recent),
            (60, ListAge::Recent),
            (61, ListAge::StaleWhileRevalidate),
            (600, ListAge::StaleWhileRevalidate),
            (601, ListAge::StaleIfError),
            (3600, ListAge::StaleIfError),
            (3601, ListAge::Expired),
        ] {
            for fetched in [now.before(seconds(age)), now.after(seconds(age))] {
                assert_eq!(ListAge::of(&limits, fetched, now), expected, "{age}");
            }
        }
    }
}
