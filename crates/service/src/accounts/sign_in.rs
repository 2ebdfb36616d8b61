//! Sign-in: each code is exchanged once (single flight here, a claim in the store between replicas), and every request that
//! sent it during the exchange gets a session.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use domain::audit::AuditKind;
use domain::{SessionId, Snowflake, Time, User};
use provider::idp::{Grant, IdpError, IdpErrorKind};
use runtime::client_key::ClientKey;
use runtime::concurrency::{LimitReached, Permit};
use secrecy::{ExposeSecret, SecretString};
use store::{Claim, CodeHash, GrantSaved, SealedGrant, StoreError};
use telemetry::metrics::{Label as _, LimitName, SignInOutcome};
use telemetry::request_id;
use tracing::{info, warn};

use super::{Accounts, SignedIn};
use crate::audit::AuditOrigin;
use crate::floods::FloodKind;

/// How often to look for the outcome of another process's exchange.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// How much longer than the provider's part an exchange may take before its claim counts as abandoned.
const CLAIM_MARGIN: Duration = Duration::from_secs(5);
/// The `Retry-After` of a sign-in that is refused because too many are running.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a client sent to sign in.
#[derive(Debug)]
pub struct SignInAttempt {
    pub code: SecretString,
    pub verifier: Option<SecretString>,
    /// From the configuration, never from the client.
    pub redirect_uri: String,
    pub agent: String,
    /// The client's address, which the attempt counts against.
    pub client: IpAddr,
}

/// Why nobody was signed in.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignInError {
    /// The code is wrong or no longer valid.
    #[error("the code was refused")]
    Rejected,
    /// The user did not grant what the service needs.
    #[error("the code was granted without a needed scope")]
    ScopeMissing,
    #[error("the user is blocked")]
    Blocked,
    /// Too many sign-ins from this client address were refused or are running, or this user has signed in too often.
    #[error("too many sign-ins")]
    Limited(LimitName, Duration),
    /// Too many sign-ins are running.
    #[error("too many sign-ins at the same time")]
    Overloaded(Duration),
    #[error(transparent)]
    Idp(#[from] IdpError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Our bug.
    #[error("the exchange crashed")]
    Crashed,
}

impl SignInError {
    /// Whether the sign-in counts as refused for its client address: the provider was called, and it or the operator said no. A
    /// failing provider is not the client's fault.
    fn counts_as_refused(&self) -> bool {
        match self {
            Self::Rejected | Self::ScopeMissing | Self::Blocked | Self::Limited(..) | Self::Crashed => true,
            Self::Idp(error) => match error.kind {
                IdpErrorKind::Rejected
                | IdpErrorKind::RedirectRefused
                | IdpErrorKind::Unauthorized
                | IdpErrorKind::Refused
                | IdpErrorKind::RateLimited(_) => true,
                // Our credentials are rejected before the provider looks at the code.
                IdpErrorKind::Misconfigured
                | IdpErrorKind::BackingOff(_)
                | IdpErrorKind::CircuitOpen(_)
                | IdpErrorKind::Unavailable
                | IdpErrorKind::Timeout => false,
            },
            Self::Overloaded(_) | Self::Store(_) => false,
        }
    }
}

impl From<&SignInError> for SignInOutcome {
    fn from(error: &SignInError) -> Self {
        match error {
            SignInError::Rejected => Self::Rejected,
            SignInError::ScopeMissing => Self::ScopeMissing,
            SignInError::Blocked => Self::Blocked,
            SignInError::Limited(..) => Self::Limited,
            SignInError::Overloaded(_) => Self::Overloaded,
            SignInError::Idp(_) => Self::ProviderFailed,
            SignInError::Store(_) => Self::StoreFailed,
            SignInError::Crashed => Self::Crashed,
        }
    }
}

impl Accounts {
    /// Refuses a client's sign-in if too many are running.
    pub fn try_refuse(&self, client: IpAddr) -> Option<SignInError> {
        let room = self.exchange_permits.check(self.rate_limits.client_key(client));
        (room == Err(LimitReached::InAll)).then(|| {
            self.sources.metrics.sign_ins.count(SignInOutcome::Overloaded);
            self.overloaded()
        })
    }

    fn overloaded(&self) -> SignInError {
        self.sources.metrics.limits.count(LimitName::ConcurrentExchanges);
        SignInError::Overloaded(RETRY_AFTER)
    }

