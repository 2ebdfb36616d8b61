//! What operators see in the log: floods, one line per request, IDs, and the format of lines.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use provider::idp::Endpoint;
use reqwest::Method;
use runtime::clock::Clock;
use rustix::process::Signal;
use sandbox::{Fault, Sandbox};
use serde_json::Value;

use crate::admin_limits::announced;
use crate::harness::binary::{Running, command, config_file, run, send_signal};
use crate::harness::{Answer, Client, Folder, eventually, sandbox};

fn serve(config: &Path) -> Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

/// A service with these options that logs at the info level.
async fn started(folder: &Folder, provider: &Arc<Sandbox>, configuration: &str) -> Running {
    let mut service = Running::spawn_as_configured(serve(&config_file(folder, provider, configuration)));
    service.listens().await;
    service
}

fn lines(service: &Running, with: &str) -> Vec<String> {
    service.logged().lines().filter(|line| line.contains(with)).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn floods_are_in_the_log_with_the_first_of_each() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "limits.requests_per_second = 1\nlimits.requests_burst = 50");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("limits.exempt = [\"127.0.0.0/8\"]", "limits.live_per_address = 1")).unwrap();
    let mut service = Running::spawn_as_configured(serve(&config));
    service.listens().await;
    let client = service.client();
    for _ in 0..3 {
        let heartbeat = client.call(Method::PUT, "/bot/heartbeat").header("Authorization", "Bearer wrong").body("{}");
        heartbeat.send().await.refused(401, "bot_key_invalid");
        client.post("/auth").header("Idp-Code", "made-up").send().await.refused(401, "idp_code_rejected");
        let forwarded = client.call(Method::GET, "/team").header("X-Forwarded-For", "192.0.2.1");
        assert_eq!(forwarded.send().await.status, 200);
    }
    let stream = client.call(Method::GET, "/live").open().await;
    for _ in 0..3 {
        assert_eq!(client.call(Method::GET, "/live").status().await, 429);
    }
    drop(stream);
    let mut refused = Vec::new();
    eventually("five are refused", async || {
        let answer = client.get("/").await;
        if answer.status == 429 {
            refused.push(answer.header("x-request-id").to_owned());
        }
        refused.len() == 5
    })
    .await;
    for part in [
        "bots refused: their key is missing, wrong or revoked",
        "sign-ins refused: the code was wrong or used before",
        "ignoring X-Forwarded-For",
        "live streams refused: a client address already has limits.live_per_address open",
        "requests refused: a client address sends more than limits.requests_per_second allows",
    ] {
        let told = lines(&service, part);
        assert_eq!(told.len(), 1, "{part}: {told:?}");
        assert!(told[0].contains("WARN") && told[0].contains("client=127.0.0.1 times=1"), "{}", told[0]);
    }
    assert!(lines(&service, "requests refused")[0].contains(&refused[0]), "the id of the first");
    assert!(lines(&service, "X-Forwarded-For")[0].contains("http.trusted_proxies"));
}

#[tokio::test]
async fn requests_have_a_line_each_if_asked_for_and_no_secret_in_it() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let service = started(&folder, &provider, "log.access = \"all\"").await;
    let client = service.client();
    let code = provider.issue_code("owner");
    let signed_in = client.post("/auth?code=hush").header("Idp-Code", &code).send().await;
    let token = signed_in.data()["token"].as_str().unwrap().to_owned();
    let guilds = client.with_token(&token).get("/guilds").await;
    let nowhere = client.get("/no%0Awhere?token=hush").await;
    let cached = client.get("/").await;
    let mut stream = client.call(Method::GET, "/live").open().await;
    let first = stream.message().await.unwrap();
    assert!(lines(&service, "path=/live").is_empty(), "while it goes on");
    drop(stream);
    let is_access = |line: &String| line.contains(" INFO bot_companion::access: request ");
    eventually("the stream's line", async || lines(&service, "path=/live").iter().any(is_access)).await;
    for (answer, expected) in [
        (&signed_in, "method=POST path=/auth status=200 "),
        (&guilds, "method=GET path=/guilds status=200 "),
        (&nowhere, "method=GET path=/no%0Awhere status=404 "),
        (&cached, "method=GET path=/ status=200 "),
    ] {
        let told = lines(&service, expected);
        assert_eq!(told.iter().filter(|line| is_access(line)).count(), 1, "{expected}: {told:?}");
        let id = format!("id=\"{}\" client=127.0.0.1 ", answer.header("x-request-id"));
        assert!(told[0].contains(&id) && told[0].contains(" millis="), "{}", told[0]);
        assert!(told[0].contains(&format!(" bytes={}", answer.body.len())), "{}", told[0]);
    }
    let told = lines(&service, "path=/live");
    assert!(told[0].contains("status=200") && told[0].contains(&format!(" bytes={}", first.len() + 2)), "{}", told[0]);
    let log = service.logged();
    assert!(!log.contains("hush") && !log.contains(&token) && !log.contains(&code));

    // A client that leaves before there is an answer has its line, too.
    let hold = provider.hold(Endpoint::Token);
    let leaving = client.post("/auth").header("Idp-Code", provider.issue_code("member"));
    let leaving = tokio::spawn(leaving.try_send());
    hold.arrived(1).await;
    leaving.abort();
    eventually("its line", async || lines(&service, "path=/auth status=499").len() == 1).await;
    hold.release();
}

