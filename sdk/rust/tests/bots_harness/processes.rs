//! The processes of a test: a fake Discord, a service, and a bot, which is one of the examples.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::request;
use super::proxy::Proxy;

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

/// The real service with an empty store, behind a proxy that can cut it off.
pub struct Service {
    folder: PathBuf,
    binary: PathBuf,
    key: String,
    process: Mutex<Option<Process>>,
    proxy: Proxy,
}

impl Service {
    pub fn start() -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("bot-companion-bots-{}-{number}", std::process::id()));
        let binary = std::env::var_os("BOT_COMPANION").expect("BOT_COMPANION names a binary of the service").into();
        std::fs::create_dir_all(&folder).unwrap();
        let mut this = Self { folder, binary, key: String::new(), process: Mutex::default(), proxy: Proxy::start() };
        let config = format!(
            r#"store.url = "sqlite:{}"
                idp.base_url = "http://127.0.0.1:9"
                idp.client_id = "bots"
                idp.client_secret = "a-secret-of-nobody"
                idp.redirect_uri = "https://dashboard.example/callback"
                http.allowed_origins = ["https://dashboard.example"]
                admin.listen = "127.0.0.1:0"
                log.filter = "warn,bot_companion=info""#,
            this.database().display()
        );
        std::fs::write(this.config(), config).unwrap();
        this.set_mode(0o600);
        let key = this.command(&["key", "create", "--label", "bots", "--json"]).output().unwrap();
        let key: Value = serde_json::from_slice(&key.stdout).unwrap_or_else(|_| panic!("{key:?}"));
        key["key"].as_str().unwrap().clone_into(&mut this.key);
        std::fs::copy(this.database(), this.folder.join("empty.db")).unwrap();
        this.run();
        this
    }

    fn database(&self) -> PathBuf {
        self.folder.join("companion.db")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("companion.toml")
    }

    fn set_mode(&self, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(self.config(), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_remove("COMPANION_URL").env_remove("COMPANION_BOT_KEY");
        command.args(arguments).arg("--config").arg(self.config());
        command
    }

    fn run(&self) {
        let mut process = Process::start(&mut self.command(&["serve", "--listen", "127.0.0.1:0"]));
        let address = process.await_line(|line| {
            let (_, rest) = line.split_once("listening on http://")?;
            rest.split_once('/')?.0.parse().ok()
        });
        self.proxy.aim(address);
        *self.process.lock().unwrap() = Some(process);
    }

    /// What it has of guilds.
    pub fn data(&self) -> Value {
        let shown = folder("../../tests/histories/shown.py");
        let output = python().arg(shown).arg(self.database()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// What `GET /` says of the bot.
    pub fn status(&self) -> Value {
        request("GET", &format!("{}/", self.proxy.url), None, None)["data"].take()
    }

    /// Nothing reaches it whose head contains this.
    pub fn cut_off(&self, requests: &'static str) {
        self.proxy.refuse(requests);
    }

    pub fn reconnect(&self) {
        self.proxy.heal();
    }

    /// Loses all its data, and starts again.
    pub fn forget(&self) {
        // Dropping it kills it.
        self.process.lock().unwrap().take();
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(self.folder.join(format!("companion.db{suffix}")));
        }
        std::fs::copy(self.folder.join("empty.db"), self.database()).unwrap();
        self.run();
    }

    /// Waits until its data fulfils the condition.
    pub fn await_data(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let mut last = Value::Null;
        wait_for(what, || {
            let data = self.data();
            if data["guilds"] != last["guilds"] {
                println!("{what}: {}", data["guilds"]);
            }
            last = data;
            is_so(&last)
        });
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.process.lock().unwrap().take();
        let _ = std::fs::remove_dir_all(&self.folder);
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
            .env("COMPANION_URL", &service.proxy.url)
            .env("COMPANION_BOT_KEY", &service.key)
            .env("MODERATOR_ROLE", "50")
            .env("RUST_LOG", "info,bot_companion_feed=debug"),
    )
}
