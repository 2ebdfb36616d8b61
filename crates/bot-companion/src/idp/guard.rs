//! The protection around the provider: a circuit breaker per endpoint, backoff after a 429, and a budget of refused calls.
//!
//! The budget is shared fairly: one user's calls may spend a small share of it, all users' calls together three quarters. The last
//! quarter is a reserve for sign-ins, so that accounts which provoke refusals lock nobody else out.
//!
//! Pure bookkeeping: it reads nothing but the clock, and every number in it is bounded.

use std::time::Duration;

use parking_lot::Mutex;

use super::circuit_breaker::CircuitBreaker;
use super::failure_budget::{Caller, FailureBudget, WINDOW};
use super::{Endpoint, IdpError, IdpErrorKind};
use crate::clock::Clock;
use crate::rate_limit::RateLimit;

/// One user's calls may spend one part in this many of the budget.
const SHARES: u32 = 50;

/// How a call ended, as far as the protection is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// It answered sensibly, even if the answer was no.
    Healthy,
    /// It failed, sent what cannot be read, or did not answer.
    Failed,
    /// It answered 401 or 403, which it counts against us.
    Denied,
    /// An edge server before it refused us (a 403 that is not its own): counted against us, and retrying does not help.
    Blocked,
    /// It answered 429.
    Limited {
        /// For how long.
        span: Duration,
        /// Whether that is about everything we do, or about this call alone.
        global: bool,
    },
}

/// Lets calls through, or not.
#[derive(Debug)]
pub(super) struct Guard {
    clock: Clock,
    state: Mutex<GuardState>,
    /// What each user has spent of the budget; a table of a fixed size.
    shares: RateLimit,
}

#[derive(Debug)]
struct GuardState {
    /// One per endpoint: a guild list that is down must not stop the sign-ins.
    breakers: [CircuitBreaker; Endpoint::COUNT],
    /// Until when each endpoint is rate-limited.
    limited_until: [Duration; Endpoint::COUNT],
    budget: FailureBudget,
}

impl Guard {
    pub(super) fn new(clock: Clock, failure_budget: u32) -> Self {
        let shares = RateLimit::per_span((failure_budget / SHARES).max(1), WINDOW);
        Self { clock, state: Mutex::new(GuardState::new(failure_budget)), shares }
    }

    /// Forgets all that has happened.
    pub(super) fn reset(&self) {
        let mut state = self.state.lock();
        *state = GuardState::new(state.budget.limit());
        self.shares.reset();
    }

    /// Permits one call that may take up to `limit`; an error if it must not be made now.
    pub(super) fn enter(
        &self,
        endpoint: Endpoint,
        caller: Caller,
        limit: Duration,
    ) -> Result<CallPermit<'_>, IdpError> {
        let now = self.clock.ticks();
        // A refresh is always allowed: it finds out that consent was withdrawn, and the provider does not count that against us.
        if let Caller::User(user) = caller
            && !endpoint.is_ours()
            && let Err(wait) = self.shares.look(self.shares.subject(&user), now)
        {
            return Err(back_off(wait, endpoint, "this user's share of the budget of refused calls is used up"));
        }
        let mut state = self.state.lock();
        if let Some(wait) = state.budget.wait(now, caller) {
            return Err(back_off(wait, endpoint, "the budget of refused calls is used up"));
        }
        let limited = state.limited_until[endpoint as usize].saturating_sub(now);
        if !limited.is_zero() {
            return Err(back_off(limited, endpoint, "it is rate-limited"));
        }
        let probe = state.breakers[endpoint as usize].enter(now).map_err(|wait| circuit_open(endpoint, wait))?;
        Ok(CallPermit { guard: self, endpoint, caller, probe, fails_from: now + limit / 2, settled: false })
    }

    fn settle(&self, endpoint: Endpoint, caller: Caller, probe: Option<u64>, outcome: CallOutcome) {
        let now = self.clock.ticks();
        if let (Caller::User(user), CallOutcome::Denied | CallOutcome::Blocked | CallOutcome::Limited { .. }) =
            (caller, outcome)
        {
            // Counted even if it is too much: whether one more is allowed is decided before the next call.
            let _ = self.shares.owe(self.shares.subject(&user), now);
        }
        let mut state = self.state.lock();
        match outcome {
            CallOutcome::Healthy => {}
            CallOutcome::Failed => return state.fail(endpoint, probe, now),
            // A stranger chooses what is sent to the token endpoint. If an edge refuses that, the circuit must not open for
            // everybody; the budget still bounds it.
            CallOutcome::Blocked if endpoint != Endpoint::Token => {
                state.budget.spend(now);
                return state.fail(endpoint, probe, now);
            }
            CallOutcome::Blocked | CallOutcome::Denied => state.budget.spend(now),
            CallOutcome::Limited { span, global } => {
                state.budget.spend(now);
                state.limit(endpoint, now, span, global);
            }
        }
        // Whatever it answered, it works.
        if state.breakers[endpoint as usize].succeed() {
            tracing::info!(
                endpoint = endpoint.name(),
                "the identity provider answers again; the circuit breaker closes"
            );
        }
    }

    fn abandon(&self, endpoint: Endpoint, probe: Option<u64>, fails_from: Duration) {
        let now = self.clock.ticks();
        let mut state = self.state.lock();
        if now >= fails_from {
            state.fail(endpoint, probe, now);
        } else {
            state.breakers[endpoint as usize].cancel(probe, now);
        }
    }
}