#[tokio::test]
async fn only_errors_have_a_line_or_nothing_has() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "log.access = \"errors\"");
    let mut service = Running::spawn_as_configured(serve(&config));
    service.listens().await;
    let client = service.client();
    let ask = async || {
        assert_eq!((client.get("/").await.status, client.get("/team").await.status), (200, 200));
        assert_eq!(client.get("/guilds").await.status, 401);
    };
    ask().await;
    let told = lines(&service, "bot_companion::access");
    assert!(told.len() == 1 && told[0].contains("path=/guilds status=401"), "{told:?}");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("log.access = \"errors\"", "")).unwrap();
    service.reload("reloaded changed=log.access").await;
    ask().await;
    assert_eq!(lines(&service, "bot_companion::access").len(), 1);
}

#[tokio::test]
async fn lines_of_background_work_carry_the_id_of_the_request_that_began_it() {
    for format in ["text", "json"] {
        let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
        let configuration = format!("log.format = \"{format}\"\nadmin.listen = \"127.0.0.1:0\"");
        let service = started(&folder, &provider, &configuration).await;
        let metrics = format!("{}metrics", announced(&service).await);
        let client = service.client();
        provider.fail(Endpoint::Guilds, Fault::Status { code: 500, body: String::new(), headers: Vec::new() });
        let code = provider.issue_code("owner");
        let hold = provider.hold(Endpoint::Token);
        let begin = |code: String| {
            let call = client.post("/auth").header("Idp-Code", code);
            tokio::spawn(call.send())
        };
        let first = begin(code.clone());
        hold.arrived(1).await;
        // It joins the first one's flight.
        let second = begin(code);
        let both = "companion_requests_in_flight{pool=\"people\"} 2\n";
        eventually("both are there", async || {
            reqwest::get(&metrics).await.unwrap().text().await.unwrap().contains(both)
        })
        .await;
        hold.release();
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        assert_eq!((first.status, second.status), (200, 200));
        let id_of = |response: &Answer| response.header("x-request-id").to_owned();
        let is_of = |line: &str, id: &str| {
            if format == "json" {
                serde_json::from_str::<Value>(line).unwrap()["id"] == id
            } else {
                line.ends_with(&format!(" id=\"{id}\""))
            }
        };
        let failed = "the guild list could not be fetched";
        eventually(failed, async || !lines(&service, failed).is_empty()).await;
        let told = lines(&service, failed);
        assert!(told.len() == 1 && is_of(&told[0], &id_of(&first)), "{told:?}");
        // Each of the two has a session.
        let told = lines(&service, "signed in");
        for id in [&first, &second].map(id_of) {
            assert_eq!(told.iter().filter(|line| is_of(line, &id)).count(), 1, "{id}: {told:?}");
        }
        assert_eq!(told.len(), 2, "{told:?}");
    }
}

#[tokio::test]
async fn a_fatal_error_is_a_line_like_the_others() {
    let folder = Folder::new();
    let config = folder.path().join("companion.toml");
    std::fs::write(&config, "[log]\nformat = \"json\"\n[http]\nlisten = \"nowhere\"\n[limits]\nlive = \"many\"\n")
        .unwrap();
    let said = async |variable: Option<&str>| {
        let mut serve = serve(&config);
        serve.envs(variable.map(|format| ("COMPANION_LOG_FORMAT", format)));
        let output = run(serve).await;
        assert_eq!(output.status.code(), Some(78));
        String::from_utf8(output.stderr).unwrap()
    };
    // Nothing of a configuration counts that cannot be loaded.
    let text = said(None).await;
    assert!(text.starts_with("bot-companion: ") && text.contains("http.listen"), "{text}");
    let json = said(Some("json")).await;
    assert_eq!(json.lines().count(), 1, "{json}");
    let line: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(line["level"], "ERROR");
    let message = line["message"].as_str().unwrap();
    assert!(message.contains("http.listen") && message.contains("limits.live"), "{message}");
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    std::fs::write(&config, "[http\n").unwrap();
    let line: Value = serde_json::from_str(&said(Some("json")).await).unwrap();
    assert!(line["message"].as_str().unwrap().contains("companion.toml:1:"), "{line}");
    // It can be loaded, and fails later.
    std::fs::write(&config, "[log]\nformat = \"json\"\n").unwrap();
    let line: Value = serde_json::from_str(&said(None).await).unwrap();
    assert!(line["message"].as_str().unwrap().contains("idp.client_id"), "{line}");
}

