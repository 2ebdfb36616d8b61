//! What a client counts as in a limit. An IPv4 client counts as its address. One IPv6 customer has a whole network to choose
//! addresses from, so an IPv6 client counts as its /56, with four times the allowance of an address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use domain::saturating;

/// An IPv4 address or network, or an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey {
    /// The first bits of the address. How many depends on what is counted, and keys of different lengths are never compared.
    prefix: u64,
    is_ipv6: bool,
}

impl ClientKey {
    /// The IPv4 address, or the IPv6 /56.
    pub fn of(client: IpAddr) -> Self {
        Self::cut(client, 32, 56)
    }

    /// The IPv4 address, or the IPv6 /48. For what nobody does often in good faith.
    pub fn wide(client: IpAddr) -> Self {
        Self::cut(client, 32, 48)
    }

    /// The largest network that usually belongs to one customer: a /24 for IPv4, a /48 for IPv6.
    pub fn network_of(client: IpAddr) -> Self {
        Self::cut(client, 24, 48)
    }

    fn cut(client: IpAddr, ipv4_bits: u32, ipv6_bits: u32) -> Self {
        match client.to_canonical() {
            IpAddr::V4(address) => {
                Self { prefix: u64::from(address.to_bits()) >> (u32::BITS - ipv4_bits), is_ipv6: false }
            }
            IpAddr::V6(address) => {
                Self { prefix: saturating::to_u64(address.to_bits() >> (u128::BITS - ipv6_bits)), is_ipv6: true }
            }
        }
    }

    /// How many times the allowance of a single address it gets.
    pub fn allowance(self) -> u32 {
        if self.is_ipv6 { 4 } else { 1 }
    }
}

/// How many of something each client currently has. It only grows with what is counted. `None` is a client without a limit.
#[derive(Debug, Default)]
pub struct CountPerClient(HashMap<ClientKey, usize>);

impl CountPerClient {
    /// Whether one more is allowed, if an address may have `most`; 0 means no limit.
    pub fn has_room(&self, client: Option<ClientKey>, most: usize) -> bool {
        let Some(client) = client else { return true };
        let allowed = most.saturating_mul(saturating::to_usize(client.allowance()));
        most == 0 || self.0.get(&client).copied().unwrap_or(0) < allowed
    }

    pub fn add(&mut self, client: Option<ClientKey>) {
        if let Some(client) = client {
            *self.0.entry(client).or_default() += 1;
        }
    }

    pub fn remove(&mut self, client: Option<ClientKey>) {
        if let Some(Entry::Occupied(mut count)) = client.map(|client| self.0.entry(client)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
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

    #[test]
    fn an_ipv4_client_counts_as_its_address_and_an_ipv6_client_as_its_network() {
        for (one, other, same_client, same_wide, same_network) in [
            ("192.0.2.1", "192.0.2.1", true, true, true),
            ("192.0.2.1", "::ffff:192.0.2.1", true, true, true),
            ("192.0.2.1", "192.0.2.255", false, false, true),
            ("192.0.2.1", "::ffff:192.0.2.9", false, false, true),
            ("192.0.2.1", "192.0.3.1", false, false, false),
            ("2001:db8::1", "2001:db8::ffff:1", true, true, true),
            ("2001:db8::1", "2001:db8:0:1::1", true, true, true),
            ("2001:db8::1", "2001:db8:0:ff::1", true, true, true),
            ("2001:db8::1", "2001:db8:0:100::1", false, true, true),
            ("2001:db8::1", "2001:db8:0:ffff::1", false, true, true),
            ("2001:db8::1", "2001:db8:1::1", false, false, false),
            // The same bits, but of an IPv6 and an IPv4 address.
            ("0:c0:2:100::1", "192.0.2.1", false, false, false),
        ] {
            let (one, other): (IpAddr, IpAddr) = (one.parse().unwrap(), other.parse().unwrap());
            let is_same = |key: fn(IpAddr) -> ClientKey| key(one) == key(other);
            let found = (is_same(ClientKey::of), is_same(ClientKey::wide), is_same(ClientKey::network_of));
            assert_eq!(found, (same_client, same_wide, same_network), "{one} {other}");
        }
    }

    #[test]
    fn an_ipv6_network_has_room_for_four_times_as_many_as_an_address() {
        let mut counts = CountPerClient::default();
        let mut added = Vec::new();
        for (client, room) in [("192.0.2.1", 3), ("192.0.2.2", 3), ("2001:db8::1", 12), ("2001:db8:0:100::1", 12)] {
            let client = Some(ClientKey::of(client.parse().unwrap()));
            let before = added.len();
            while counts.has_room(client, 3) {
                counts.add(client);
                added.push(client);
            }
            assert_eq!(added.len() - before, room, "{client:?}");
            assert!(counts.has_room(client, 0) && counts.has_room(None, 3), "no limit");
        }
        for client in added {
            counts.remove(client);
        }
        assert!(counts.is_empty(), "nothing stays behind");
    }
}
