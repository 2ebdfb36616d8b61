//! Sign-in: one code, one exchange, and a session for each who sent it while it ran.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use secrecy::{ExposeSecret, SecretString};
use tracing::{info, warn};

use super::{Accounts, SignedIn};
use crate::concurrency::LimitReached;
use crate::domain::User;
use crate::idp::{Grant, IdpError, IdpErrorKind};
use crate::store::{Claim, CodeHash, GrantSaved, SealedGrant, StoreError};

/// What the service needs to be allowed to see.
const SCOPES: [&str; 2] = ["identify", "guilds"];
/// How often another process's running exchange is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What an exchange may need beyond the provider's part of it, before its claim counts as abandoned.
const CLAIM_MARGIN: Duration = Duration::from_secs(5);
/// When to come back if too many exchanges run at the same time.
const RELIEF: Duration = Duration::from_secs(1);

/// What a client sent to sign in.
#[derive(Debug)]
pub struct Attempt {
    /// The provider's code.
    pub code: SecretString,
    /// PKCE's verifier.
    pub verifier: Option<SecretString>,
    /// From the configuration, never from the client.
    pub redirect_uri: String,
    /// The client's `User-Agent`.
    pub agent: String,
    /// The client's address, which the attempt counts for.
    pub client: IpAddr,
}

/// Why nobody was signed in.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignInError {
    /// The code is not, or no longer, good.
    #[error("the code was refused")]
    Rejected,
    /// The user did not grant what the service needs.
    #[error("the code was granted without a needed scope")]
    ScopeMissing,
    /// The operator has blocked the user.
    #[error("the user is blocked")]
    Blocked,
    /// Too many sign-ins of this client address were refused or run right now, or too many of this user's succeeded.
    #[error("too many sign-ins")]
    Limited(Duration),
    /// Too many sign-ins run right now.
    #[error("too many sign-ins at the same time")]
    Overloaded(Duration),
    /// The provider failed.
    #[error(transparent)]
    Idp(#[from] IdpError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bug of ours.
    #[error("the exchange crashed")]
    Crashed,
}

impl SignInError {
    /// Whether the sign-in counts as refused for its client address: a call was made, and the provider or the operator said
    /// no. A provider that fails is not the client's fault.
    fn counts_as_refused(&self) -> bool {
        match self {
            Self::Rejected | Self::ScopeMissing | Self::Blocked | Self::Limited(_) | Self::Crashed => true,
            Self::Idp(error) => match error.kind {
                // A wrong redirect address or form; wrong credentials of ours are refused before the code is looked at.
                IdpErrorKind::Misconfigured => error.code_spent,
                IdpErrorKind::Rejected
                | IdpErrorKind::Unauthorized
                | IdpErrorKind::Refused
                | IdpErrorKind::RateLimited(_) => true,
                IdpErrorKind::HeldBack(_)
                | IdpErrorKind::Paused(_)
                | IdpErrorKind::Unavailable
                | IdpErrorKind::Timeout => false,
            },
            Self::Overloaded(_) | Self::Store(_) => false,
        }
    }
}

impl Accounts {
    /// Turns a code into a session. The exchange runs to its end even if the caller leaves.
    pub async fn sign_in(self: &Arc<Self>, attempt: Attempt) -> Result<SignedIn, SignInError> {
        let Attempt { code, verifier, redirect_uri, agent, client } = attempt;
        let hash = code_hash(&code, verifier.as_ref(), &redirect_uri);
        let landing = self.exchanges.join(hash, || {
            let this = Arc::clone(self);
            async move { this.exchange_counted(client, hash, code, verifier, redirect_uri).await }
        });
        let user = landing.outcome().await.ok_or(SignInError::Crashed)??;
        self.open_session(user, &agent).await
    }

    /// Exchanges the code within the limits of its client address. What is spent is counted here, where it is spent, and not
    /// where somebody waits for it: a client that hangs up cancels its request, not the exchange. So each attempt counts as
    /// refused before it is made, and is given back unless it is.
    async fn exchange_counted(
        &self,
        client: IpAddr,
        hash: CodeHash,
        code: SecretString,
        verifier: Option<SecretString>,
        redirect_uri: String,
    ) -> Result<User, SignInError> {
        let _permit = self.in_flight.enter(self.rate_limits.counted_as(client)).map_err(|full| match full {
            LimitReached::InAll => SignInError::Overloaded(RELIEF),
            LimitReached::PerSubject => SignInError::Limited(RELIEF),
        })?;
        let reservation = self.rate_limits.reserve_sign_in(client).map_err(SignInError::Limited)?;
        let outcome = self.exchange_once(hash, code, verifier, redirect_uri).await;
        if !outcome.as_ref().is_err_and(SignInError::counts_as_refused) {
            self.rate_limits.refund_sign_in(client, reservation);
        }
        outcome
    }

