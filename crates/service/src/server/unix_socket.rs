//! A unix socket: who may connect, what is replaced when the service starts, and what is removed when it stops.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::listen::BACKLOG;
use crate::config::SocketAccess;

/// How often to check that the socket's file is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// If the system doesn't say more.
const IN_USE: &str = "it is in use";

/// The file of our socket; removed when this is dropped, unless another one has taken its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// The file's device and inode.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).ok() == Some(self.identity) {
            // Someone else may have just removed it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Waits until a socket's file is no longer ours, and returns its path. Without a file, waits for ever.
pub(super) async fn lost(file: Option<&SocketFile>) -> PathBuf {
    let Some(file) = file else { return std::future::pending().await };
    let mut pace = tokio::time::interval(LOOK_EVERY);
    loop {
        pace.tick().await;
        match identity(&file.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return file.path.clone(),
            Ok(found) if found != file.identity => return file.path.clone(),
            // Its folder may be closed to us for a moment.
            _ => {}
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Listens at this path. Replaces the socket of a service that was killed, but not one that is in use. The socket gets its name
/// last, after its mode and group are set and it accepts connections, so that nobody can connect without permission.
pub(super) fn bind(path: &Path, access: &SocketAccess) -> io::Result<(Socket, SocketFile)> {
    check_free(path)?;
    let group = access.group.as_deref().map(group_id).transpose()?;
    let mut aside = path.to_owned().into_os_string();
    aside.push(format!(".{}", std::process::id()));
    let aside = PathBuf::from(aside);
    // What a process with the same ID left there is of no use to anyone.
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(&aside)?)?;
    let made = || {
        fs::set_permissions(&aside, fs::Permissions::from_mode(access.mode))?;
        if let Some(group) = group {
            std::os::unix::fs::chown(&aside, None, Some(group)).map_err(|error| {
                io::Error::new(error.kind(), format!("its group cannot be set to http.listen_group: {error}"))
            })?;
        }
        socket.listen(BACKLOG)?;
        fs::rename(&aside, path)?;
        identity(path)
    };
    match made() {
        Ok(identity) => Ok((socket, SocketFile { path: path.to_owned(), identity })),
        Err(error) => {
            // If it stays, it does no harm.
            let _ = fs::remove_file(&aside);
            Err(error)
        }
    }
}

/// Whether a socket can be created at this path: nothing is there, or a socket that is no longer in use.
pub(super) fn check_free(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            return fs::metadata(folder).map(drop);
        }
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is not a socket has that name"));
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A listener with a full queue would make us wait.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        // It was just removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, owner(&socket))),
    }
}

/// Who listens at the other end.
#[cfg(target_os = "linux")]
fn owner(socket: &Socket) -> String {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(socket) else { return IN_USE.to_owned() };
    let id = peer.pid.as_raw_nonzero();
    let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { format!("process {id} is using it") } else { format!("process {id} ({name}) is using it") }
}

#[cfg(not(target_os = "linux"))]
fn owner(_: &Socket) -> String {
    IN_USE.to_owned()
}

/// The ID of a group, given by name or number.
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let groups = fs::read_to_string("/etc/group")?;
    id_in(&groups, group).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("http.listen_group: there is no group {group:?}"))
    })
}

/// The lines of `/etc/group` have a name, a password, an ID and members.
fn id_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use test_support::TestFolder;

    use super::*;

    fn access(mode: u32) -> SocketAccess {
        SocketAccess { mode, group: None }
    }

    fn connects(path: &Path) -> bool {
        UnixStream::connect(path).is_ok()
    }

    #[test]
    fn a_group_is_found_by_its_name_only() {
        let groups = "root:x:0:\nwww-data:x:33:nginx\nbroken\nodd:x:many:\nwww:x:34";
        for (name, id) in [("root", Some(0)), ("www-data", Some(33)), ("www", Some(34)), ("odd", None), ("nginx", None)]
        {
            assert_eq!(id_in(groups, name), id, "{name}");
        }
        assert_eq!(group_id("4711").unwrap(), 4711);
        assert!(group_id("no such group").unwrap_err().to_string().contains("no group"));
    }

    #[test]
    fn the_socket_has_its_mode_replaces_a_stale_one_and_is_removed_at_the_end() {
        let folder = TestFolder::new();
        let path = folder.path("http.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(!connects(&path), "nobody listens on the one that is left");
        let (_listener, file) = bind(&path, &access(0o620)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        assert!(connects(&path));
        assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 1, "nothing else is left there");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn one_that_is_in_use_stays_and_its_owner_is_named() {
        let folder = TestFolder::new();
        let path = folder.path("http.sock");
        let (_listener, _file) = bind(&path, &access(0o600)).unwrap();
        let error = bind(&path, &access(0o666)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&format!("process {} (", std::process::id())), "{error}");
        assert!(connects(&path));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_never_replaced() {
        let folder = TestFolder::new();
        let path = folder.path("http.sock");
        fs::write(&path, "precious").unwrap();
        assert_eq!(bind(&path, &access(0o600)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let missing = folder.path("nowhere/http.sock");
        assert_eq!(bind(&missing, &access(0o600)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_successor_keeps_its_socket_when_its_predecessor_ends() {
        let folder = TestFolder::new();
        let path = folder.path("http.sock");
        let (listener, file) = bind(&path, &access(0o600)).unwrap();
        drop(listener);
        let (_successor, _file) = bind(&path, &access(0o600)).unwrap();
        drop(file);
        assert!(connects(&path));
    }
}
