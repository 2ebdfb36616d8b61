//! The provider's list of a user's guilds: when the stored one is good enough, and how it is fetched anew. One call in flight a
//! user, none for a while after a failure, and a failure never replaces a good list.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use tracing::{error, info, warn};

use super::Sources;
use crate::config::{Config, Guilds};
use crate::domain::{ListedGuild, Snowflake, Time};
use crate::idp::{Grant, IdpError, IdpErrorKind};
use crate::single_flight::{Flight, SingleFlight};
use crate::store::{Account, Lease, SealedGrant, StoreError, StoredList};

/// For how many users a recent failure or forced refresh is remembered.
const REMEMBERED: usize = 20_000;
/// A token that ends within this span is refreshed before it is used.
const REFRESH_AHEAD: Duration = Duration::from_mins(1);
/// How much longer than the provider's answer may take the claim to a refresh lasts.
const LEASE_MARGIN: Duration = Duration::from_secs(2);
/// How often whoever waits for another replica's refresh looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The store's failures are held against a user for no longer than this: it may be back at any time.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// How often, and with what pause, a refreshed grant is stored anew while the store is away: a minute and more in all.
const STORE_TRIES: usize = 240;
const STORE_PAUSE: Duration = Duration::from_millis(250);
/// How often one fetch starts over because the grant or the list changed under it.
const ROUNDS: usize = 3;

/// Why there is no list to show.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ListError {
    /// The user has no session any more, or the provider has forgotten their grant and so their sessions ended.
    #[error("the user is signed out")]
    SignedOut,
    /// The provider failed.
    #[error(transparent)]
    Idp(#[from] IdpError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(super) struct Lists {
    shared: Arc<Shared>,
    flights: SingleFlight<Snowflake, Result<(), ListError>>,
    forced: Cache<Snowflake, Duration>,
    limits: Guilds,
    first_wait: Duration,
}

/// What a fetch in the background needs.
struct Shared {
    sources: Sources,
    failures: Cache<Snowflake, Failure>,
    retry: Duration,
    /// How long the claim to a refresh lasts.
    lease: Duration,
}

#[derive(Clone)]
struct Failure {
    until: Duration,
    error: ListError,
}

impl Failure {
    /// The error as of now: a limit tells how long we still hold back, so that whoever obeys does not come too early.
    fn error(self, now: Duration) -> ListError {
        match self.error {
            ListError::Idp(error @ IdpError { kind: IdpErrorKind::RateLimited(_) | IdpErrorKind::HeldBack(_), .. }) => {
                ListError::Idp(IdpError { kind: IdpErrorKind::HeldBack(self.until.saturating_sub(now)), ..error })
            }
            ListError::Idp(error @ IdpError { kind: IdpErrorKind::Paused(_), .. }) => {
                ListError::Idp(IdpError { kind: IdpErrorKind::Paused(self.until.saturating_sub(now)), ..error })
            }
            error => error,
        }
    }
}

impl Lists {
    pub(super) fn new(sources: &Sources, config: &Config) -> Self {
        Self {
            shared: Arc::new(Shared {
                sources: sources.clone(),
                failures: Cache::new(REMEMBERED),
                retry: config.guilds.retry,
                lease: config.idp.sign_in_timeout + LEASE_MARGIN,
            }),
            flights: SingleFlight::new(sources.background.clone()),
            forced: Cache::new(REMEMBERED),
            limits: config.guilds.clone(),
            first_wait: config.idp.list_timeout,
        }
    }

    /// Sees to it that the stored list of a user may be shown. Gives its version, if that is known without another look.
    pub(super) async fn ensure(&self, user: Snowflake, forced: bool) -> Result<Option<u64>, ListError> {
        let sources = &self.shared.sources;
        let account = sources.store.account(user).await?.ok_or(ListError::SignedOut)?;
        let (fetched, version) = (account.list.map(|list| list.fetched), Some(account.list_version));
        // A list from the future was fetched before the clock was set back, and would count as fresh until it is caught up with.
        let age = fetched.map(|fetched| sources.clock.now().apart(fetched));
        let must_refresh = forced && self.may_force(user);
        match age {
            Some(age) if age <= self.limits.fresh && !must_refresh => Ok(version),
            Some(age) if age <= self.limits.behind && !must_refresh => {
                self.start(user, fetched);
                Ok(version)
            }
            Some(age) if age <= self.limits.max_stale => match self.refreshed(user, fetched, self.limits.wait).await {
                Err(ListError::SignedOut) => Err(ListError::SignedOut),
                Err(_) => Ok(version),
                Ok(()) => Ok(None),
            },
            _ => self.refreshed(user, fetched, self.first_wait).await.map(|()| None),
        }
    }

