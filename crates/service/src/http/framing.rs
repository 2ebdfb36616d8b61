//! Where a request begins and ends, and which host it is for. Anything that two programs on the way could read differently
//! (several `Host`s, an odd `Transfer-Encoding`) is refused, to prevent request smuggling. A connection is not reused if part
//! of a request on it was not read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Version, header};
use hyper::body::{Frame, SizeHint};
use runtime::host;

/// Whether a request names its host once, in a form that all programs read the same way. Only HTTP/1.1 requires it: HTTP/1.0
/// does not know `Host`, and HTTP/2 has `:authority`, which its parser has checked.
pub(super) fn has_valid_host<B>(request: &Request<B>, loopback_only: bool) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let is_needed = request.version() == Version::HTTP_11;
    let named = match (hosts.next(), hosts.next()) {
        (host, None) => is_valid_host(host.map(HeaderValue::as_bytes), is_needed, loopback_only),
        (_, Some(_)) => false,
    };
    // The target itself may name a host, which then takes precedence.
    let target = if loopback_only { request.uri().authority() } else { None };
    named && target.is_none_or(|target| host::is_loopback(target.as_str().as_bytes()))
}

/// The same for a request that has one `Host` or none, and a path as its target.
pub(super) fn is_valid_host(host: Option<&[u8]>, is_needed: bool, loopback_only: bool) -> bool {
    match host {
        None => !is_needed,
        Some(host) if loopback_only => host::is_loopback(host),
        Some(host) => host::is_valid(host),
    }
}

/// Whether all programs find the end of the body in the same way: by its length, or by `chunked` alone.
pub(super) fn has_valid_transfer_encoding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// A request body that tracks whether all of it was read.
pub(super) struct TrackedBody {
    body: Body,
    unread: Arc<AtomicBool>,
}

impl TrackedBody {
    /// Also returns whether part of it is unread, which is known even after the body is gone.
    pub(super) fn track<B>(body: B) -> (Body, Arc<AtomicBool>)
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if body.is_end_stream() {
            return (Body::empty(), Arc::new(AtomicBool::new(false)));
        }
        let unread = Arc::new(AtomicBool::new(true));
        (Body::new(Self { body: Body::new(body), unread: Arc::clone(&unread) }), unread)
    }
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        // A body that broke off counts as unread.
        if matches!(polled, Poll::Ready(None))
            || matches!(polled, Poll::Ready(Some(Ok(_)))) && self.body.is_end_stream()
        {
            self.unread.store(false, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
