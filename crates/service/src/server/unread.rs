//! Since when the client of an HTTP/2 connection has read nothing of a response. It may read everything from the socket and still
//! open no window, so progress is noted per response.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::{Buf, Bytes};
use http::Response;
use hyper::body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::state::ConnectionState;

/// The most responses of a connection that may be in work or unread.
const MOST: usize = 64;

/// The unread responses of one connection.
pub(super) struct UnreadResponses {
    connection: Arc<ConnectionState>,
    /// `None` for a proxy, which may carry many clients: one that does not read must not hold up the others.
    permits: Option<Arc<Semaphore>>,
    /// Partly unread responses by number, with the time when the client last read some of each.
    unread: Mutex<BTreeMap<u64, u64>>,
    /// When the client last read some of any response.
    latest: AtomicU64,
    next: AtomicU64,
}

impl UnreadResponses {
    pub(super) fn new(connection: &Arc<ConnectionState>) -> Arc<Self> {
        let permits = (!connection.is_shared).then(|| Arc::new(Semaphore::new(MOST)));
        Arc::new(Self {
            connection: Arc::clone(connection),
            permits,
            unread: Mutex::default(),
            latest: AtomicU64::new(0),
            next: AtomicU64::new(0),
        })
    }

    /// Waits for permission to work on another request. Requests get it in the order they arrive, so a client that reads its
    /// responses in that order always makes progress.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(self.permits.as_ref()?).acquire_owned().await.ok()
    }

    /// Records that some of this response was read, or that it is available now.
    fn note_progress(&self, response: u64) {
        let (mut unread, now) = (self.unread.lock(), self.connection.now());
        unread.insert(response, now);
        self.latest.store(now, Ordering::Relaxed);
        self.connection.set_unread_since(self.unread_since(&unread));
    }

    /// Records that all of this response was read, or that the client no longer wants it.
    fn note_end(&self, response: u64) {
        let mut unread = self.unread.lock();
        unread.remove(&response);
        self.latest.store(self.connection.now(), Ordering::Relaxed);
        self.connection.set_unread_since(self.unread_since(&unread));
    }

    /// Since when the client has read nothing of some response. A proxy that reads anything at all is not cut off.
    fn unread_since(&self, unread: &BTreeMap<u64, u64>) -> Option<u64> {
        let longest = unread.values().copied().min()?;
        Some(if self.connection.is_shared { self.latest.load(Ordering::Relaxed) } else { longest })
    }
}

/// A response that is available, until it is sent completely.
struct UnreadResponse {
    all: Arc<UnreadResponses>,
    number: u64,
    _permit: Option<OwnedSemaphorePermit>,
}

impl UnreadResponse {
    fn new(all: &Arc<UnreadResponses>, permit: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        let number = all.next.fetch_add(1, Ordering::Relaxed);
        all.note_progress(number);
        Arc::new(Self { all: Arc::clone(all), number, _permit: permit })
    }
}

impl Drop for UnreadResponse {
    fn drop(&mut self) {
        self.all.note_end(self.number);
    }
}

/// A response body that notes when the client reads some of it.
pub(super) struct WatchedBody {
    body: Body,
    all: Arc<UnreadResponses>,
    /// For the whole body; `None` if its size is unknown, in which case each chunk has its own.
    unread: Option<Arc<UnreadResponse>>,
}

impl WatchedBody {
    /// The permit returns when the client has read the response; a live stream gives it back at once.
    pub(super) fn watch(
        response: Response<Body>,
        all: &Arc<UnreadResponses>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Response<Self> {
        response.map(|body| {
            let has_bytes = body.size_hint().exact().is_some_and(|size| size > 0);
            let unread = has_bytes.then(|| UnreadResponse::new(all, permit));
            Self { body, all: Arc::clone(all), unread }
        })
    }

    fn chunk(&self, bytes: Bytes) -> WatchedChunk {
        let unread = self.unread.clone().unwrap_or_else(|| UnreadResponse::new(&self.all, None));
        WatchedChunk { bytes, unread }
    }
}

impl hyper::body::Body for WatchedBody {
    type Data = WatchedChunk;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<WatchedChunk>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| self.chunk(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Part of a response on its way to the client.
pub(super) struct WatchedChunk {
    bytes: Bytes,
    unread: Arc<UnreadResponse>,
}

impl Buf for WatchedChunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    /// The client reads this many bytes: it may be slow, but it makes progress.
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if count > 0 {
            self.unread.all.note_progress(self.unread.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Time;
    use runtime::clock::Clock;

    use super::*;

    fn response(bytes: usize) -> Response<Body> {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[test]
    fn a_response_that_nobody_reads_counts_by_itself_but_for_a_proxy() {
        for (is_shared, stalled) in [(false, 20), (true, 0)] {
            let clock = Clock::manual(Time::from_seconds(1));
            let connection = Arc::new(ConnectionState::new(0, &clock, None, is_shared));
            let all = UnreadResponses::new(&connection);
            let parked = WatchedBody::watch(response(9000), &all, None);
            for _ in 0..2 {
                clock.advance(std::time::Duration::from_secs(10));
                drop(WatchedBody::watch(response(10), &all, None));
            }
            assert_eq!(
                connection.stalled_for(connection.now()),
                std::time::Duration::from_secs(stalled),
                "{is_shared}"
            );
            drop(parked);
            assert_eq!(connection.stalled_for(connection.now() + 60_000), std::time::Duration::ZERO);
            drop(WatchedBody::watch(response(0), &all, None));
            assert!(all.unread.lock().is_empty());
        }
    }
}
