//! A revocation: when the provider is told that a user's grant is not needed any more. It waits for a while, because revoking
//! one token ends all of that user's, also those of a sign-in that comes right after the sign-out.

use std::time::Duration;

use super::Time;

/// How long a revocation waits before it is sent; a sign-in of the same user cancels it meanwhile.
pub const REVOCATION_WAIT: Duration = Duration::from_secs(30);
/// How long a revocation that is over is remembered: longer than a sign-in takes that may have been hit by it.
const REMEMBERED: Duration = Duration::from_mins(10);
/// How often it is tried.
const TRIES: u32 = 5;
/// The wait after the first failure; it doubles with each try.
const FIRST_RETRY: Duration = Duration::from_mins(1);

/// How far a stored revocation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationStage {
    /// Nothing was sent: a sign-in cancels it.
    Waiting,
    /// It is being sent right now: a sign-in waits for its end.
    Running,
    /// It was sent, or nobody knows: a sign-in must see whether its new grant still works.
    Sent {
        /// How often it was tried: what was seen before another try counts no more.
        tries: u32,
    },
}

impl RevocationStage {
    /// The stage of a revocation that was begun `tries` times, whose sender has time until `sending_until`, and of which the
    /// provider has confirmed that it was `sent`.
    pub fn of(now: Time, tries: u32, sending_until: Option<Time>, sent: bool) -> Self {
        match sending_until {
            Some(until) if now < until && !sent => Self::Running,
            _ if tries == 0 && !sent => Self::Waiting,
            _ => Self::Sent { tries },
        }
    }
}

/// What becomes of a revocation after a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationEnd {
    /// It was sent, or is given up; that it may have been sent is remembered until then.
    Over {
        /// When it may be forgotten.
        until: Time,
    },
    /// It may have been sent, and is tried again then.
    Retry {
        /// Not before.
        at: Time,
    },
    /// It was not sent: the try does not count, and is made then.
    Unsent {
        /// Not before.
        at: Time,
    },
}

impl RevocationEnd {
    /// After the provider has confirmed it, or has said that there is nothing to revoke.
    pub fn over(now: Time) -> Self {
        Self::Over { until: now.after(REMEMBERED) }
    }

    /// After the try number `tries` (from 1) failed in a way that may pass, with the wait that the provider asked for.
    pub fn failed(now: Time, tries: u32, wait: Option<Duration>) -> Self {
        if tries >= TRIES {
            return Self::over(now);
        }
        let backoff = FIRST_RETRY * 2_u32.pow(tries.saturating_sub(1).min(TRIES));
        Self::Retry { at: now.after(backoff.max(wait.unwrap_or_default())) }
    }

    /// After a try in which nothing was sent, with how long calls are held back.
    pub fn unsent(now: Time, wait: Option<Duration>) -> Self {
        Self::Unsent { at: now.after(wait.unwrap_or(FIRST_RETRY)) }
    }
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
            let found = RevocationStage::of(at(100), tries, sending_until.map(at), sent);
            assert_eq!(found, stage, "{tries} {sending_until:?} {sent}");
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
