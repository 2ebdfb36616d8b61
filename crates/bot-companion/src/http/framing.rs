//! Where a request begins and ends, and for whom it is. What two programs on the way could read in two ways (several `Host`s, an
//! odd `Transfer-Encoding`) is refused, and a connection of which a part was not read is not used again.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Version, header};
use hyper::body::{Body, Frame, SizeHint};

use crate::domain::host;

/// Whether a request says once, and in a form that everybody reads alike, for which host it is. Only HTTP/1.1 must say so:
/// HTTP/1.0 does not know `Host`, and HTTP/2 has `:authority`, which its parser has checked.
pub(super) fn host_is_good<B>(request: &Request<B>, loopback_only: bool) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (None, _) => request.version() != Version::HTTP_11,
        (Some(host), None) if loopback_only => host::is_loopback(host.as_bytes()),
        (Some(host), None) => host::is_valid(host.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    // The target itself may name a host, which then is the one that counts.
    let target = if loopback_only { request.uri().authority() } else { None };
    named && target.is_none_or(|target| host::is_loopback(target.as_str().as_bytes()))
}

/// Whether the body's end is found in the one way that everybody knows: by its length, or by `chunked` and nothing beside it.
pub(super) fn coding_is_good(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// A body that notes whether all of it was read.
pub(super) struct Tracked<B> {
    body: B,
    unread: Arc<AtomicBool>,
}

/// Whether something of a body is still to be read.
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(super) fn is_left(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<B: Body> Tracked<B> {
    pub(super) fn new(body: B) -> (Self, Unread) {
        let unread = Arc::new(AtomicBool::new(!body.is_end_stream()));
        (Self { body, unread: Arc::clone(&unread) }, Unread(unread))
    }
}

impl<B: Body + Unpin> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        // What broke off counts as unread.
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
