//! People coming and going: sign-in, sign-out, blocking, and what is cleaned up behind them.

mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tracing::{info, warn};

use crate::config::Config;
use crate::domain::token::{self, random_text};
use crate::domain::{Session, SessionId, SessionLimits, Snowflake, TokenKind, User, session};
use crate::flights::Flights;
use crate::random::secret_bytes;
use crate::store::{Admission, BlockedUser, CodeHash, Orphan, Result};
use crate::views::{Sources, Views};
pub use sign_in::{Attempt, SignInError};

/// How many sessions one sweep's transaction ends.
const SWEEP_BATCH: usize = 500;

/// How far the stored times of use may lag behind the real ones: a sweep must not end a session whose last use is only in memory.
const NOTES_LAG: Duration = Duration::from_mins(2);

/// What can be done with accounts.
pub struct Accounts {
    sources: Sources,
    views: Arc<Views>,
    exchanges: Flights<CodeHash, std::result::Result<User, SignInError>>,
    limits: SessionLimits,
    /// Exchange and user together.
    exchange_limit: Duration,
    code_memory: Duration,
}

/// A new session.
#[derive(Debug)]
pub struct SignedIn {
    /// Shown once, to the client.
    pub token: SecretString,
    /// Who signed in.
    pub user: User,
}

impl Accounts {
    /// Over these sources and views.
    pub fn new(sources: &Sources, views: Arc<Views>, config: &Config) -> Self {
        Self {
            sources: sources.clone(),
            views,
            exchanges: Flights::new(sources.background.clone()),
            limits: config.sessions,
            exchange_limit: config.idp.sign_in_timeout,
            code_memory: config.idp.code_memory,
        }
    }

    /// Opens a session for a user whom the provider vouches for.
    async fn open_session(&self, user: User, agent: &str) -> std::result::Result<SignedIn, SignInError> {
        let token = token::generate(TokenKind::Session, secret_bytes);
        let now = self.sources.clock.now();
        let id = SessionId::parse(&random_text(SessionId::LENGTH, secret_bytes)).ok_or(SignInError::Crashed)?;
        let session =
            Session { id, user: user.id, created: now, last_seen: now, agent: session::cut_agent(agent).to_owned() };
        match self.sources.store.open_session(user.clone(), token::hash_of(&token), session).await? {
            Admission::Admitted => Ok(SignedIn { token, user }),
            Admission::Blocked => Err(SignInError::Blocked),
        }
    }

    /// Ends one session of a user; `false` if they have no such session.
    pub async fn end_session(&self, user: Snowflake, session: SessionId) -> Result<bool> {
        let ended = self.sources.store.end_session(user, session).await?;
        let found = ended.is_some();
        self.revoke(ended.unwrap_or_default().orphans);
        Ok(found)
    }

    /// Ends all sessions of a user.
    pub async fn end_sessions(&self, user: Snowflake) -> Result<()> {
        let ended = self.sources.store.end_sessions(user).await?;
        self.revoke(ended.orphans);
        Ok(())
    }

    /// Blocks a user, which ends their sessions; gives how many.
    pub async fn block(&self, user: Snowflake, reason: String) -> Result<usize> {
        let since = self.sources.clock.now();
        let ended = self.sources.store.block(BlockedUser { user, reason, since }).await?;
        self.revoke(ended.orphans);
        Ok(ended.sessions)
    }

    /// Ends the sessions that have expired, batch by batch, and gives how many there were.
    pub async fn sweep(&self) -> Result<usize> {
        let mut swept = 0;
        loop {
            let now = self.sources.clock.now();
            let (idle, absolute) = (now.before(self.limits.idle).before(NOTES_LAG), now.before(self.limits.absolute));
            let ended = self.sources.store.sweep(now, idle, absolute, SWEEP_BATCH).await?;
            swept += ended.sessions;
            self.revoke(ended.orphans);
            if ended.sessions < SWEEP_BATCH {
                return Ok(swept);
            }
        }
    }

    /// Tells the provider, behind, that grants are not needed any more. Only for users without a session: revoking one token
    /// revokes all of that user's.
    fn revoke(&self, orphans: Vec<Orphan>) {
        if orphans.is_empty() {
            return;
        }
        let sources = self.sources.clone();
        self.sources.background.spawn(async move {
            for Orphan { user, grant } in orphans {
                // A sweep brings many, and each takes a call: meanwhile the user may have signed in anew, and would lose the new
                // grant with the old one.
                if !matches!(sources.store.account(user).await, Ok(None)) {
                    continue;
                }
                let opened = sources.vault.open(user, &grant);
                let revoked = match opened {
                    Ok(grant) => sources.provider.revoke(&grant.refresh_token).await.map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                match revoked {
                    Ok(()) => info!(%user, "grant revoked at the provider"),
                    // It lapses by itself in a week; nothing of ours depends on it.
                    Err(error) => warn!(%user, error, "the grant could not be revoked at the provider"),
                }
            }
        });
    }
}