    /// Exchanges a code for a session. The exchange runs to the end even if the caller leaves. `last_uses`: when a user's
    /// sessions were last used in this process, according to the session cache.
    pub async fn sign_in(
        self: &Arc<Self>,
        attempt: SignInAttempt,
        last_uses: impl FnOnce(Snowflake) -> Vec<(SessionId, Time)>,
    ) -> Result<SignedIn, SignInError> {
        let (agent, client) = (attempt.agent.clone(), attempt.client);
        let hash = code_hash(&attempt);
        let exchange = self.exchanges.join(hash, || {
            let this = Arc::clone(self);
            // Now rather than when the task starts: requests that arrive before that must find it full.
            let permit = self.enter(client);
            async move {
                let outcome = this.exchange_within_limits(permit, hash, &attempt).await;
                let counted = outcome.as_ref().map_or_else(SignInOutcome::from, |_| SignInOutcome::SignedIn);
                this.sources.metrics.sign_ins.count(counted);
                outcome.inspect_err(|error| this.note_refusal(client, error))
            }
        });
        let user = exchange.outcome().await.ok_or(SignInError::Crashed)??;
        self.open_session(user, &agent, last_uses).await.inspect_err(|error| self.note_refusal(client, error))
    }

    /// Tells operators about a sign-in that failed. Like the counting, this happens where the exchange ends, so it includes
    /// clients that hung up.
    fn note_refusal(&self, client: IpAddr, error: &SignInError) {
        // It says nothing about the client, and there may be thousands per second.
        if matches!(error, SignInError::Overloaded(_)) {
            return;
        }
        let id = request_id::current();
        let request = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
        let why = SignInOutcome::from(error).text();
        self.sources.audit.refused(AuditKind::SignInRefused, AuditOrigin { client, request }, why);
        if matches!(error, SignInError::Rejected | SignInError::ScopeMissing | SignInError::Blocked) {
            self.sources.floods.note(FloodKind::RefusedSignIns, client, request, self.sources.clock.ticks());
        }
    }

    fn enter(&self, client: IpAddr) -> Result<Permit, SignInError> {
        self.exchange_permits.enter(self.rate_limits.client_key(client)).map_err(|reached| match reached {
            LimitReached::InAll => self.overloaded(),
            LimitReached::PerClient => self.limited(LimitName::ConcurrentExchangesPerAddress, RETRY_AFTER),
        })
    }

    /// Exchanges the code within the rate limits of its client address. They are counted here, in the background task: a client
    /// that hangs up cancels its request, but not the exchange.
    async fn exchange_within_limits(
        &self,
        permit: Result<Permit, SignInError>,
        hash: CodeHash,
        attempt: &SignInAttempt,
    ) -> Result<User, SignInError> {
        let _permit = permit?;
        let limited = |wait| self.limited(LimitName::RefusedSignIns, wait);
        self.rate_limits.check_sign_in(attempt.client).map_err(limited)?;
        let outcome = self.exchange_once(hash, attempt).await;
        if outcome.as_ref().is_err_and(SignInError::counts_as_refused) {
            self.rate_limits.refused_sign_in(attempt.client);
        }
        outcome
    }

    fn limited(&self, limit: LimitName, wait: Duration) -> SignInError {
        self.sources.metrics.limits.count(limit);
        SignInError::Limited(limit, wait)
    }

    /// Exchanges the code unless this or another replica already has.
    async fn exchange_once(&self, hash: CodeHash, attempt: &SignInAttempt) -> Result<User, SignInError> {
        let store = &self.sources.store;
        // The exchange, a revocation that it may have to wait for, and the check afterwards.
        let claim_limit = 2 * self.exchange_limit + self.revocation_lease() + CLAIM_MARGIN;
        let mut waited = false;
        loop {
            let now = self.sources.clock.now();
            match store.claim_code(hash, now, now.after(claim_limit)).await? {
                Claim::Mine => break,
                Claim::Running => {
                    waited = true;
                    tokio::time::sleep(POLL_EVERY).await;
                }
                Claim::Settled(Some(user)) if waited => return Ok(user),
                Claim::Settled(_) => return Err(SignInError::Rejected),
            }
        }
        let outcome = self.exchange(attempt).await;
        let unspent = matches!(&outcome, Err(SignInError::Idp(error)) if !error.code_spent);
        let until = self.sources.clock.now().after(self.code_memory);
        if unspent || self.code_memory.is_zero() {
            store.release_code(hash).await?;
        } else {
            store.settle_code(hash, outcome.as_ref().ok().cloned(), until).await?;
        }
        if let Ok(user) = &outcome {
            // In the background: the sign-in does not depend on it.
            self.lists.prefetch(user.id);
        }
        outcome
    }

