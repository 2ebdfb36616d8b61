//! A listening socket and its connections, of either kind. The kind is a branch rather than a virtual call, because every read
//! and write goes through here.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::listen::ListeningSocket;

/// A client on a unix socket has no address. It counts as this one, so it is a trusted proxy only if this address is one.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A [`ListeningSocket`] on a worker's runtime.
pub(super) enum RunningListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl RunningListener {
    pub(super) fn new(listener: ListeningSocket) -> io::Result<Self> {
        Ok(match listener {
            ListeningSocket::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            ListeningSocket::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    pub(super) async fn accept(&self) -> io::Result<(ClientStream, IpAddr)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                (ClientStream::Tcp(stream), peer.ip())
            }
            Self::Unix(listener) => (ClientStream::Unix(listener.accept().await?.0), LOCAL),
        })
    }

    /// The connections that the system has already accepted for us. The runtime may not know about the latest ones yet, so the
    /// socket itself is asked.
    pub(super) fn queued(self) -> Vec<(ClientStream, IpAddr)> {
        match self {
            Self::Tcp(listener) => {
                let queue = listener.into_std().into_iter().flat_map(|l| std::iter::from_fn(move || l.accept().ok()));
                queue
                    .filter_map(|(stream, peer)| {
                        stream.set_nonblocking(true).ok()?;
                        Some((ClientStream::Tcp(TcpStream::from_std(stream).ok()?), peer.ip()))
                    })
                    .collect()
            }
            Self::Unix(listener) => {
                let queue = listener.into_std().into_iter().flat_map(|l| std::iter::from_fn(move || l.accept().ok()));
                queue
                    .filter_map(|(stream, _)| {
                        stream.set_nonblocking(true).ok()?;
                        Some((ClientStream::Unix(UnixStream::from_std(stream).ok()?), LOCAL))
                    })
                    .collect()
            }
        }
    }
}

pub(super) enum ClientStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ClientStream {
    /// Sends each packet immediately; otherwise the last one of a response may wait for the client's acknowledgement.
    pub(super) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }
}

impl AsyncRead for ClientStream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
