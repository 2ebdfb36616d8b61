//! The answers of one HTTP/2 connection that the client has not taken. It may ask on many streams and read none of them, so the
//! bytes that wait have a bound: past it, the next requests wait too, before any work is done for them.

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

use super::entry::Entry;
use crate::http::Body;

/// What a connection's unread answers may take, in units of 1 KiB.
const BOUND: usize = 1024;
/// What the answer to a request in work is taken for, until its size is known, in units. So one client's connection has at most
/// 64 requests in work.
const ASSUMED: u32 = 16;
const UNIT: usize = 1024;

/// What waits to be taken by one client.
pub(super) struct Backlog {
    entry: Arc<Entry>,
    /// Units that are free. Requests get theirs in the order in which they came, so that a client which reads its answers in
    /// that order always gets on.
    free: Semaphore,
    /// Units that answers took beyond what was free: their size was known too late.
    debt: Mutex<usize>,
    /// Answers of which something is unread, by number, with when something of each was last taken.
    unread: Mutex<BTreeMap<u64, u64>>,
    /// When something of any answer was last taken.
    latest: AtomicU64,
    answers: AtomicU64,
}

impl Backlog {
    pub(super) fn new(entry: &Arc<Entry>) -> Arc<Self> {
        // One proxy may carry many clients, of which one that does not read must not hold up the others.
        let bound = if entry.is_shared { Semaphore::MAX_PERMITS / 2 } else { BOUND };
        let (free, debt) = (Semaphore::new(bound), Mutex::default());
        let (unread, latest, answers) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { entry: Arc::clone(entry), free, debt, unread, latest, answers })
    }

    /// Something of this answer was taken, or the answer is there now.
    fn progressed(&self, answer: u64) {
        let (mut unread, now) = (self.unread.lock(), self.entry.now());
        unread.insert(answer, now);
        self.latest.store(now, Ordering::Relaxed);
        self.entry.has_unread_since(self.waiting_since(&unread));
    }

    /// All of this answer was taken, or nobody wants it any more.
    fn ended(&self, answer: u64) {
        let mut unread = self.unread.lock();
        unread.remove(&answer);
        self.latest.store(self.entry.now(), Ordering::Relaxed);
        self.entry.has_unread_since(self.waiting_since(&unread));
    }

    /// Since when the client has taken nothing of some answer. A proxy that takes anything at all is not cut.
    fn waiting_since(&self, unread: &BTreeMap<u64, u64>) -> Option<u64> {
        let longest = unread.values().copied().min()?;
        Some(if self.entry.is_shared { self.latest.load(Ordering::Relaxed) } else { longest })
    }

    /// Whether there is room for an answer that is ready.
    pub(super) fn has_room(&self) -> bool {
        self.free.available_permits() > 0
    }

    /// Waits until there is room for another request in work, and takes it.
    pub(super) async fn enter(&self) {
        // It is never closed.
        if let Ok(taken) = self.free.acquire_many(ASSUMED).await {
            taken.forget();
        }
    }

    /// The answer to a request in work is counted, or there will be none.
    pub(super) fn leave(&self) {
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

/// The room that an answer takes until all of it is gone. It counts whole: until the last byte is taken, all are in memory.
struct Share {
    backlog: Arc<Backlog>,
    number: u64,
    units: usize,
}

impl Share {
    fn new(backlog: &Arc<Backlog>, bytes: usize) -> Arc<Self> {
        let units = bytes.div_ceil(UNIT);
        backlog.take(units);
        let number = backlog.answers.fetch_add(1, Ordering::Relaxed);
        backlog.progressed(number);
        Arc::new(Self { backlog: Arc::clone(backlog), number, units })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.backlog.ended(self.number);
        self.backlog.give_back(self.units);
    }
}

/// An answer's body whose bytes are counted until the client has taken them.
pub(super) struct Metered {
    body: Body,
    backlog: Arc<Backlog>,
    /// Of the whole body; none if its size is not known, and then each piece has its own.
    share: Option<Arc<Share>>,
}

impl Metered {
    /// Counts this answer.
    pub(super) fn new(response: Response<Body>, backlog: &Arc<Backlog>) -> Response<Self> {
        response.map(|body| {
            let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
            let share = size.map(|size| Share::new(backlog, size));
            Self { body, backlog: Arc::clone(backlog), share }
        })
    }

    fn piece(&self, bytes: Bytes) -> Piece {
        let share = self.share.clone().unwrap_or_else(|| Share::new(&self.backlog, bytes.len()));
        Piece { bytes, share }
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

/// A part of an answer on its way to the client.
pub(super) struct Piece {
    bytes: Bytes,
    share: Arc<Share>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    /// The client takes this many bytes: it may be slow, but it moves.
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if count > 0 {
            self.share.backlog.progressed(self.share.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::clock::Clock;
    use crate::domain::Time;

    fn answer(bytes: usize) -> Response<Body> {
        Response::new(Body::Left(Bytes::from(vec![b'x'; bytes]).into()))
    }

    #[test]
    fn requests_wait_in_their_order_until_enough_was_taken() {
        let entry = Arc::new(Entry::new(&Clock::manual(Time::from_seconds(1)), None, false));
        let backlog = Backlog::new(&entry);
        let whole = Metered::new(answer(BOUND * UNIT - 1), &backlog);
        assert!(!backlog.has_room());
        let (mut first, mut second) = (Box::pin(backlog.enter()), Box::pin(backlog.enter()));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        // An answer that was in work all along, and is larger than there is room for.
        let more = Metered::new(answer(20 * UNIT), &backlog);
        drop(whole);
        assert!(first.as_mut().now_or_never().is_some());
        assert!(second.as_mut().now_or_never().is_some());
        assert_eq!(backlog.free.available_permits(), BOUND - 20 - 2 * 16);
        drop(more);
        backlog.leave();
        backlog.leave();
        assert_eq!((backlog.free.available_permits(), *backlog.debt.lock()), (BOUND, 0));
    }

    #[test]
    fn an_answer_counts_whole_until_its_last_byte_is_taken() {
        let entry = Arc::new(Entry::new(&Clock::manual(Time::from_seconds(1)), None, false));
        let backlog = Backlog::new(&entry);
        let mut body = Metered::new(answer(10 * UNIT), &backlog).into_body();
        let frame = http_body_util::BodyExt::frame(&mut body).now_or_never().unwrap().unwrap();
        let mut piece = frame.unwrap().into_data().ok().unwrap();
        drop(body);
        piece.advance(10 * UNIT - 1);
        assert_eq!((piece.remaining(), backlog.free.available_permits()), (1, BOUND - 10));
        drop(piece);
        assert_eq!(backlog.free.available_permits(), BOUND);
        drop(Metered::new(answer(0), &backlog));
        assert!(backlog.unread.lock().is_empty());
    }

    #[test]
    fn an_answer_that_nobody_takes_counts_by_itself_but_for_a_proxy() {
        for (is_shared, stalled) in [(false, 20), (true, 0)] {
            let clock = Clock::manual(Time::from_seconds(1));
            let entry = Arc::new(Entry::new(&clock, None, is_shared));
            let backlog = Backlog::new(&entry);
            let parked = Metered::new(answer(9000), &backlog);
            for _ in 0..2 {
                clock.advance(std::time::Duration::from_secs(10));
                drop(Metered::new(answer(10), &backlog));
            }
            assert_eq!(entry.stalled_for(entry.now()), std::time::Duration::from_secs(stalled), "{is_shared}");
            drop(parked);
            assert_eq!(entry.stalled_for(entry.now() + 60_000), std::time::Duration::ZERO);
        }
    }
}
