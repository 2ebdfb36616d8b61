//! Telling the provider that grants are not needed any more. Only for users without a session: revoking one token revokes all of
//! that user's. Revocations wait in the store, where a sign-in cancels them and any replica finds them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{info, warn};

use super::Accounts;
use crate::domain::RevocationEnd;
use crate::idp::{IdpError, IdpErrorKind};
use crate::store::{Result, Revocation};

/// What a revocation may need beyond the provider's part of it, before it counts as abandoned.
const MARGIN: Duration = Duration::from_secs(5);

impl Accounts {
    /// Sends the revocations that are due, in the background; one such pass at a time.
    pub fn start_revoking(self: &Arc<Self>) {
        if self.revoking.swap(true, Ordering::SeqCst) {
            return;
        }
        let this = Arc::clone(self);
        self.sources.background.spawn(async move {
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
            this.revoking.store(false, Ordering::SeqCst);
        });
    }

    /// Sends one revocation that is due; `false` if there is none.
    pub async fn revoke_next(&self) -> Result<bool> {
        let now = self.sources.clock.now();
        let until = now.after(self.exchange_limit + MARGIN);
        let Some(revocation) = self.sources.store.take_revocation(now, until).await? else { return Ok(false) };
        let end = self.revoke(&revocation).await;
        self.sources.store.finish_revocation(revocation.user, until, end).await?;
        Ok(true)
    }

    async fn revoke(&self, revocation: &Revocation) -> RevocationEnd {
        let Revocation { user, grant, tries, .. } = revocation;
        let sent = match self.sources.vault.open(*user, grant) {
            Ok(grant) => self.sources.provider.revoke(*user, &grant.refresh_token).await,
            Err(error) => {
                warn!(%user, %error, "a grant that is to be revoked cannot be opened; it lapses at the provider by itself");
                return RevocationEnd::GivenUp;
            }
        };
        let now = self.sources.clock.now();
        let end = match &sent {
            Ok(()) => RevocationEnd::confirmed(now),
            Err(IdpError { kind: IdpErrorKind::RateLimited(wait) | IdpErrorKind::HeldBack(wait), .. }) => {
                RevocationEnd::failed(now, *tries, Some(*wait))
            }
            Err(IdpError { kind: IdpErrorKind::Unavailable | IdpErrorKind::Timeout, .. }) => {
                RevocationEnd::failed(now, *tries, None)
            }
            Err(_) => RevocationEnd::GivenUp,
        };
        match sent {
            Ok(()) => info!(%user, "grant revoked at the provider"),
            Err(error) if end == RevocationEnd::GivenUp => {
                warn!(%user, %error, "a grant could not be revoked at the provider; it lapses there by itself");
            }
            Err(error) => {
                warn!(%user, %error, tries, "a grant could not be revoked at the provider; it is tried again");
            }
        }
        end
    }
}
