//! The context of a request: who sent it, when, in which zone, and under which id it is logged.

use std::net::IpAddr;
use std::time::Duration;

use api::error::ErrorCode;
use domain::Time;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::zone::Zone;
use crate::app::App;
use crate::audit::AuditOrigin;
use crate::floods::FloodKind;

/// Carries the id of a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address: the client's, or a proxy's.
    pub address: IpAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
}

/// A request's context: the middleware makes it, handlers extract it.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    /// Names the request in the log and in its response; visible ASCII.
    pub(super) id: HeaderValue,
    /// The zone of its path.
    pub(super) zone: Zone,
    /// The index of its route, for the metrics.
    pub(super) route: u32,
    /// Seeds what is drawn at random for the response, so that the fast path and the router draw the same.
    pub(super) seed: u64,
    /// The client, as the trusted proxies before us name it.
    pub(super) client: IpAddr,
    /// Whether its headers are within their bounds and name one host.
    pub(super) headers: Result<(), ErrorCode>,
    /// Whether the client's rate limit allows the request; if not, when the next one may come.
    pub(super) rate_limit: Result<(), Duration>,
    /// When it arrived, in ticks of the clock, for latencies.
    pub(crate) ticks: Duration,
    /// When it arrived, by the time of day.
    pub(super) time: Time,
    /// Whether the connection is encrypted.
    pub(super) secure: bool,
    /// Whether it comes from a trusted proxy.
    pub(super) from_proxy: bool,
}

impl RequestContext {
    /// Where it came from, for the audit.
    pub(super) fn origin(&self) -> AuditOrigin<'_> {
        AuditOrigin { client: self.client, request: self.id.to_str().unwrap_or_default() }
    }

    /// The context of a request that has just arrived, before its headers are checked and it is counted against a rate limit.
    pub(super) fn new(app: &App, headers: &HeaderMap, peer: Peer, (zone, route): (Zone, usize)) -> Self {
        let trusted = |address: IpAddr| app.config.http.trusted_proxies.iter().any(|proxy| proxy.contains(address));
        let from_proxy = trusted(peer.address);
        let given = if from_proxy { headers.get(REQUEST_ID).filter(|id| is_acceptable(id.as_bytes())) } else { None };
        let client = if from_proxy { client(headers, peer.address, trusted) } else { peer.address.to_canonical() };
        let (time, ticks) = app.clock.read();
        let context = Self {
            id: given.cloned().unwrap_or_else(|| make_id(app.random.number())),
            zone,
            // There are a few dozen routes.
            route: u32::try_from(route).unwrap_or(0),
            seed: app.random.number(),
            client,
            headers: Ok(()),
            rate_limit: Ok(()),
            ticks,
            time,
            secure: peer.secure,
            from_proxy,
        };
        if !from_proxy && headers.contains_key(FORWARDED_FOR) {
            app.floods.note(FloodKind::ForwardedFor, client, context.id(), context.ticks);
        }
        context
    }

    pub(super) fn id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }
}

/// An id from a proxy counts only in this shape.
fn is_acceptable(id: &[u8]) -> bool {
    (1..=64).contains(&id.len()) && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Sixteen hexadecimal digits.
fn make_id(number: u64) -> HeaderValue {
    let bytes = number.to_be_bytes();
    let digits: [u8; 16] = std::array::from_fn(|index| {
        let half = if index % 2 == 0 { bytes[index / 2] >> 4 } else { bytes[index / 2] & 0xf };
        b"0123456789abcdef"[usize::from(half)]
    });
    HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("0"))
}

/// The rightmost address that is no trusted proxy's: the client may have written anything left of it.
fn client(headers: &HeaderMap, peer: IpAddr, trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    let mut client = peer;
    for line in headers.get_all(FORWARDED_FOR).iter().rev() {
        // Bytes, not text: what a client wrote on the left must not spoil what a proxy wrote on the right.
        for entry in line.as_bytes().rsplit(|byte| *byte == b',') {
            let Some(address) = parse_address(entry.trim_ascii()) else {
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
fn parse_address(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?;
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    bare.parse().ok().or_else(|| entry.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rightmost_untrusted_entry_is_the_client() {
        let trusted = |address: IpAddr| address.to_string().starts_with("10.");
        let table: &[(&[&[u8]], &str)] = &[
            (&[], "10.0.0.1"),
            (&[b"203.0.113.9"], "203.0.113.9"),
            (&[b"1.2.3.4, 203.0.113.9"], "203.0.113.9"),
            (&[b"203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (&[b"1.2.3.4", b"203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (&[b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            (&[b"203.0.113.9, nonsense"], "10.0.0.1"),
            (&[b"nonsense, 203.0.113.9:4711"], "203.0.113.9"),
            (&[b"[2001:db8::1]:443"], "2001:db8::1"),
            (&[b"[2001:db8::1]"], "2001:db8::1"),
            (&[b"::ffff:203.0.113.9"], "203.0.113.9"),
            (&[b"\xff, 203.0.113.9"], "203.0.113.9"),
            (&[b"\xff", b"203.0.113.9"], "203.0.113.9"),
            (&[b"203.0.113.9, \xff"], "10.0.0.1"),
            (&[b"203.0.113.9\xff, 10.0.0.2"], "10.0.0.2"),
            (&[b"203.0.113.9,"], "10.0.0.1"),
        ];
        for (lines, expected) in table {
            let mut headers = HeaderMap::new();
            for line in *lines {
                headers.append(FORWARDED_FOR, HeaderValue::from_bytes(line).unwrap());
            }
            let found = client(&headers, "10.0.0.1".parse().unwrap(), trusted);
            assert_eq!(found.to_string(), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_made_id_is_sixteen_digits() {
        assert_eq!(make_id(0x0123_4567_89ab_cdef), "0123456789abcdef");
    }

    #[test]
    fn a_request_id_from_a_proxy_must_have_its_shape() {
        assert!(is_acceptable(b"aB3_-"));
        for bad in [&b""[..], b"a b", b"a\"b", "ü".as_bytes(), &[b'a'; 65]] {
            assert!(!is_acceptable(bad));
        }
    }
}
