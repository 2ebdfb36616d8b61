//! The protection around the provider: a breaker for when it fails, holds for when it limits us, and a budget of refused calls,
//! because a provider that counts too many of them blocks our whole address, and the bot's with it.
//!
//! The budget is shared fairly: one user's calls may spend a small share of it, all users' calls together three quarters; the
//! last quarter is a reserve for signing in, so that accounts which provoke refusals lock nobody else out.
//!
//! Pure bookkeeping: it asks nobody but the clock, and every number in it is bounded.

use std::time::Duration;

use parking_lot::Mutex;

use super::{Endpoint, IdpError, IdpErrorKind};
use crate::clock::Clock;
use crate::domain::Snowflake;
use crate::rate_limit::RateLimit;

/// Failures in a row after which an endpoint is left alone.
const FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The budget looks back over 60 buckets of 10 s: the provider's own ten minutes.
const BUCKETS: usize = 60;
const BUCKET: Duration = Duration::from_secs(10);

/// One user's calls may spend one part in this many of the budget.
const SHARES: u32 = 50;

/// For whom a call is made: it decides which part of the budget it may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Somebody who signs in and is not known yet.
    SignIn,
    /// A user who has signed in: refreshes, lists, revocations.
    User(Snowflake),
}

/// How a call ended, as far as the protection is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It answered sensibly, even if the answer was no.
    Healthy,
    /// It failed, spoke nonsense or kept silent.
    Failed,
    /// It answered 401 or 403, which it counts against us.
    Denied,
    /// An edge before it turned us away (a 403 that is not its own): counted against us, and no use to go on.
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
    state: Mutex<State>,
    /// What each user has spent of the budget; a table of a fixed size.
    shares: RateLimit,
}

#[derive(Debug)]
struct State {
    /// One for each endpoint: a guild list that is down must not close the sign-in.
    breakers: [Breaker; Endpoint::COUNT],
    /// Until when each endpoint is held.
    holds: [Duration; Endpoint::COUNT],
    budget: Budget,
    probes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Breaker {
    mode: Mode,
    /// How long it opens next.
    pause: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Closed { failures: u32 },
    Open { until: Duration },
    HalfOpen { probe: u64 },
}

impl Guard {
    pub(super) fn new(clock: Clock, failure_budget: u32) -> Self {
        let breaker = Breaker { mode: Mode::Closed { failures: 0 }, pause: FIRST_PAUSE };
        let state = State {
            breakers: [breaker; Endpoint::COUNT],
            holds: [Duration::ZERO; Endpoint::COUNT],
            budget: Budget::new(failure_budget),
            probes: 0,
        };
        let shares = RateLimit::per_span((failure_budget / SHARES).max(1), BUCKET * 60);
        Self { clock, state: Mutex::new(state), shares }
    }

    /// A pass for one call that may take up to `limit`; an error if it must not be made now.
    pub(super) fn enter(&self, endpoint: Endpoint, caller: Caller, limit: Duration) -> Result<Pass<'_>, IdpError> {
        let now = self.clock.ticks();
        // A refresh goes on: a consent that was taken back costs nothing there, and is found out by it.
        if let Caller::User(user) = caller
            && !endpoint.is_ours()
            && let Err(wait) = self.shares.look(self.shares.subject(&user), now)
        {
            return Err(held_back(wait, endpoint, "this user's share of the budget of refused calls is used up"));
        }
        let mut state = self.state.lock();
        if let Some(wait) = state.budget.wait(now, caller) {
            return Err(held_back(wait, endpoint, "the budget of refused calls is used up"));
        }
        let held = state.holds[endpoint as usize];
        if held > now {
            return Err(held_back(held.saturating_sub(now), endpoint, "an earlier limit still holds"));
        }
        let probe = match state.breakers[endpoint as usize].mode {
            Mode::Closed { .. } => None,
            Mode::Open { until } if until <= now => {
                state.probes += 1;
                let probe = state.probes;
                state.breakers[endpoint as usize].mode = Mode::HalfOpen { probe };
                Some(probe)
            }
            Mode::Open { until } => return Err(paused(endpoint, until.saturating_sub(now))),
            // The probe decides it, soon.
            Mode::HalfOpen { .. } => return Err(paused(endpoint, Duration::ZERO)),
        };
        Ok(Pass { guard: self, endpoint, caller, probe, gives_up: now + limit / 2, settled: false })
    }

