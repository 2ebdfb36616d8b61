//! Listening sockets. An address and port gets one per core, so that the kernel spreads connections over the threads. Unix
//! sockets and those passed by systemd are shared by all cores.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};

use super::inherited::Inherited;
use super::unix_socket::{self, SocketFile};
use crate::config::{HttpConfig, ListenAddress};

pub(super) const BACKLOG: i32 = 4096;

#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address}: {cause}; {}, or set http.listen (or --listen) to another address, or to port 0 for a free one",
    listen_advice(address, cause)
)]
pub struct ListenError {
    address: ListenAddress,
    cause: io::Error,
}

/// What to do about an address that cannot be used, other than choosing another one.
pub fn listen_advice(address: &ListenAddress, cause: &io::Error) -> &'static str {
    match (address, cause.kind()) {
        (_, io::ErrorKind::AddrInUse) => "another program listens there: stop it",
        (ListenAddress::Tcp(address), io::ErrorKind::PermissionDenied) if address.port() < 1024 => {
            "ports below 1024 need extra privileges: let systemd open it (bot-companion.socket), put a proxy in front and listen \
             on a higher port, or grant CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities= and CapabilityBoundingSet=, both with it)"
        }
        (ListenAddress::Tcp(_), io::ErrorKind::PermissionDenied) => {
            "the system does not allow it: check SELinux or AppArmor"
        }
        (ListenAddress::Tcp(_), io::ErrorKind::AddrNotAvailable) => {
            "no interface of this machine has that address: correct it"
        }
        (ListenAddress::Unix(_), io::ErrorKind::NotFound) => {
            "create its folder, or let systemd create it (RuntimeDirectory=)"
        }
        (ListenAddress::Unix(_), io::ErrorKind::PermissionDenied) => {
            "make the service's user the owner of the folder and a member of the group in http.listen_group"
        }
        (ListenAddress::Unix(_), io::ErrorKind::AlreadyExists) => "move it away",
        _ => "find out what keeps the service from listening there",
    }
}

#[derive(Debug)]
pub struct Listeners {
    /// Non-blocking sockets.
    pub(super) cores: Vec<Vec<Socket>>,
    pub(super) addresses: Vec<ListenAddress>,
    /// Whether they stay open after this process ends, so that the next one serves clients waiting in their queues.
    pub(super) outlive_us: bool,
    /// For a unix socket of our own.
    pub(super) file: Option<SocketFile>,
}

impl Listeners {
    /// Where they listen; at least one.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Lets one core do all the work.
    pub fn use_one_core(&mut self) {
        self.cores.truncate(1);
    }

    /// The sockets for requests passed by systemd; `None` if there are none.
    pub fn inherited(inherited: &mut Inherited) -> io::Result<Option<Self>> {
        let listeners = std::mem::take(&mut inherited.http);
        if listeners.is_empty() {
            return Ok(None);
        }
        let addresses = listeners.iter().map(address_of).collect::<io::Result<_>>()?;
        Ok(Some(Self { cores: shared(listeners)?, addresses, outlive_us: true, file: None }))
    }
}

fn address_of(socket: &Socket) -> io::Result<ListenAddress> {
    let address = socket.local_addr()?;
    let path = || ListenAddress::Unix(address.as_pathname().unwrap_or(Path::new("@")).into());
    Ok(address.as_socket().map_or_else(path, ListenAddress::Tcp))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The same sockets for each core.
fn shared(listeners: Vec<Socket>) -> io::Result<Vec<Vec<Socket>>> {
    let mut cores = Vec::new();
    for _ in 1..self::cores() {
        cores.push(listeners.iter().map(Socket::try_clone).collect::<io::Result<_>>()?);
    }
    cores.push(listeners);
    Ok(cores)
}

/// Listens for all cores. With port 0, the first one picks a free port and the others use the same.
pub fn bind(config: &HttpConfig) -> Result<Listeners, ListenError> {
    let bound = match &config.listen {
        ListenAddress::Tcp(address) => bind_tcp(*address),
        ListenAddress::Unix(path) => unix_socket::bind(path, &config.socket_access).and_then(|(listener, file)| {
            let cores = shared(vec![listener])?;
            Ok(Listeners { cores, addresses: vec![config.listen.clone()], outlive_us: false, file: Some(file) })
        }),
    };
    bound.map_err(|cause| ListenError { address: config.listen.clone(), cause })
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listeners> {
    // The first one binds alone: with a shared port, a second service on the same address would silently get half of the
    // connections instead of failing.
    drop(socket(address, false)?);
    let first = socket(address, true)?;
    let bound = first.local_addr()?.as_socket().unwrap_or(address);
    let mut cores = vec![vec![first]];
    for _ in 1..self::cores() {
        cores.push(vec![socket(bound, true)?]);
    }
    Ok(Listeners { cores, addresses: vec![bound.into()], outlive_us: false, file: None })
}

/// Whether it is possible to listen on the address now.
pub fn try_bind(address: &ListenAddress) -> io::Result<()> {
    match address {
        ListenAddress::Tcp(address) => socket(*address, false).map(drop),
        ListenAddress::Unix(path) => unix_socket::check_free(path),
    }
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_not_to_listen_has_its_remedy() {
        let (unix, tcp) = ("unix:/run/http.sock", |port: u16| format!("127.0.0.1:{port}"));
        for (address, kind, part) in [
            (tcp(80), io::ErrorKind::AddrInUse, "another program listens there"),
            (
                tcp(80),
                io::ErrorKind::PermissionDenied,
                "CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities= and CapabilityBoundingSet=",
            ),
            (tcp(1024), io::ErrorKind::PermissionDenied, "the system does not allow it"),
            (tcp(80), io::ErrorKind::AddrNotAvailable, "no interface of this machine has that address"),
            (tcp(80), io::ErrorKind::OutOfMemory, "find out what keeps the service"),
            (unix.to_owned(), io::ErrorKind::AddrInUse, "another program listens there"),
            (unix.to_owned(), io::ErrorKind::PermissionDenied, "http.listen_group"),
            (unix.to_owned(), io::ErrorKind::NotFound, "RuntimeDirectory="),
        ] {
            let error = ListenError { address: address.parse().unwrap(), cause: kind.into() }.to_string();
            assert!(error.starts_with(&format!("cannot listen on {address}: ")) && error.contains(part), "{error}");
            assert_eq!(error.contains("another program"), kind == io::ErrorKind::AddrInUse, "{error}");
        }
    }
}
