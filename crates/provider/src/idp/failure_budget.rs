//! The failure budget. A provider that counts too many refused calls blocks our whole address, and the bot's with it; so beyond
//! the budget no more calls are made until the oldest refusals are ten minutes old.
//!
//! Strangers who sign in and users who have signed in may each spend three quarters of it, so neither can use up what the
//! others need. Networks whose sign-ins caused refusals are stopped at a quarter, so that one of them does not lock the others
//! out.

use std::collections::HashMap;
use std::time::Duration;

use domain::saturating;
use runtime::client_key::ClientKey;
use telemetry::log_throttle::Throttle;

/// The budget covers 60 slots of 10 s: the provider's own ten minutes.
const SLOTS: usize = 60;
const SLOT: Duration = Duration::from_secs(10);
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

/// How many calls were refused in the last ten minutes.
#[derive(Debug)]
pub(super) struct FailureBudget {
    limit: u32,
    refused: [Refused; SLOTS],
    /// The number of the newest slot since the clock started.
    newest: u64,
    /// The networks whose sign-ins were refused in the last ten minutes, and when each last was.
    refused_networks: HashMap<ClientKey, Duration>,
    /// For the log lines, which strangers can cause.
    sign_ins_held_back: Throttle,
    sign_ins_stopped: Throttle,
}

#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    sign_ins: u32,
    users: u32,
}

impl FailureBudget {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            // A budget of zero would never let a call through again, not even after ten minutes of silence.
            limit: limit.max(1),
            refused: [Refused::default(); SLOTS],
            newest: 0,
            refused_networks: HashMap::new(),
            sign_ins_held_back: Throttle::default(),
            sign_ins_stopped: Throttle::default(),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// How many more refused calls are allowed now.
    pub(super) fn remaining(&mut self, now: Duration) -> u32 {
        self.advance_to(now);
        let spent: u64 = self.refused.into_iter().map(Refused::all).sum();
        self.limit.saturating_sub(saturating::to_u32(spent))
    }

    /// Whether a sign-in from this network caused a refusal in the last ten minutes.
    pub(super) fn has_refused(&self, network: ClientKey, now: Duration) -> bool {
        self.refused_networks.get(&network).is_some_and(|last| now.saturating_sub(*last) < WINDOW)
    }

    /// Counts a refused call, and holds it against the network that it was made for.
    pub(super) fn refuse(&mut self, now: Duration, caller: Caller) {
        if let Caller::SignIn(Some(network)) = caller {
            self.refused_networks.retain(|_, last| now.saturating_sub(*last) < WINDOW);
            self.refused_networks.insert(network, now);
        }
        self.spend(now, caller);
    }

    /// Counts a refused call.
    pub(super) fn spend(&mut self, now: Duration, caller: Caller) {
        self.advance_to(now);
        let slot = &mut self.refused[index(self.newest)];
        let spent = match caller {
            Caller::SignIn(_) => &mut slot.sign_ins,
            Caller::User => &mut slot.users,
        };
        *spent = spent.saturating_add(1);
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
        self.advance_to(now);
        let own = |slot: Refused| u64::from(if part == Part::Users { slot.users } else { slot.sign_ins });
        let waits = [self.ages_out(now, self.share(part), own), self.ages_out(now, self.limit.into(), Refused::all)];
        waits.into_iter().flatten().max()
    }

    fn share(&self, part: Part) -> u64 {
        let share = match part {
            Part::Users | Part::NewNetworks => u64::from(self.limit) * 3 / 4,
            Part::RefusedNetworks => u64::from(self.limit) / 4,
        };
        share.max(1)
    }

    /// How long until fewer than `limit` of what is counted are left; `None` if there already are.
    fn ages_out(&self, now: Duration, limit: u64, count: impl Fn(Refused) -> u64) -> Option<Duration> {
        let mut spent: u64 = self.refused.into_iter().map(&count).sum();
        if spent < limit {
            return None;
        }
        let oldest = (self.newest + 1).saturating_sub(SLOTS as u64);
        let lets_go = (oldest..=self.newest).find(|number| {
            spent -= count(self.refused[index(*number)]);
            spent < limit
        })?;
        let ages_out = SLOT.saturating_mul(saturating::to_u32(lets_go + SLOTS as u64));
        Some(ages_out.saturating_sub(now))
    }

    fn advance_to(&mut self, now: Duration) {
        let number = now.as_secs() / SLOT.as_secs();
        let first_new = self.newest + 1;
        for fresh in first_new..=number.min(self.newest + SLOTS as u64) {
            self.refused[index(fresh)] = Refused::default();
        }
        self.newest = self.newest.max(number);
    }
}

impl Refused {
    fn all(self) -> u64 {
        u64::from(self.sign_ins) + u64::from(self.users)
    }
}

fn index(slot: u64) -> usize {
    saturating::to_usize(slot % SLOTS as u64)
}
