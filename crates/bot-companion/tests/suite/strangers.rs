//! What strangers can do as often as they like neither fills the error log nor counts as a failure of the service.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use provider::idp::Endpoint;
use reqwest::Method;
use runtime::clock::Clock;
use sandbox::Fault;
use secrecy::ExposeSecret;
use telemetry::metrics::{Label, ServerError};

use crate::admin::{Scraped, Watcher};
use crate::harness::binary::{Running, command, config_file};
use crate::harness::{Disk, Folder, TestApp, Wire, request, sandbox, soon, suite_log};
use crate::tls::handshake;

/// This header tells requests apart from those of other tests, which share the log.
const REQUEST_ID: &str = "X-Request-Id";
/// The service only trusts it from a proxy.
const PROXY: &str = "http.trusted_proxies = [\"127.0.0.1\"]";

/// Lines of the suite's log at these levels that belong to a request whose ID starts like this.
fn logged(levels: &[&str], id: &str) -> Vec<String> {
    let log = String::from_utf8_lossy(&std::fs::read(suite_log("suite")).unwrap()).into_owned();
    let is_at = |line: &str| levels.iter().any(|level| line.contains(&format!(" {level} ")));
    let is_of = |line: &str| line.contains(&format!(" id=\"{id}-"));
    log.lines().filter(|line| is_at(line) && is_of(line)).map(ToOwned::to_owned).collect()
}

/// Those of these lines that are about a failed request.
fn failures(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|line| line.contains("request failed")).collect()
}

/// How many failures of its own the service has counted.
fn own_failures(scraped: &Scraped) -> f64 {
    let series = |error: &ServerError| format!("companion_server_errors_total{{error=\"{}\"}}", error.text());
    ServerError::ALL.iter().map(|error| scraped.value(&series(error)).unwrap()).sum()
}

/// Answers with a status of 500 or higher.
fn server_errors(scraped: &Scraped) -> Vec<&str> {
    scraped.lines().filter(|line| line.starts_with("companion_http_requests") && line.contains("status=\"5")).collect()
}

const UNFINISHED: [(&str, &str); 7] = [
    ("GET", "/team"),
    ("GET", "/nowhere"),
    ("POST", "/auth"),
    ("GET", "/live"),
    ("GET", "/me/live"),
    ("GET", "/ready"),
    ("POST", "/bot/events"),
];
const IMPATIENT: &str = "limits.request_timeout = \"100ms\"\nfeed.idle_timeout = \"100ms\"";

#[tokio::test]
async fn a_client_that_does_not_finish_its_request_is_nobodys_alarm() {
    let app = TestApp::builder().set(IMPATIENT).set(PROXY).start().await;
    let bot = app.bot("one").await;
    let headers =
        format!("Authorization: Bearer {}\r\nFeed-Instance: one\r\nFeed-Sequence: 1\r\n", bot.key.expose_secret());
    let mut sent = 0;
    for (method, path) in UNFINISHED {
        for length in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
            let mut wire = Wire::open(app.address).await;
            let id = format!("{REQUEST_ID}: unfinished-{sent}\r\n");
            wire.send(request(method, path, &format!("{headers}{id}{length}\r\n"))).await;
            let answer = wire.answer().await.unwrap();
            assert_eq!(answer.header("connection"), "close", "{path}");
            sent += 1;
            answer.refused(408, "request_timeout");
            assert_eq!(wire.rest().await, "", "{path}: the connection ends");
        }
    }
    let scraped = Watcher::of(&app).scrape().await;
    assert_eq!((server_errors(&scraped), own_failures(&scraped)), (vec![], 0.0));
    let counted = "companion_http_requests_total{method=\"POST\",route=\"/auth\",status=\"408\"}";
    assert_eq!(scraped.value(counted), Some(2.0));
    assert_eq!(logged(&["WARN", "ERROR"], "unfinished"), [""; 0]);
    let refused = logged(&["DEBUG"], "unfinished");
    assert_eq!(refused.iter().filter(|line| line.contains("request refused")).count(), sent);
}

#[tokio::test]
async fn one_that_does_not_finish_over_http_2_is_told_the_same_and_its_other_requests_go_on() {
    let app = TestApp::builder().secure().set(IMPATIENT).set(PROXY).start().await;
    let bot = app.bot("one").await;
    let stream = handshake(&app, &["h2"]).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    for (number, (method, path)) in UNFINISHED.into_iter().enumerate() {
        let request = http::Request::builder().method(method).uri(format!("https://localhost{path}"));
        let request = request.header("authorization", format!("Bearer {}", bot.key.expose_secret()));
        let request = request
            .header(REQUEST_ID, format!("stream-{number}"))
            .header("feed-instance", "one")
            .header("feed-sequence", "1")
            .body(())
            .unwrap();
        let (answer, mut body) = sender.clone().ready().await.unwrap().send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(b"{"), false).unwrap();
        let answer = soon("the answer", answer).await.unwrap();
        assert_eq!(answer.status(), 408, "{path}");
        assert!(!answer.headers().contains_key("connection"));
    }
    let request = http::Request::get("https://localhost/team").body(()).unwrap();
    let whole = sender.clone().ready().await.unwrap().send_request(request, true).unwrap().0;
    assert_eq!(soon("the answer", whole).await.unwrap().status(), 200);
    connection.abort();
    let scraped = Watcher::of(&app).scrape().await;
    assert_eq!((server_errors(&scraped), own_failures(&scraped)), (vec![], 0.0));
    assert_eq!(logged(&["WARN", "ERROR"], "stream"), [""; 0]);
    assert_eq!(
        logged(&["DEBUG"], "stream").iter().filter(|line| line.contains("request refused")).count(),
        UNFINISHED.len()
    );
}

