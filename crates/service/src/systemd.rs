//! Notifications for systemd (`Type=notify`): ready, reloading or stopping, a status line for `systemctl status` and, for the
//! watchdog, that the service is alive. Nothing is sent without `NOTIFY_SOCKET`.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use runtime::liveness::{Liveness, NotAlive};
use tokio::time::MissedTickBehavior;
use tracing::{debug, error, info, warn};

/// How long a datagram may wait for systemd to read the earlier ones.
const SEND_LIMIT: Duration = Duration::from_secs(1);
/// A shorter watchdog interval would be a busy loop.
const SHORTEST_WATCHDOG: Duration = Duration::from_millis(10);
/// How often the watchdog is notified per interval, so that a thread that recovers within it is in time.
const FEEDS: u32 = 6;

/// The connection to systemd; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ServiceManager {
    socket: Option<Arc<NotifySocket>>,
    /// The watchdog's interval.
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct NotifySocket {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    pub fn from_environment() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Self::default() };
        let text = |name| env::var(name).ok();
        let watchdog = watchdog(text("WATCHDOG_USEC").as_deref(), text("WATCHDOG_PID").as_deref(), std::process::id());
        match NotifySocket::new(&name) {
            Ok(socket) => Self { socket: Some(Arc::new(socket)), watchdog },
            Err(error) => {
                warn!(%error, "NOTIFY_SOCKET cannot be used, so systemd is not notified");
                Self::default()
            }
        }
    }

    /// Requests are taken, and a reload is over.
    pub fn ready(&self, status: &str) {
        self.send("READY=1", status);
    }

    /// A reload begins; [`ServiceManager::ready`] ends it.
    pub fn reloading(&self) {
        // systemd compares it with the time when it asked for the reload.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"), "Reloading the configuration");
    }

    pub fn stopping(&self) {
        self.send("STOPPING=1", "Finishing requests in flight");
    }

    /// Notifies the watchdog while the check behind `/livez` succeeds. Never ends.
    pub async fn feed_watchdog(&self, liveness: &Liveness) {
        let Some(interval) = self.watchdog else { return };
        let mut pace = tokio::time::interval(interval / FEEDS);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_alive = true;
        loop {
            pace.tick().await;
            was_alive = self.feed(liveness.check(), was_alive);
        }
    }

    /// Returns whether the watchdog was notified.
    fn feed(&self, alive: Result<(), NotAlive>, was_alive: bool) -> bool {
        match alive {
            Ok(()) if was_alive => self.send("WATCHDOG=1", ""),
            Ok(()) => {
                info!("all threads respond again; the watchdog is notified");
                self.send("WATCHDOG=1", "Running; a thread hung for a while");
            }
            Err(problem) if was_alive => {
                error!(%problem, "the watchdog is not notified, and systemd will restart the service unless the thread \
                responds soon");
                self.send("", &format!("Hangs: {problem}"));
            }
            Err(_) => {}
        }
        alive.is_ok()
    }

    fn send(&self, state: &str, status: &str) {
        let Some(socket) = &self.socket else { return };
        let mut message = state.to_owned();
        if !status.is_empty() {
            // A line break would end the status.
            let status = status.replace(['\n', '\r'], " ");
            // Writing to a string does not fail.
            let _ = write!(message, "{}STATUS={status}", if state.is_empty() { "" } else { "\n" });
        }
        if let Err(error) = socket.socket.send_to_addr(message.as_bytes(), &socket.address) {
            debug!(%error, "systemd could not be notified: {state}");
        }
    }
}

impl NotifySocket {
    fn new(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            [b'@', rest @ ..] => abstract_address(rest)?,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "it is neither a path nor an abstract name")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_LIMIT))?;
        Ok(Self { socket, address })
    }
}

/// A name without a file, which only exists on Linux.
#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The watchdog's interval, if it is for this process.
fn watchdog(micros: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    let is_for_us = process.is_none_or(|id| id.parse() == Ok(own));
    let interval = Duration::from_micros(micros?.parse().ok()?);
    (is_for_us && interval >= SHORTEST_WATCHDOG).then_some(interval)
}

#[cfg(test)]
mod tests {
    use domain::Time;
    use runtime::clock::Clock;
    use test_support::TestFolder;

    use super::*;

    fn manager(name: &OsStr, watchdog: Option<Duration>) -> ServiceManager {
        ServiceManager { socket: Some(Arc::new(NotifySocket::new(name).unwrap())), watchdog }
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_path_and_an_abstract_name_are_both_told() {
        let folder = TestFolder::new();
        let path = folder.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        manager(path.as_os_str(), None).ready("Listening\non two lines");
        assert_eq!(received(&socket), "READY=1\nSTATUS=Listening on two lines");

        let name = format!("bot-companion-test-{}", std::process::id());
        let address = abstract_address(name.as_bytes()).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let manager = manager(OsStr::new(&format!("@{name}")), None);
        manager.stopping();
        assert!(received(&socket).starts_with("STOPPING=1\nSTATUS="));
        manager.reloading();
        let said = received(&socket);
        let micros = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().split_once('\n').unwrap().0;
        assert!(micros.parse::<u64>().unwrap() > 0, "{said}");
        assert!(NotifySocket::new(OsStr::new("vsock:1:2")).is_err());
    }

    #[test]
    fn nobody_is_told_where_nobody_listens() {
        ServiceManager::default().ready("");
        let folder = TestFolder::new();
        manager(folder.path("nobody").as_os_str(), None).ready("");
    }

    #[test]
    fn the_watchdog_is_for_the_process_that_it_names() {
        let second = Some(Duration::from_secs(1));
        for (micros, process, expected) in [
            (Some("1000000"), Some("7"), second),
            (Some("1000000"), None, second),
            (Some("1000000"), Some("8"), None),
            (Some("0"), Some("7"), None),
            (Some("many"), Some("7"), None),
            (None, Some("7"), None),
        ] {
            assert_eq!(watchdog(micros, process, 7), expected, "{micros:?} {process:?}");
        }
    }

    #[test]
    fn the_watchdog_is_fed_until_a_thread_hangs() {
        let folder = TestFolder::new();
        let path = folder.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let clock = Clock::manual(Time::from_seconds(1));
        let liveness = Arc::new(Liveness::new(clock.clone()));
        let manager = manager(path.as_os_str(), Some(Duration::from_secs(30)));
        // Nobody answers for this one.
        let _pulse = liveness.watch("hanging");
        let mut was_alive = true;
        for is_fed in [true, false, false] {
            was_alive = manager.feed(liveness.check(), was_alive);
            assert_eq!(was_alive, is_fed);
            clock.advance(Duration::from_secs(15));
        }
        assert_eq!(received(&socket), "WATCHDOG=1");
        assert_eq!(received(&socket), "STATUS=Hangs: a thread has not answered for 15 seconds: hanging");
        assert!(manager.feed(Ok(()), was_alive));
        assert_eq!(
            received(&socket),
            "WATCHDOG=1\nSTATUS=Running; a thread hung for a while",
            "the rest was said once"
        );
    }
}
