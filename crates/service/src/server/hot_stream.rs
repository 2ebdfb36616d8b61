//! Answers hot HTTP/1.1 reads before hyper sees them. Where a request may begin, this checks what the client sends: exactly one
//! request that the fast path can answer is answered here, in one write. Everything else goes on to hyper. After hyper was
//! given a single request, this stream takes over again once the response is sent; after anything else (half a request,
//! several, one with a body) only hyper knows where the next one begins, so it keeps the connection.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use http::Response;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::state::ConnectionState;
use crate::http::{HotRequest, HttpService, NotHot, Peer};

thread_local! {
    /// A buffer to build responses in.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct HotStream<S> {
    inner: S,
    service: HttpService,
    peer: Peer,
    state: Arc<ConnectionState>,
    turn: Turn,
    /// Whether hyper was given a single request and has not finished its response.
    is_responding: Arc<AtomicBool>,
    /// The part of a response that the client has not read yet: its own bytes, then shared ones.
    unsent: Chain<Bytes, Bytes>,
    /// Whether written data may still be on its way, as with TLS.
    is_unflushed: bool,
}

/// Who handles the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// This stream: a request may begin here.
    Ours,
    /// hyper, which has one request and owes one response.
    Hyper,
    /// hyper, until the connection ends.
    HyperForGood,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HotStream<S> {
    /// `is_responding` is what the responses of hyper are tracked with ([`TrackedResponse::track`]).
    pub(super) fn new(
        inner: S,
        service: HttpService,
        peer: Peer,
        state: Arc<ConnectionState>,
        is_responding: Arc<AtomicBool>,
    ) -> Self {
        let unsent = Bytes::new().chain(Bytes::new());
        Self { inner, service, peer, state, turn: Turn::Ours, is_responding, unsent, is_unflushed: false }
    }

    /// Answers what was received. `false` if it is for hyper.
    fn try_answer(&mut self, received: &[u8], context: &mut Context<'_>) -> io::Result<bool> {
        let request = match HotRequest::parse(received) {
            // While the service stops, hyper tells clients to close.
            Ok(request) if !self.service.app().is_shutting_down() => request,
            Ok(_) | Err(NotHot::Whole) => return Ok(self.hand_over()),
            Err(NotHot::Other) => {
                self.turn = Turn::HyperForGood;
                return Ok(false);
            }
        };
        let Some((response, ticks)) = self.service.try_hot(&request, self.peer) else { return Ok(self.hand_over()) };
        self.state.note_answered(ticks);
        SCRATCH.with_borrow_mut(|scratch| {
            // First rather than last: after a panic, the next client must not get this response.
            scratch.clear();
            let rest = response.write(scratch);
            self.send(scratch, rest, context)
        })?;
        Ok(true)
    }

    fn hand_over(&mut self) -> bool {
        self.turn = Turn::Hyper;
        self.is_responding.store(true, Ordering::Relaxed);
        false
    }

    /// Sends a response, and keeps what the client does not read now.
    fn send(&mut self, head: &[u8], rest: Bytes, context: &mut Context<'_>) -> io::Result<()> {
        let inner = Pin::new(&mut self.inner);
        let polled = if rest.is_empty() {
            inner.poll_write(context, head)
        } else {
            inner.poll_write_vectored(context, &[IoSlice::new(head), IoSlice::new(&rest)])
        };
        let written = match polled {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        let unsent_head = head.get(written..).filter(|unsent| !unsent.is_empty());
        self.unsent = unsent_head.map_or_else(Bytes::new, Bytes::copy_from_slice).chain(rest);
        self.unsent.last_mut().advance(written.saturating_sub(head.len()));
        self.is_unflushed = true;
        // The rest is sent before anything else happens.
        let _ = self.poll_sent(context)?;
        Ok(())
    }

    /// Ready when nothing is left to send.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent.has_remaining() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, self.unsent.chunk()))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.advance(written);
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut self.inner).poll_flush(context))?;
            self.is_unflushed = false;
            self.unsent = Bytes::new().chain(Bytes::new());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for HotStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            ready!(this.poll_sent(context))?;
            let before = buffer.filled().len();
            let polled = Pin::new(&mut this.inner).poll_read(context, buffer);
            let received = &buffer.filled()[before..];
            match this.turn {
                // For hyper this is the end: nothing is in flight, and nothing more should come.
                Turn::Ours if polled.is_pending() && this.state.is_draining() => return Poll::Ready(Ok(())),
                Turn::Ours if received.is_empty() => return polled,
                Turn::Ours => {
                    if !this.try_answer(received, context)? {
                        return polled;
                    }
                    buffer.set_filled(before);
                }
                Turn::Hyper if !received.is_empty() => {
                    // More arrived before the response was sent, and may end in the middle of a request.
                    this.turn = Turn::HyperForGood;
                    return polled;
                }
                Turn::Hyper | Turn::HyperForGood => return polled,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for HotStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(context))?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(context))?;
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(context))?;
        ready!(Pin::new(&mut self.inner).poll_flush(context))?;
        // hyper writes everything before it flushes, and by now it has the whole response: bodies here have no trailers, which
        // hyper would write after dropping the body.
        if self.turn == Turn::Hyper && !self.is_responding.load(Ordering::Relaxed) {
            self.turn = Turn::Ours;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// A response body that records when hyper has read all of it.
pub(super) struct TrackedResponse {
    body: Body,
    is_responding: Arc<AtomicBool>,
}

impl TrackedResponse {
    pub(super) fn track(response: Response<Body>, is_responding: &Arc<AtomicBool>) -> Response<Self> {
        response.map(|body| Self { body, is_responding: Arc::clone(is_responding) })
    }
}

impl Drop for TrackedResponse {
    fn drop(&mut self) {
        self.is_responding.store(false, Ordering::Relaxed);
    }
}

impl hyper::body::Body for TrackedResponse {
    type Data = Bytes;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
