//! Backpressure for one HTTP/2 connection. Its client may send requests on many streams without reading the responses, so
//! unread bytes are limited; beyond that, further requests wait before any work is done for them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::Response;
use hyper::body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::state::ConnectionState;
use crate::http::Body;

/// The limit for a connection's unread responses, in units of 1 KiB.
const BOUND: usize = 1024;
/// The assumed size of the response to a request in progress until it is known, in units. So one client's connection has at
/// most 64 requests in progress.
const ASSUMED: u32 = 16;
const UNIT: usize = 1024;

/// The unread responses of one connection.
pub(super) struct Backlog {
    connection: Arc<ConnectionState>,
    /// Free units. Requests get theirs in order of arrival, so that a client that reads its responses in that order always
    /// makes progress.
    free: Semaphore,
    /// Units that responses took beyond the free ones, because their size was known too late.
    debt: Mutex<usize>,
    /// Partly unread responses by number, with the time when the client last read some of each.
    unread: Mutex<BTreeMap<u64, u64>>,
    /// When the client last read some of any response.
    latest: AtomicU64,
    next: AtomicU64,
}

impl Backlog {
    pub(super) fn new(connection: &Arc<ConnectionState>) -> Arc<Self> {
        // A proxy may carry many clients, and one that does not read must not hold up the others.
        let bound = if connection.is_shared { Semaphore::MAX_PERMITS / 2 } else { BOUND };
        let (free, debt) = (Semaphore::new(bound), Mutex::default());
        let (unread, latest, next) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { connection: Arc::clone(connection), free, debt, unread, latest, next })
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

    pub(super) fn has_room(&self) -> bool {
        self.free.available_permits() > 0
    }

    /// Waits until there is room for the response to another request, and reserves it.
    pub(super) async fn reserve(&self) {
        // The semaphore is never closed.
        if let Ok(taken) = self.free.acquire_many(ASSUMED).await {
            taken.forget();
        }
    }

    /// Releases what [`Backlog::reserve`] reserved: by now the response is counted, or there will be none.
    pub(super) fn release(&self) {
        self.give_back(ASSUMED as usize);
    }

    fn take(&self, units: usize) {
        let mut debt = self.debt.lock();
        let taken = self.free.forget_permits(units);
        *debt += units - taken;
    }

    fn give_back(&self, units: usize) {
        let mut debt = self.debt.lock();
        let paid = units.min(*debt);
        *debt -= paid;
        self.free.add_permits(units - paid);
    }
}

/// The units that a response takes until it is sent completely. It counts as a whole, because all of it stays in memory until
/// then.
struct UnreadResponse {
    backlog: Arc<Backlog>,
    number: u64,
    units: usize,
}

impl UnreadResponse {
    fn new(backlog: &Arc<Backlog>, bytes: usize) -> Arc<Self> {
        let units = bytes.div_ceil(UNIT);
        backlog.take(units);
        let number = backlog.next.fetch_add(1, Ordering::Relaxed);
        backlog.note_progress(number);
        Arc::new(Self { backlog: Arc::clone(backlog), number, units })
    }
}

impl Drop for UnreadResponse {
    fn drop(&mut self) {
        self.backlog.note_end(self.number);
        self.backlog.give_back(self.units);
    }
}

/// A response body whose bytes are counted until the client has read them.
pub(super) struct MeteredBody {
    body: Body,
    backlog: Arc<Backlog>,
    /// For the whole body; `None` if its size is unknown, in which case each chunk has its own.
    unread: Option<Arc<UnreadResponse>>,
}

impl MeteredBody {
    pub(super) fn meter(response: Response<Body>, backlog: &Arc<Backlog>) -> Response<Self> {
        response.map(|body| {
            let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
            let unread = size.map(|size| UnreadResponse::new(backlog, size));
            Self { body, backlog: Arc::clone(backlog), unread }
        })
    }

    fn chunk(&self, bytes: Bytes) -> MeteredChunk {
        let unread = self.unread.clone().unwrap_or_else(|| UnreadResponse::new(&self.backlog, bytes.len()));
        MeteredChunk { bytes, unread }
    }
}

impl hyper::body::Body for MeteredBody {
    type Data = MeteredChunk;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<MeteredChunk>, Self::Error>>> {
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
pub(super) struct MeteredChunk {
    bytes: Bytes,
    unread: Arc<UnreadResponse>,
}

impl Buf for MeteredChunk {
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
            self.unread.backlog.note_progress(self.unread.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Time;
    use futures_util::FutureExt;
    use runtime::clock::Clock;

    use super::*;

    fn response(bytes: usize) -> Response<Body> {
        Response::new(Body::Left(Bytes::from(vec![b'x'; bytes]).into()))
    }

    #[test]
    fn requests_wait_in_their_order_until_enough_was_taken() {
        let connection = Arc::new(ConnectionState::new(0, &Clock::manual(Time::from_seconds(1)), None, false));
        let backlog = Backlog::new(&connection);
        let whole = MeteredBody::meter(response(BOUND * UNIT - 1), &backlog);
        assert!(!backlog.has_room());
        let (mut first, mut second) = (Box::pin(backlog.reserve()), Box::pin(backlog.reserve()));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        // A response that was in progress all along, and is larger than the room left.
        let more = MeteredBody::meter(response(20 * UNIT), &backlog);
        drop(whole);
        assert!(first.as_mut().now_or_never().is_some());
        assert!(second.as_mut().now_or_never().is_some());
        assert_eq!(backlog.free.available_permits(), BOUND - 20 - 2 * 16);
        drop(more);
        backlog.release();
        backlog.release();
        assert_eq!((backlog.free.available_permits(), *backlog.debt.lock()), (BOUND, 0));
    }

    #[test]
    fn an_answer_counts_whole_until_its_last_byte_is_taken() {
        let connection = Arc::new(ConnectionState::new(0, &Clock::manual(Time::from_seconds(1)), None, false));
        let backlog = Backlog::new(&connection);
        let mut body = MeteredBody::meter(response(10 * UNIT), &backlog).into_body();
        let frame = http_body_util::BodyExt::frame(&mut body).now_or_never().unwrap().unwrap();
        let mut chunk = frame.unwrap().into_data().ok().unwrap();
        drop(body);
        chunk.advance(10 * UNIT - 1);
        assert_eq!((chunk.remaining(), backlog.free.available_permits()), (1, BOUND - 10));
        drop(chunk);
        assert_eq!(backlog.free.available_permits(), BOUND);
        drop(MeteredBody::meter(response(0), &backlog));
        assert!(backlog.unread.lock().is_empty());
    }

    #[test]
    fn an_answer_that_nobody_takes_counts_by_itself_but_for_a_proxy() {
        for (is_shared, stalled) in [(false, 20), (true, 0)] {
            let clock = Clock::manual(Time::from_seconds(1));
            let connection = Arc::new(ConnectionState::new(0, &clock, None, is_shared));
            let backlog = Backlog::new(&connection);
            let parked = MeteredBody::meter(response(9000), &backlog);
            for _ in 0..2 {
                clock.advance(std::time::Duration::from_secs(10));
                drop(MeteredBody::meter(response(10), &backlog));
            }
            assert_eq!(
                connection.stalled_for(connection.now()),
                std::time::Duration::from_secs(stalled),
                "{is_shared}"
            );
            drop(parked);
            assert_eq!(connection.stalled_for(connection.now() + 60_000), std::time::Duration::ZERO);
        }
    }
}
