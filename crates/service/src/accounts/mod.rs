//! Users: sign-in, sign-out, provider grants, guild lists, blocking, and the sweep of expired sessions.

mod grants;
mod guild_lists;
mod reseal;
mod revoke;
mod sign_in;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use domain::retention::{LAST_SEEN_LAG, SWEEP_BATCH};
use domain::token::{self, random_text};
use domain::{Session, SessionId, SessionLimits, Snowflake, Time, TokenKind, User, session};
use runtime::concurrency::ConcurrencyLimit;
use runtime::random::secret_bytes;
use runtime::single_flight::SingleFlight;
use secrecy::SecretString;
use store::{Admission, BlockedUser, CodeHash, Result};
use telemetry::log_throttle::Throttle;
use tracing::info;

use crate::config::Config;
use crate::rate_limits::RateLimits;
use crate::sources::Sources;
pub use guild_lists::{GuildLists, ListAge, ListError, age};
pub use reseal::{GrantReport, KeyUse, ResealReport};
pub use sign_in::{SignInAttempt, SignInError};

pub struct Accounts {
    sources: Sources,
    pub lists: Arc<GuildLists>,
    rate_limits: Arc<RateLimits>,
    exchanges: SingleFlight<CodeHash, std::result::Result<User, SignInError>>,
    /// How many exchanges may run at the same time.
    exchange_permits: ConcurrencyLimit,
    /// Whether a background task of this process is sending revocations.
    revoking: Arc<AtomicBool>,
    /// For the log line about revocations that are retried.
    unrevoked: Throttle,
    /// For the log line about a store that does not hand out revocations.
    unread_revocations: Throttle,
    limits: SessionLimits,
    /// How long exchanging the code and fetching the user may take together.
    exchange_limit: Duration,
    code_memory: Duration,
}

/// A new session.
#[derive(Debug)]
pub struct SignedIn {
    /// Shown once, to the client.
    pub token: SecretString,
    pub user: User,
}

impl Accounts {
    pub fn new(sources: &Sources, rate_limits: Arc<RateLimits>, config: &Config) -> Self {
        Self {
            sources: sources.clone(),
            lists: Arc::new(GuildLists::new(sources, config)),
            rate_limits,
            exchange_permits: ConcurrencyLimit::new(
                config.limits.concurrent_exchanges,
                config.limits.concurrent_exchanges_per_address,
            ),
            revoking: Arc::default(),
            unrevoked: Throttle::default(),
            unread_revocations: Throttle::default(),
            exchanges: SingleFlight::new(sources.background.clone()),
            limits: config.sessions,
            exchange_limit: config.idp.sign_in_timeout,
            code_memory: config.idp.code_memory,
        }
    }

    /// Opens a session for a user the provider vouches for. `last_uses`: when their sessions were last used in this process.
    async fn open_session(
        &self,
        user: User,
        agent: &str,
        last_uses: impl FnOnce(Snowflake) -> Vec<(SessionId, Time)>,
    ) -> std::result::Result<SignedIn, SignInError> {
        let token = token::generate(TokenKind::Session, secret_bytes);
        let now = self.sources.clock.now();
        let id = SessionId::parse(&random_text(SessionId::LENGTH, secret_bytes)).ok_or(SignInError::Crashed)?;
        let session =
            Session { id, user: user.id, created: now, last_seen: now, agent: session::cut_agent(agent).to_owned() };
        let (store, most) = (&self.sources.store, self.limits.per_user);
        if store.sessions_of(user.id).await?.len() >= most {
            // The least recently used one is about to end, and the times of use in the store may be a minute old.
            store.note_seen(last_uses(user.id)).await?;
        }
        match store.open_session(user.clone(), token::hash_of(&token), session, most).await? {
            Admission::Admitted => {
                info!(user = %user.id, "signed in");
                Ok(SignedIn { token, user })
            }
            Admission::Blocked => Err(SignInError::Blocked),
        }
    }

    /// Ends one session of a user; `false` if they have no such session.
    pub async fn end_session(&self, user: Snowflake, session: SessionId) -> Result<bool> {
        self.sources.store.end_session(user, session, self.sources.clock.now()).await
    }

    pub async fn end_sessions(&self, user: Snowflake) -> Result<()> {
        self.sources.store.end_sessions(user, self.sources.clock.now()).await.map(drop)
    }

    /// Blocks a user, which ends their sessions. Returns how many.
    pub async fn block(&self, user: Snowflake, reason: String) -> Result<usize> {
        let since = self.sources.clock.now();
        self.sources.store.block(BlockedUser { user, reason, since }).await
    }

    /// Deletes expired sessions and everything else that is over, in batches, and returns how many sessions that were. Deletes
    /// nothing while the clock may be wrong.
    pub async fn sweep(&self) -> Result<usize> {
        let mut swept = 0;
        if !self.sources.clock.may_delete() {
            return Ok(swept);
        }
        // One time for the whole sweep: uses that are saved during a long sweep must not be compared with a later one.
        let now = self.sources.clock.now();
        loop {
            let (idle, absolute) =
                (now.before(self.limits.idle).before(LAST_SEEN_LAG), now.before(self.limits.absolute));
            let step = self.sources.store.sweep(now, idle, absolute, SWEEP_BATCH).await?;
            swept += step.sessions;
            if !step.more {
                return Ok(swept);
            }
        }
    }
}
