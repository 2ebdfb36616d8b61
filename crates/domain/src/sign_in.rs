//! Who may exchange a code, store a grant and refresh it. Several processes may try at the same time; the store reads what is
//! recorded, asks here, and writes the answer in the same transaction.

use super::revocation::{RevocationStage, StoredRevocation};
use super::{Time, User};

/// The result of an attempt to claim a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours to exchange.
    Mine,
    /// Someone is exchanging it right now.
    Running,
    /// It was exchanged: this user signed in with it, or nobody could.
    Settled(Option<User>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredClaim {
    pub is_settled: bool,
    /// Who signed in with the code.
    pub user: Option<User>,
    /// When the exchange's time is up or, once it is settled, the memory of it ends.
    pub until: Time,
}

impl Claim {
    /// Who exchanges a code with this stored claim. A claim whose time is up was left by a process that is gone, and nobody
    /// knows how far it got, so its code counts as used. A settled one is forgotten after its time.
    pub fn decide(stored: Option<StoredClaim>, now: Time) -> Self {
        match stored {
            Some(claim) if !claim.is_settled && now < claim.until => Self::Running,
            Some(claim) if !claim.is_settled => Self::Settled(None),
            Some(claim) if now < claim.until => Self::Settled(claim.user),
            Some(_) | None => Self::Mine,
        }
    }
}

/// The result of an attempt to lease a grant for refreshing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// It is ours to refresh.
    Mine,
    /// Someone else is refreshing it.
    Busy,
    /// It has been replaced or removed.
    Replaced,
}

/// What is stored about a user's grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredLease {
    pub grant_version: u64,
    /// When the current lease ends.
    pub until: Option<Time>,
}

impl Lease {
    /// Whether the grant with this version may be refreshed now, given what is stored.
    pub fn decide(stored: Option<StoredLease>, grant_version: u64, now: Time) -> Self {
        match stored {
            Some(lease) if lease.grant_version != grant_version => Self::Replaced,
            Some(lease) if lease.until.is_some_and(|until| now < until) => Self::Busy,
            Some(_) => Self::Mine,
            None => Self::Replaced,
        }
    }
}

/// The result of an attempt to store a new grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantSaved {
    Saved,
    /// The operator has blocked this user. The new grant must be revoked.
    Blocked,
    /// The user's previous grant is being revoked right now, which may affect this one too: wait, then try again.
    RevocationRunning,
    /// The user's previous grant was revoked a moment ago: try again once the new one is seen to work.
    RevocationSent {
        /// How often it was tried so far.
        tries: u32,
    },
}

impl GrantSaved {
    /// Whether a user's new grant is stored. If a revocation of the previous one was sent, the new one must be `verified` to
    /// work after that many tries.
    pub fn decide(is_blocked: bool, revocation: Option<RevocationStage>, verified: Option<u32>) -> Self {
        match revocation {
            _ if is_blocked => Self::Blocked,
            Some(RevocationStage::Running) => Self::RevocationRunning,
            Some(RevocationStage::Sent { tries }) if verified != Some(tries) => Self::RevocationSent { tries },
            Some(RevocationStage::Sent { .. } | RevocationStage::Waiting) | None => Self::Saved,
        }
    }
}

/// The result of an attempt to sign a user in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Admitted,
    /// The operator has blocked this user; nothing was stored.
    Blocked,
}

impl Admission {
    pub fn decide(is_blocked: bool) -> Self {
        if is_blocked { Self::Blocked } else { Self::Admitted }
    }
}

/// Whether a new session takes back a grant that is waiting to be revoked. If one code opens two sessions, the first may end
/// before the second begins, and the grant with it.
pub fn takes_back_grant(has_grant: bool, revocation: Option<StoredRevocation>) -> bool {
    !has_grant && revocation.is_some_and(|revocation| revocation.is_waiting())
}