    async fn exchange(&self, attempt: &SignInAttempt) -> Result<User, SignInError> {
        let SignInAttempt { code, verifier, redirect_uri, client, .. } = attempt;
        let network = self.rate_limits.network_of(*client);
        let both = async {
            let grant = self.sources.provider.exchange(network, code, verifier.as_ref(), redirect_uri).await?;
            if !grant.has_needed_scopes() {
                return Err(SignInError::ScopeMissing);
            }
            let user = self.sources.provider.user(network, &grant.access_token).await.map_err(mark_code_spent)?;
            Ok((grant, user))
        };
        let (grant, user) = match tokio::time::timeout(self.exchange_limit, both).await {
            Ok(Err(SignInError::Idp(IdpError { kind: IdpErrorKind::Rejected, .. }))) => {
                return Err(SignInError::Rejected);
            }
            Ok(outcome) => outcome?,
            Err(_) => {
                let detail = "exchanging the code and fetching the user took too long".to_owned();
                return Err(IdpError { kind: IdpErrorKind::Timeout, code_spent: true, detail }.into());
            }
        };
        // The new grant is dropped instead of revoked, because revoking it would end the user's other sessions.
        let too_many = |wait| self.limited(LimitName::SignInsPerUser, wait);
        self.rate_limits.exchange_of(user.id).map_err(too_many)?;
        self.save_grant(network, &user, &grant).await?;
        Ok(user)
    }

    /// Stores the grant of a sign-in. If a revocation of the user's previous grant is on its way, it ends all of the user's
    /// tokens at the provider. So this waits for it to finish, then checks that the new grant still works.
    async fn save_grant(&self, network: Option<ClientKey>, user: &User, grant: &Grant) -> Result<(), SignInError> {
        let sealed = self.seal(user, grant)?;
        let mut verified = None;
        // A little longer than a revocation may take.
        let polls = self.revocation_lease().as_millis() / POLL_EVERY.as_millis() + 10;
        for _ in 0..polls {
            let now = self.sources.clock.now();
            match self.sources.store.save_grant(user.clone(), sealed.clone(), now, verified).await? {
                GrantSaved::Saved => return Ok(()),
                GrantSaved::Blocked => return Err(SignInError::Blocked),
                GrantSaved::RevocationRunning => tokio::time::sleep(POLL_EVERY).await,
                GrantSaved::RevocationSent { tries } => {
                    match self.sources.provider.user(network, &grant.access_token).await {
                        Ok(_) => verified = Some(tries),
                        Err(IdpError { kind: IdpErrorKind::Unauthorized, .. }) => {
                            info!(user = %user.id, "this sign-in's grant has been revoked in the meantime; the user has to sign in again");
                            return Err(SignInError::Rejected);
                        }
                        Err(error) => return Err(mark_code_spent(error).into()),
                    }
                }
            }
        }
        let detail = "the user's previous grant is still being revoked".to_owned();
        Err(IdpError { kind: IdpErrorKind::Unavailable, code_spent: true, detail }.into())
    }

    fn seal(&self, user: &User, grant: &Grant) -> Result<SealedGrant, SignInError> {
        self.sources.vault.seal(user.id, grant).map_err(|error| {
            warn!(%error, "a grant could not be encrypted");
            SignInError::Crashed
        })
    }
}

/// After the exchange the code is spent, whatever the next call returns. A token that is refused right after it was issued is
/// reported as the provider's failure, but counts as a refused sign-in: the user may have withdrawn their consent in between.
fn mark_code_spent(error: IdpError) -> IdpError {
    IdpError { code_spent: true, ..error }
}

/// Identifies an exchange. Each part is preceded by its length, so that different attempts never produce the same bytes.
fn code_hash(attempt: &SignInAttempt) -> CodeHash {
    let mut context = digest::Context::new(&digest::SHA256);
    let verifier = attempt.verifier.as_ref().map_or("", |verifier| verifier.expose_secret());
    for part in [attempt.code.expose_secret(), verifier, &attempt.redirect_uri] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    CodeHash(hash)
}
