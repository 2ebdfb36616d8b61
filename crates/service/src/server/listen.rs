//! Listening sockets: one per core on the same address, so that the kernel spreads connections over the threads.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};

const BACKLOG: i32 = 4096;

#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address}: {cause}; {}, or set http.listen (or --listen) to another address, or to port 0 for a free one",
    listen_advice(*address, cause)
)]
pub struct ListenError {
    address: SocketAddr,
    cause: io::Error,
}

/// What to do about an address that cannot be listened on, other than to choose another one.
pub fn listen_advice(address: SocketAddr, cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "another program listens there: stop it",
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            "ports below 1024 need extra privileges: put a proxy in front and listen on a higher port, or grant CAP_NET_BIND_SERVICE \
             (systemd: AmbientCapabilities= and CapabilityBoundingSet=, both with it)"
        }
        io::ErrorKind::PermissionDenied => "the system does not allow it (SELinux or AppArmor, perhaps): allow it",
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has that address: correct it",
        _ => "see what keeps the service from listening there",
    }
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
pub fn try_bind(address: SocketAddr) -> io::Result<()> {
    socket(address, false).map(drop)
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_not_to_listen_has_its_remedy() {
        for (port, kind, part) in [
            (80, io::ErrorKind::AddrInUse, "another program listens there"),
            (
                80,
                io::ErrorKind::PermissionDenied,
                "CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities= and CapabilityBoundingSet=",
            ),
            (1024, io::ErrorKind::PermissionDenied, "the system does not allow it"),
            (80, io::ErrorKind::AddrNotAvailable, "no interface of this machine has that address"),
            (80, io::ErrorKind::OutOfMemory, "see what keeps the service"),
        ] {
            let error = ListenError { address: ([127, 0, 0, 1], port).into(), cause: kind.into() }.to_string();
            assert!(
                error.starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")) && error.contains(part),
                "{error}"
            );
            assert_eq!(error.contains("another program"), kind == io::ErrorKind::AddrInUse, "{error}");
        }
    }
}