    /// Exchanges the code if nobody has, on whichever replica.
    async fn exchange_once(
        &self,
        hash: CodeHash,
        code: SecretString,
        verifier: Option<SecretString>,
        redirect_uri: String,
    ) -> Result<User, SignInError> {
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
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Claim::Settled(Some(user)) if waited => return Ok(user),
                Claim::Settled(_) => return Err(SignInError::Rejected),
            }
        }
        let outcome = self.exchange(&code, verifier.as_ref(), &redirect_uri).await;
        let unspent = matches!(&outcome, Err(SignInError::Idp(error)) if !error.code_spent);
        let until = self.sources.clock.now().after(self.code_memory);
        if unspent || self.code_memory.is_zero() {
            store.release_code(hash).await?;
        } else {
            store.settle_code(hash, outcome.as_ref().ok().cloned(), until).await?;
        }
        if let Ok(user) = &outcome {
            info!(user = %user.id, "signed in");
            // Beside the login, whose success does not depend on it.
            self.views.guilds.prefetch(user.id);
        }
        outcome
    }

    async fn exchange(
        &self,
        code: &SecretString,
        verifier: Option<&SecretString>,
        redirect_uri: &str,
    ) -> Result<User, SignInError> {
        let both = async {
            let grant = self.sources.provider.exchange(code, verifier, redirect_uri).await?;
            if !SCOPES.iter().all(|scope| grant.scopes.iter().any(|granted| granted == scope)) {
                return Err(SignInError::ScopeMissing);
            }
            let user = self.sources.provider.user(&grant.access_token).await.map_err(spent)?;
            Ok((grant, user))
        };
        let (grant, user) = match tokio::time::timeout(self.exchange_limit, both).await {
            Ok(Err(SignInError::Idp(IdpError { kind: IdpErrorKind::Rejected, .. }))) => {
                return Err(SignInError::Rejected);
            }
            Ok(outcome) => outcome?,
            Err(_) => {
                let detail = "exchange and user together took too long".to_owned();
                return Err(IdpError { kind: IdpErrorKind::Timeout, code_spent: true, detail }.into());
            }
        };
        // Revoking the new grant would end the user's other sessions: it is only forgotten.
        self.rate_limits.exchange_of(user.id).map_err(SignInError::Limited)?;
        self.save_grant(&user, &grant).await?;
        Ok(user)
    }

    /// Stores the grant of a sign-in. A revocation of the user's former grant that is on its way ends all of the user's tokens
    /// at the provider, so it is waited for, and then the new grant must be seen to work.
    async fn save_grant(&self, user: &User, grant: &Grant) -> Result<(), SignInError> {
        let sealed = self.sealed(user, grant)?;
        let mut verified = None;
        // A little longer than a revocation may take.
        let looks = self.revocation_lease().as_millis() / LOOK_EVERY.as_millis() + 10;
        for _ in 0..looks {
            let now = self.sources.clock.now();
            match self.sources.store.save_grant(user.clone(), sealed.clone(), now, verified).await? {
                GrantSaved::Saved => return Ok(()),
                GrantSaved::Blocked => return Err(SignInError::Blocked),
                GrantSaved::RevocationRunning => tokio::time::sleep(LOOK_EVERY).await,
                GrantSaved::RevocationSent { tries } => match self.sources.provider.user(&grant.access_token).await {
                    Ok(_) => verified = Some(tries),
                    Err(IdpError { kind: IdpErrorKind::Unauthorized, .. }) => {
                        info!(user = %user.id, "a revocation has ended the grant of this sign-in; the user has to sign in again");
                        return Err(SignInError::Rejected);
                    }
                    Err(error) => return Err(spent(error).into()),
                },
            }
        }
        let detail = "the revocation of the user's former grant does not come to an end".to_owned();
        Err(IdpError { kind: IdpErrorKind::Unavailable, code_spent: true, detail }.into())
    }

    fn sealed(&self, user: &User, grant: &Grant) -> Result<SealedGrant, SignInError> {
        self.sources.vault.seal(user.id, grant).map_err(|error| {
            warn!(%error, "a grant could not be sealed");
            SignInError::Crashed
        })
    }
}

/// Once the code was exchanged it is spent, whatever the next call says. A token that is refused right after it was given is
/// told as the provider's nonsense, but counts as a refused sign-in: somebody may have taken their consent back in between.
fn spent(error: IdpError) -> IdpError {
    IdpError { code_spent: true, ..error }
}

/// The name of an exchange. Lengths stand in front of the parts, so that no two attempts can be written the same way.
fn code_hash(code: &SecretString, verifier: Option<&SecretString>, redirect_uri: &str) -> CodeHash {
    let mut context = digest::Context::new(&digest::SHA256);
    let verifier = verifier.map_or("", |verifier| verifier.expose_secret());
    for part in [code.expose_secret(), verifier, redirect_uri] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    CodeHash(hash)
}
