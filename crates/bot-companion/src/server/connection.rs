//! One connection: the handshake, then HTTP/1.1 or HTTP/2, each request answered by [`HttpService`].

use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::{HeaderValue, Request, Response, Version, header};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::backlog::{Backlog, Metered};
use super::entry::{Entry, Phase, Turn};
use super::registry::Registry;
use crate::http::{Body, HttpService, Peer};

/// hyper's own bounds, above ours: what lies between gets a proper answer, what lies beyond a bare 431.
const PARSER_BYTES: usize = 64 * 1024;
const PARSER_HEADERS: usize = 256;
/// How much of an answer HTTP/2 takes from its body ahead of the client.
const STREAM_BYTES: usize = 64 * 1024;

/// What a connection is served with.
pub(super) struct Front {
    service: HttpService,
    tls: Option<TlsAcceptor>,
    pub(super) registry: Registry,
    streams: u32,
}

/// Leaves the registry however the connection ends.
struct Leaving<'a>(&'a Registry, &'a Arc<Entry>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

impl Front {
    pub(super) fn new(service: HttpService, tls: Option<TlsAcceptor>, registry: Registry) -> Self {
        let streams = service.app().config.limits.streams;
        Self { service, tls, registry, streams }
    }

    /// Serves a connection to its end, or to the end of what is in flight once the registry drains.
    pub(super) async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, entry: Arc<Entry>) {
        let _leaving = Leaving(&self.registry, &entry);
        let stream = Watched { inner: stream, entry: Arc::clone(&entry), stalled: false };
        let Some(tls) = &self.tls else {
            return self.http1(stream, Peer { address: peer.ip(), secure: false }, &entry).await;
        };
        entry.waits_for(Phase::Handshake);
        let mut handshake = pin!(tls.accept(stream));
        let shaken = poll_fn(|context| {
            let pointless = entry.is_draining(context) && entry.is_silent();
            if pointless { Poll::Ready(None) } else { handshake.as_mut().poll(context).map(Some) }
        });
        let stream = match shaken.await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return debug!(%error, "a TLS handshake failed"),
            None => return,
        };
        entry.waits_for(Phase::FirstByte);
        let peer = Peer { address: peer.ip(), secure: true };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2(stream, peer, &entry).await;
        } else {
            self.http1(stream, peer, &entry).await;
        }
    }

    async fn http1<S>(self: &Arc<Self>, stream: S, peer: Peer, entry: &Arc<Entry>)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let connection = http1::Builder::new()
            .max_buf_size(PARSER_BYTES)
            .max_headers(PARSER_HEADERS)
            .serve_connection(TokioIo::new(stream), self.service(peer, entry, None, |response| response));
        let stop = http1::Connection::graceful_shutdown;
        log_end(until_drained(pin!(connection), entry, stop).await);
    }

    async fn http2<S>(self: &Arc<Self>, stream: S, peer: Peer, entry: &Arc<Entry>)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        entry.set_multiplexed();
        let backlog = Backlog::new(entry);
        let metered = Arc::clone(&backlog);
        let metered = move |response| Metered::new(response, &metered);
        let connection = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(self.streams)
            .max_header_list_size(u32::try_from(PARSER_BYTES).unwrap_or(u32::MAX))
            .max_send_buf_size(STREAM_BYTES)
            .serve_connection(TokioIo::new(stream), self.service(peer, entry, Some(backlog), metered));
        let stop = http2::Connection::graceful_shutdown;
        log_end(until_drained(pin!(connection), entry, stop).await);
    }

    /// Answers requests: from memory at once if that can be, else by a future in a box. hyper moves the future of each request
    /// into place, and the router's is too large to move for an answer that is there already.
    fn service<B, F>(
        self: &Arc<Self>,
        peer: Peer,
        entry: &Arc<Entry>,
        backlog: Option<Arc<Backlog>>,
        finish: F,
    ) -> impl Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + use<B, F>
    where
        B: hyper::body::Body + Send + 'static,
        F: Fn(Response<Body>) -> Response<B> + Clone + Send + 'static,
    {
        let (front, entry) = (Arc::clone(self), Arc::clone(entry));
        service_fn(move |request: Request<Incoming>| {
            // HTTP/2 has no such header; its connections are told when the drain begins.
            let http1 = request.version() < Version::HTTP_2;
            let room = backlog.as_ref().is_none_or(|backlog| backlog.has_room());
            match front.service.try_cached(&request, peer, room) {
                Ok((mut response, ticks)) => {
                    entry.answered_at(ticks);
                    last_if_stopping(&mut response, http1 && front.service.app().is_shutting_down());
                    Either::Left(ready(Ok(finish(response))))
                }
                Err(context) => {
                    let turn = Turn::new(&entry, backlog.as_ref(), !request.body().is_end_stream());
                    let (service, finish) = (front.service.clone(), finish.clone());
                    Either::Right(Box::pin(async move {
                        let app = Arc::clone(service.app());
                        let mut response = service.call(request, context, turn.begins()).await;
                        last_if_stopping(&mut response, http1 && app.is_shutting_down());
                        let response = finish(response);
                        // Only now: until its answer is counted, the request is.
                        drop(turn);
                        Ok(response)
                    }))
                }
            }
        })
    }
}

/// A client that keeps its connection would keep coming here: it is told to open its next one elsewhere.
fn last_if_stopping(response: &mut Response<Body>, stopping: bool) {
    if stopping {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Drives a connection to its end; once the registry drains, to the end of what is in flight.
async fn until_drained<C>(mut connection: Pin<&mut C>, entry: &Entry, stop: fn(Pin<&mut C>)) -> C::Output
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let mut stopping = false;
    poll_fn(|context| {
        if !stopping && entry.is_draining(context) {
            // Opened ahead of a request that never came: nothing is in flight.
            if entry.is_silent() {
                return Poll::Ready(Ok(()));
            }
            stop(connection.as_mut());
            stopping = true;
        }
        connection.as_mut().poll(context)
    })
    .await
}

fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

/// Tells the registry when bytes come and go.
struct Watched<S> {
    inner: S,
    entry: Arc<Entry>,
    /// The client did not take all that there was; when it takes more, it is not idle.
    stalled: bool,
}

impl<S> Watched<S> {
    fn wrote(&mut self, polled: &Poll<io::Result<usize>>, offered: usize) {
        // On HTTP/2 a client may read all that comes and still take nothing of an answer; its backlog tells more.
        if self.entry.is_multiplexed() {
            return;
        }
        let all = matches!(polled, Poll::Ready(Ok(written)) if *written == offered);
        if self.stalled && matches!(polled, Poll::Ready(Ok(1..))) {
            self.entry.took(!all);
        } else if !all {
            self.entry.has_unread();
        }
        self.stalled = !all;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.entry.received();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wrote(&polled, bytes.len());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.wrote(&polled, slices.iter().map(|slice| slice.len()).sum());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
