//! Grants: permission from the provider to act for a user. Stored encrypted and refreshed when they expire, by one replica at a
//! time.

use std::time::Duration;

use domain::Snowflake;
use provider::idp::{Grant, IdpError, IdpErrorKind};
use store::{Account, Lease, SealedGrant, StoreError};
use telemetry::log_throttle::Throttle;
use tracing::error;

use super::ListError;
use crate::sources::Sources;

/// A token that expires within this span is refreshed before it is used.
const REFRESH_AHEAD: Duration = Duration::from_mins(1);
/// The lease of a refresh lasts this much longer than the provider's timeout.
const LEASE_MARGIN: Duration = Duration::from_secs(2);
/// How often a replica that waits for another's refresh looks for the outcome.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// How often to retry saving a refreshed grant while the store cannot be reached, and how long to pause in between: over a
/// minute in total.
const SAVE_TRIES: usize = 240;
const SAVE_PAUSE: Duration = Duration::from_millis(250);

pub(super) struct Grants {
    sources: Sources,
    lease: Duration,
    /// For the log line about grants that no key can decrypt.
    unreadable: Throttle,
}

/// A grant, and the version under which it is stored.
pub(super) struct CurrentGrant {
    pub(super) grant: Grant,
    pub(super) version: u64,
    /// Whether it was refreshed just now.
    pub(super) is_refreshed: bool,
}

pub(super) enum GrantState {
    Current(CurrentGrant),
    /// The provider no longer knows the grant with this version.
    Gone(u64),
    /// Another one was stored meanwhile: read the account again.
    Replaced,
}

impl Grants {
    /// `refresh_timeout`: how long the provider may take to answer a refresh.
    pub(super) fn new(sources: &Sources, refresh_timeout: Duration) -> Self {
        Self { sources: sources.clone(), lease: refresh_timeout + LEASE_MARGIN, unreadable: Throttle::default() }
    }

    /// The account's grant, refreshed if it is about to expire.
    pub(super) async fn usable(&self, user: Snowflake, account: &Account) -> Result<GrantState, ListError> {
        let version = account.grant_version;
        // The user's last other session ended just as this one was opened, and took the grant with it.
        let Some(sealed) = &account.grant else { return Ok(GrantState::Gone(version)) };
        let current = CurrentGrant { grant: self.open(user, sealed)?, version, is_refreshed: false };
        if current.grant.expires > self.sources.clock.now().after(REFRESH_AHEAD) {
            return Ok(GrantState::Current(current));
        }
        self.refresh(user, current).await
    }

    /// Refreshes a grant. A refresh token works once, so one replica refreshes and the others wait for the outcome. If a
    /// refresh fails, its lease is left to expire, because the token may or may not have been used.
    pub(super) async fn refresh(&self, user: Snowflake, old: CurrentGrant) -> Result<GrantState, ListError> {
        let Sources { provider, vault, .. } = &self.sources;
        match self.acquire_lease(user, old.version).await? {
            Lease::Mine => {}
            Lease::Replaced => return Ok(GrantState::Replaced),
            Lease::Busy => return Err(unavailable("another refresh of the grant is still running").into()),
        }
        let grant = match provider.refresh(&old.grant.refresh_token).await {
            Ok(grant) => grant,
            Err(IdpError { kind: IdpErrorKind::Rejected, .. }) => return Ok(GrantState::Gone(old.version)),
            Err(error) => return Err(error.into()),
        };
        let sealed = vault.seal(user, &grant).map_err(|error| unavailable(&error.to_string()))?;
        Ok(match self.save(user, old.version, sealed).await? {
            Some(version) => GrantState::Current(CurrentGrant { grant, version, is_refreshed: true }),
            None => GrantState::Replaced,
        })
    }

    /// Saves a refreshed grant, retrying while the store cannot be reached: the stored one is used up, and without the new one
    /// the user's sessions would end.
    async fn save(&self, user: Snowflake, version: u64, grant: SealedGrant) -> Result<Option<u64>, StoreError> {
        let Sources { store, background, .. } = &self.sources;
        let mut tries = 1;
        loop {
            match store.replace_grant(user, version, grant.clone()).await {
                Err(StoreError::Unavailable(_) | StoreError::Busy(_))
                    if tries < SAVE_TRIES && !background.is_closing() =>
                {
                    tries += 1;
                    tokio::time::sleep(SAVE_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits while another replica holds the lease, but no longer than a lease can last.
    async fn acquire_lease(&self, user: Snowflake, version: u64) -> Result<Lease, StoreError> {
        let Sources { store, clock, .. } = &self.sources;
        let polls = self.lease.as_millis() / POLL_EVERY.as_millis();
        for _ in 0..polls {
            let now = clock.now();
            match store.lease_grant(user, version, now, now.after(self.lease)).await? {
                Lease::Busy => tokio::time::sleep(POLL_EVERY).await,
                outcome => return Ok(outcome),
            }
        }
        Ok(Lease::Busy)
    }

    fn open(&self, user: Snowflake, sealed: &SealedGrant) -> Result<Grant, ListError> {
        self.sources.vault.open(user, sealed).map_err(|error| {
            if let Some(times) = self.unreadable.count(self.sources.clock.ticks()) {
                error!(%user, %error, times, "a grant cannot be decrypted; add the key that encrypted it to secrets.keys");
            }
            unavailable(&error.to_string()).into()
        })
    }
}

/// A failure that clients see as one of the provider's.
pub(super) fn unavailable(detail: &str) -> IdpError {
    IdpError { kind: IdpErrorKind::Unavailable, code_spent: false, detail: detail.to_owned() }
}
