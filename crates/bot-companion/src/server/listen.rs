//! Listening sockets: one per core on the same address, so that the kernel spreads connections over the threads.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};

const BACKLOG: i32 = 4096;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address}: {cause}; is another program using it? Set http.listen (or --listen) to another address, or to port 0 for a free one"
)]
pub struct ListenError {
    address: SocketAddr,
    cause: std::io::Error,
}

/// Binds one socket per core. With port 0 the first one picks a free port, and the others use the same.
pub fn bind(address: SocketAddr) -> Result<Vec<TcpListener>, ListenError> {
    let fail = |cause| ListenError { address, cause };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // The first one binds alone: with a shared port, a second service on the same address would silently take half of
    // the connections instead of failing.
    drop(socket(address, false).map_err(fail)?);
    let first = socket(address, true).map_err(fail)?;
    let bound = first.local_addr().map_err(fail)?;
    let mut listeners = vec![first];
    for _ in 1..cores {
        listeners.push(socket(bound, true).map_err(fail)?);
    }
    Ok(listeners)
}

/// Whether the address could be listened on now.
pub fn try_bind(address: SocketAddr) -> std::io::Result<()> {
    socket(address, false).map(drop)
}

fn socket(address: SocketAddr, shared: bool) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
