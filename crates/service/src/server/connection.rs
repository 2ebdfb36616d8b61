//! Serves one connection: the handshake, then HTTP/1.1 or HTTP/2, each request answered by [`HttpService`].

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use domain::{Time, saturating};
use http::{HeaderValue, Request, Response, Version, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tracing::debug;

use super::hot_stream::{HotStream, TrackedResponse};
use super::registry::Registry;
use super::state::{ConnectionState, Phase, RequestGuard, StreamGuard};
use super::stream::ClientStream;
use super::tls::CertifiedAcceptor;
use super::unread::{UnreadResponses, WatchedBody};
use crate::http::{HttpService, Peer};

/// hyper's own limits, above ours: between the two there is a proper error, beyond them a bare 431.
const PARSER_BYTES: usize = 64 * 1024;
const PARSER_HEADERS: usize = 256;
/// How much of a response HTTP/2 buffers ahead of the client.
const STREAM_BYTES: usize = 64 * 1024;

pub(super) struct ConnectionServer {
    service: HttpService,
    tls: Option<Arc<CertifiedAcceptor>>,
    pub(super) registry: Registry,
}

/// Removes the connection from the registry, however it ends.
struct RemoveOnDrop<'a>(&'a Registry, &'a Arc<ConnectionState>);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        self.0.remove(self.1);
    }
}

impl ConnectionServer {
    pub(super) fn new(service: HttpService, tls: Option<Arc<CertifiedAcceptor>>, registry: Registry) -> Self {
        Self { service, tls, registry }
    }

    pub(super) fn drain_timeout(&self) -> Duration {
        self.service.app().current.get().limits.drain_timeout
    }

    /// Updates the metric for the certificate's expiry; it may have been replaced.
    pub(super) fn note_certificate(&self) {
        let expires = self.tls.as_ref().and_then(|tls| tls.expires());
        self.service.app().sources.metrics.certificate_expiry.set(expires.map_or(0, Time::seconds));
    }

    /// Serves a connection to its end, or until requests in flight are done once the registry drains.
    pub(super) async fn serve(self: Arc<Self>, stream: ClientStream, address: IpAddr, state: Arc<ConnectionState>) {
        let _remove = RemoveOnDrop(&self.registry, &state);
        let stream = MonitoredStream { inner: stream, state: Arc::clone(&state), stalled: false };
        match &self.tls {
            None => self.http1(stream, Peer { address, secure: false }, &state).await,
            // Boxed, so that connections without TLS do not reserve room for it.
            Some(tls) => Box::pin(self.secure(tls, stream, address, &state)).await,
        }
    }

