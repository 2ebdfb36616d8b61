//! The answers of one HTTP/2 connection that the client has not taken. It may ask on many streams and read none of them, so the
//! bytes that wait have a bound: past it, the next requests wait too, before any work is done for them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::Response;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::sync::Notify;

use super::entry::Entry;
use crate::http::Body;

/// Past this many unread bytes the next request waits.
const BOUND: usize = 1 << 20;
/// What the answer to a request in work is taken for, until its size is known.
const ASSUMED: usize = 16 * 1024;

/// What waits to be taken by one client.
pub(super) struct Backlog {
    entry: Arc<Entry>,
    /// Bytes of answers, each counted until the last of its piece is taken: until then all of the piece is in memory.
    bytes: AtomicUsize,
    /// Requests in work.
    in_work: AtomicUsize,
    /// Woken when there is more room.
    room: Notify,
}

impl Backlog {
    pub(super) fn new(entry: &Arc<Entry>) -> Arc<Self> {
        Arc::new(Self {
            entry: Arc::clone(entry),
            bytes: AtomicUsize::new(0),
            in_work: AtomicUsize::new(0),
            room: Notify::new(),
        })
    }

    /// Whether there is room for an answer that is ready.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < BOUND
    }

    /// Waits until there is room for another request in work, and takes it.
    pub(super) async fn enter(&self) {
        loop {
            // Made before the look, so that no change after it is missed.
            let changed = self.room.notified();
            let in_work = self.in_work.load(Ordering::Relaxed);
            if self.bytes.load(Ordering::Relaxed) + in_work * ASSUMED < BOUND {
                self.in_work.fetch_add(1, Ordering::Relaxed);
                return;
            }
            changed.await;
        }
    }

    /// The answer to a request in work is counted, or there will be none.
    pub(super) fn leave(&self) {
        self.in_work.fetch_sub(1, Ordering::Relaxed);
        self.room.notify_waiters();
    }

    fn add(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.entry.has_unread();
        }
    }

    fn release(&self, bytes: usize) {
        if bytes > 0 {
            let left = self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
            self.entry.took(left > 0);
            self.room.notify_waiters();
        }
    }
}

/// An answer's body whose bytes are counted until the client has taken them.
pub(super) struct Metered {
    body: Body,
    backlog: Arc<Backlog>,
    /// Bytes that are counted and still to be asked of the body.
    ahead: usize,
}

impl Metered {
    /// Counts this answer.
    pub(super) fn new(response: Response<Body>, backlog: &Arc<Backlog>) -> Response<Self> {
        response.map(|body| {
            let ahead = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
            backlog.add(ahead);
            Self { body, backlog: Arc::clone(backlog), ahead }
        })
    }

    fn piece(&mut self, bytes: Bytes) -> Piece {
        let size = bytes.len();
        let counted = self.ahead.min(size);
        self.ahead -= counted;
        self.backlog.add(size - counted);
        Piece { bytes, size, backlog: Arc::clone(&self.backlog) }
    }
}

impl hyper::body::Body for Metered {
    type Data = Piece;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| self.piece(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.backlog.release(self.ahead);
    }
}

/// A part of an answer on its way to the client.
pub(super) struct Piece {
    bytes: Bytes,
    size: usize,
    backlog: Arc<Backlog>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if count > 0 {
            self.backlog.entry.took(true);
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.backlog.release(self.size);
    }
}
