//! A network of addresses, such as `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 or IPv6 network in CIDR form; a bare address is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is no network, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(String);

impl Network {
    /// Whether the address is in this network. An IPv4 address that came in over an IPv6 socket counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.prefix) == Some(self.address)
    }
}

/// The address with all bits after the prefix cleared; none if the prefix is longer than the address.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(Ipv4Addr::BITS.checked_sub(prefix)?).unwrap_or(0);
            Some(Ipv4Addr::from_bits(address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(Ipv6Addr::BITS.checked_sub(prefix)?).unwrap_or(0);
            Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let advice =
            || NetworkError("write a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or an address".into());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| advice())?;
        let mapped = written.to_canonical() != written;
        let longest: u8 = if written.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= longest)
                .ok_or_else(|| NetworkError(format!("the number after the slash goes from 0 to {longest}")))?,
            Some(_) => return Err(advice()),
        };
        // Addresses are compared in canonical form, so `::ffff:10.0.0.0/104` has to become `10.0.0.0/8`.
        let (address, prefix) = match prefix.checked_sub(96) {
            Some(prefix) if mapped => (written.to_canonical(), prefix),
            _ => (written, prefix),
        };
        let network = masked(address, prefix).ok_or_else(advice)?;
        if network == address {
            Ok(Self { address, prefix })
        } else {
            Err(NetworkError(format!("the address has bits set after the prefix; write \"{network}/{prefix}\"")))
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.6/31", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::1", "::1", "::2"),
            ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"),
            ("::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }

    #[test]
    fn display() {
        for (written, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("::1", "::1/128"),
            ("::ffff:1.2.3.4", "1.2.3.4/32"),
        ] {
            assert_eq!(written.parse::<Network>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn refused() {
        let general = "write a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or an address";
        for (text, message) in [
            ("", general),
            ("localhost", general),
            ("10.0.0/8", general),
            ("10.0.0.0/", "the number after the slash goes from 0 to 32"),
            ("10.0.0.0/+8", general),
            ("10.0.0.0/33", "the number after the slash goes from 0 to 32"),
            ("::/129", "the number after the slash goes from 0 to 128"),
            ("10.0.0.1/8", "the address has bits set after the prefix; write \"10.0.0.0/8\""),
        ] {
            assert_eq!(text.parse::<Network>().unwrap_err().to_string(), message, "{text}");
        }
    }
}