    async fn secure(
        self: &Arc<Self>,
        tls: &CertifiedAcceptor,
        stream: MonitoredStream<ClientStream>,
        address: IpAddr,
        state: &Arc<ConnectionState>,
    ) {
        state.enter_phase(Phase::Handshake);
        let mut handshake = pin!(tls.acceptor().accept(stream));
        let accepted = poll_fn(|context| {
            let is_pointless = state.poll_draining(context) && state.is_silent();
            if is_pointless { Poll::Ready(None) } else { handshake.as_mut().poll(context).map(Some) }
        });
        let stream = match accepted.await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return debug!(%error, "a TLS handshake failed"),
            None => return,
        };
        state.enter_phase(Phase::FirstByte);
        let peer = Peer { address, secure: true };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2(stream, peer, state).await;
        } else {
            self.http1(stream, peer, state).await;
        }
    }

    async fn http1<S>(self: &Arc<Self>, stream: S, peer: Peer, state: &Arc<ConnectionState>)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let is_responding = Arc::default();
        let stream = HotStream::new(stream, self.service.clone(), peer, Arc::clone(state), Arc::clone(&is_responding));
        let finish = move |response, _| TrackedResponse::track(response, &is_responding);
        let connection = http1::Builder::new()
            .max_buf_size(PARSER_BYTES)
            .max_headers(PARSER_HEADERS)
            .serve_connection(TokioIo::new(stream), self.service(peer, state, None, finish));
        let stop = http1::Connection::graceful_shutdown;
        log_end(serve_until_drained(pin!(connection), state, stop).await);
    }

    async fn http2<S>(self: &Arc<Self>, stream: S, peer: Peer, state: &Arc<ConnectionState>)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        state.set_multiplexed();
        let unread = UnreadResponses::new(state);
        let watch = {
            let unread = Arc::clone(&unread);
            move |response, permit| WatchedBody::watch(response, &unread, permit)
        };
        let connection = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(self.service.app().current.get().limits.streams_per_connection)
            .max_header_list_size(saturating::to_u32(PARSER_BYTES))
            .max_send_buf_size(STREAM_BYTES)
            .serve_connection(TokioIo::new(stream), self.service(peer, state, Some(unread), watch));
        let stop = http2::Connection::graceful_shutdown;
        log_end(serve_until_drained(pin!(connection), state, stop).await);
    }

    /// Answers requests through the router. hyper moves each request's future into place, and the router's is too large for that.
    fn service<B, F>(
        self: &Arc<Self>,
        peer: Peer,
        state: &Arc<ConnectionState>,
        unread: Option<Arc<UnreadResponses>>,
        finish: F,
    ) -> impl Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + use<B, F>
    where
        B: hyper::body::Body + Send + 'static,
        F: Fn(Response<Body>, Option<OwnedSemaphorePermit>) -> Response<B> + Clone + Send + 'static,
    {
        let (server, state) = (Arc::clone(self), Arc::clone(state));
        service_fn(move |request: Request<Incoming>| {
            // HTTP/2 has no `Connection` header; its clients are told when the drain begins.
            let is_http1 = request.version() < Version::HTTP_2;
            let context = server.service.arrive(&request, peer);
            let guard = RequestGuard::new(&state, !request.body().is_end_stream());
            let service = server.service.clone();
            let finish = finish.clone();
            let unread = unread.clone();
            let state = Arc::clone(&state);
            Box::pin(async move {
                let app = Arc::clone(service.app());
                let permit = match unread {
                    Some(unread) => unread.permit().await,
                    None => None,
                };
                let mut response = service.call(request, *context, || guard.start_work()).await;
                response = track_stream(response, &state);
                close_if_stopping(&mut response, is_http1 && app.is_shutting_down());
                let response = finish(response, permit);
                // Only now, so that the request counts until its response does.
                drop(guard);
                Ok(response)
            })
        })
    }
}

/// A response of unknown length is a live stream, and its connection is not idle while it is sent.
fn track_stream(response: Response<Body>, state: &Arc<ConnectionState>) -> Response<Body> {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let guard = StreamGuard::new(state);
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &guard;
            frame
        }))
    })
}

/// Tells the client to open a new connection elsewhere; on this one it would keep coming here.
fn close_if_stopping(response: &mut Response<Body>, stopping: bool) {
    if stopping {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Drives a connection to its end or, once the registry drains, until requests in flight are done.
async fn serve_until_drained<C>(
    mut connection: Pin<&mut C>,
    state: &ConnectionState,
    stop: fn(Pin<&mut C>),
) -> C::Output
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let (mut stopping, mut registered) = (false, None);
    poll_fn(|context| {
        if !stopping && state.poll_draining_as(&mut registered, context) {
            // It was opened ahead of a request that never came, so nothing is in flight.
            if state.is_silent() {
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

/// A stream that records in the connection's state when bytes come and go.
struct MonitoredStream<S> {
    inner: S,
    state: Arc<ConnectionState>,
    /// The client did not read everything available; when it reads more, it is not idle.
    stalled: bool,
}

impl<S> MonitoredStream<S> {
    fn note_write(&mut self, polled: &Poll<io::Result<usize>>, offered: usize) {
        // On HTTP/2 a client may read everything that arrives and still take nothing of a response; its body knows more.
        if self.state.is_multiplexed() {
            return;
        }
        let all = matches!(polled, Poll::Ready(Ok(written)) if *written == offered);
        if self.stalled && matches!(polled, Poll::Ready(Ok(1..))) {
            self.state.note_taken(!all);
        } else if !all {
            self.state.note_unread();
        }
        self.stalled = !all;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.state.note_received();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note_write(&polled, bytes.len());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.note_write(&polled, slices.iter().map(|slice| slice.len()).sum());
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