impl GuardState {
    fn new(failure_budget: u32) -> Self {
        Self {
            breakers: [CircuitBreaker::new(); Endpoint::COUNT],
            limited_until: [Duration::ZERO; Endpoint::COUNT],
            budget: FailureBudget::new(failure_budget),
        }
    }

    fn fail(&mut self, endpoint: Endpoint, probe: Option<u64>, now: Duration) {
        if let Some(pause) = self.breakers[endpoint as usize].fail(probe, now) {
            tracing::warn!(
                endpoint = endpoint.name(),
                ?pause,
                "the identity provider keeps failing; the circuit breaker opens and no calls are made"
            );
        }
    }

    fn limit(&mut self, endpoint: Endpoint, now: Duration, span: Duration, global: bool) {
        let until = now + span;
        if global {
            tracing::warn!(endpoint = endpoint.name(), ?span, "the identity provider limits all our calls");
            self.limited_until = self.limited_until.map(|limited| limited.max(until));
        } else if endpoint.is_ours() {
            tracing::warn!(endpoint = endpoint.name(), ?span, "the identity provider limits this endpoint");
            self.limited_until[endpoint as usize] = self.limited_until[endpoint as usize].max(until);
        }
        // Otherwise the limit is about one user, and the caller backs off for that user.
    }
}

fn back_off(wait: Duration, endpoint: Endpoint, why: &str) -> IdpError {
    not_called(IdpErrorKind::BackingOff(wait), endpoint, why)
}

fn circuit_open(endpoint: Endpoint, wait: Duration) -> IdpError {
    not_called(IdpErrorKind::CircuitOpen(wait), endpoint, "it failed too often, and its circuit breaker is open")
}

fn not_called(kind: IdpErrorKind, endpoint: Endpoint, why: &str) -> IdpError {
    IdpError { kind, code_spent: false, detail: format!("the {} endpoint was not called: {why}", endpoint.name()) }
}

/// A permit for one call. If it is dropped without an outcome (the caller stopped waiting), the call counts as failed once half of
/// its time was over, and as never made before that.
#[derive(Debug)]
#[must_use]
pub(super) struct CallPermit<'a> {
    guard: &'a Guard,
    endpoint: Endpoint,
    caller: Caller,
    probe: Option<u64>,
    /// If it is dropped unsettled from this time on, the call counts as failed.
    fails_from: Duration,
    settled: bool,
}

impl CallPermit<'_> {
    pub(super) fn settle(mut self, outcome: CallOutcome) {
        self.settled = true;
        self.guard.settle(self.endpoint, self.caller, self.probe, outcome);
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.guard.abandon(self.endpoint, self.probe, self.fails_from);
        }
    }
}

#[cfg(test)]
mod tests;
