//! A revocation: the provider is told that a user's grant is no longer needed. It waits for a while, because revoking one token
//! ends all of that user's, including those of a sign-in right after the sign-out.

use std::time::Duration;

use super::Time;
use super::retention::{REVOCATION_MEMORY, REVOCATION_WAIT};

const TRIES: u32 = 5;
/// The wait after the first failure; it doubles with each try.
const FIRST_RETRY: Duration = Duration::from_mins(1);

/// The progress of a stored revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationStage {
    /// Nothing was sent, so a sign-in cancels it.
    Waiting,
    /// It is being sent right now, so a sign-in waits for it to finish.
    Running,
    /// It was sent, or may have been, so a sign-in must check whether its new grant still works.
    Sent {
        /// How often it was tried: a check before the latest try proves nothing.
        tries: u32,
    },
}

/// What is stored about a revocation, besides the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRevocation {
    /// How often it was started.
    pub tries: u32,
    /// How long its sender has, if it is being sent.
    pub sending_until: Option<Time>,
    /// Whether the provider has confirmed it, or it was given up.
    pub is_sent: bool,
}

impl StoredRevocation {
    pub fn stage(&self, now: Time) -> RevocationStage {
        match self.sending_until {
            Some(until) if now < until && !self.is_sent => RevocationStage::Running,
            _ if self.is_waiting() => RevocationStage::Waiting,
            _ => RevocationStage::Sent { tries: self.tries },
        }
    }

    pub fn is_waiting(&self) -> bool {
        self.tries == 0 && !self.is_sent
    }
}

/// A revocation that starts to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRevocation {
    pub due: Time,
    /// How often it was started.
    pub tries: u32,
    /// How long its sender has, if it is being sent.
    pub sending_until: Option<Time>,
}

impl NewRevocation {
    /// The revocation of a grant that is no longer needed, replacing the one that is stored for the same user: revoking one
    /// token revokes all. If that one is being sent right now, a sign-in must still wait for it to finish.
    pub fn replacing(stored: Option<StoredRevocation>, now: Time) -> Self {
        let due = now.after(REVOCATION_WAIT);
        match stored {
            Some(StoredRevocation { tries, sending_until: Some(until), .. }) if now < until => {
                Self { due, tries, sending_until: Some(until) }
            }
            Some(_) | None => Self { due, tries: 0, sending_until: None },
        }
    }
}

/// The outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationEnd {
    /// It was sent, or is given up; that it may have been sent is remembered until then.
    Over { until: Time },
    /// It may have been sent, and is tried again then.
    Retry { at: Time },
    /// It was not sent: the try does not count, and is made then.
    Unsent { at: Time },
}

impl RevocationEnd {
    /// The provider has confirmed it, or there was nothing to revoke.
    pub fn over(now: Time) -> Self {
        Self::Over { until: now.after(REVOCATION_MEMORY) }
    }

    /// The try number `tries` (starting at 1) failed temporarily, with the wait that the provider asked for.
    pub fn failed(now: Time, tries: u32, wait: Option<Duration>) -> Self {
        if tries >= TRIES {
            return Self::over(now);
        }
        let backoff = FIRST_RETRY * 2_u32.pow(tries.saturating_sub(1).min(TRIES));
        Self::Retry { at: now.after(backoff.max(wait.unwrap_or_default())) }
    }

    /// Nothing was sent, with how long no call may be made.
    pub fn unsent(now: Time, wait: Option<Duration>) -> Self {
        Self::Unsent { at: now.after(wait.unwrap_or(FIRST_RETRY)) }
    }

    /// What to store; nobody is sending it any more.
    pub fn update(self) -> RevocationUpdate {
        let (due, forgets_grant, uncounted) = match self {
            Self::Over { until } => (until, true, 0),
            Self::Retry { at } => (at, false, 0),
            Self::Unsent { at } => (at, false, 1),
        };
        RevocationUpdate { due, forgets_grant, uncounted }
    }
}

/// How a try changes a stored revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevocationUpdate {
    /// When it is tried again or, without its grant, forgotten.
    pub due: Time,
    /// Whether the grant is deleted, which marks it as sent.
    pub forgets_grant: bool,
    /// How many tries do not count.
    pub uncounted: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_meets_a_revocation_at_one_of_three_stages() {
        use RevocationStage::{Running, Sent, Waiting};
        let one = Sent { tries: 1 };
        let at = Time::from_seconds;
        for (tries, sending_until, sent, stage) in [
            (0, None, false, Waiting),
            (1, Some(101), false, Running),
            (1, Some(100), false, one),
            (1, None, false, one),
            (1, None, true, one),
            (0, None, true, Sent { tries: 0 }),
            (3, Some(500), false, Running),
        ] {
            let stored = StoredRevocation { tries, sending_until: sending_until.map(at), is_sent: sent };
            assert_eq!(stored.stage(at(100)), stage, "{stored:?}");
            assert_eq!(stored.is_waiting(), stage == Waiting, "{stored:?}");
        }
    }

    #[test]
    fn a_new_revocation_replaces_the_old_one_but_not_the_sender_of_it() {
        let now = Time::from_seconds(100);
        let stored = |tries, until: Option<u64>, is_sent| {
            Some(StoredRevocation { tries, sending_until: until.map(Time::from_seconds), is_sent })
        };
        for (known, tries, until) in [
            (None, 0, None),
            (stored(0, None, false), 0, None),
            (stored(3, None, false), 0, None),
            (stored(3, None, true), 0, None),
            (stored(3, Some(100), false), 0, None),
            (stored(3, Some(101), false), 3, Some(101)),
        ] {
            let new = NewRevocation::replacing(known, now);
            let sending_until = until.map(Time::from_seconds);
            assert_eq!(new, NewRevocation { due: Time::from_seconds(130), tries, sending_until }, "{known:?}");
        }
    }

    #[test]
    fn what_a_try_changes() {
        let (now, at) = (Time::from_seconds(1000), Time::from_seconds);
        let minute = Some(Duration::from_mins(1));
        for (end, due, forgets_grant, uncounted) in [
            (RevocationEnd::over(now), at(1600), true, 0),
            (RevocationEnd::failed(now, 1, None), at(1060), false, 0),
            (RevocationEnd::failed(now, 5, None), at(1600), true, 0),
            (RevocationEnd::unsent(now, None), at(1060), false, 1),
            (RevocationEnd::unsent(now, minute), at(1060), false, 1),
            (RevocationEnd::unsent(now, Some(Duration::ZERO)), now, false, 1),
        ] {
            assert_eq!(end.update(), RevocationUpdate { due, forgets_grant, uncounted }, "{end:?}");
        }
    }

    #[test]
    fn a_failed_try_is_repeated_with_backoff_and_then_given_up() {
        let now = Time::from_seconds(1000);
        let after = |seconds| RevocationEnd::Retry { at: now.after(Duration::from_secs(seconds)) };
        for (tries, wait, end) in [
            (1, None, after(60)),
            (2, None, after(120)),
            (4, None, after(480)),
            (1, Some(7), after(60)),
            (1, Some(3600), after(3600)),
            (5, None, RevocationEnd::over(now)),
            (u32::MAX, Some(9), RevocationEnd::over(now)),
        ] {
            assert_eq!(RevocationEnd::failed(now, tries, wait.map(Duration::from_secs)), end, "{tries} {wait:?}");
        }
    }
}
