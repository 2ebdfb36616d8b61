//! The audit: what happened, to whom and from where, and how much of it strangers can cause.

use std::collections::HashMap;
use std::net::IpAddr;

use super::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuditKind {
    SignIn,
    SignInRefused,
    /// A user ended a session, or all of them.
    SignedOut,
    GrantRevoked,
    Blocked,
    Unblocked,
    /// A bot key was used, for the first time in an hour from a network.
    KeyUsed,
    KeyRefused,
    Command,
    /// Rows were lost, because there were too many at the same time or the store was unavailable.
    Lost,
}

impl AuditKind {
    pub const ALL: [Self; 10] = [
        Self::SignIn,
        Self::SignInRefused,
        Self::SignedOut,
        Self::GrantRevoked,
        Self::Blocked,
        Self::Unblocked,
        Self::KeyUsed,
        Self::KeyRefused,
        Self::Command,
        Self::Lost,
    ];

    /// The name that is stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::SignInRefused => "sign_in_refused",
            Self::SignedOut => "signed_out",
            Self::GrantRevoked => "grant_revoked",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
            Self::KeyUsed => "key_used",
            Self::KeyRefused => "key_refused",
            Self::Command => "command",
            Self::Lost => "lost",
        }
    }

    /// Whether someone without credentials can cause it.
    pub fn is_by_strangers(self) -> bool {
        matches!(self, Self::SignInRefused | Self::KeyRefused)
    }

    /// How many of the audit's rows may be of this kind, given the total; at least one. Each kind has its own share, so that
    /// someone who can cause one kind over and over only displaces rows of that kind, never the few of the operator.
    pub fn quota(self, rows: u64) -> u64 {
        let twentieths = match self {
            Self::SignIn => 5,
            Self::Blocked | Self::Unblocked | Self::Lost => 1,
            _ => 2,
        };
        (rows.saturating_mul(twentieths) / 20).max(1)
    }
}

/// Which kinds have too many rows, given the total, and how many of their oldest must be deleted.
pub fn surplus(counts: &[(AuditKind, u64)], rows: u64) -> Vec<(AuditKind, u64)> {
    let too_many = |(kind, count): &(AuditKind, u64)| (*kind, count.saturating_sub(kind.quota(rows)));
    counts.iter().map(too_many).filter(|(_, surplus)| *surplus > 0).collect()
}

impl std::str::FromStr for AuditKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("write one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Time,
    pub kind: AuditKind,
    /// The user's ID, or `forgotten:` and a hash.
    pub person: Option<String>,
    pub key: Option<String>,
    pub network: Option<String>,
    pub request: Option<String>,
    pub detail: String,
    pub count: u64,
}

impl AuditEntry {
    /// Something that happened once.
    pub fn new(at: Time, kind: AuditKind) -> Self {
        Self { at, kind, person: None, key: None, network: None, request: None, detail: String::new(), count: 1 }
    }
}

/// The network of an address, as much as is stored: a /24 for IPv4, a /48 for IPv6.
pub fn network_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{}/48", std::net::Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

/// How many rows strangers from one network may cause per minute.
pub const PER_NETWORK: u32 = 10;
/// How many rows all strangers together may cause per minute.
pub const PER_MINUTE: u32 = 100;

/// Limits the rows that strangers cause per minute; the rest are only counted.
#[derive(Debug, Default)]
pub struct StrangerBudget {
    minute: u64,
    /// How many rows each network had; there are no more networks than rows.
    rows: HashMap<String, u32>,
    all: u32,
    rest: HashMap<AuditKind, u64>,
}

impl StrangerBudget {
    /// Whether this gets its own row; otherwise it is counted.
    pub fn admits(&mut self, kind: AuditKind, network: &str, now: Time) -> bool {
        let minute = now.seconds() / 60;
        if minute != self.minute {
            (self.minute, self.all) = (minute, 0);
            self.rows.clear();
        }
        let of_network = self.rows.get(network).copied().unwrap_or_default();
        if self.all < PER_MINUTE && of_network < PER_NETWORK {
            self.all += 1;
            self.rows.insert(network.to_owned(), of_network + 1);
            return true;
        }
        *self.rest.entry(kind).or_default() += 1;
        false
    }

    /// One row for each kind that had too many, once the minute is over, or right away with `at_once`.
    pub fn summaries(&mut self, now: Time, at_once: bool) -> Vec<AuditEntry> {
        if !at_once && now.seconds() / 60 == self.minute {
            return Vec::new();
        }
        let mut rest: Vec<_> = self.rest.drain().collect();
        rest.sort_unstable();
        let row = |(kind, count)| AuditEntry {
            count,
            detail: "more like these, not listed separately".to_owned(),
            ..AuditEntry::new(now, kind)
        };
        rest.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_cut() {
        for (address, network) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.77", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            ("::1", "::/48"),
        ] {
            assert_eq!(network_of(address.parse().unwrap()), network);
        }
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in AuditKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("nonsense".parse::<AuditKind>().unwrap_err().contains("sign_in_refused"));
    }

    #[test]
    fn the_quotas_of_all_kinds_are_the_whole_audit() {
        for rows in [20, 1_000, 100_000, 100_000_000] {
            assert_eq!(AuditKind::ALL.map(|kind| kind.quota(rows)).iter().sum::<u64>(), rows);
        }
        assert!(AuditKind::ALL.iter().all(|kind| kind.quota(1) == 1), "no kind is without a row");
    }

    #[test]
    fn only_what_is_over_its_own_quota_goes() {
        use AuditKind::{Blocked, Command, KeyRefused, SignIn, SignInRefused};
        for (counts, expected) in [
            (vec![], vec![]),
            (vec![(SignIn, 25), (Blocked, 5), (SignInRefused, 10)], vec![]),
            (vec![(SignIn, 26), (Blocked, 5), (SignInRefused, 10)], vec![(SignIn, 1)]),
            (vec![(SignIn, 1), (Blocked, 1), (SignInRefused, 1_000_000)], vec![(SignInRefused, 999_990)]),
            (vec![(KeyRefused, 11), (Command, 12)], vec![(KeyRefused, 1), (Command, 2)]),
        ] {
            assert_eq!(surplus(&counts, 100), expected, "{counts:?}");
        }
    }

    #[test]
    fn strangers_cause_so_many_rows_and_the_rest_is_one_number() {
        let mut budget = StrangerBudget::default();
        let now = Time::from_seconds(6_000);
        let (refused, key) = (AuditKind::SignInRefused, AuditKind::KeyRefused);
        let admitted = (0..50).filter(|_| budget.admits(refused, "192.0.2.0/24", now)).count();
        assert_eq!(admitted, 10);
        let networks = (0..1_000).filter(|number| budget.admits(key, &format!("{number}"), now)).count();
        assert_eq!(networks, 90, "a hundred in all");
        assert_eq!(budget.rows.len(), 91, "what is remembered is bounded");
        assert_eq!(budget.summaries(now, false), []);
        let later = Time::from_seconds(6_060);
        let rows: Vec<_> = budget.summaries(later, false).into_iter().map(|row| (row.kind, row.count)).collect();
        assert_eq!(rows, [(refused, 40), (key, 910)]);
        assert_eq!(budget.summaries(later, true), []);
        assert!(budget.admits(refused, "192.0.2.0/24", later), "a new minute");
    }
}