/// Whether a user's profile and grant are no longer needed: there is no session, and none is about to be opened.
pub fn is_account_unused(has_session: bool, is_signing_in: bool) -> bool {
    !has_session && !is_signing_in
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snowflake;

    const NOW: Time = Time::from_seconds(100);

    #[test]
    fn one_exchange_per_code() {
        let user = User {
            username: "u".to_owned(),
            name: "U".to_owned(),
            id: Snowflake::new(7).unwrap(),
            avatar: "https://a".into(),
        };
        let stored = |is_settled, user: Option<&User>, until| {
            Some(StoredClaim { is_settled, user: user.cloned(), until: Time::from_seconds(until) })
        };
        for (known, claim) in [
            (None, Claim::Mine),
            (stored(false, None, 101), Claim::Running),
            (stored(false, None, 100), Claim::Settled(None)),
            (stored(false, None, 1), Claim::Settled(None)),
            (stored(true, Some(&user), 101), Claim::Settled(Some(user.clone()))),
            (stored(true, None, 101), Claim::Settled(None)),
            (stored(true, Some(&user), 100), Claim::Mine),
            (stored(true, None, 99), Claim::Mine),
        ] {
            assert_eq!(Claim::decide(known.clone(), NOW), claim, "{known:?}");
        }
    }

    #[test]
    fn one_refresh_per_grant() {
        let stored = |grant_version, until: Option<u64>| {
            Some(StoredLease { grant_version, until: until.map(Time::from_seconds) })
        };
        for (known, lease) in [
            (None, Lease::Replaced),
            (stored(3, None), Lease::Mine),
            (stored(3, Some(99)), Lease::Mine),
            (stored(3, Some(100)), Lease::Mine),
            (stored(3, Some(101)), Lease::Busy),
            (stored(4, None), Lease::Replaced),
            (stored(4, Some(101)), Lease::Replaced),
            (stored(2, None), Lease::Replaced),
        ] {
            assert_eq!(Lease::decide(known, 3, NOW), lease, "{known:?}");
        }
    }

    #[test]
    fn a_grant_is_stored_unless_its_user_is_blocked_or_a_revocation_may_hit_it() {
        use RevocationStage::{Running, Sent, Waiting};
        for (blocked, stage, verified, saved) in [
            (false, None, None, GrantSaved::Saved),
            (false, Some(Waiting), None, GrantSaved::Saved),
            (false, Some(Running), None, GrantSaved::RevocationRunning),
            (false, Some(Running), Some(1), GrantSaved::RevocationRunning),
            (false, Some(Sent { tries: 1 }), None, GrantSaved::RevocationSent { tries: 1 }),
            (false, Some(Sent { tries: 1 }), Some(1), GrantSaved::Saved),
            (false, Some(Sent { tries: 2 }), Some(1), GrantSaved::RevocationSent { tries: 2 }),
            (true, None, None, GrantSaved::Blocked),
            (true, Some(Running), None, GrantSaved::Blocked),
            (true, Some(Sent { tries: 1 }), Some(1), GrantSaved::Blocked),
        ] {
            assert_eq!(GrantSaved::decide(blocked, stage, verified), saved, "{blocked} {stage:?} {verified:?}");
        }
        assert_eq!((Admission::decide(false), Admission::decide(true)), (Admission::Admitted, Admission::Blocked));
    }

    #[test]
    fn a_session_takes_back_a_grant_that_nobody_began_to_revoke() {
        let stored = |tries, is_sent| Some(StoredRevocation { tries, sending_until: None, is_sent });
        for (has_grant, revocation, takes) in [
            (false, None, false),
            (false, stored(0, false), true),
            (true, stored(0, false), false),
            (false, stored(1, false), false),
            (false, stored(0, true), false),
            (false, stored(2, true), false),
        ] {
            assert_eq!(takes_back_grant(has_grant, revocation), takes, "{has_grant} {revocation:?}");
        }
    }

    #[test]
    fn an_account_is_used_by_its_sessions_and_by_a_sign_in() {
        for (session, signing_in, unused) in
            [(false, false, true), (true, false, false), (false, true, false), (true, true, false)]
        {
            assert_eq!(is_account_unused(session, signing_in), unused, "{session} {signing_in}");
        }
    }
}
