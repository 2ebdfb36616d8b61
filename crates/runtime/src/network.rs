//! A network of addresses, like `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// An IPv4 or IPv6 network in CIDR form; a bare address is a network of one. Addresses are compared in canonical form, so
/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

/// Why a text isn't a network, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(String);

impl Network {
    /// Whether the address is in this network. An IPv4 address that came in over an IPv6 socket counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether every address of its kind is in it.
    pub fn is_everywhere(&self) -> bool {
        self.0.prefix_len() == 0
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let advice = || NetworkError("write a network like \"10.0.0.0/8\" or \"2001:db8::/32\", or an address".into());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| advice())?;
        let network = match prefix {
            None => IpNet::from(address),
            Some(prefix) if !prefix.bytes().all(|byte| byte.is_ascii_digit()) => return Err(advice()),
            Some(prefix) => {
                let longest = IpNet::from(address).max_prefix_len();
                let network = prefix.parse().ok().and_then(|prefix| IpNet::new(address, prefix).ok());
                network
                    .ok_or_else(|| NetworkError(format!("the number after the slash must be from 0 to {longest}")))?
            }
        };
        let network = canonical(network);
        let without_host = network.trunc();
        if network == without_host {
            Ok(Self(network))
        } else {
            Err(NetworkError(format!("the address has bits set after the prefix; write \"{without_host}\"")))
        }
    }
}

fn canonical(network: IpNet) -> IpNet {
    match (network, network.addr().to_canonical(), network.prefix_len().checked_sub(96)) {
        (IpNet::V6(_), IpAddr::V4(address), Some(prefix)) => Ipv4Net::new(address, prefix).map_or(network, IpNet::V4),
        _ => network,
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use bolero::check;
    use test_support::inputs::{ITERATIONS, near};

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
        let general = "write a network like \"10.0.0.0/8\" or \"2001:db8::/32\", or an address";
        for (text, message) in [
            ("", general),
            ("localhost", general),
            ("10.0.0/8", general),
            ("10.0.0.0/", "the number after the slash must be from 0 to 32"),
            ("10.0.0.0/+8", general),
            ("10.0.0.0/33", "the number after the slash must be from 0 to 32"),
            ("::/129", "the number after the slash must be from 0 to 128"),
            ("10.0.0.1/8", "the address has bits set after the prefix; write \"10.0.0.0/8\""),
        ] {
            assert_eq!(text.parse::<Network>().unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn fuzz_networks() {
        const SAMPLES: &[&[u8]] =
            &[b"10.0.0.0/8", b"2001:db8::/32", b"::ffff:10.0.0.0/104", b"192.0.2.7", b"0.0.0.0/0"];
        check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
            let Ok(text) = std::str::from_utf8(input) else { return };
            let Ok(network) = text.parse::<Network>() else { return };
            let shown = network.to_string();
            assert_eq!(shown.parse(), Ok(network), "{shown}");
            let (address, _) = shown.split_once('/').unwrap();
            assert!(network.contains(address.parse().unwrap()), "{shown}");
        });
    }
}
