//! A listening socket and its connections, of either kind. The kind is a branch rather than a virtual call, because every read
//! and write goes through here.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use socket2::Socket;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

/// A client on a unix socket has no address. It counts as this one, so it is a trusted proxy only if this address is one.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A listening socket on a worker's runtime.
pub(super) enum RunningListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl RunningListener {
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        Ok(if socket.local_addr()?.is_unix() {
            Self::Unix(UnixListener::from_std(socket.into())?)
        } else {
            Self::Tcp(TcpListener::from_std(socket.into())?)
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
        let socket = match self {
            Self::Tcp(listener) => listener.into_std().map(Socket::from),
            Self::Unix(listener) => listener.into_std().map(Socket::from),
        };
        let queue = socket.into_iter().flat_map(|socket| std::iter::from_fn(move || socket.accept().ok()));
        queue
            .filter_map(|(stream, peer)| {
                stream.set_nonblocking(true).ok()?;
                Some(match peer.as_socket() {
                    Some(peer) => (Either::Left(TcpStream::from_std(stream.into()).ok()?), peer.ip()),
                    None => (Either::Right(UnixStream::from_std(stream.into()).ok()?), LOCAL),
                })
            })
            .collect()
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
