//! A listening socket and its connections, of either kind. The kind is a branch rather than a virtual call, because every read
//! and write goes through here.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

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
                (Either::Left(stream), peer.ip())
            }
            Self::Unix(listener) => (Either::Right(listener.accept().await?.0), LOCAL),
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
                        Some((Either::Left(TcpStream::from_std(stream).ok()?), peer.ip()))
                    })
                    .collect()
            }
            Self::Unix(listener) => {
                let queue = listener.into_std().into_iter().flat_map(|l| std::iter::from_fn(move || l.accept().ok()));
                queue
                    .filter_map(|(stream, _)| {
                        stream.set_nonblocking(true).ok()?;
                        Some((Either::Right(UnixStream::from_std(stream).ok()?), LOCAL))
                    })
                    .collect()
            }
        }
    }
}

pub(super) type ClientStream = Either<TcpStream, UnixStream>;

/// Sends each packet immediately; otherwise the last one of a response may wait for the client's acknowledgement.
pub(super) fn set_nodelay(stream: &ClientStream) -> io::Result<()> {
    match stream {
        Either::Left(stream) => stream.set_nodelay(true),
        Either::Right(_) => Ok(()),
    }
}
