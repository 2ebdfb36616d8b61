//! The context of a request: who sent it, when, in which zone, and its ID in the log.

use std::net::IpAddr;
use std::time::Duration;

use api::error::ErrorCode;
use domain::{Time, saturating};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::zone::Zone;
use crate::app::App;
use crate::audit::AuditOrigin;

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address: the client's, or a proxy's.
    pub address: IpAddr,
    pub secure: bool,
}

/// A request's context: created by the middleware, extracted by handlers.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    /// Identifies the request in the log and in its response.
    pub(super) id: RequestId,
    /// The zone of its path.
    pub(super) zone: Zone,
    pub(super) route: u32,
    /// The client, according to the trusted proxies in front of us.
    pub(super) client: IpAddr,
    /// Whether its headers are within their limits and name one host.
    pub(super) headers: Result<(), ErrorCode>,
    /// Whether the client's rate limit allows the request; if not, when the next one may come.
    pub(super) rate_limit: Result<(), Duration>,
    /// When it arrived, in ticks of the clock, for latencies.
    pub(crate) ticks: Duration,
    /// When it arrived, by the clock.
    pub(super) time: Time,
    pub(super) secure: bool,
    /// Whether it comes from a trusted proxy.
    pub(super) from_proxy: bool,
    /// Whether it says that a proxy has sent it on.
    pub(super) is_forwarded: bool,
}

/// Up to 64 letters, digits, `_` and `-`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestId {
    bytes: [u8; RequestId::LONGEST],
    length: u8,
}

impl RequestId {
    const LONGEST: usize = 64;

    /// A proxy's ID only counts in this format.
    fn given(id: &[u8]) -> Option<Self> {
        let is_acceptable = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let length = u8::try_from(id.len()).ok().filter(|length| *length > 0)?;
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        id.iter().all(is_acceptable).then_some(Self { bytes, length })
    }

    fn made(number: u64) -> Self {
        let mut bytes = [0; Self::LONGEST];
        for (digit, shift) in bytes.iter_mut().zip((0..u64::BITS).step_by(4).rev()) {
            *digit = b"0123456789abcdef"[saturating::to_usize(number >> shift) & 0xf];
        }
        Self { bytes, length: 16 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl From<RequestId> for HeaderValue {
    fn from(id: RequestId) -> Self {
        // All of its characters are valid in a header.
        Self::from_bytes(id.as_bytes()).unwrap_or(Self::from_static("0"))
    }
}

/// What a request says about its sender.
pub(super) struct Claims<'a, F> {
    pub(super) request_id: Option<&'a [u8]>,
    /// The lines of `X-Forwarded-For`.
    pub(super) forwarded_for: F,
}

impl<'a> Claims<'a, ()> {
    pub(super) fn of(headers: &'a HeaderMap) -> Claims<'a, impl DoubleEndedIterator<Item = &'a [u8]>> {
        Claims {
            request_id: headers.get(REQUEST_ID).map(HeaderValue::as_bytes),
            forwarded_for: headers.get_all(FORWARDED_FOR).iter().map(HeaderValue::as_bytes),
        }
    }
}

impl RequestContext {
    /// Where it came from, for the audit.
    pub(super) fn origin(&self) -> AuditOrigin<'_> {
        AuditOrigin { client: self.client, request: self.id() }
    }

    /// The context of a request that has just arrived, before it counts against a rate limit.
    pub(super) fn new<'a>(
        app: &App,
        claims: Claims<'a, impl DoubleEndedIterator<Item = &'a [u8]>>,
        headers: Result<(), ErrorCode>,
        peer: Peer,
        (zone, route): (Zone, usize),
    ) -> Self {
        let trusted = |address: IpAddr| app.config.http.trusted_proxies.iter().any(|proxy| proxy.contains(address));
        let from_proxy = trusted(peer.address);
        let given = if from_proxy { claims.request_id.and_then(RequestId::given) } else { None };
        let mut forwarded_for = claims.forwarded_for.rev().peekable();
        let is_forwarded = forwarded_for.peek().is_some();
        let client =
            if from_proxy { client(forwarded_for, peer.address, trusted) } else { peer.address.to_canonical() };
        let (time, ticks) = app.sources.clock.read();
        Self {
            id: given.unwrap_or_else(|| RequestId::made(app.sources.random.number())),
            zone,
            route: saturating::to_u32(route),
            client,
            headers,
            rate_limit: Ok(()),
            ticks,
            time,
            secure: peer.secure,
            from_proxy,
            is_forwarded,
        }
    }

    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }
}

/// The rightmost address that isn't a trusted proxy's: the client may have written anything to the left of it.
fn client<'a>(
    lines_from_last: impl Iterator<Item = &'a [u8]>,
    peer: IpAddr,
    trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut client = peer;
    for line in lines_from_last {
        // As bytes rather than text: what a client wrote on the left must not spoil what a proxy wrote on the right.
        for entry in line.rsplit(|byte| *byte == b',') {
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
            let found = client(lines.iter().copied().rev(), "10.0.0.1".parse().unwrap(), trusted);
            assert_eq!(found.to_string(), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_made_id_is_sixteen_digits() {
        assert_eq!(RequestId::made(0x0123_4567_89ab_cdef).as_str(), "0123456789abcdef");
    }

    #[test]
    fn a_request_id_from_a_proxy_must_have_its_shape() {
        for good in [&b"aB3_-"[..], &[b'a'; 64]] {
            assert_eq!(RequestId::given(good).unwrap().as_bytes(), good);
        }
        for bad in [&b""[..], b"a b", b"a\"b", "ü".as_bytes(), &[b'a'; 65], &[b'a'; 300]] {
            assert!(RequestId::given(bad).is_none());
        }
    }
}
