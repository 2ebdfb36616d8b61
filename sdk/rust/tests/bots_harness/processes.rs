//! The processes of a test: a fake Discord, a service, and a bot, which is one of the examples.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::request;

/// Only a failing test waits this long.
const LONGEST: Duration = Duration::from_mins(5);

/// A process that is stopped with the test, and its output.
pub struct Process {
    child: Child,
    output: Arc<Mutex<String>>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        copy(child.stdout.take().unwrap(), &output);
        copy(child.stderr.take().unwrap(), &output);
        Self { child, output }
    }

    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Waits for a line for which this returns something.
    fn await_line<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> T {
        let mut found = None;
        wait_for("a line of a process", || {
            found = self.output().lines().find_map(&find);
            let has_ended = found.is_none() && self.child.try_wait().unwrap().is_some();
            assert!(!has_ended, "it has ended:\n{}", self.output());
            found.is_some()
        });
        found.unwrap()
    }

    #[cfg(unix)]
    pub fn terminate(&self) {
        // The shell's own `kill`, because a small system has no program of that name.
        let kill = Command::new("sh").args(["-c", "kill -TERM \"$0\""]).arg(self.child.id().to_string()).status();
        assert!(kill.unwrap().success());
    }

    pub fn await_end(&mut self) -> ExitStatus {
        let mut status = None;
        wait_for("the end of a process", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("---\n{}", self.output());
        }
    }
}

fn copy(from: impl Read + Send + 'static, to: &Arc<Mutex<String>>) {
    let to = Arc::clone(to);
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut output = to.lock().unwrap();
            output.push_str(&line);
            output.push('\n');
        }
    });
}

/// Waits until something has happened.
pub fn wait_for(what: &str, mut has_happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !has_happened() {
        assert!(started.elapsed() < LONGEST, "{what}: it did not happen");
        thread::sleep(Duration::from_millis(50));
    }
}

fn folder(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn python() -> Command {
    Command::new(std::env::var("FAKE_DISCORD_PYTHON").unwrap_or_else(|_| "python3".to_owned()))
}

/// A fake Discord.
pub struct Discord {
    _process: Process,
    addresses: Value,
}

impl Discord {
    pub fn start(world: &Value) -> Self {
        let mut process = Process::start(python().current_dir(folder("../fake-discord")).args([
            "-m",
            "fake_discord",
            "--port",
            "0",
            "--with-stdin",
        ]));
        let addresses = process.await_line(|line| serde_json::from_str(line).ok());
        let this = Self { _process: process, addresses };
        this.control("world", world);
        this
    }

    pub fn control(&self, what: &str, body: &Value) -> Value {
        request("POST", &format!("{}/{what}", self.addresses["control"].as_str().unwrap()), None, Some(body))
    }

    pub fn clear_faults(&self) {
        request("DELETE", &format!("{}/faults", self.addresses["control"].as_str().unwrap()), None, None);
    }

    /// The number of 429 responses so far.
    pub fn limits(&self) -> usize {
        let log = request("GET", &format!("{}/log?since=0", self.addresses["control"].as_str().unwrap()), None, None);
        log["entries"].as_array().unwrap().iter().filter(|entry| entry["status"] == 429).count()
    }

    pub fn emit(&self, kind: &str, data: &Value) {
        let delivered = self.control("emit", &json!({"type": kind, "data": data}));
        assert_eq!(delivered["delivered"], 1, "{kind}");
    }
}

/// The reference service.
pub struct Service {
    _process: Process,
    pub url: String,
    pub key: String,
}

impl Service {
    pub fn start() -> Self {
        let mut process = Process::start(python().current_dir(folder("../conformance")).args([
            "-m",
            "reference_service",
            "--port",
            "0",
        ]));
        let said: Value = process.await_line(|line| serde_json::from_str(line).ok());
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        Self { _process: process, url: text("url"), key: text("key") }
    }

    /// The real one, if the environment names a binary.
    pub fn start_real(data: &std::path::Path) -> Option<Self> {
        let binary = std::env::var("BOT_COMPANION").ok()?;
        let mut dev = Command::new(binary);
        let mut process =
            Process::start(dev.args(["dev", "--json", "--no-limits", "--listen", "127.0.0.1:0", "--data"]).arg(data));
        let said: Value = process.await_line(|line| serde_json::from_str(line).ok());
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        Some(Self { _process: process, url: text("service"), key: text("bot_key") })
    }

    /// Its data.
    pub fn data(&self) -> Value {
        request("GET", &format!("{}/control/data", self.url), None, None)
    }

    pub fn requests(&self) -> Value {
        request("GET", &format!("{}/control/requests", self.url), None, None)
    }

    pub fn fault(&self, fault: &Value) {
        request("POST", &format!("{}/control/faults", self.url), None, Some(fault));
    }

    pub fn clear_faults(&self) {
        request("DELETE", &format!("{}/control/faults", self.url), None, None);
    }

    pub fn forget(&self) {
        request("POST", &format!("{}/control/forget", self.url), None, None);
    }

    /// Waits until its data fulfils the condition.
    pub fn await_data(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let mut last = Value::Null;
        let started = Instant::now();
        loop {
            let data = self.data();
            if is_so(&data) {
                return;
            }
            if data["guilds"] != last["guilds"] {
                println!("{what}: {}", data["guilds"]);
            }
            last = data;
            assert!(started.elapsed() < LONGEST, "{what}: it did not happen");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// One of the examples.
pub fn example(name: &str) -> Command {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let mut command = Command::new(path.join("examples").join(name));
    command.env_remove("COMPANION_URL").env_remove("COMPANION_BOT_KEY");
    command
}

/// Starts a bot whose moderators hold the role 50.
pub fn start_bot(name: &str, discord: &Discord, service: &Service) -> Process {
    let text = |name: &str| discord.addresses[name].as_str().unwrap();
    Process::start(
        example(name)
            .env("DISCORD_TOKEN", text("token"))
            .env("DISCORD_PROXY", text("url"))
            .env("COMPANION_URL", &service.url)
            .env("COMPANION_BOT_KEY", &service.key)
            .env("MODERATOR_ROLE", "50")
            .env("RUST_LOG", "info,bot_companion_feed=debug"),
    )
}
