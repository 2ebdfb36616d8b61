//! The protection around the provider: a circuit breaker per endpoint, backoff after a 429, and a failure budget.
//!
//! Pure bookkeeping: it reads nothing but the clock, and every number in it is bounded.

use std::time::Duration;

use domain::Time;
use parking_lot::Mutex;
use runtime::clock::Clock;
use telemetry::log_throttle::Throttle;
use telemetry::metrics::{CounterGrid, Histogram, Label, ProviderOutcome};

use super::circuit_breaker::CircuitBreaker;
use super::failure_budget::{Caller, FailureBudget, Part};
use super::{Endpoint, IdpError, IdpErrorKind};

/// The outcome of a call, as far as the protection is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// It answered sensibly, even if the response was no.
    Healthy,
    /// It failed, sent something unreadable, or did not answer.
    Failed,
    /// It answered 401 or 403, which it counts against us. At the token endpoint, it refuses our credentials.
    Denied,
    /// It, or an edge server in front of it, refused the call but not our credentials: this counts against us, and retrying
    /// does not help.
    Blocked,
    /// It answered 429.
    Limited {
        span: Duration,
        /// Whether that applies to everything we do, or only to this call.
        global: bool,
    },
}

impl From<CallOutcome> for ProviderOutcome {
    fn from(outcome: CallOutcome) -> Self {
        match outcome {
            CallOutcome::Healthy => Self::Answered,
            CallOutcome::Failed => Self::Failed,
            CallOutcome::Denied => Self::Denied,
            CallOutcome::Blocked => Self::Blocked,
            CallOutcome::Limited { .. } => Self::RateLimited,
        }
    }
}

#[derive(Debug)]
pub(super) struct Guard {
    clock: Clock,
    state: Mutex<GuardState>,
    metrics: ProviderMetrics,
}

#[derive(Debug, Default)]
pub struct ProviderMetrics {
    /// Calls, by outcome or by why they were not made.
    pub calls: CounterGrid<Endpoint, ProviderOutcome>,
    /// How long the calls took.
    durations: [Histogram; Endpoint::COUNT],
}

impl ProviderMetrics {
    pub fn durations(&self, endpoint: Endpoint) -> &Histogram {
        &self.durations[endpoint as usize]
    }
}

/// The provider's state, as far as our calls tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderState {
    pub open_circuits: Vec<Endpoint>,
    /// How many more refused calls are allowed.
    pub budget_remaining: u32,
    /// Whether the budget has something left for sign-ins.
    pub can_sign_in: bool,
    /// Whether the provider has rejected our credentials and hasn't accepted them since.
    pub credentials_refused: bool,
    /// The last call: which one, its outcome, and when.
    pub last_call: Option<(Endpoint, ProviderOutcome, Time)>,
}