#[tokio::test]
async fn what_a_limit_or_the_provider_refuses_is_one_warning_and_no_failure_of_ours() {
    const TIMES: usize = 30;
    let app = TestApp::builder().set("limits.live = 1").set(PROXY).start().await;
    app.sandbox.fail(Endpoint::Token, Fault::Status { code: 503, body: "{}".to_owned(), headers: vec![] });
    let _open = app.anon().call(Method::GET, "/live").open().await;
    for number in 0..TIMES {
        // After five failures the circuit is open.
        let call = app.anon().post("/auth").header("Idp-Code", format!("code-{number}"));
        call.header(REQUEST_ID, format!("sign-in-{number}")).send().await.refused(502, "idp_unavailable");
        let call = app.anon().call(Method::GET, "/live").header(REQUEST_ID, format!("follow-{number}"));
        call.send().await.refused(503, "overloaded");
    }
    for (id, code) in [("sign-in", "idp_unavailable"), ("follow", "overloaded")] {
        let told = logged(&["WARN", "ERROR"], id);
        let told = failures(&told);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(" WARN ") && told[0].contains(&format!("code=\"{code}\"")), "{told:?}");
        assert!(told[0].contains(&format!("id=\"{id}-0\"")) && told[0].contains(" times=1"), "the first: {told:?}");
    }
    assert!(own_failures(&Watcher::of(&app).scrape().await) < 1.0);
}

#[tokio::test]
async fn what_the_store_fails_is_ours_and_one_error_however_many_ask() {
    const TIMES: usize = 30;
    let app = TestApp::builder().set(PROXY).start().await;
    let user = app.user("owner").await;
    let disk = Disk::under(&app).await;
    let lost = disk.fails().await;
    for number in 0..TIMES {
        let sign_in = app.anon().post("/auth").header("Idp-Code", format!("code-{number}"));
        let call = if number % 2 == 0 { sign_in } else { user.call(Method::GET, "/sessions") };
        let refused = call.header(REQUEST_ID, format!("stored-{number}")).send().await;
        assert!(matches!(refused.status, 500 | 503), "{}", refused.text());
    }
    let told = logged(&["WARN", "ERROR"], "stored");
    let told = failures(&told);
    // A store may fail in two ways.
    assert!(!told.is_empty() && told.len() <= 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains(" ERROR ") && line.contains(" times=1")), "{told:?}");
    assert!(told[0].contains("id=\"stored-0\""), "the first of them: {told:?}");
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let times = TIMES as f64;
    let failed = own_failures(&Watcher::of(&app).scrape().await);
    assert!(failed >= times, "{failed}");
    disk.recovers(lost).await;
}

fn serve(config: &Path) -> Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

/// On a slow machine, a second minute may have begun.
fn assert_once_per_minute(lines: usize, took: Duration) {
    let minutes = took.as_secs() / 60;
    assert!((1..=1 + minutes).contains(&(lines as u64)), "{lines} lines in {minutes} minutes");
}

#[tokio::test]
async fn out_of_file_descriptors_idle_connections_go_and_the_log_has_one_line() {
    const EVICTED: usize = 20;
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let service = Running::start(serve(&config_file(&folder, &provider, ""))).await;
    let served = FuturesUnordered::new();
    for _ in 0..3 * EVICTED {
        let mut wire = Wire::open(service.address).await;
        assert_eq!(wire.get("/ready").await.status, 200);
        served.push(wire.rest());
    }
    let process = service.id().to_string();
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let limit = format!("--nofile={open}:{open}");
    assert!(Command::new("prlimit").args(["--pid", &process, &limit]).status().unwrap().success());
    let clock = Clock::system();
    let began = clock.ticks();
    let mut more = Vec::new();
    for _ in 0..2 * EVICTED {
        more.push(Wire::open(service.address).await);
    }
    let evicted = served.take(EVICTED).collect::<Vec<_>>();
    assert_eq!(soon("so many are evicted", evicted).await, [""; EVICTED]);
    let told = service.logged().lines().filter(|line| line.contains("no room for another connection")).count();
    assert_once_per_minute(told, clock.ticks().saturating_sub(began));
    drop(more);
    assert_eq!(soon("it is served", async { service.client().get("/ready").await }).await.status, 200);
}

#[tokio::test]
async fn guild_lists_that_fail_for_many_have_one_line() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let mut service = Running::spawn_as_configured(serve(&config_file(&folder, &provider, "")));
    service.listens().await;
    let mut users = Vec::new();
    for person in ["owner", "manager", "member", "moderator"] {
        let call = service.client().post("/auth").header("Idp-Code", provider.issue_code(person));
        let token = call.send().await.data()["token"].as_str().unwrap().to_owned();
        let user = service.client().with_token(token);
        assert_eq!(user.get("/guilds").await.status, 200, "the list is there");
        users.push(user);
    }
    provider.fail(Endpoint::Guilds, Fault::Status { code: 500, body: "{}".to_owned(), headers: vec![] });
    let clock = Clock::system();
    let (began, before) = (clock.ticks(), provider.calls(Endpoint::Guilds));
    for user in &users {
        let call = user.call(Method::GET, "/guilds").header("Cache-Control", "no-cache");
        assert_eq!(call.send().await.status, 200, "the last good list");
    }
    assert_eq!(provider.calls(Endpoint::Guilds), before + users.len());
    let told = service.logged().lines().filter(|line| line.contains("the guild list could not be fetched")).count();
    assert_once_per_minute(told, clock.ticks().saturating_sub(began));
}
