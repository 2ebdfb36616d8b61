//! The budget of refused calls. A provider that counts too many of them blocks our whole address, and the bot's with it; so past the
//! budget no more calls are made until the oldest refusals are ten minutes old.

use std::time::Duration;

use crate::domain::Snowflake;

/// The budget covers 60 slots of 10 s: the provider's own ten minutes.
const SLOTS: usize = 60;
const SLOT: Duration = Duration::from_secs(10);
/// The span that the budget covers.
pub(super) const WINDOW: Duration = Duration::from_mins(10);

/// For whom a call is made, which decides what part of the budget it may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Somebody who signs in and is not known yet.
    SignIn,
    /// A user who has signed in: refreshes, lists, revocations.
    User(Snowflake),
}

/// How many refused calls there were in the last ten minutes.
#[derive(Debug)]
pub(super) struct FailureBudget {
    limit: u32,
    refused: [u32; SLOTS],
    /// The number of the newest slot, counted from the clock's start.
    newest: u64,
    exhausted: bool,
}

impl FailureBudget {
    pub(super) fn new(limit: u32) -> Self {
        // A budget of nothing would never let a call through again, not even after ten minutes of silence.
        Self { limit: limit.max(1), refused: [0; SLOTS], newest: 0, exhausted: false }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// How many more refused calls there may be now.
    pub(super) fn remaining(&mut self, now: Duration) -> u32 {
        self.advance_to(now);
        self.limit.saturating_sub(self.refused.iter().copied().fold(0, u32::saturating_add))
    }

    pub(super) fn spend(&mut self, now: Duration) {
        self.advance_to(now);
        let newest = index(self.newest);
        self.refused[newest] = self.refused[newest].saturating_add(1);
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
    pub(super) fn wait(&mut self, now: Duration, caller: Caller) -> Option<Duration> {
        self.advance_to(now);
        let limit = match caller {
            Caller::SignIn => u64::from(self.limit),
            // The rest is the reserve for signing in.
            Caller::User(_) => (u64::from(self.limit) * 3 / 4).max(1),
        };
        let mut spent: u64 = self.refused.iter().map(|count| u64::from(*count)).sum();
        if spent < u64::from(self.limit) {
            self.exhausted = false;
        }
        if spent < limit {
            return None;
        }
        let oldest = (self.newest + 1).saturating_sub(SLOTS as u64);
        let lets_go = (oldest..=self.newest).find(|number| {
            spent -= u64::from(self.refused[index(*number)]);
            spent < limit
        })?;
        let ages_out = SLOT.saturating_mul(u32::try_from(lets_go + SLOTS as u64).unwrap_or(u32::MAX));
        Some(ages_out.saturating_sub(now))
    }

    fn advance_to(&mut self, now: Duration) {
        let number = now.as_secs() / SLOT.as_secs();
        let first_new = self.newest + 1;
        for fresh in first_new..=number.min(self.newest + SLOTS as u64) {
            self.refused[index(fresh)] = 0;
        }
        self.newest = self.newest.max(number);
    }
}

fn index(slot: u64) -> usize {
    usize::try_from(slot % SLOTS as u64).unwrap_or(0)
}
