//! Telling the provider that grants are not needed any more. Only for users without a session: revoking one token revokes all of
//! that user's. Revocations wait in the store, where a sign-in cancels them and any replica finds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::{info, warn};

use super::Accounts;
use crate::domain::RevocationEnd;
use crate::idp::{IdpError, IdpErrorKind};
use crate::store::{Result, Revocation};

/// What a try may need beyond the provider's part of it, before it counts as abandoned.
const MARGIN: Duration = Duration::from_secs(10);

/// Says that a pass is over, also when it panics.
struct Pass(Arc<AtomicBool>);

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Accounts {
    /// Sends the revocations that are due, in the background; one such pass at a time.
    pub fn start_revoking(self: &Arc<Self>) {
        if self.revoking.swap(true, Ordering::SeqCst) {
            return;
        }
        let (this, pass) = (Arc::clone(self), Pass(Arc::clone(&self.revoking)));
        self.sources.background.spawn(async move {
            let _pass = pass;
            // When the service stops, the rest waits for another replica or the next start.
            while !this.sources.background.is_closing() {
                match this.revoke_next().await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        warn!(%error, "no grants can be revoked at the provider now; trying again in a moment");
                        break;
                    }
                }
            }
        });
    }

    /// Whether this process is sending revocations.
    pub fn is_revoking(&self) -> bool {
        self.revoking.load(Ordering::SeqCst)
    }

    /// How long whoever sends a revocation has for it; nobody else touches it meanwhile.
    pub(super) fn revocation_lease(&self) -> Duration {
        self.exchange_limit + MARGIN
    }

    /// Sends one revocation that is due; `false` if there is none, or if the provider must not be called now.
    pub async fn revoke_next(&self) -> Result<bool> {
        let now = self.sources.clock.now();
        let until = now.after(self.revocation_lease());
        let Some(revocation) = self.sources.store.take_revocation(now, until).await? else { return Ok(false) };
        // The store may have been slow to answer: what is sent after its time could end a grant that was stored since.
        let taken = self.sources.clock.now();
        let end = if taken.after(self.exchange_limit) < until {
            self.revoke(&revocation).await
        } else {
            RevocationEnd::unsent(taken, Some(Duration::ZERO))
        };
        self.sources.store.finish_revocation(revocation.user, until, end).await?;
        Ok(!matches!(end, RevocationEnd::Unsent { .. }))
    }

    async fn revoke(&self, revocation: &Revocation) -> RevocationEnd {
        let Revocation { user, grant, tries, .. } = revocation;
        let sent = match self.sources.vault.open(*user, grant) {
            Ok(grant) => self.sources.provider.revoke(*user, &grant.refresh_token).await,
            Err(error) => {
                warn!(%user, %error, "a grant that is to be revoked cannot be opened; it lapses at the provider by itself");
                return RevocationEnd::over(self.sources.clock.now());
            }
        };
        let now = self.sources.clock.now();
        let Err(error) = sent else {
            info!(%user, "grant revoked at the provider");
            return RevocationEnd::over(now);
        };
        let end = after(&error, now, *tries);
        match end {
            RevocationEnd::Over { .. } => {
                warn!(%user, %error, "a grant could not be revoked at the provider; it lapses there by itself");
            }
            RevocationEnd::Retry { .. } | RevocationEnd::Unsent { .. } => {
                warn!(%user, %error, tries, "a grant could not be revoked at the provider; it is tried again");
            }
        }
        end
    }
}

/// What becomes of a revocation that failed.
fn after(error: &IdpError, now: crate::domain::Time, tries: u32) -> RevocationEnd {
    match error.kind {
        IdpErrorKind::HeldBack(wait) | IdpErrorKind::Paused(wait) => RevocationEnd::unsent(now, Some(wait)),
        IdpErrorKind::Unavailable | IdpErrorKind::Timeout if !error.code_spent => RevocationEnd::unsent(now, None),
        IdpErrorKind::RateLimited(wait) => RevocationEnd::failed(now, tries, Some(wait)),
        // Credentials of ours that are wrong may be mended by the operator.
        IdpErrorKind::Misconfigured | IdpErrorKind::Refused | IdpErrorKind::Unavailable | IdpErrorKind::Timeout => {
            RevocationEnd::failed(now, tries, None)
        }
        IdpErrorKind::Rejected | IdpErrorKind::Unauthorized => RevocationEnd::over(now),
    }
}