    fn settle(&self, endpoint: Endpoint, caller: Caller, probe: Option<u64>, outcome: Outcome) {
        let now = self.clock.ticks();
        if let (Caller::User(user), Outcome::Denied | Outcome::Blocked | Outcome::Limited { .. }) = (caller, outcome) {
            // It has happened, allowed or not: whether one more is allowed is asked before the next call.
            let _ = self.shares.owe(self.shares.subject(&user), now);
        }
        let mut state = self.state.lock();
        match outcome {
            Outcome::Healthy => {}
            Outcome::Failed => return state.failed(endpoint, probe, now),
            // What is sent to the token endpoint is a stranger's to choose: something in it may be what the edge dislikes, and
            // that must not open the circuit breaker for everybody. The budget still ends it.
            Outcome::Blocked if endpoint != Endpoint::Token => {
                state.budget.spend(now);
                return state.failed(endpoint, probe, now);
            }
            Outcome::Blocked | Outcome::Denied => state.budget.spend(now),
            Outcome::Limited { span, global } => {
                state.budget.spend(now);
                state.limited(endpoint, now, span, global);
            }
        }
        // Whatever it said, it is there and it speaks.
        let breaker = &mut state.breakers[endpoint as usize];
        if !matches!(breaker.mode, Mode::Closed { .. }) {
            tracing::info!(endpoint = endpoint.name(), "the identity provider answers again");
        }
        *breaker = Breaker { mode: Mode::Closed { failures: 0 }, pause: FIRST_PAUSE };
    }

    fn abandon(&self, endpoint: Endpoint, probe: Option<u64>, gives_up: Duration) {
        let now = self.clock.ticks();
        let mut state = self.state.lock();
        if now >= gives_up {
            state.failed(endpoint, probe, now);
        } else if state.breakers[endpoint as usize].is_probed_by(probe) {
            state.breakers[endpoint as usize].mode = Mode::Open { until: now };
        }
    }
}

impl State {
    fn failed(&mut self, endpoint: Endpoint, probe: Option<u64>, now: Duration) {
        let breaker = &mut self.breakers[endpoint as usize];
        let opens = match &mut breaker.mode {
            Mode::Closed { failures } => {
                *failures += 1;
                *failures >= FAILURES
            }
            Mode::HalfOpen { .. } => breaker.is_probed_by(probe),
            // A call from before it opened says nothing new.
            Mode::Open { .. } => false,
        };
        if opens {
            let pause = breaker.pause;
            tracing::warn!(endpoint = endpoint.name(), ?pause, "the identity provider keeps failing; it is left alone");
            *breaker = Breaker { mode: Mode::Open { until: now + pause }, pause: (pause * 2).min(LONGEST_PAUSE) };
        }
    }

    fn limited(&mut self, endpoint: Endpoint, now: Duration, span: Duration, global: bool) {
        let until = now + span;
        if global {
            tracing::warn!(endpoint = endpoint.name(), ?span, "the identity provider limits all our calls");
            self.holds = self.holds.map(|held| held.max(until));
        } else if endpoint.is_ours() {
            tracing::warn!(endpoint = endpoint.name(), ?span, "the identity provider limits this endpoint");
            self.holds[endpoint as usize] = self.holds[endpoint as usize].max(until);
        }
        // Else it is about one user, and the caller holds back for that one.
    }
}

impl Breaker {
    fn is_probed_by(&self, pass: Option<u64>) -> bool {
        matches!(self.mode, Mode::HalfOpen { probe } if pass == Some(probe))
    }
}