    /// Fetches behind a list that is newer than the one fetched at `than`, unless that happens already or failed just now.
    pub(super) fn start(&self, user: Snowflake, than: Option<Time>) {
        // The landing is not waited for: the flight goes on by itself.
        let _ = self.flight(user, than);
    }

    fn flight(&self, user: Snowflake, than: Option<Time>) -> Flight<Result<(), ListError>> {
        self.flights.join(user, || Arc::clone(&self.shared).fetch_and_remember(user, than))
    }

    async fn refreshed(&self, user: Snowflake, than: Option<Time>, wait: Duration) -> Result<(), ListError> {
        let landing = self.flight(user, than);
        match tokio::time::timeout(wait, landing.outcome()).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(StoreError::Failed("a fetch of a guild list crashed".to_owned()).into()),
            Err(_) => Err(IdpError {
                kind: IdpErrorKind::Timeout,
                code_spent: false,
                detail: "the guild list did not arrive in time".to_owned(),
            }
            .into()),
        }
    }

    fn may_force(&self, user: Snowflake) -> bool {
        let now = self.shared.sources.clock.ticks();
        let recent = self.forced.get(&user).is_some_and(|last| now < last + self.limits.forced);
        if !recent {
            self.forced.insert(user, now);
        }
        !recent
    }
}

impl Shared {
    fn recent_failure(&self, user: Snowflake) -> Option<ListError> {
        let failure = self.failures.get(&user)?;
        let now = self.sources.clock.ticks();
        (now < failure.until).then(|| failure.error(now))
    }

    async fn fetch_and_remember(self: Arc<Self>, user: Snowflake, than: Option<Time>) -> Result<(), ListError> {
        // Asked in the flight, not before it: an earlier flight may have landed in between.
        if let Some(failure) = self.recent_failure(user) {
            return Err(failure);
        }
        match self.fetch(user, than).await {
            Err(error @ (ListError::Idp(_) | ListError::Store(_))) => {
                warn!(%user, %error, "the guild list could not be fetched");
                let hold = match error {
                    ListError::Idp(IdpError {
                        kind: IdpErrorKind::RateLimited(span) | IdpErrorKind::HeldBack(span),
                        ..
                    }) => self.retry.max(span),
                    ListError::Store(StoreError::Unavailable(_) | StoreError::Busy(_)) => self.retry.min(STORE_RETRY),
                    _ => self.retry,
                };
                let now = self.sources.clock.ticks();
                let failure = Failure { until: now + hold, error };
                self.failures.insert(user, failure.clone());
                Err(failure.error(now))
            }
            outcome @ (Ok(()) | Err(ListError::SignedOut)) => {
                self.failures.remove(&user);
                outcome
            }
        }
    }

    async fn fetch(&self, user: Snowflake, than: Option<Time>) -> Result<(), ListError> {
        let Sources { store, clock, .. } = &self.sources;
        for _ in 0..ROUNDS {
            let account = store.account(user).await?.ok_or(ListError::SignedOut)?;
            if account.list.as_ref().map(|list| list.fetched) > than {
                // An earlier flight, or another replica, has brought it since whoever asked last looked.
                return Ok(());
            }
            let began = clock.now();
            match self.listed(user, &account).await? {
                Fetched::List(guilds) => {
                    let list = StoredList { fetched: began, guilds };
                    if store.save_list(user, account.list_version, list).await? {
                        return Ok(());
                    }
                    // The user left a guild while we asked: what we hold may still name it. Or another replica was faster.
                }
                Fetched::GrantGone(version) => {
                    if store.end_sessions_of_grant(user, version).await? {
                        info!(%user, "the provider has forgotten the grant; the user's sessions ended");
                        return Err(ListError::SignedOut);
                    }
                    // The user has signed in anew while we asked with the old grant.
                }
                Fetched::GrantReplaced => {}
            }
        }
        Err(unavailable("the grant or the list kept changing").into())
    }

