//! A cached response of the fast path: finished bytes with the few headers that differ. It is written as HTTP/1.1.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use super::context::RequestId;
use super::cors::Cors;
use super::error::ApiError;

/// A body up to this size is copied after its headers, so that one buffer is written.
const COPIED_BYTES: usize = 8 * 1024;

/// The response of a view.
#[derive(Debug)]
pub(super) struct HotBody {
    pub(super) bytes: Bytes,
    pub(super) encoding: HotEncoding,
    /// `Cache-Control`.
    pub(super) caching: &'static str,
    pub(super) etag: Option<HeaderValue>,
    /// Whether to send the `Link` header that points to the site.
    pub(super) links_to_site: bool,
    /// `Age`, in seconds.
    pub(super) age: Option<u64>,
    pub(super) status: StatusCode,
    /// `Retry-After`, in seconds.
    pub(super) retry_after: Option<u64>,
}

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HotEncoding {
    /// The same for every client.
    Always,
    /// Uncompressed, for a client that does not accept gzip.
    Plain,
    Gzip,
}

/// A response with everything its headers are built from.
#[derive(Debug)]
pub(crate) struct HotResponse<'a> {
    pub(super) body: HotBody,
    pub(super) id: RequestId,
    pub(super) date: HeaderValue,
    /// `Link`.
    pub(super) link: Option<HeaderValue>,
    pub(super) is_secure: bool,
    pub(super) cors: Cors,
    /// The page that may read it, if only some may.
    pub(super) origin: Option<&'a [u8]>,
    pub(super) is_head: bool,
}

impl HotBody {
    /// A body that is never cached.
    pub(super) fn fixed(bytes: Bytes) -> Self {
        let (encoding, caching) = (HotEncoding::Always, "no-store");
        Self {
            bytes,
            encoding,
            caching,
            etag: None,
            links_to_site: false,
            age: None,
            status: StatusCode::OK,
            retry_after: None,
        }
    }

    pub(super) fn refusal(refusal: &ApiError, request_id: &str) -> Self {
        let (status, retry_after) = (refusal.code.status(), refusal.retry_seconds());
        Self { status, retry_after, ..Self::fixed(refusal.body(request_id).into()) }
    }

    /// Whether the client already has it.
    fn is_unchanged(&self) -> bool {
        self.status == StatusCode::NOT_MODIFIED
    }
}

impl HotResponse<'_> {
    pub(crate) fn status(&self) -> StatusCode {
        self.body.status
    }

    /// The length of the body that is sent.
    pub(super) fn sent_bytes(&self) -> usize {
        if self.is_head || self.body.is_unchanged() { 0 } else { self.body.bytes.len() }
    }

    /// Writes the response as HTTP/1.1. Send the returned bytes after it.
    pub(crate) fn write(self, out: &mut Vec<u8>) -> Bytes {
        let follows = self.sent_bytes();
        out.reserve(1024 + if follows <= COPIED_BYTES { follows } else { 0 });
        match self.body.status {
            StatusCode::OK => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
            StatusCode::NOT_MODIFIED => out.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n"),
            status => out.extend_from_slice(format!("HTTP/1.1 {status}\r\n").as_bytes()),
        }
        self.write_headers(out);
        out.extend_from_slice(b"\r\n");
        if follows > COPIED_BYTES {
            return self.body.bytes;
        }
        out.extend_from_slice(&self.body.bytes[..follows]);
        Bytes::new()
    }

    /// Names include the `: ` that follows them, which saves a write per header.
    fn write_headers(&self, out: &mut Vec<u8>) {
        let body = &self.body;
        if !body.is_unchanged() {
            put(out, "content-type: ", b"application/json");
            if body.encoding == HotEncoding::Gzip {
                put(out, "content-encoding: ", b"gzip");
            }
            put_number(out, "content-length: ", body.bytes.len() as u64);
        }
        let varies = body.encoding != HotEncoding::Always;
        match (self.cors == Cors::AllowedOrigins, varies) {
            (false, false) => {}
            (false, true) => put(out, "vary: ", b"accept-encoding"),
            (true, false) => put(out, "vary: ", b"origin"),
            (true, true) => put(out, "vary: ", b"origin, accept-encoding"),
        }
        put(out, "cache-control: ", body.caching.as_bytes());
        if let Some(etag) = &body.etag {
            put(out, "etag: ", etag.as_bytes());
        }
        if let Some(link) = &self.link {
            put(out, "link: ", link.as_bytes());
        }
        if let Some(age) = body.age {
            put_number(out, "age: ", age);
        }
        if let Some(seconds) = body.retry_after {
            put_number(out, "retry-after: ", seconds);
        }
        put(out, "x-request-id: ", self.id.as_bytes());
        put(out, "date: ", self.date.as_bytes());
        put(out, "x-content-type-options: ", b"nosniff");
        if self.is_secure {
            put(out, "strict-transport-security: ", b"max-age=31536000");
        }
        match (self.cors, self.origin) {
            (Cors::AnyOrigin, _) => put(out, "access-control-allow-origin: ", b"*"),
            (Cors::AllowedOrigins, Some(origin)) => put(out, "access-control-allow-origin: ", origin),
            (Cors::AllowedOrigins, None) | (Cors::NoOrigin, _) => return,
        }
        put(out, "access-control-expose-headers: ", super::cors::EXPOSED.as_bytes());
    }
}

fn put(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn put_number(out: &mut Vec<u8>, name: &str, number: u64) {
    out.extend_from_slice(name.as_bytes());
    write_number(out, number);
    out.extend_from_slice(b"\r\n");
}

fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_in_digits() {
        for number in [0, 7, 10, 4_096, u64::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
