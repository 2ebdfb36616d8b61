//! Watches the certificate's files, and takes over a renewed certificate without a restart. Checking them every few seconds
//! works for files that are overwritten, renamed over, or reached through a symbolic link that is replaced (certbot,
//! Kubernetes).

use std::sync::Arc;
use std::time::Duration;

use runtime::clock::Clock;
use telemetry::log_throttle::Throttle;
use tracing::{error, info, warn};

use super::tls::{CertifiedAcceptor, FilesStamp, LoadedCertificate};

/// How often the files are checked.
pub const WATCH_EVERY: Duration = Duration::from_secs(2);
/// A certificate that expires this soon causes a warning.
const EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);
const WARN_EVERY: Duration = Duration::from_hours(24);
/// A certificate and its key are written one after the other, so a single mismatch is not an error yet.
const LOOKS_BEFORE_ERROR: u32 = 2;

pub struct CertificateWatch {
    tls: Arc<CertifiedAcceptor>,
    clock: Clock,
    /// The state of the files at the last check.
    last_seen: Option<FilesStamp>,
    failures: u32,
    errors: Throttle,
    /// When the next warning about its expiry may come, in the clock's ticks.
    next_warning: Duration,
}

impl CertificateWatch {
    pub fn new(tls: Arc<CertifiedAcceptor>, clock: Clock) -> Self {
        Self { tls, clock, last_seen: None, failures: 0, errors: Throttle::default(), next_warning: Duration::ZERO }
    }

    /// Takes over files that have changed and are no longer being written.
    pub fn look(&mut self) {
        let current = self.tls.certificate();
        let seen = FilesStamp::of(&current.files);
        let has_settled = self.last_seen.as_ref() == Some(&seen);
        self.last_seen = Some(seen.clone());
        if seen == current.stamp {
            self.failures = 0;
        } else if has_settled {
            self.take(&current);
        }
        self.warn_about_expiry();
    }

    fn take(&mut self, current: &LoadedCertificate) {
        match LoadedCertificate::load(&current.files) {
            Ok(loaded) => {
                let is_new = !loaded.is_same(current);
                self.tls.replace(loaded);
                self.failures = 0;
                self.next_warning = Duration::ZERO;
                if is_new {
                    info!("the certificate was replaced; new connections use it");
                }
            }
            Err(problem) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= LOOKS_BEFORE_ERROR
                    && let Some(times) = self.errors.count(self.clock.ticks())
                {
                    error!(%problem, times, "the certificate's files have changed and cannot be used; the old certificate stays in use");
                }
            }
        }
    }

    /// Warns once per day about a certificate that expires soon or is not valid yet.
    pub fn warn_about_expiry(&mut self) {
        let Some((from, expires)) = self.tls.validity() else { return };
        let (now, ticks) = (self.clock.now(), self.clock.ticks());
        let left = expires.since(now);
        if (left > EXPIRES_SOON && from <= now) || ticks < self.next_warning {
            return;
        }
        self.next_warning = ticks + WARN_EVERY;
        if from > now {
            let from = from.iso8601();
            error!(%from, "the certificate is not valid yet, so browsers refuse it; check this machine's clock, or use the \
            old one until then");
        } else if left.is_zero() {
            error!("the certificate has expired; renew it: write the new one to tls.cert and tls.key");
        } else {
            let days = left.as_secs() / (24 * 60 * 60);
            warn!(days, "the certificate expires soon; renew it: write the new one to tls.cert and tls.key");
        }
    }

    /// The certificate was replaced elsewhere, so warnings about the old one no longer apply.
    pub fn forget(&mut self) {
        (self.last_seen, self.failures, self.next_warning) = (None, 0, Duration::ZERO);
    }
}
