//! What is known of a request when it arrives: who sent it, when, and under which id it is logged.

use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderName};

use crate::app::App;
use crate::domain::Time;

/// Carries the id of a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address: the client's, or a proxy's.
    pub address: IpAddr,
    /// Whether it speaks TLS with us.
    pub secure: bool,
}

/// A request's arrival.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// Names the request in the log and in its answer.
    pub(super) id: String,
    /// For what is drawn at random in the answer; the short way and the router draw the same.
    pub(super) seed: u64,
    /// The client, behind the proxies that we trust.
    pub(super) client: IpAddr,
    /// For latencies.
    pub(super) ticks: Duration,
    /// The time of day.
    pub(super) time: Time,
    /// Whether the connection is encrypted.
    pub(super) secure: bool,
}

impl Arrival {
    pub(super) fn of(app: &App, headers: &HeaderMap, peer: Peer) -> Self {
        let trusted = |address: IpAddr| app.config.http.trusted_proxies.iter().any(|proxy| proxy.contains(address));
        let from_proxy = trusted(peer.address);
        let given = if from_proxy { headers.get(REQUEST_ID).and_then(|id| acceptable(id.as_bytes())) } else { None };
        Self {
            id: given.unwrap_or_else(|| format!("{:016x}", app.random.number())),
            seed: app.random.number(),
            client: if from_proxy { client(headers, peer.address, trusted) } else { peer.address.to_canonical() },
            ticks: app.clock.ticks(),
            time: app.clock.now(),
            secure: peer.secure,
        }
    }
}

/// An id from a proxy counts only in this shape.
fn acceptable(id: &[u8]) -> Option<String> {
    let shaped = (1..=64).contains(&id.len())
        && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    shaped.then(|| String::from_utf8_lossy(id).into_owned())
}

/// The rightmost address that no proxy of ours has: everything left of it was written by the client.
fn client(headers: &HeaderMap, peer: IpAddr, trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    let mut client = peer;
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    for line in lines.into_iter().rev() {
        for entry in line.to_str().unwrap_or_default().rsplit(',') {
            let Some(address) = parsed(entry.trim()) else {
                return client.to_canonical();
            };
            client = address;
            if !trusted(address) {
                return client.to_canonical();
            }
        }
    }
    client.to_canonical()
}

/// An address, with or without a port, as proxies write it.
fn parsed(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    bare.parse().ok().or_else(|| entry.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rightmost_untrusted_entry_is_the_client() {
        let trusted = |address: IpAddr| address.to_string().starts_with("10.");
        let table: &[(&[&str], &str)] = &[
            (&[], "10.0.0.1"),
            (&["203.0.113.9"], "203.0.113.9"),
            (&["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
            (&["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (&["1.2.3.4", "203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (&["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            (&["203.0.113.9, nonsense"], "10.0.0.1"),
            (&["nonsense, 203.0.113.9:4711"], "203.0.113.9"),
            (&["[2001:db8::1]:443"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["::ffff:203.0.113.9"], "203.0.113.9"),
        ];
        for (lines, expected) in table {
            let mut headers = HeaderMap::new();
            for line in *lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            let found = client(&headers, "10.0.0.1".parse().unwrap(), trusted);
            assert_eq!(found.to_string(), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_request_id_from_outside_must_have_its_shape() {
        assert_eq!(acceptable(b"aB3_-").as_deref(), Some("aB3_-"));
        for bad in [&b""[..], b"a b", b"a\"b", "ü".as_bytes(), &[b'a'; 65]] {
            assert_eq!(acceptable(bad), None);
        }
    }
}
