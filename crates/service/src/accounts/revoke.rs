//! Revokes grants at the provider. Only for users without a session, because revoking one token revokes all of that user's.
//! Revocations are a queue in the store: a sign-in cancels the user's, and any replica sends what is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::RevocationEnd;
use provider::idp::{IdpError, IdpErrorKind};
use store::{Result, Revocation};
use tracing::{info, warn};

use super::Accounts;

/// The lease of a revocation lasts this much longer than the provider's timeout.
const LEASE_MARGIN: Duration = Duration::from_secs(10);

/// Ends a run of revocations, even if it panics.
struct RevocationRun(Arc<AtomicBool>);

impl Drop for RevocationRun {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Accounts {
    /// Sends the revocations that are due, in the background. Only one run at a time.
    pub fn start_revoking(self: &Arc<Self>) {
        if self.revoking.swap(true, Ordering::SeqCst) {
            return;
        }
        let (this, run) = (Arc::clone(self), RevocationRun(Arc::clone(&self.revoking)));
        self.sources.background.spawn(async move {
            let _run = run;
            // At shutdown the rest is left to another replica or to the next start.
            while !this.sources.background.is_closing() {
                match this.revoke_next().await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        if let Some(times) = this.unread_revocations.count(this.sources.clock.ticks()) {
                            warn!(%error, times, "grants cannot be revoked at the provider right now; retrying shortly");
                        }
                        break;
                    }
                }
            }
        });
    }

    pub fn is_revoking(&self) -> bool {
        self.revoking.load(Ordering::SeqCst)
    }

    /// How long the lease of a revocation lasts. Until then, no other replica touches it.
    pub(super) fn revocation_lease(&self) -> Duration {
        self.exchange_limit + LEASE_MARGIN
    }

    /// Sends one revocation that is due; `false` if there is none, or if the provider must not be called now.
    pub async fn revoke_next(&self) -> Result<bool> {
        let now = self.sources.clock.now();
        let until = now.after(self.revocation_lease());
        let Some(revocation) = self.sources.store.take_revocation(now, until).await? else { return Ok(false) };
        // The store may have been slow to answer. Once the lease is over, this could revoke a grant that was stored since.
        let taken_at = self.sources.clock.now();
        let end = if taken_at.after(self.exchange_limit) < until {
            self.revoke(&revocation).await
        } else {
            RevocationEnd::unsent(taken_at, Some(Duration::ZERO))
        };
        self.sources.store.finish_revocation(revocation.user, until, end).await?;
        Ok(!matches!(end, RevocationEnd::Unsent { .. }))
    }

    async fn revoke(&self, revocation: &Revocation) -> RevocationEnd {
        let Revocation { user, grant, tries, .. } = revocation;
        let sent = match self.sources.vault.open(*user, grant) {
            Ok(grant) => self.sources.provider.revoke(&grant.refresh_token).await,
            Err(error) => {
                warn!(%user, %error, "a grant waiting to be revoked cannot be decrypted; it will expire at the provider on \
                its own");
                return RevocationEnd::over(self.sources.clock.now());
            }
        };
        let now = self.sources.clock.now();
        let Err(error) = sent else {
            info!(%user, "grant revoked at the provider");
            self.sources.audit.grant_revoked(*user);
            return RevocationEnd::over(now);
        };
        let end = end_after(&error, now, *tries);
        match end {
            RevocationEnd::Over { .. } => {
                warn!(%user, %error, "a grant could not be revoked at the provider; it will expire there on its own");
            }
            RevocationEnd::Retry { .. } | RevocationEnd::Unsent { .. } => {
                if let Some(times) = self.unrevoked.count(self.sources.clock.ticks()) {
                    warn!(%user, %error, tries, times, "a grant could not be revoked at the provider; retrying");
                }
            }
        }
        end
    }
}

/// What happens to a revocation that failed.
fn end_after(error: &IdpError, now: domain::Time, tries: u32) -> RevocationEnd {
    match error.kind {
        IdpErrorKind::BackingOff(wait) | IdpErrorKind::CircuitOpen(wait) => RevocationEnd::unsent(now, Some(wait)),
        IdpErrorKind::Unavailable | IdpErrorKind::Timeout if !error.code_spent => RevocationEnd::unsent(now, None),
        IdpErrorKind::RateLimited(wait) => RevocationEnd::failed(now, tries, Some(wait)),
        // The operator may correct our credentials in the meantime.
        IdpErrorKind::Misconfigured
        | IdpErrorKind::RedirectRefused
        | IdpErrorKind::Refused
        | IdpErrorKind::Unavailable
        | IdpErrorKind::Timeout => RevocationEnd::failed(now, tries, None),
        IdpErrorKind::Rejected | IdpErrorKind::Unauthorized => RevocationEnd::over(now),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use domain::Time;
    use parking_lot::Mutex;
    use runtime::clock::Clock;
    use runtime::random::Random;
    use telemetry::Version;
    use test_support::TestFolder;

    use crate::app::App;
    use crate::config::{Config, Layer};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_store_that_stays_away_is_logged_once_per_minute() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let (folder, clock) = (TestFolder::new(), Clock::manual(Time::from_seconds(1000)));
        let configuration = format!("[store]\nurl = \"sqlite:{}\"", folder.path("test.db").display());
        let nothing = std::iter::empty::<(String, String)>();
        let config = Config::load_over(&[Layer::new("test", configuration)], None, nothing).unwrap();
        let app = App::build(config, clock.clone(), Random::seeded(1), Version::UNKNOWN).await.unwrap();
        app.sources.store.close().await;
        for (rounds, lines) in [(3, 1), (1, 2)] {
            for _ in 0..rounds {
                app.accounts.start_revoking();
                while app.accounts.is_revoking() {
                    tokio::task::yield_now().await;
                }
            }
            let text = String::from_utf8(log.0.lock().clone()).unwrap();
            assert_eq!(text.matches("grants cannot be revoked").count(), lines, "{text}");
            clock.advance(Duration::from_mins(2));
        }
    }
}
