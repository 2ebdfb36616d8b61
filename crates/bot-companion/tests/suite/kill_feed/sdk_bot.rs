//! The bot that reports through the Python SDK: `tests/system/pretend_bot.py`, which is told when to change and when to rest.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sandbox::people::MEMBER;
use serde::Deserialize;
use serde_json::Value;

use super::recorder::{Recorder, Says};
use super::site::{GUILDS, Site};
use crate::feed_model::model::Model;
use crate::feed_model::{PEOPLE, number_of};
use crate::harness::{Client, soon};

/// An interpreter that has the SDK.
const PYTHON: &str = "KILL_PYTHON";

pub struct SdkBot {
    child: Child,
    input: ChildStdin,
    output: Option<BufReader<ChildStdout>>,
}

/// What the bot says about itself, in the feed's terms.
#[derive(Deserialize)]
pub struct Told {
    guilds: Vec<Value>,
    feedback: Vec<String>,
    team: Vec<Value>,
    subscriptions: Vec<Value>,
    pub changes: u64,
}

impl SdkBot {
    pub fn start(site: &Site, seed: u64) -> Self {
        let python =
            std::env::var_os(PYTHON).unwrap_or_else(|| panic!("{PYTHON} is not set: run tests/system/kill-feed"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/system/pretend_bot.py");
        let mut child = Command::new(python)
            .arg(script)
            .env("COMPANION_URL", site.url())
            .env("COMPANION_BOT_KEY", &site.key)
            .env("PRETEND_MEMBER", MEMBER.to_string())
            .env("PRETEND_SEED", seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().map(BufReader::new));
        Self { child, input, output }
    }

    async fn command(&mut self, command: &str) -> Value {
        writeln!(self.input, "{command}").unwrap();
        let mut output = self.output.take().unwrap();
        // Outside the runtime, on which the provider has to answer in the meantime.
        let answer = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (line, output)
        });
        let (line, output) = soon("the SDK's bot answers", answer).await.unwrap();
        self.output = Some(output);
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("the SDK's bot, told to {command}: {error}: {line}"))
    }

    /// Connects the SDK, which sends what the recorder does not.
    pub async fn attach(&mut self, recorder_says: Says) {
        let what = if recorder_says == Says::Subscriptions { "team" } else { "subscriptions" };
        self.command(&format!("attach {what}")).await;
    }

    pub async fn detach(&mut self) {
        self.command("detach").await;
    }

    pub async fn live(&mut self) {
        self.command("live").await;
    }

    pub async fn rest(&mut self) -> Told {
        serde_json::from_value(self.command("rest").await).unwrap()
    }
}

impl Drop for SdkBot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Told {
    /// How what is shown differs from the bot's state; `None` if it does not.
    pub async fn difference(
        &self,
        client: &Client,
        people: &[(&str, u64, String)],
        recorder: &Recorder,
    ) -> Option<String> {
        let model = self.model(recorder);
        for (name, user, token) in people {
            let mut shown = client.with_token(token).guilds().await;
            shown.retain(|entry| number_of(&entry["id"]).is_multiple_of(2));
            let expected = model.guilds_of(*user);
            if shown != expected {
                let wrong = shown.iter().find(|entry| !expected.contains(entry));
                let missing = expected.iter().find(|entry| !shown.contains(entry));
                return Some(format!("the guilds of {name}: {wrong:?} is wrong, {missing:?} is missing"));
            }
        }
        let feedback = client.get("/feedback").await.data();
        let texts = feedback.as_array().unwrap().iter().map(|entry| entry["feedback"].as_str().unwrap().to_owned());
        let mut shown: Vec<String> = texts.filter(|text| text.starts_with('b')).collect();
        shown.sort();
        if shown != self.feedback {
            return Some(format!("feedback: {shown:?} is not {:?}", self.feedback));
        }
        let team = client.get("/team").await.data();
        (team != Value::from(model.roster())).then(|| format!("team: {team} is not {:?}", model.roster()))
    }

    /// A model of its guilds. Only one of the two bots sends subscriptions and team.
    fn model(&self, recorder: &Recorder) -> Model {
        let lists = PEOPLE.iter().map(|(_, user)| (*user, GUILDS.collect())).collect();
        let mut model = Model { now: recorder.model.now, lists, ..Model::default() };
        self.guilds.iter().for_each(|line| model.put_guild(line));
        match recorder.says {
            Says::Subscriptions => {
                model.team.clone_from(&self.team);
                model.subscriptions.clone_from(&recorder.model.subscriptions);
            }
            Says::Team => {
                model.team.clone_from(&recorder.model.team);
                let user = |line: &Value| line["userid"].as_str().unwrap().parse().unwrap();
                model.subscriptions = self.subscriptions.iter().map(|line| (user(line), line.clone())).collect();
            }
        }
        model
    }
}
