//! The real binary, as run by an operator.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use sandbox::Sandbox;

use super::{CLIENT_SECRET, Client, Folder, ORIGIN, PATIENT, eventually, suite_log};

/// A command of the binary with a clean environment.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bot-companion"));
    command.env_clear().args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end, outside the runtime, on which the provider may have to answer it.
pub async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// The same command with its own user, mounts and network, after this script: a place to fill a disk, remove permissions or use
/// the default ports. `None` if the system does not allow that.
#[expect(clippy::print_stdout, reason = "a test that cannot run here says so")]
pub fn confined(script: &str, unshared: &[&str], command: &Command) -> Option<Command> {
    let unshare = |arguments: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        unshare.args(["--user", "--map-root-user"]).args(unshared).args(arguments);
        unshare
    };
    if !unshare(&["true"]).output().is_ok_and(|tried| tried.status.success()) {
        println!("not here: the system allows no namespaces");
        return None;
    }
    let mut confined = unshare(&["sh", "-c", &format!("{script} exec \"$@\""), "sh"]);
    confined.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        confined.env(name, value.unwrap_or_default());
    }
    Some(confined)
}

/// Sends a signal to a child that has not been waited for.
pub fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Writes a configuration for this provider into the folder, with these options added, and returns its path.
pub fn config_file(folder: &Folder, sandbox: &Sandbox, configuration: &str) -> PathBuf {
    let path = folder.path().join("companion.toml");
    let text = format!(
        r#"
        http.allowed_origins = ["{ORIGIN}"]
        {store}
        idp.base_url = "{base_url}"
        idp.client_id = "suite"
        idp.client_secret = "{CLIENT_SECRET}"
        idp.redirect_uri = "{ORIGIN}/callback"
        limits.exempt = ["127.0.0.0/8"]
        # By the system's clock, which nobody can turn.
        limits.handshake_timeout = "5m"
        limits.header_timeout = "5m"
        {PATIENT}
        {configuration}
        "#,
        store = folder.store_configuration(),
        base_url = sandbox.base_url(),
    );
    std::fs::write(&path, text).unwrap();
    // It contains a secret.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// A running process of the service; killed when it is dropped.
pub struct Running {
    child: Child,
    pub log: PathBuf,
    pub output: PathBuf,
    pub address: SocketAddr,
}

impl Running {
    /// Starts it, logging to the suite's logs, and waits until it says where it listens.
    pub async fn start(command: Command) -> Self {
        let mut running = Self::spawn(command);
        running.listens().await;
        running
    }

    /// Starts it, logging to the suite's logs.
    pub fn spawn(command: Command) -> Self {
        Self::spawn_with(command, "trace")
    }

    /// The same with another log filter.
    pub fn spawn_with(mut command: Command, log_filter: &str) -> Self {
        command.env("COMPANION_LOG_FILTER", log_filter);
        Self::spawn_as_configured(command)
    }

    /// The same with the log filter of its configuration.
    pub fn spawn_as_configured(mut command: Command) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (log, output) = (suite_log(&format!("binary-{number}")), suite_log(&format!("binary-output-{number}")));
        let child = command.stderr(File::create(&log).unwrap()).stdout(File::create(&output).unwrap()).spawn().unwrap();
        Self { child, log, output, address: NOWHERE }
    }

    /// Waits until it says where it listens.
    pub async fn listens(&mut self) {
        eventually("the service says where it listens", async || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {}", self.logged());
            self.address = self.announced().unwrap_or(NOWHERE);
            self.address != NOWHERE
        })
        .await;
    }

    fn announced(&self) -> Option<SocketAddr> {
        let output = std::fs::read_to_string(&self.output).unwrap();
        let text = self.logged() + &output;
        let marks = ["listening on http://", "listening on https://", "service    http://"];
        let after = marks.iter().find_map(|mark| text.split_once(mark))?.1;
        after.split_once('/')?.0.parse().ok()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn logged(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    pub fn client(&self) -> Client {
        Client::new(format!("http://{}", self.address))
    }

    /// Whether it is no longer running.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Ends it at once, as a crash or a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub fn signal(&self, signal: Signal) {
        send_signal(&self.child, signal);
    }

    /// Tells it to reload, and waits until it has, which adds one more of this line to the log.
    pub async fn reload(&self, line: &str) {
        let count = || self.logged().matches(line).count();
        let before = count();
        self.signal(Signal::HUP);
        eventually(line, async || count() > before).await;
    }

    /// How it ended, which must be soon.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
