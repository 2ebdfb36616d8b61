//! The service that is killed, its data, its provider, and the people who use it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use runtime::clock::Clock;
use runtime::random::Random;
use sandbox::Sandbox;

use super::life::Findings;
use crate::feed_model::{PEOPLE, tell_provider};
use crate::harness::binary::{Running, config_file, run};
use crate::harness::{Client, Folder, sandbox};

/// The numbers of all guilds that people are in: the odd ones are the recorder's, the even ones the other bot's.
pub const GUILDS: std::ops::RangeInclusive<u64> = 1..=80;

/// Lists are requested at every read, because a member who has left is off the list until then.
const SETTINGS: &str = r#"
    guilds.fresh = "0s"
    guilds.stale_while_revalidate = "0s"
    limits.sign_ins_per_user = 0
    feed.requests_per_second = 0
"#;

pub struct Site {
    program: PathBuf,
    config: PathBuf,
    /// Where it listens: on a port of its choice, and on the same one after each kill.
    address: SocketAddr,
    pub key: String,
    pub provider: Arc<Sandbox>,
    /// The people who look at their guilds, with their IDs and sessions.
    pub people: Vec<(&'static str, u64, String)>,
    /// The latest sessions of those who keep signing in.
    pub visitors: Vec<String>,
    pub kills: u64,
    /// How many of the kills came during startup.
    pub early: u64,
    pub reads: u64,
    pub sign_ins: u64,
    _folder: Folder,
}

impl Site {
    pub async fn new() -> Self {
        let (folder, provider) = (Folder::on_disk(), sandbox(Clock::system()));
        let config = config_file(&folder, &provider, SETTINGS);
        let program = std::env::var_os("BOT_COMPANION").filter(|path| !path.is_empty());
        let program = program.map_or_else(|| env!("CARGO_BIN_EXE_bot-companion").into(), PathBuf::from);
        // A loopback address that nobody else uses, so that nobody takes the port while the service is down.
        let random = Random::from_system();
        let [second, third] = [(); 2].map(|()| 1 + random.number() % 254);
        let mut site = Self {
            program,
            config,
            address: format!("127.{second}.{third}.1:0").parse().unwrap(),
            key: String::new(),
            provider,
            people: Vec::new(),
            visitors: Vec::new(),
            kills: 0,
            early: 0,
            reads: 0,
            sign_ins: 0,
            _folder: folder,
        };
        let made = run(site.command(&["key", "create", "--label", "kill-feed"])).await;
        let said = String::from_utf8(made.stdout).unwrap();
        site.key = said.lines().find(|line| line.starts_with("bck_")).expect("a bot key").to_owned();
        let mut first = site.spawn();
        first.listens().await;
        site.address = first.address;
        let all: BTreeSet<u64> = GUILDS.collect();
        for (name, user) in PEOPLE {
            tell_provider(&site.provider, name, user, &all);
            let token = sign_in(&first.client(), &site.provider.issue_code(name)).await.unwrap();
            site.people.push((name, user, token));
        }
        first.kill();
        site
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().args(arguments).arg("--config").arg(&self.config).stdin(std::process::Stdio::null());
        command
    }

    pub fn spawn(&self) -> Running {
        Running::spawn_with(self.command(&["serve", "--listen", &self.address.to_string()]), "info")
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills the service, which must still be running.
    pub fn kill(&mut self, service: &mut Running, findings: &mut Findings) {
        if service.has_ended() {
            findings.other.push(format!("the service has ended by itself:\n{}", service.logged()));
        } else {
            service.kill();
        }
        self.kills += 1;
    }

    /// Checks that every acknowledged session works.
    pub async fn check_sessions(&self, client: &Client, place: &str, findings: &mut Findings) {
        for token in self.people.iter().map(|(_, _, token)| token).chain(&self.visitors) {
            let answer = client.with_token(token).get("/guilds").await;
            if answer.status != 200 {
                findings.lost.push(format!("{place}: a session: {}", answer.text()));
            }
        }
    }
}

/// A new session; `None` if the service is gone.
pub async fn sign_in(client: &Client, code: &str) -> Option<String> {
    let answer = client.post("/auth").header("Idp-Code", code).try_send().await.ok()?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    Some(answer.data()["token"].as_str().unwrap().to_owned())
}