fn held_back(wait: Duration, endpoint: Endpoint, why: &str) -> IdpError {
    refusal(IdpErrorKind::HeldBack(wait), endpoint, why)
}

fn paused(endpoint: Endpoint, wait: Duration) -> IdpError {
    refusal(IdpErrorKind::Paused(wait), endpoint, "it failed too often; the breaker is open")
}

fn refusal(kind: IdpErrorKind, endpoint: Endpoint, why: &str) -> IdpError {
    IdpError { kind, code_spent: false, detail: format!("the {} endpoint was not called: {why}", endpoint.name()) }
}

/// The right to make one call. Dropped without an outcome, it counts as a failure if the call had already used up half of
/// its time (somebody stopped waiting for it), and otherwise as if it had never been made.
#[derive(Debug)]
#[must_use]
pub(super) struct Pass<'a> {
    guard: &'a Guard,
    endpoint: Endpoint,
    caller: Caller,
    probe: Option<u64>,
    gives_up: Duration,
    settled: bool,
}

impl Pass<'_> {
    pub(super) fn settle(mut self, outcome: Outcome) {
        self.settled = true;
        self.guard.settle(self.endpoint, self.caller, self.probe, outcome);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.guard.abandon(self.endpoint, self.probe, self.gives_up);
        }
    }
}

/// How many refused calls the last ten minutes have seen.
#[derive(Debug)]
struct Budget {
    limit: u32,
    buckets: [u32; BUCKETS],
    /// The number of the newest bucket, counted from the clock's start.
    newest: u64,
    exhausted: bool,
}

impl Budget {
    fn new(limit: u32) -> Self {
        // A budget of nothing would never let a call through again, not even after ten minutes of silence.
        Self { limit: limit.max(1), buckets: [0; BUCKETS], newest: 0, exhausted: false }
    }

    fn spend(&mut self, now: Duration) {
        self.turn_to(now);
        let newest = slot(self.newest);
        self.buckets[newest] = self.buckets[newest].saturating_add(1);
        if !self.exhausted && self.wait(now, Caller::SignIn).is_some() {
            self.exhausted = true;
            tracing::error!(
                limit = self.limit,
                "the identity provider refused too many calls in ten minutes; no more are made until the oldest have aged out, \
                 because it would block this address. Look for 401, 403 and 429 in the log; `idp.failure_budget` sets the limit"
            );
        }
    }

    /// How long until this caller's calls may be made again; `None` if they may be made now.
    fn wait(&mut self, now: Duration, caller: Caller) -> Option<Duration> {
        self.turn_to(now);
        let limit = match caller {
            Caller::SignIn => u64::from(self.limit),
            // The rest is the reserve for signing in.
            Caller::User(_) => (u64::from(self.limit) * 3 / 4).max(1),
        };
        let mut spent: u64 = self.buckets.iter().map(|count| u64::from(*count)).sum();
        if spent < u64::from(self.limit) {
            self.exhausted = false;
        }
        if spent < limit {
            return None;
        }
        let oldest = (self.newest + 1).saturating_sub(BUCKETS as u64);
        let lets_go = (oldest..=self.newest).find(|number| {
            spent -= u64::from(self.buckets[slot(*number)]);
            spent < limit
        })?;
        let ages_out = BUCKET.saturating_mul(u32::try_from(lets_go + BUCKETS as u64).unwrap_or(u32::MAX));
        Some(ages_out.saturating_sub(now))
    }

    fn turn_to(&mut self, now: Duration) {
        let number = now.as_secs() / BUCKET.as_secs();
        let first_new = self.newest + 1;
        for fresh in first_new..=number.min(self.newest + BUCKETS as u64) {
            self.buckets[slot(fresh)] = 0;
        }
        self.newest = self.newest.max(number);
    }
}

fn slot(bucket: u64) -> usize {
    usize::try_from(bucket % BUCKETS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests;
