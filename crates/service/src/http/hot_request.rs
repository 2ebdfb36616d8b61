//! A request as the fast path sees it: its path and the few headers that a cached response may depend on. It is built from the
//! bytes of an HTTP/1.1 request.

use http::Method;

use super::bounds::HeaderSize;
use super::credentials::TOKEN_NAME;

/// More than browsers send. Requests with more are left to hyper.
const PARSED_HEADERS: usize = 40;

/// A `GET`, `HEAD` or `POST` without a body.
pub(crate) struct HotRequest<'a> {
    pub(super) method: Method,
    /// As sent, without a query.
    pub(super) path: &'a str,
    pub(super) headers: HotHeaders<'a>,
}

/// The headers that matter to the fast path, each of which appears at most once.
#[derive(Default)]
pub(super) struct HotHeaders<'a> {
    pub(super) host: Option<&'a [u8]>,
    pub(super) token: Option<&'a [u8]>,
    pub(super) origin: Option<&'a [u8]>,
    pub(super) accept_encoding: Option<&'a [u8]>,
    pub(super) cache_control: Option<&'a [u8]>,
    pub(super) if_none_match: Option<&'a [u8]>,
    pub(super) sent_epoch: Option<&'a [u8]>,
    pub(super) forwarded_for: Option<&'a [u8]>,
    pub(super) request_id: Option<&'a [u8]>,
    pub(super) trace_parent: Option<&'a [u8]>,
}

/// What the bytes are, if the fast path cannot answer them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotHot {
    /// Exactly one request without a body.
    Whole,
    /// Part of a request, several, one with a body, or nonsense.
    Other,
}

impl<'a> HotRequest<'a> {
    /// Parses bytes that begin where a request begins, the way hyper parses them.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, NotHot> {
        let mut lines = [httparse::EMPTY_HEADER; PARSED_HEADERS];
        let mut parsed = httparse::Request::new(&mut lines);
        let Ok(httparse::Status::Complete(length)) = parsed.parse(bytes) else { return Err(NotHot::Other) };
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else { return Err(NotHot::Other) };
        if length != bytes.len() || parsed.version != Some(1) || method == "CONNECT" {
            return Err(NotHot::Other);
        }
        let lines = parsed.headers.iter().map(|line| (line.name, line.value));
        let (headers, is_plain) = HotHeaders::read(lines);
        let method = match method {
            _ if !is_plain => return Err(NotHot::Other),
            "GET" => Method::GET,
            "HEAD" => Method::HEAD,
            "POST" => Method::POST,
            _ => return Err(NotHot::Whole),
        };
        match headers {
            // Whether a query is well-formed is left to hyper.
            Some(headers) if !target.contains('?') => Ok(Self { method, path: target, headers }),
            _ => Err(NotHot::Whole),
        }
    }
}

impl<'a> HotHeaders<'a> {
    /// The headers of a request; `None` if there are too many, or one of ours appears twice. Also whether it is plain: nothing
    /// but headers belongs to it, and the connection stays open.
    fn read(lines: impl Iterator<Item = (&'a str, &'a [u8])>) -> (Option<Self>, bool) {
        let (mut headers, mut size, mut is_unique, mut is_plain) = (Self::default(), HeaderSize::default(), true, true);
        for (name, value) in lines {
            size.add(name, value);
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            // Few names have the same length, so most are told apart without a comparison.
            let place = match name.len() {
                4 if is("host") => &mut headers.host,
                5 if is(TOKEN_NAME) => &mut headers.token,
                6 if is("origin") => &mut headers.origin,
                10 if is("sent-epoch") => &mut headers.sent_epoch,
                11 if is("traceparent") => &mut headers.trace_parent,
                12 if is("x-request-id") => &mut headers.request_id,
                13 if is("cache-control") => &mut headers.cache_control,
                13 if is("if-none-match") => &mut headers.if_none_match,
                15 if is("accept-encoding") => &mut headers.accept_encoding,
                15 if is("x-forwarded-for") => &mut headers.forwarded_for,
                length => {
                    is_plain &= match length {
                        6 => !is("expect"),
                        7 => !is("upgrade"),
                        10 if is("connection") => value.eq_ignore_ascii_case(b"keep-alive"),
                        14 if is("content-length") => value == b"0",
                        17 => !is("transfer-encoding"),
                        _ => true,
                    };
                    continue;
                }
            };
            is_unique &= place.replace(value).is_none();
        }
        ((is_unique && size.fits()).then_some(headers), is_plain)
    }
}

/// A header's value as text, if all of it is visible.
pub(super) fn text(value: &[u8]) -> Option<&str> {
    let is_visible = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    if value.iter().all(is_visible) { std::str::from_utf8(value).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &str) -> String {
        match HotRequest::parse(bytes.as_bytes()) {
            Ok(request) => format!("{} {}", request.method, request.path),
            Err(NotHot::Whole) => "whole".to_owned(),
            Err(NotHot::Other) => "other".to_owned(),
        }
    }

    #[test]
    fn only_whole_requests_without_a_body_are_kept_from_hyper() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /"),
            ("HEAD /team HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", "HEAD /team"),
            ("GET /team HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "GET /team"),
            ("GET /team?a=b HTTP/1.1\r\nHost: a\r\n\r\n", "whole"),
            ("DELETE /auth HTTP/1.1\r\nHost: a\r\n\r\n", "whole"),
            ("POST /auth HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n", "POST /auth"),
            ("GET /team HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "whole"),
            ("GET /guilds HTTP/1.1\r\nToken: a\r\nTOKEN: b\r\n\r\n", "whole"),
            ("GET / HTTP/1.1\r\nHost: a\r\n", "other"),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", "other"),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "other"),
            ("GET / HTTP/1.0\r\n\r\n", "other"),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "other"),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", "other"),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\n\r\n", "other"),
            ("POST /auth HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "other"),
            ("POST /auth HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "other"),
            ("POST /auth HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", "other"),
            ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "other"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "other"),
            ("\r\n", "other"),
            ("", "other"),
        ] {
            assert_eq!(kind(head), expected, "{head:?}");
        }
        let many = "a: b\r\n".repeat(PARSED_HEADERS + 1);
        assert_eq!(kind(&format!("GET / HTTP/1.1\r\n{many}\r\n")), "other");
        let long = "x".repeat(17 * 1024);
        assert_eq!(kind(&format!("GET / HTTP/1.1\r\nHost: a\r\nA: {long}\r\n\r\n")), "whole");
    }

    #[test]
    fn headers_are_known_in_any_case() {
        let names = ["Host", "ORIGIN", "Sent-Epoch", "TraceParent", "X-Request-ID", "Cache-Control", "if-none-match"];
        let lines = names.map(|name| format!("{name}: of {name}\r\n")).concat();
        let head = format!("GET / HTTP/1.1\r\n{lines}Accept-Encoding: b\r\nx-forwarded-for: c\r\nTokens: d\r\n\r\n");
        let HotRequest { headers, .. } = HotRequest::parse(head.as_bytes()).ok().unwrap();
        let HotHeaders { host, origin, sent_epoch, trace_parent, request_id, cache_control, if_none_match, .. } =
            headers;
        let found = [host, origin, sent_epoch, trace_parent, request_id, cache_control, if_none_match];
        assert_eq!(found.map(|value| text(value.unwrap()).unwrap().to_owned()), names.map(|name| format!("of {name}")));
        assert_eq!((headers.accept_encoding, headers.forwarded_for), (Some(&b"b"[..]), Some(&b"c"[..])));
        assert_eq!(headers.token, None);
    }
}
