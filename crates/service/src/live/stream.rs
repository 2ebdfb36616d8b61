//! One live stream: what to send next, and the response body that sends it. Nothing is queued: what a slow client has not read
//! yet is merged with what comes after it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use api::live;
use bytes::Bytes;
use domain::live::{DueMessage, LiveTopics, StreamPace};
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Frame};
use parking_lot::Mutex;
use runtime::concurrency::Permit;

use super::Live;
use super::watch::Watch;

/// A stream as the hub sees it.
pub(super) struct Stream {
    /// What it watches for its user; `None` if it is public.
    pub(super) watch: Option<Watch>,
    state: Mutex<StreamState>,
    waker: AtomicWaker,
}

struct StreamState {
    pace: StreamPace,
    /// Set until the first event was sent, which says how long to wait before reopening the stream.
    first: Option<(LiveTopics, u64)>,
    outgoing: Option<DueMessage>,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It continues.
    No,
    /// The session has ended, and the client is told.
    Session,
    /// Nothing more is sent.
    Now,
}

impl Stream {
    pub(super) fn new(watch: Option<Watch>, now: Duration, retry_millis: u64) -> Self {
        let topics = if watch.is_some() { LiveTopics::ALL } else { LiveTopics::PUBLIC };
        let state = StreamState {
            pace: StreamPace::new(now),
            first: Some((topics, retry_millis)),
            outgoing: None,
            end: End::No,
        };
        Self { watch, state: Mutex::new(state), waker: AtomicWaker::new() }
    }

    /// Records a change. It is sent when [`Stream::advance`] finds it due.
    pub(super) fn note(&self, changed: LiveTopics, status_flipped: bool) {
        self.state.lock().pace.note(changed, status_flipped);
    }

    /// Passes what is due at `now` on to the body.
    pub(super) fn advance(&self, now: Duration) {
        let mut state = self.state.lock();
        let Some(due) = state.pace.take_due(now) else { return };
        state.outgoing = match (state.outgoing, due) {
            // The client has not read the previous one.
            (Some(DueMessage::Changed(before)), DueMessage::Changed(topics)) => {
                Some(DueMessage::Changed(before.with(topics)))
            }
            (Some(before @ DueMessage::Changed(_)), DueMessage::Comment) => Some(before),
            (_, due) => Some(due),
        };
        drop(state);
        self.waker.wake();
    }

    /// Ends the stream because its session has ended.
    pub(super) fn end_with_session(&self) {
        self.end(End::Session);
    }

    /// Ends the stream because the process is stopping.
    pub(super) fn close(&self) {
        self.end(End::Now);
    }

    fn end(&self, end: End) {
        let mut state = self.state.lock();
        if state.end == End::No {
            state.end = end;
        }
        drop(state);
        self.waker.wake();
    }

    /// The bytes to send now; `None` is the end of the stream.
    fn poll_message(&self, context: &Context<'_>) -> Poll<Option<Bytes>> {
        // Registered first, so that a change in between wakes the task.
        self.waker.register(context.waker());
        let mut state = self.state.lock();
        match state.end {
            End::No => {}
            End::Session => {
                state.end = End::Now;
                return Poll::Ready(Some(live::ENDED));
            }
            End::Now => return Poll::Ready(None),
        }
        if let Some((topics, retry_millis)) = state.first.take() {
            return Poll::Ready(Some(live::first(topics, retry_millis)));
        }
        match state.outgoing.take() {
            Some(DueMessage::Changed(topics)) => Poll::Ready(Some(live::changed(topics))),
            Some(DueMessage::Comment) => Poll::Ready(Some(live::COMMENT)),
            None => Poll::Pending,
        }
    }
}

/// The response body of a stream. Dropping it ends the stream.
pub struct LiveBody {
    pub(super) stream: Arc<Stream>,
    pub(super) hub: Weak<Live>,
    pub(super) id: u64,
    pub(super) _permit: Permit,
}

impl Body for LiveBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.stream.poll_message(context).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Drop for LiveBody {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.streams.lock().remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;

    use super::*;

    fn poll(stream: &Stream) -> Poll<Option<Bytes>> {
        stream.poll_message(&Context::from_waker(&noop_waker()))
    }

    fn message(bytes: &'static str) -> Poll<Option<Bytes>> {
        Poll::Ready(Some(Bytes::from_static(bytes.as_bytes())))
    }

    #[test]
    fn the_first_event_names_everything_and_what_a_slow_client_misses_is_merged() {
        let stream = Stream::new(None, Duration::ZERO, 2000);
        let first = "retry: 2000\nevent: changed\ndata: {\"changed\":[\"status\",\"team\",\"feedback\",\"stats\"]}\n\n";
        assert_eq!((poll(&stream), poll(&stream)), (message(first), Poll::Pending));
        for (second, topic) in [(1, LiveTopics::TEAM), (2, LiveTopics::FEEDBACK)] {
            stream.note(topic, false);
            stream.advance(Duration::from_secs(second));
        }
        // A keep-alive must not replace a change.
        stream.advance(Duration::from_secs(20));
        let merged = "event: changed\ndata: {\"changed\":[\"team\",\"feedback\"]}\n\n";
        assert_eq!((poll(&stream), poll(&stream)), (message(merged), Poll::Pending));
        stream.advance(Duration::from_secs(40));
        assert_eq!((poll(&stream), poll(&stream)), (message(":\n\n"), Poll::Pending));
    }

    #[test]
    fn a_stream_ends_with_its_session_or_its_process() {
        let stream = Stream::new(None, Duration::ZERO, 2000);
        stream.end_with_session();
        stream.close();
        assert_eq!((poll(&stream), poll(&stream)), (message("event: ended\ndata: {}\n\n"), Poll::Ready(None)));
        let stream = Stream::new(None, Duration::ZERO, 2000);
        stream.close();
        assert_eq!(poll(&stream), Poll::Ready(None));
    }
}