    /// Asks the provider once, with one refresh of the grant if it needs one.
    async fn listed(&self, user: Snowflake, account: &Account) -> Result<Fetched, ListError> {
        let Sources { provider, clock, .. } = &self.sources;
        let mut version = account.grant_version;
        // A session that was opened just as the user's last other one ended and took the grant along: nothing can come of it.
        let Some(sealed) = &account.grant else { return Ok(Fetched::GrantGone(version)) };
        let mut grant = self.opened(user, sealed)?;
        let mut refreshed = false;
        if grant.expires <= clock.now().after(REFRESH_AHEAD) {
            match self.refresh(user, version, &grant).await? {
                Refreshed::Grant(next, next_version) => (grant, version) = (next, next_version),
                Refreshed::Gone => return Ok(Fetched::GrantGone(version)),
                Refreshed::Replaced => return Ok(Fetched::GrantReplaced),
            }
            refreshed = true;
        }
        match provider.guilds(user, &grant.access_token).await {
            Err(IdpError { kind: IdpErrorKind::Unauthorized, .. }) if !refreshed => {}
            Err(IdpError { kind: IdpErrorKind::Unauthorized, .. }) => return Ok(Fetched::GrantGone(version)),
            other => return Ok(Fetched::List(other?)),
        }
        match self.refresh(user, version, &grant).await? {
            Refreshed::Gone => Ok(Fetched::GrantGone(version)),
            Refreshed::Replaced => Ok(Fetched::GrantReplaced),
            Refreshed::Grant(next, next_version) => match provider.guilds(user, &next.access_token).await {
                Err(IdpError { kind: IdpErrorKind::Unauthorized, .. }) => Ok(Fetched::GrantGone(next_version)),
                other => Ok(Fetched::List(other?)),
            },
        }
    }

    /// A refresh token is good for one use, so one replica refreshes; the others wait for what it brings. A refresh that fails
    /// lets its claim lapse: nobody knows whether the token was used.
    async fn refresh(&self, user: Snowflake, version: u64, grant: &Grant) -> Result<Refreshed, ListError> {
        let Sources { provider, vault, .. } = &self.sources;
        match self.leased(user, version).await? {
            Lease::Mine => {}
            Lease::Replaced => return Ok(Refreshed::Replaced),
            Lease::Busy => return Err(unavailable("another refresh of the grant does not come to an end").into()),
        }
        let next = match provider.refresh(user, &grant.refresh_token).await {
            Ok(next) => next,
            Err(IdpError { kind: IdpErrorKind::Rejected, .. }) => return Ok(Refreshed::Gone),
            Err(error) => return Err(error.into()),
        };
        let sealed = vault.seal(user, &next).map_err(|error| unavailable(&error.to_string()))?;
        Ok(match self.stored(user, version, sealed).await? {
            Some(next_version) => Refreshed::Grant(next, next_version),
            None => Refreshed::Replaced,
        })
    }

    /// Stores a refreshed grant, also if the store is away for a while: the one in the store is used up, and without the new one
    /// the user's sessions would end.
    async fn stored(&self, user: Snowflake, version: u64, grant: SealedGrant) -> Result<Option<u64>, StoreError> {
        let Sources { store, background, .. } = &self.sources;
        let mut tries = 1;
        loop {
            match store.replace_grant(user, version, grant.clone()).await {
                Err(StoreError::Unavailable(_) | StoreError::Busy(_))
                    if tries < STORE_TRIES && !background.is_closing() =>
                {
                    tries += 1;
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits while another replica holds the claim, no longer than one can last.
    async fn leased(&self, user: Snowflake, version: u64) -> Result<Lease, StoreError> {
        let Sources { store, clock, .. } = &self.sources;
        let looks = self.lease.as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..looks {
            let now = clock.now();
            match store.lease_grant(user, version, now, now.after(self.lease)).await? {
                Lease::Busy => tokio::time::sleep(LOOK_EVERY).await,
                outcome => return Ok(outcome),
            }
        }
        Ok(Lease::Busy)
    }

    fn opened(&self, user: Snowflake, sealed: &SealedGrant) -> Result<Grant, ListError> {
        self.sources.vault.open(user, sealed).map_err(|error| {
            error!(%user, %error, "a grant cannot be opened; add the key that sealed it to secrets.keys");
            unavailable(&error.to_string()).into()
        })
    }
}

enum Fetched {
    List(Vec<ListedGuild>),
    GrantGone(u64),
    GrantReplaced,
}

enum Refreshed {
    Grant(Grant, u64),
    Gone,
    Replaced,
}

fn unavailable(detail: &str) -> IdpError {
    IdpError { kind: IdpErrorKind::Unavailable, code_spent: false, detail: detail.to_owned() }
}
