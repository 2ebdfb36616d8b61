//! One connection: the handshake, then HTTP/1.1 or HTTP/2, each request answered by [`Web`].

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::registry::{Entry, Phase, Registry};
use crate::http::{Body, Peer, Web};

/// hyper's own bounds, above ours: what lies between gets a proper answer, what lies beyond a bare 431.
const PARSER_BYTES: usize = 64 * 1024;
const PARSER_HEADERS: usize = 256;

/// How long after the drain began a request still counts as sent before it.
const SETTLING: Duration = Duration::from_millis(50);

/// What a connection is served with.
pub(super) struct Front {
    web: Web,
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
    pub(super) fn new(web: Web, tls: Option<TlsAcceptor>, registry: Registry) -> Self {
        let streams = web.app().config.limits.streams;
        Self { web, tls, registry, streams }
    }

    /// Serves a connection to its end, or to the end of what is in flight once `stop` is called.
    pub(super) async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        entry: Arc<Entry>,
        stop: CancellationToken,
    ) {
        let _leaving = Leaving(&self.registry, &entry);
        let stream = Watched { inner: stream, entry: Arc::clone(&entry) };
        let Some(tls) = &self.tls else {
            return self.http1(stream, Peer { address: peer.ip(), secure: false }, &entry, stop).await;
        };
        entry.waits_for(Phase::Handshake);
        let mut handshake = pin!(tls.accept(stream));
        let handshaken = tokio::select! {
            biased;
            handshaken = handshake.as_mut() => handshaken,
            () = settled(&stop) => if entry.is_silent() { return } else { handshake.await }
        };
        let stream = match handshaken {
            Ok(stream) => stream,
            Err(error) => return debug!(%error, "a TLS handshake failed"),
        };
        entry.waits_for(Phase::FirstByte);
        let peer = Peer { address: peer.ip(), secure: true };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            Arc::clone(&self).http2(stream, peer, &entry, stop).await;
        } else {
            self.http1(stream, peer, &entry, stop).await;
        }
    }

    async fn http1<S>(&self, stream: S, peer: Peer, entry: &Arc<Entry>, stop: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let service = service_fn(|request| self.answer(request, peer, entry));
        let connection = http1::Builder::new()
            .max_buf_size(PARSER_BYTES)
            .max_headers(PARSER_HEADERS)
            // A client may close its side once it has asked; it still reads.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            // Opened ahead of a request that never came: nothing is in flight.
            () = settled(&stop) => if entry.is_silent() { Ok(()) } else {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        log_end(ended);
    }

    async fn http2<S>(self: Arc<Self>, stream: S, peer: Peer, entry: &Arc<Entry>, stop: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        entry.is_multiplexed();
        let streams = self.streams;
        let owned = Arc::clone(entry);
        // Each stream is a task of its own, so it takes what it needs along.
        let service = service_fn(move |request| {
            let (front, entry) = (Arc::clone(&self), Arc::clone(&owned));
            async move { front.answer(request, peer, &entry).await }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(streams)
            .max_header_list_size(u32::try_from(PARSER_BYTES).unwrap_or(u32::MAX))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            // Opened ahead of a request that never came: nothing is in flight.
            () = settled(&stop) => if entry.is_silent() { Ok(()) } else {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        log_end(ended);
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        entry: &Arc<Entry>,
    ) -> Result<Response<Body>, Infallible> {
        let _busy = entry.busy();
        Ok(self.web.respond(request, peer).await)
    }
}

/// Waits for the drain, and a moment longer: what a client had sent by then may not have been read yet, and closing a
/// connection over unread bytes would break a request that was sent in time.
async fn settled(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(SETTLING).await;
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
        self.entry.sent();
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.entry.sent();
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
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
