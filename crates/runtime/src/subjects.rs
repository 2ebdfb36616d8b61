//! What a client counts as. An IPv4 client counts as its address. One IPv6 customer usually has a /56 or a /48 to choose
//! addresses from, so an IPv6 client counts three times: as its /64, as its /56 with four times the allowance, and as its /48
//! with eight times.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use domain::saturating;

/// How many subjects a client has at most.
pub const LEVELS: usize = 3;

/// An IPv4 address, or an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    bits: u64,
    width: Width,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Width {
    Address,
    Net24,
    Net64,
    Net56,
    Net48,
}

impl Subject {
    /// The largest network that usually belongs to one customer: a /24 for IPv4, a /48 for IPv6.
    pub fn network_of(client: IpAddr) -> Self {
        match client.to_canonical() {
            IpAddr::V4(address) => Self { bits: u64::from(address.to_bits() >> 8), width: Width::Net24 },
            IpAddr::V6(address) => Self::ipv6(address, Width::Net48),
        }
    }

    fn ipv6(address: Ipv6Addr, width: Width) -> Self {
        let ignored = match width {
            Width::Net56 => 8,
            Width::Net48 => 16,
            _ => 0,
        };
        Self { bits: saturating::to_u64(address.to_bits() >> 64) >> ignored, width }
    }

    /// How many times the allowance of a single address it gets.
    pub fn allowance(self) -> u32 {
        match self.width {
            Width::Address | Width::Net24 | Width::Net64 => 1,
            Width::Net56 => 4,
            Width::Net48 => 8,
        }
    }
}

/// The subjects of one client, narrowest first. A client without limits has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subjects([Option<Subject>; LEVELS]);

impl Subjects {
    pub fn of(client: IpAddr) -> Self {
        match client.to_canonical() {
            IpAddr::V4(address) => {
                let subject = Subject { bits: u64::from(address.to_bits()), width: Width::Address };
                Self([Some(subject), None, None])
            }
            IpAddr::V6(address) => {
                Self([Width::Net64, Width::Net56, Width::Net48].map(|width| Some(Subject::ipv6(address, width))))
            }
        }
    }

    /// Narrowest first.
    pub fn iter(&self) -> impl Iterator<Item = Subject> {
        self.0.into_iter().flatten()
    }
}

/// How many of something each subject currently has. It only grows with what is counted.
#[derive(Debug, Default)]
pub struct Tally(HashMap<Subject, usize>);

impl Tally {
    /// Whether one more is allowed, if an address may have `most`; 0 means no limit.
    pub fn has_room(&self, subjects: &Subjects, most: usize) -> bool {
        let allowed = |subject: Subject| most.saturating_mul(usize::try_from(subject.allowance()).unwrap_or(1));
        most == 0 || subjects.iter().all(|subject| self.0.get(&subject).copied().unwrap_or(0) < allowed(subject))
    }

    pub fn add(&mut self, subjects: &Subjects) {
        for subject in subjects.iter() {
            *self.0.entry(subject).or_default() += 1;
        }
    }

    pub fn remove(&mut self, subjects: &Subjects) {
        for subject in subjects.iter() {
            let left = self.0.get_mut(&subject).map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                self.0.remove(&subject);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: &str) -> Subjects {
        Subjects::of(client.parse().unwrap())
    }

    #[test]
    fn an_ipv6_client_counts_as_its_64_its_56_and_its_48() {
        for (one, other, shared) in [
            ("2001:db8::1", "2001:db8::ffff:1", vec![1, 4, 8]),
            ("2001:db8::1", "2001:db8:0:1::1", vec![4, 8]),
            ("2001:db8::1", "2001:db8:0:ff::1", vec![4, 8]),
            ("2001:db8::1", "2001:db8:0:100::1", vec![8]),
            ("2001:db8::1", "2001:db8:0:ffff::1", vec![8]),
            ("2001:db8::1", "2001:db8:1::1", vec![]),
            // Networks of different widths are different, even if their first bits look alike.
            ("0:1::", "0:0:1::", vec![]),
            ("::ffff:192.0.2.1", "192.0.2.1", vec![1]),
            ("192.0.2.1", "192.0.2.2", vec![]),
            ("::c000:201", "192.0.2.1", vec![]),
        ] {
            let found: Vec<_> = of(one).iter().filter(|subject| of(other).iter().any(|it| it == *subject)).collect();
            assert_eq!(found.into_iter().map(Subject::allowance).collect::<Vec<_>>(), shared, "{one} {other}");
        }
        assert_eq!(of("192.0.2.1").iter().count(), 1);
        assert_eq!(Subjects::default().iter().count(), 0);
    }

    #[test]
    fn a_customers_network_is_a_24_or_a_48() {
        let network = |client: &str| Subject::network_of(client.parse().unwrap());
        for (one, other, is_same) in [
            ("192.0.2.1", "192.0.2.255", true),
            ("192.0.2.1", "::ffff:192.0.2.9", true),
            ("192.0.2.1", "192.0.3.1", false),
            ("2001:db8::1", "2001:db8:0:ffff::1", true),
            ("2001:db8::1", "2001:db8:1::1", false),
        ] {
            assert_eq!(network(one) == network(other), is_same, "{one} {other}");
        }
    }

    #[test]
    fn a_56_has_room_for_four_addresses_share_and_a_48_for_eight() {
        let mut tally = Tally::default();
        let mut added = Vec::new();
        let mut fill = |tally: &mut Tally, clients: Vec<String>| {
            let before = added.len();
            for subjects in clients.iter().map(|client| of(client)).cycle().take(1_000) {
                if tally.has_room(&subjects, 3) {
                    tally.add(&subjects);
                    added.push(subjects);
                }
            }
            added.len() - before
        };
        let in_56 = |net: u32| (0..256).map(|number| format!("2001:db8:0:{net:x}{number:02x}::1")).collect::<Vec<_>>();
        assert_eq!(fill(&mut tally, vec!["2001:db8::1".to_owned()]), 3);
        assert_eq!(fill(&mut tally, in_56(0)), 9, "twelve with the first three");
        assert_eq!(fill(&mut tally, in_56(1)), 12);
        assert_eq!(fill(&mut tally, in_56(2)), 0, "the /48 has twice as much as a /56");
        assert_eq!(fill(&mut tally, vec!["2001:db8:1::1".to_owned(), "192.0.2.1".to_owned()]), 6, "others have theirs");
        for subjects in &added {
            tally.remove(subjects);
        }
        assert!(tally.is_empty(), "nothing stays behind");
    }
}