#[tokio::test]
async fn journald_is_told_the_level_of_each_line() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let log = folder.path().join("journal");
    let file = std::fs::File::create(&log).unwrap();
    let found = file.metadata().unwrap();
    let mut service = serve(&config);
    service.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino())).stderr(file);
    let mut service = service.spawn().unwrap();
    let read = || std::fs::read_to_string(&log).unwrap();
    eventually("it listens", async || read().contains("listening on")).await;
    service.kill().unwrap();
    service.wait().unwrap();
    let written = read();
    let line = written.lines().find(|line| line.contains("listening on")).unwrap();
    assert!(line.starts_with("<6>INFO bot_companion_service::cli::serve: listening on http://"), "{line}");
    assert!(written.lines().all(|line| line.starts_with("<6>") || line.starts_with("<4>")), "{written}");

    // Not if standard error goes elsewhere, because the variable is then for someone else.
    let mut elsewhere = serve(&folder.path().join("absent.toml"));
    elsewhere.env("JOURNAL_STREAM", "1:1");
    let said = String::from_utf8(run(elsewhere).await.stderr).unwrap();
    assert!(said.starts_with("bot-companion: "), "{said}");
}

#[tokio::test]
async fn each_sign_in_is_a_line_that_names_the_user_by_id_alone() {
    for (filter, expected) in [("info", 1), ("info,bot_companion_service::accounts=warn", 0)] {
        let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
        let service = started(&folder, &provider, &format!("log.filter = \"{filter}\"")).await;
        let code = provider.issue_code("owner");
        let answer = service.client().post("/auth").header("Idp-Code", &code).send().await;
        let user = answer.data()["user"].clone();
        let log = service.logged();
        assert_eq!(log.matches("signed in").count(), expected, "{log}");
        assert_eq!(log.contains(user["id"].as_str().unwrap()), expected == 1, "{log}");
        for name in ["username", "name"] {
            assert!(!log.contains(user[name].as_str().unwrap()), "{log}");
        }
        // Someone who is refused in the end has not signed in.
        let config = folder.path().join("companion.toml");
        let block = ["users", "block", user["id"].as_str().unwrap(), "--config", config.to_str().unwrap()];
        assert!(run(command(&block)).await.status.success());
        let code = provider.issue_code("owner");
        assert_eq!(service.client().post("/auth").header("Idp-Code", &code).send().await.status, 403);
        assert_eq!(service.logged().matches("signed in").count(), expected);
    }
}

#[tokio::test]
async fn the_service_outlives_the_reader_of_its_log() {
    let folder = Folder::new();
    let (mut service, client) = dev(&folder);
    drop(service.0.stderr.take());
    for _ in 0..2 {
        // Each is logged.
        assert_eq!(client.post("/auth").header("Idp-Code", "owner").send().await.status, 200);
        assert_eq!(client.post("/auth").header("Idp-Code", "nonsense").send().await.status, 502);
    }
    assert!(service.stopped(), "it drained");
}

#[tokio::test]
async fn a_log_that_is_no_terminal_has_no_colours() {
    let folder = Folder::new();
    let (mut service, client) = dev(&folder);
    assert_eq!(client.post("/auth").header("Idp-Code", "owner").send().await.status, 200);
    assert!(service.stopped());
    let log = std::io::read_to_string(service.0.stderr.take().unwrap()).unwrap();
    assert!(log.contains("signed in") && !log.contains('\u{1b}'), "{log:?}");
}

/// The binary itself with its sandbox, and someone who calls it.
fn dev(folder: &Folder) -> (Process, Client) {
    let service = Command::new(env!("CARGO_BIN_EXE_bot-companion"))
        .args(["dev", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path().join("dev"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut service = Process(service);
    let mut said = BufReader::new(service.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address = said.find_map(|line| line.trim().strip_prefix("service").map(|url| url.trim().to_owned()));
    (service, Client::new(address.unwrap().trim_end_matches('/').to_owned()))
}

/// A process that does not outlive its test.
struct Process(Child);

impl Process {
    /// Asks it to stop, and returns whether it shut down cleanly.
    fn stopped(&mut self) -> bool {
        send_signal(&self.0, Signal::TERM);
        self.0.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
