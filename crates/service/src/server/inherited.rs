//! Sockets that systemd opened and passed on (socket activation). They stay open while the service restarts, so that nobody is
//! refused, and ports below 1024 need no privilege here.

use std::env::{self, VarError};
use std::net::TcpListener;

use listenfd::ListenFd;
use socket2::Socket;

/// More than any socket unit has.
const MOST: usize = 64;

/// What is wrong with the sockets passed by systemd.
#[derive(Debug, thiserror::Error)]
#[error("the sockets that systemd passes on cannot be used: {0}")]
pub struct InheritedError(String);

/// The sockets passed by systemd, by purpose.
#[derive(Debug, Default)]
pub struct Inherited {
    pub(super) http: Vec<Socket>,
    /// For metrics and health.
    pub admin: Option<TcpListener>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Http,
    Admin,
}

impl Inherited {
    /// Takes over the sockets named in the environment, once. Call this before there are other threads.
    pub fn take() -> Result<Self, InheritedError> {
        if env::var("LISTEN_PID").ok().and_then(|id| id.parse().ok()) != Some(std::process::id()) {
            // They are for another process, or there are none.
            return Ok(Self::default());
        }
        let count = env::var("LISTEN_FDS").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
        let names = match env::var("LISTEN_FDNAMES") {
            Ok(names) => names,
            Err(VarError::NotPresent) => String::new(),
            Err(VarError::NotUnicode(_)) => return Err(InheritedError("LISTEN_FDNAMES is not text".to_owned())),
        };
        let purposes = purposes(count, &names)?;
        let mut sockets = ListenFd::from_env();
        let mut inherited = Self::default();
        for (index, purpose) in purposes.into_iter().enumerate() {
            let (listener, is_tcp) = listener(&mut sockets, index)?;
            match purpose {
                Purpose::Http => inherited.http.push(listener),
                Purpose::Admin if is_tcp && inherited.admin.is_none() => inherited.admin = Some(listener.into()),
                Purpose::Admin => {
                    return Err(InheritedError(
                        "the name `metrics` is for one socket with an address and a port".to_owned(),
                    ));
                }
            }
        }
        Ok(inherited)
    }
}

/// A listening socket, and whether it has an address and a port.
fn listener(sockets: &mut ListenFd, index: usize) -> Result<(Socket, bool), InheritedError> {
    let wrong = |problem: &str| InheritedError(format!("socket {} of LISTEN_FDS: {problem}", index + 1));
    let (listener, is_tcp) = match (sockets.take_tcp_listener(index), sockets.take_unix_listener(index)) {
        (Ok(Some(listener)), _) => (Socket::from(listener), true),
        (_, Ok(Some(listener))) => (Socket::from(listener), false),
        _ => return Err(wrong("it is not a stream socket; use ListenStream=")),
    };
    listener.set_nonblocking(true).map_err(|error| wrong(&error.to_string()))?;
    if listener.is_listener().unwrap_or(true) {
        Ok((listener, is_tcp))
    } else {
        Err(wrong("it is a connection; use Accept=no"))
    }
}

/// The purpose of each socket. Its name is `FileDescriptorName=` or, if that is not set, the name of the socket unit.
fn purposes(count: usize, names: &str) -> Result<Vec<Purpose>, InheritedError> {
    if count > MOST {
        return Err(InheritedError(format!("there are {count} of them, and the limit is {MOST}")));
    }
    let mut names = names.split(':');
    let purpose = |name: &str| match name {
        "metrics" => Ok(Purpose::Admin),
        "" | "http" | "unknown" => Ok(Purpose::Http),
        unit if unit.ends_with(".socket") => Ok(Purpose::Http),
        other => Err(InheritedError(format!(
            "{other:?} is not a known name: set FileDescriptorName= to `http` or `metrics`"
        ))),
    };
    (0..count).map(|_| purpose(names.next().unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::Purpose::{Admin, Http};
    use super::*;

    #[test]
    fn a_socket_is_for_what_its_name_says() {
        let cases: [(usize, &str, &[Purpose]); 6] = [
            (0, "", &[]),
            (1, "", &[Http]),
            (2, "http:metrics", &[Http, Admin]),
            (2, "bot-companion.socket:metrics", &[Http, Admin]),
            (2, "unknown", &[Http, Http]),
            (1, "http:metrics", &[Http]),
        ];
        for (count, names, expected) in cases {
            assert_eq!(purposes(count, names).unwrap(), expected, "{names}");
        }
        let error = purposes(1, "admin").unwrap_err().to_string();
        assert!(error.contains("\"admin\"") && error.contains("FileDescriptorName="), "{error}");
        assert!(purposes(MOST + 1, "").is_err());
    }
}
