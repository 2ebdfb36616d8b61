//! Retention: how long data is kept, and how much is deleted at a time. All such numbers in the service are here,
//! with its reason. What the operator can set (the lifetime of sessions, the age of audit rows) is in `config`.

use std::time::Duration;

use super::Time;

/// How long the numbering of an unused process is remembered. A bot that was down for a long holiday continues where it was;
/// one that comes back even later sends everything again.
const NUMBERING: Duration = Duration::from_hours(30 * 24);

/// How long a code's claim outlives its own end. The provider's codes are valid for minutes; one that comes back even later is
/// refused there.
const CODE_CLAIM: Duration = Duration::from_mins(10);

/// How long after its grant a session may be opened. A sign-in takes seconds; a grant without a session after this long belongs
/// to an interrupted sign-in, and is revoked.
const SIGNING_IN: Duration = Duration::from_mins(10);

/// How long a revocation waits before it is sent. Revoking one token ends all of that user's, so someone who signs out and in
/// again has this long to do so; the sign-in cancels the revocation.
pub const REVOCATION_WAIT: Duration = Duration::from_secs(30);

/// How long a completed revocation is remembered: longer than a sign-in whose new grant it may have ended.
pub(super) const REVOCATION_MEMORY: Duration = Duration::from_mins(10);

/// How long a staged snapshot without new lines is left alone, where several processes share a store and none knows what the
/// others stage. An upload whose body is silent ends much earlier, so by then the process that staged it is gone.
pub const STAGED_SILENCE: Duration = Duration::from_mins(10);

/// How old the stored time of a session's last use may be, because it is written lazily: a sweep must not end a session whose
/// last use is only known in memory.
pub const LAST_SEEN_LAG: Duration = Duration::from_mins(2);

/// How long the minutes of the bot's history are kept: a day, as shown on the status page.
pub const MINUTES_KEPT: Duration = Duration::from_hours(24);

/// How long the days of the bot's history, and past incidents, are kept.
pub const HISTORY_KEPT: Duration = Duration::from_hours(90 * 24);

/// How many incidents are kept: with more than five per day the bot isn't really running, and the oldest ones help nobody.
pub const MOST_INCIDENTS: u32 = 500;

/// How many announcements are kept; more of them displace the oldest.
pub const MOST_ANNOUNCEMENTS: u32 = 100;

/// How many rows the audit log keeps, shared among the kinds of rows.
pub const AUDIT_ROWS: u64 = 100_000;

/// How many updates an incident or an announcement may have.
pub const MOST_UPDATES: u32 = 50;

/// How many sessions, claims and the like one step of a sweep removes: few enough that a sign-in need not wait for it.
pub const SWEEP_BATCH: usize = 500;

/// How many rows one step of cleaning up after snapshots checks: few enough that an event need not wait for it.
pub const CLEAN_UP_BATCH: usize = 1_000;

/// Numberings last used before this are forgotten. It is counted back from the latest use of any, not from now: after an outage
/// of the whole bot, nothing is forgotten that was in use when it began.
pub fn numberings_unused_since(latest_use: Time) -> Time {
    latest_use.before(NUMBERING)
}

/// Code claims that ended before this are forgotten.
pub fn claims_ended_before(now: Time) -> Time {
    now.before(CODE_CLAIM)
}

/// Sign-ins first seen without a session before this were interrupted.
pub fn sign_ins_interrupted_before(now: Time) -> Time {
    now.before(SIGNING_IN)
}

/// Whether there may be more to remove, after a step has removed this many of each kind.
pub fn may_be_more(removed: &[usize], batch: usize) -> bool {
    removed.iter().any(|removed| *removed >= batch.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_older_than_its_time() {
        let now = Time::from_seconds(100_000_000);
        let table = [
            (numberings_unused_since as fn(Time) -> Time, 30 * 24 * 3600),
            (claims_ended_before, 600),
            (sign_ins_interrupted_before, 600),
        ];
        for (before, age) in table {
            assert_eq!(before(now), Time::from_seconds(100_000_000 - age));
            assert_eq!(before(Time::from_seconds(5)), Time::default(), "nothing is older than time itself");
        }
    }

    #[test]
    fn a_step_that_removed_a_whole_batch_of_anything_may_have_left_more() {
        let table: &[(&[usize], usize, bool)] = &[
            (&[], 10, false),
            (&[0, 0, 0], 10, false),
            (&[9, 9, 9], 10, false),
            (&[0, 10, 0], 10, true),
            (&[11, 0, 0], 10, true),
            (&[0, 0], 0, false),
            (&[0, 1], 0, true),
        ];
        for (removed, batch, more) in table {
            assert_eq!(may_be_more(removed, *batch), *more, "{removed:?} of {batch}");
        }
    }
}
