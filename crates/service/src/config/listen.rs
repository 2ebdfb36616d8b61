//! Where the service listens: an address and a port, or a socket in the file system.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::value::Advice;

/// The prefix of a socket's path.
const UNIX: &str = "unix:";
/// The system's limit is 107 bytes, and the socket has a longer name while it is being set up.
const LONGEST_PATH: usize = 96;

/// `http.listen`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    /// An absolute path.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address and port, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Whether only this machine can connect, so that a proxy is in front if the service is public.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for ListenAddress {
    type Err = Advice;

    fn from_str(text: &str) -> Result<Self, Advice> {
        let Some(path) = text.strip_prefix(UNIX) else {
            return text.parse().map(Self::Tcp).map_err(|_| {
                "write an IP address (not a name) and a port, like \"127.0.0.1:8080\", or \"unix:\" and the path of a socket"
                    .into()
            });
        };
        if !path.starts_with('/') || path.ends_with('/') || path.chars().any(char::is_control) {
            return Err("write the full path of a socket, like \"unix:/run/bot-companion/http.sock\"".into());
        }
        if path.len() > LONGEST_PATH {
            return Err(format!("choose a shorter path: the limit for a socket is {LONGEST_PATH} bytes"));
        }
        Ok(Self::Unix(path.into()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Who may connect to a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// `http.listen_mode`
    pub mode: u32,
    /// `http.listen_group`: a name or a number; `None` for the group of the process.
    pub group: Option<String>,
}

pub(super) fn mode(text: &str) -> Result<u32, Advice> {
    let is_octal = text.len() >= 3 && text.bytes().all(|digit| digit.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| "write it in octal, like \"0660\"".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_listened_on() {
        let long = format!("unix:/{}", "x".repeat(LONGEST_PATH));
        for (text, is_right) in [
            ("127.0.0.1:80", true),
            ("[::]:80", true),
            ("unix:/run/bot-companion/http.sock", true),
            ("unix:/s", true),
            ("localhost:80", false),
            ("/run/http.sock", false),
            ("unix:", false),
            ("unix:http.sock", false),
            ("unix:/run/", false),
            ("unix:/run/a\nb", false),
            ("unix:@name", false),
            (&long, false),
        ] {
            let read = text.parse::<ListenAddress>();
            assert_eq!(read.is_ok(), is_right, "{text}: {read:?}");
            assert!(read.is_err() || read.unwrap().to_string() == text);
        }
    }

    #[test]
    fn modes_are_octal() {
        for (text, expected) in [("0660", Some(0o660)), ("666", Some(0o666)), ("000", Some(0))] {
            assert_eq!(mode(text).ok(), expected, "{text}");
        }
        for text in ["", "6", "0888", "4755", "rw-rw----", "-660", "+66", "0o660"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