/// Why a call must not be made now: to the caller, in the metrics, and in words.
type NotCalled = (IdpErrorKind, ProviderOutcome, &'static str);

#[derive(Debug)]
struct GuardState {
    /// One per endpoint, so that a guild list that is down does not stop sign-ins.
    breakers: [CircuitBreaker; Endpoint::COUNT],
    /// Until when each endpoint is rate-limited.
    limited_until: [Duration; Endpoint::COUNT],
    budget: FailureBudget,
    last_call: Option<(Endpoint, ProviderOutcome, Time)>,
    credentials_refused: bool,
    /// For the log line about rate-limited calls.
    limits: Throttle,
}

impl Guard {
    pub(super) fn new(clock: Clock, failure_budget: u32) -> Self {
        Self { clock, state: Mutex::new(GuardState::new(failure_budget)), metrics: ProviderMetrics::default() }
    }

    pub(super) fn reset(&self) {
        let mut state = self.state.lock();
        *state = GuardState::new(state.budget.limit());
    }

    pub(super) fn metrics(&self) -> &ProviderMetrics {
        &self.metrics
    }

    pub(super) fn state(&self) -> ProviderState {
        let now = self.clock.ticks();
        let mut state = self.state.lock();
        let is_open = |endpoint: &Endpoint| !state.breakers[*endpoint as usize].is_closed();
        ProviderState {
            open_circuits: Endpoint::ALL.iter().copied().filter(is_open).collect(),
            last_call: state.last_call,
            budget_remaining: state.budget.remaining(now),
            can_sign_in: state.budget.wait(now, Part::NewNetworks).is_none(),
            credentials_refused: state.credentials_refused,
        }
    }

    /// Records whether the provider rejects our credentials. Returns whether that has changed.
    pub(super) fn note_credentials(&self, refused: bool) -> bool {
        let mut state = self.state.lock();
        std::mem::replace(&mut state.credentials_refused, refused) != refused
    }

    /// Permits one call that may take up to `limit`; an error if it must not be made now.
    pub(super) fn enter(
        &self,
        endpoint: Endpoint,
        caller: Caller,
        limit: Duration,
    ) -> Result<CallPermit<'_>, IdpError> {
        let now = self.clock.ticks();
        let entered = self.state.lock().enter(endpoint, caller, now);
        let probe = entered.map_err(|(kind, outcome, why)| {
            self.metrics.calls.count(endpoint, outcome);
            let detail = format!("the {} endpoint was not called: {why}", endpoint.name());
            IdpError { kind, code_spent: false, detail }
        })?;
        Ok(CallPermit { guard: self, endpoint, caller, probe, began: now, limit, settled: false })
    }

    fn settle(&self, permit: &CallPermit<'_>, outcome: CallOutcome) {
        let &CallPermit { endpoint, caller, probe, .. } = permit;
        let now = self.clock.ticks();
        let mut state = self.state.lock();
        self.note_end(&mut state, permit, now, ProviderOutcome::from(outcome));
        match outcome {
            CallOutcome::Healthy => {}
            CallOutcome::Failed => return state.fail(endpoint, probe, now),
            // A stranger chooses what is sent to the token endpoint. If an edge server refuses that, the circuit must not open
            // for everyone; the budget still limits it.
            CallOutcome::Blocked if endpoint != Endpoint::Token => {
                state.budget.spend(now, caller);
                return state.fail(endpoint, probe, now);
            }
            CallOutcome::Blocked | CallOutcome::Denied => state.budget.spend(now, caller),
            CallOutcome::Limited { span, global } => {
                // A 429 is about us, not about the network that got it.
                let spender = if caller == Caller::User { caller } else { Caller::SignIn(None) };
                state.budget.spend(now, spender);
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

    fn note_end(&self, state: &mut GuardState, permit: &CallPermit<'_>, now: Duration, outcome: ProviderOutcome) {
        let endpoint = permit.endpoint;
        self.metrics.calls.count(endpoint, outcome);
        self.metrics.durations(endpoint).observe(now.saturating_sub(permit.began));
        state.last_call = Some((endpoint, outcome, self.clock.now()));
    }

    fn abandon(&self, permit: &CallPermit<'_>) {
        let &CallPermit { endpoint, probe, began, limit, .. } = permit;
        let now = self.clock.ticks();
        let mut state = self.state.lock();
        self.note_end(&mut state, permit, now, ProviderOutcome::Abandoned);
        if now >= began + limit / 2 {
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
            last_call: None,
            credentials_refused: false,
            limits: Throttle::default(),
        }
    }

    /// Lets a call through, as a probe with this number if the circuit was open.
    fn enter(&mut self, endpoint: Endpoint, caller: Caller, now: Duration) -> Result<Option<u64>, NotCalled> {
        let part = match caller {
            Caller::User => Part::Users,
            // At the user endpoint, the code is used up, and only a valid one gets that far.
            Caller::SignIn(Some(network)) if endpoint != Endpoint::User && self.budget.has_refused(network, now) => {
                Part::RefusedNetworks
            }
            Caller::SignIn(_) => Part::NewNetworks,
        };
        if let Some(wait) = self.budget.wait(now, part) {
            let why = "the failure budget is used up";
            return Err((IdpErrorKind::BackingOff(wait), ProviderOutcome::BudgetSpent, why));
        }
        let limited = self.limited_until[endpoint as usize].saturating_sub(now);
        if !limited.is_zero() {
            return Err((IdpErrorKind::BackingOff(limited), ProviderOutcome::BackingOff, "it is rate-limited"));
        }
        self.breakers[endpoint as usize].enter(now).map_err(|wait| {
            let why = "it failed too often, and its circuit breaker is open";
            (IdpErrorKind::CircuitOpen(wait), ProviderOutcome::CircuitOpen, why)
        })
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
        // A limit on one user's call is not about us: the caller backs off for that user.
        if !global && !endpoint.is_ours() {
            return;
        }
        if let Some(times) = self.limits.count(now) {
            let problem = if global {
                "the identity provider is rate limiting all calls"
            } else {
                "the identity provider is rate limiting this endpoint"
            };
            tracing::warn!(endpoint = endpoint.name(), ?span, times, "{problem}");
        }
        for each in Endpoint::ALL.iter().filter(|each| global || **each == endpoint) {
            let limited_until = &mut self.limited_until[*each as usize];
            *limited_until = (*limited_until).max(now + span);
        }
    }
}

/// A permit for one call. If it is dropped without an outcome (the caller stopped waiting), the call counts as failed if at
/// least half of its time had passed, and as never made before that.
#[derive(Debug)]
#[must_use]
pub(super) struct CallPermit<'a> {
    guard: &'a Guard,
    endpoint: Endpoint,
    caller: Caller,
    probe: Option<u64>,
    /// When the call began, in the clock's ticks, and how long it may take.
    began: Duration,
    limit: Duration,
    settled: bool,
}

impl CallPermit<'_> {
    pub(super) fn settle(mut self, outcome: CallOutcome) {
        self.settled = true;
        self.guard.settle(&self, outcome);
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.guard.abandon(self);
        }
    }
}

#[cfg(test)]
mod tests;
