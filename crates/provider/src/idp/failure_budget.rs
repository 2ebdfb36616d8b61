//! The failure budget. A provider that counts too many refused calls blocks our whole address, and the bot's with it; so beyond
//! the budget no more calls are made until the oldest refusals are ten minutes old.
//!
//! Strangers who sign in and users who have signed in may each spend three quarters of it, so neither can use up what the
//! others need. Networks whose sign-ins caused refusals are stopped at a quarter, so that one of them does not lock the others
//! out.

use std::collections::VecDeque;
use std::time::Duration;

use domain::saturating;
use runtime::client_key::ClientKey;
use telemetry::log_throttle::Throttle;

/// What the budget covers: the provider's own ten minutes.
const WINDOW: Duration = Duration::from_mins(10);

/// Who a call is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Someone who signs in and isn't known yet, from this network; `None` if it is exempt from limits.
    SignIn(Option<ClientKey>),
    /// A user who has signed in: refreshes, lists, revocations.
    User,
}

/// The part of the budget that a call may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Users,
    /// Sign-ins from networks without a refused call in the last ten minutes.
    NewNetworks,
    /// Sign-ins from networks with one. They are stopped first, so that anyone who wants to lock everyone out needs a new
    /// network for each further refusal.
    RefusedNetworks,
}

/// The calls that were refused in the last ten minutes. No more are let through than the limit, so no more are remembered than
/// that and the calls that run at the same time.
#[derive(Debug)]
pub(super) struct FailureBudget {
    limit: u32,
    /// When they were refused and who made them, oldest first.
    refused: VecDeque<(Duration, Caller)>,
    /// For the log lines, which strangers can cause.
    sign_ins_held_back: Throttle,
    sign_ins_stopped: Throttle,
}

impl FailureBudget {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            // A budget of zero would never let a call through again, not even after ten minutes of silence.
            limit: limit.max(1),
            refused: VecDeque::new(),
            sign_ins_held_back: Throttle::default(),
            sign_ins_stopped: Throttle::default(),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// How many more refused calls are allowed now.
    pub(super) fn remaining(&mut self, now: Duration) -> u32 {
        self.forget(now);
        self.limit.saturating_sub(saturating::to_u32(self.refused.len()))
    }

    /// Whether a sign-in from this network caused a refusal in the last ten minutes.
    pub(super) fn has_refused(&mut self, network: ClientKey, now: Duration) -> bool {
        self.forget(now);
        self.refused.iter().any(|(_, caller)| *caller == Caller::SignIn(Some(network)))
    }

    /// Counts a refused call; a sign-in is held against its network, unless there is none.
    pub(super) fn spend(&mut self, now: Duration, caller: Caller) {
        self.refused.push_back((now, caller));
        if self.wait(now, Part::NewNetworks).is_some() {
            if let Some(times) = self.sign_ins_stopped.count(now) {
                tracing::error!(
                    limit = self.limit,
                    times,
                    "the identity provider refused too many calls within ten minutes; nobody can sign in until the oldest have \
                     expired, because more of them would get this address blocked. Look for 401, 403 and 429 in the log; \
                     `idp.failure_budget` sets the limit"
                );
            }
        } else if self.wait(now, Part::RefusedNetworks).is_some()
            && let Some(times) = self.sign_ins_held_back.count(now)
        {
            tracing::warn!(
                limit = self.limit,
                times,
                "the identity provider refused many sign-ins within ten minutes; networks that caused them have to wait, \
                 everyone else can still sign in"
            );
        }
    }

    /// How long until a call may spend this part; `None` if it may be made now.
    pub(super) fn wait(&mut self, now: Duration, part: Part) -> Option<Duration> {
        self.forget(now);
        let limit = self.limit as usize;
        let share = match part {
            Part::Users | Part::NewNetworks => limit * 3 / 4,
            Part::RefusedNetworks => limit / 4,
        };
        let is_own = |caller: Caller| (caller == Caller::User) == (part == Part::Users);
        let waits = [self.expiry(share.max(1), is_own), self.expiry(limit, |_| true)];
        waits.into_iter().flatten().max().map(|expiry| expiry.saturating_sub(now))
    }

    /// When fewer than `limit` refusals of these callers will be left; `None` if there already are.
    fn expiry(&self, limit: usize, counts: impl Fn(Caller) -> bool) -> Option<Duration> {
        let latest_first = self.refused.iter().rev().filter(|(_, caller)| counts(*caller));
        latest_first.map(|(at, _)| *at + WINDOW).nth(limit - 1)
    }

    fn forget(&mut self, now: Duration) {
        while self.refused.pop_front_if(|(at, _)| now.saturating_sub(*at) >= WINDOW).is_some() {}
    }
}
