//! Cases that take a clock, a neighbour or an operator to go wrong at just the wrong moment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use domain::token::{self, TokenKind};
use domain::{Session, SessionId, User};
use provider::idp::Endpoint;
use provider::sandbox::people::MEMBER;
use runtime::random::secret_bytes;
use secrecy::ExposeSecret;
use store::StoredList;

use crate::harness::{Client, Folder, START, TestApp, Wire, id, raw, request};

#[tokio::test]
async fn a_use_that_is_only_in_memory_keeps_a_session_from_the_sweep() {
    let app = TestApp::builder().set("[sessions]\nidle = \"1m\"").start().await;
    let user = app.user("owner").await;
    // Too soon after the sign-in to be written down.
    app.clock.advance(Duration::from_secs(14));
    assert_eq!(user.get("/sessions").await.status, 200);
    app.clock.advance(Duration::from_secs(47));
    assert_eq!(app.app.accounts.sweep().await.unwrap(), 0);
    assert_eq!(user.get("/sessions").await.status, 200, "47 seconds after its last use");
    app.clock.advance(Duration::from_mins(1));
    user.get("/sessions").await.refused(401, "token_invalid");
}

#[tokio::test]
async fn a_list_from_before_the_clock_was_set_back_is_old() {
    let app = TestApp::start().await;
    let member = app.user("member").await;
    member.guilds().await;
    let account = app.app.store.account(id(MEMBER)).await.unwrap().unwrap();
    let list = StoredList { fetched: START.after(Duration::from_hours(24)), ..account.list.unwrap() };
    assert!(app.app.store.save_list(id(MEMBER), account.list_version, list).await.unwrap());
    assert_eq!(member.get("/guilds").await.header("age"), "0");
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), 2, "it was fetched again");
}

#[tokio::test]
async fn a_session_whose_grant_went_with_another_one_ends() {
    let app = TestApp::start().await;
    let user = User { username: "m".into(), name: "m".into(), id: id(MEMBER), avatar: "https://a.example/m".into() };
    let token = token::generate(TokenKind::Session, secret_bytes);
    let session = SessionId::parse("0123456789abcdef").unwrap();
    let session = Session { id: session, user: user.id, created: START, last_seen: START, agent: String::new() };
    app.app.store.open_session(user, token::hash_of(&token), session, 50).await.unwrap();
    let member = app.anon().with_token(token.expose_secret());
    for _ in 0..2 {
        member.get("/guilds").await.refused(401, "token_invalid");
    }
}

#[tokio::test]
async fn the_service_outlives_the_reader_of_its_log() {
    let folder = Folder::new();
    let (mut service, client) = dev(&folder);
    drop(service.0.stderr.take());
    for _ in 0..2 {
        // Each is noted in the log.
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

/// The binary itself, with its sandbox, and somebody who calls it.
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
    /// Asks it to stop and says whether it did so in good order.
    fn stopped(&mut self) -> bool {
        assert!(Command::new("kill").arg(self.0.id().to_string()).status().unwrap().success());
        self.0.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_request_whose_body_breaks_off_is_not_carried_out() {
    let app = TestApp::start().await;
    let code = app.sandbox.issue_code("owner");
    let broken = format!("Idp-Code: {code}\r\nTransfer-Encoding: chunked\r\n");
    raw(app.address, (request("POST", "/auth", &broken) + "zz\r\nno chunk").as_bytes()).await;
    assert_eq!(app.sandbox.calls(Endpoint::Token), 0);
    assert_eq!(app.sign_in(&code).await.status, 200, "the code is as good as before");
}

#[tokio::test]
async fn at_the_connection_limit_an_idle_served_client_makes_room_before_a_new_one() {
    let app = TestApp::builder().set("[limits]\nconnections = 2").start().await;
    let mut newcomer = Wire::open(app.address).await;
    newcomer.send("GET / HTTP/1.1\r\n").await;
    // Each comes at the connection limit and gets in all the same.
    let mut served = Vec::new();
    for _ in 0..5 {
        let mut wire = Wire::open(app.address).await;
        assert_eq!(wire.get("/").await.status, 200);
        served.push(wire);
    }
    newcomer.send("Host: x\r\n\r\n").await;
    assert_eq!(newcomer.answer().await.unwrap().status, 200);
}
